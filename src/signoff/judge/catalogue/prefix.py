"""The words of the prefix gate's findings."""

from signoff.core.words import Outcome
from signoff.judge.catalogue.entry import Entry

_ROUNDS = (
    "Rounds of prompts with a fresh nonce at their very start, one request at a time: cold, three warm ones with "
    "another "
    "last question, an identical replay, and controls; the counters are scraped before and after each request."
)
_WHY = (
    "Reasons: off_in_launch, silently_disabled (asked for, yet resolved off), below_unit (prompts shorter than one "
    "alignment unit), boundary (one unit is lost at a block boundary), retention (states are kept sparsely), "
    "head_changed (the prompt's beginning differs although the messages do not), scattered (another engine served "
    "it), evicted, counter_not_wired, never_hits (looked up, and nothing tells which of the named rivals it is)."
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="prefix.caching.on",
        title="Prefix caching is on",
        checked="Whether prefix caching was asked for, is resolved as on, and behaves as on.",
        matters="A flag proves intent only; another option or an older default can turn caching off without an error.",
        measured="Launch arguments and engine configuration in the launch log, `vllm:cache_config_info`, and whether "
        "look-ups were counted for the prompts of this run.",
        changes="A launch whose resolved configuration says on and whose counters move.",
        sentences={
            Outcome.PASS: "Prefix caching is on: asked for {asked}, logged {logged}, resolved {resolved}, and it looks "
            "prompts up.",
            Outcome.FAIL: "Prefix caching is off ({reason}): asked for {asked}, logged {logged}, resolved {resolved}, "
            "behaves {behaves}.",
            Outcome.INCONCLUSIVE: "Whether prefix caching is on cannot be told: resolved {resolved}, behaves "
            "{behaves}.",
        },
        next_step={
            Outcome.FAIL: "Start the service with --enable-prefix-caching, remove the option that turns it off, and "
            "look "
            "for 'Disabling prefix caching' in the launch log.",
            Outcome.INCONCLUSIVE: "Give the launch log and a reachable /metrics, and repeat the prefix gate.",
        },
    ),
    Entry(
        code="prefix.unit.known",
        title="Alignment unit of prefix hits",
        checked="Whether the number of tokens is known that hits are a multiple of.",
        matters="Prompts shorter than the unit never hit, and expectations cannot be computed without it.",
        measured="The labels of `vllm:cache_config_info`, else the only unit the profile knows, else replays of "
        "growing "
        "length.",
        changes="A server that tells its unit, or replays that hit.",
        sentences={
            Outcome.PASS: "Hits come in units of {unit_tokens} tokens (from: {source} {label}), retention {retention}.",
            Outcome.INCONCLUSIVE: "The alignment unit of prefix hits is not known: no label, and replays did not "
            "show it.",
        },
        next_step={
            Outcome.INCONCLUSIVE: "Expose `vllm:cache_config_info`, or name the unit in the profile, and repeat.",
        },
    ),
    Entry(
        code="prefix.hits.expected",
        title="Hits equal the expectation",
        checked="Whether every warm and replayed request was served exactly the tokens that a working cache must "
        "serve. " + _WHY,
        matters="Hits that are missing are computed again: the load that was planned with reuse does not hold without.",
        measured=_ROUNDS
        + " Expectation: the longest common token prefix with all that was sent before, cut to the last "
        "token but one and down to the unit. A hit counts when two witnesses agree: cached_tokens, counter deltas, "
        "tokens by source.",
        changes="Hits equal to the expectation in every round, in two witnesses.",
        sentences={
            Outcome.PASS: "{hit_tokens} of {expected_tokens} expected tokens were served from the cache in {rounds} "
            "rounds, by {witnesses}.",
            Outcome.FAIL: "{short} of {requests} requests were served less than a working cache serves: "
            "{hit_tokens} of "
            "{expected_tokens} tokens (reason: {reason}).",
            Outcome.INCONCLUSIVE: "Hits cannot be compared with the expectation (reason: {reason}): {rounds} of "
            "{rounds_min} rounds are complete, {undecided} requests undecided.",
        },
        next_step={
            Outcome.FAIL: "Follow the reason {reason}: compare two request bodies from the front, read the resolved "
            "cache "
            "options, size the pool for the working set; then repeat the prefix gate.",
            Outcome.INCONCLUSIVE: "Settle the reason {reason}: two witnesses of hits (--enable-prompt-tokens-details "
            "and counters that move), token ids from /tokenize, no other traffic, at least {rounds_min} rounds.",
        },
    ),
    Entry(
        code="prefix.gateway.hits",
        title="Hits through the gateway",
        checked="Whether the cold prompt, sent again through the gateway, hits what a direct replay hits.",
        matters="A gateway that moves system messages or stamps requests makes every prompt a new one.",
        measured="One request a round through the plan's gateway, held against the same expectation as the replay.",
        changes="A gateway that forwards prompts unchanged; `gateway_url: none` where there is none.",
        sentences={
            Outcome.PASS: "All {requests} requests through the gateway hit as expected: {hit_tokens} tokens.",
            Outcome.FAIL: "{short} of {requests} requests through the gateway missed what direct replays hit: "
            "{hit_tokens} of {expected_tokens} tokens (reason: {reason}).",
            Outcome.INCONCLUSIVE: "Hits through the gateway are not known (reason: {reason}); {met} of {requests} hit.",
        },
        next_step={
            Outcome.FAIL: "Compare what the gateway received and sent from the front; stop it from changing messages.",
            Outcome.INCONCLUSIVE: "Make the gateway answer with usage, and repeat.",
        },
    ),
    Entry(
        code="prefix.control.zero",
        title="Negative controls do not hit",
        checked="Whether any request was told more hits than tokens it shares with what was sent before.",
        matters="Such a hit is either a wrong count or another prompt's state in the answer.",
        measured=_ROUNDS + " Controls: a new nonce at the start, a changed tool schema, another cache salt.",
        changes="Controls that hit nothing beyond their shared tokens.",
        sentences={
            Outcome.PASS: "No request hit more than it shares: controls hit {hit_tokens} of {lawful_tokens} lawful "
            "tokens "
            "in {rounds} rounds.",
            Outcome.FAIL: "{false_hits} requests hit more tokens than they share with anything sent before, at "
            "worst by "
            "{worst_excess_tokens}, in two witnesses.",
            Outcome.INCONCLUSIVE: "The controls prove nothing (reason: {reason}): {rounds} of {rounds_min} rounds "
            "counted, "
            "{false_hits_in_one_channel} excesses in one witness only.",
        },
        next_step={
            Outcome.FAIL: "Do not serve from this cache: report the records, and compare answers with prefix "
            "caching off.",
            Outcome.INCONCLUSIVE: "Repeat on a quiet server that offers cached_tokens and counters.",
        },
    ),
    Entry(
        code="prefix.control.valid",
        title="The controls' changes reached the prompt",
        checked="Whether the change of a control stands in the prompt's tokens.",
        matters="A template that drops tools makes a schema control a replay, and its hits prove nothing.",
        measured="Token ids of the control and of the cold prompt, from the server's tokeniser.",
        changes="A template that renders what was changed.",
        sentences={
            Outcome.PASS: "The change of control {subject} reached {reached} of {answered} prompts.",
            Outcome.INCONCLUSIVE: "The control {subject} is void (reason: {reason}).",
        },
        next_step={
            Outcome.INCONCLUSIVE: "For {subject}: use a chat template that renders it, and a server with /tokenize.",
        },
    ),
    Entry(
        code="prefix.channels.agree",
        title="The witnesses of hits agree",
        checked="Whether cached_tokens of the answers and the server's counters tell the same hits.",
        matters="A dead counter blinds alerts and dashboards, and a wrong one misleads them.",
        measured="For each request: usage, prefix_cache_hits, prompt_tokens_by_source, prompt_tokens_cached.",
        changes="Counters that move as the answers say.",
        sentences={
            Outcome.PASS: "{channels} agree on every one of {requests} requests.",
            Outcome.FAIL: "The witnesses disagree on {disagreeing} of {requests} requests (reason: {reason}; dead: "
            "{dead}).",
            Outcome.INCONCLUSIVE: "Agreement cannot be shown (reason: {reason}; offered: {channels}).",
        },
        next_step={
            Outcome.FAIL: "Find why {dead} does not move: stats logging off, several API processes, an unwired metric.",
            Outcome.INCONCLUSIVE: "Offer a second witness: --enable-prompt-tokens-details and /metrics of every "
            "server.",
        },
    ),
    Entry(
        code="prefix.latency.effect",
        title="Hits shorten the first token",
        checked="Whether cached prompts show their first token sooner than uncached prompts of the same round.",
        matters="Hits that save no time are wrongly counted, or the time goes elsewhere: queue, gateway, network.",
        measured="Pairs of a round, Hodges-Lehmann difference with the exact signed-rank interval at 95 %.",
        changes="An interval wholly above zero, or the server's own prefill time showing where the rest is spent.",
        sentences={
            Outcome.PASS: "Cached prompts saved {ttft_ms_saved} ms to the first token (at least {ttft_ms_saved_low}), "
            "{ttft_ms_uncached_p50} ms uncached and {ttft_ms_cached_p50} ms cached, over {pairs} pairs. {reason}",
            Outcome.INCONCLUSIVE: "No saving could be shown (reason: {reason}): {ttft_ms_uncached_p50} ms uncached, "
            "{ttft_ms_cached_p50} ms cached, {pairs} pairs.",
        },
        next_step={
            Outcome.INCONCLUSIVE: "Repeat with longer prompts (plan: prefix.prompt_tokens) and more rounds, on a quiet "
            "server.",
        },
    ),
    Entry(
        code="prefix.quiet",
        title="No other traffic while measuring",
        checked="Whether the counters around each request moved by that request alone.",
        matters="Hits of others would be counted as ours.",
        measured="Running and waiting requests, finished requests and prompt tokens before and after each request.",
        changes="A server that nobody else uses during the gate.",
        sentences={
            Outcome.PASS: "All {requests} windows held one request alone.",
            Outcome.INCONCLUSIVE: "{disturbed} of {requests} windows cannot be attributed (reason: {reason}).",
        },
        next_step={
            Outcome.INCONCLUSIVE: "Take the service out of its routes for the gate, make /metrics reachable, and "
            "repeat.",
        },
    ),
    Entry(
        code="prefix.output.same",
        title="Answers out of the cache are right",
        checked="Whether a value noted in the prompt is recalled from a cached prefix as it is from an uncached one.",
        matters="A cache that restores a wrong state answers wrongly while every counter looks healthy.",
        measured="A fresh five-digit value in each prompt, asked for greedily; one-sided exact test of the shares.",
        changes="Answers out of the cache that are as right as those without it.",
        sentences={
            Outcome.PASS: "{cached_right} of {cached} cached answers were right, {uncached_right} of {uncached} "
            "uncached.",
            Outcome.FAIL: "Answers out of the cache are wrong (reason: {reason}): {cached_right} of {cached} right, "
            "{uncached_right} of {uncached} uncached, {other_prompts_value} with another prompt's value.",
            Outcome.INCONCLUSIVE: "Answers cannot be compared (reason: {reason}): {cached_right} of {cached} cached "
            "right, "
            "{uncached_right} of {uncached} uncached.",
        },
        next_step={
            Outcome.FAIL: "Do not serve from this cache; report prompts and answers, and repeat with caching off.",
            Outcome.INCONCLUSIVE: "Read the kept answers; repeat with more rounds.",
        },
    ),
    Entry(
        code="prefix.arm.measured",
        always=False,
        title="What an arm measured",
        checked="The numbers of one arm of the rounds.",
        matters="They are the table behind the other findings.",
        measured=_ROUNDS,
        changes="Nothing: this is said, not judged.",
        sentences={
            Outcome.PASS: "{subject}: {hit_tokens} of {expected_tokens} tokens hit in {decided} of {n} requests, first "
            "token {ttft_ms_p50} ms.",
            Outcome.INCONCLUSIVE: "{subject}: none of {n} requests could be decided.",
        },
    ),
)
