"""The words of the capacity gate's findings: load, long input, concurrency, cap. The others: `capacity_more`."""

from signoff.core.words import Outcome
from signoff.judge.catalogue import capacity_more
from signoff.judge.catalogue.entry import Entry

PASS, FAIL, OPEN, NOT_RUN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="capacity.load.state",
        title="How the server loaded",
        checked="Readiness, memory, load time by part, and every rank, as the launch log says them.",
        matters="A server that came up only half, or with less cache than thought, carries less than its flags say.",
        measured="Read from the complete launch log; parts of a time may not be longer than their whole.",
        changes="A complete launch log of every rank; or another image, layout or memory share.",
        sentences={
            PASS: "Loaded: weights {weights_gib} GiB in {load_s} s, engine ready in {engine_init_s} s, KV cache "
            "{kv_tokens} tokens.",
            FAIL: "Did not come up: {log_says}: {log_text}",
            OPEN: "The launch log does not show how the server loaded ({reason}, contradictions: {odd}).",
            NOT_RUN: "Load was not looked at.",
        },
        next_step={
            FAIL: "Mend what the log names ({log_says}) and start again.",
            OPEN: "Name the launch logs of every rank under nodes[].logs in the plan.",
        },
    ),
    Entry(
        code="capacity.load.ready",
        title="First real completion",
        checked="Whether the loaded server generates.",
        matters="A health endpoint answers 200 on a server that generates nothing.",
        measured="One streamed completion before any load.",
        changes="A server that completes one request.",
        sentences={
            PASS: "The first completion came after {ttft_ms:.0f} ms.",
            FAIL: "The first completion failed: {state}, HTTP {status}: {says}",
            NOT_RUN: "No first completion was asked for.",
        },
        next_step={FAIL: "Read the launch log from its end and start the server again."},
    ),
    Entry(
        code="capacity.long_input.window",
        title="Long input to the target",
        checked="Whether inputs up to the target are answered, as filler and as an agent's piled-up tool results.",
        matters="A window that the launch declares is a promise; prefill memory and cache need show only when used.",
        measured="One request at a time, longer and longer, up to the target or the first length that fails.",
        changes="A length that is answered; or a smaller target, a larger window, more cache for each request.",
        sentences={
            PASS: "Inputs up to {held} tokens were answered; first token of the longest after {longest_ttft_ms} ms.",
            FAIL: "Inputs of {input_tokens} tokens do not hold ({reason}): held {held}, failed at {failed_at}, "
            "KV use at most {kv_high}.",
            OPEN: "Inputs of {input_tokens} tokens were not settled ({reason}); held {held}.",
            NOT_RUN: "No long input was sent.",
        },
        next_step={
            FAIL: "Lower max-model-len to what holds, or give requests more cache; then run the same samples again.",
            OPEN: "Run the long-input stage to its end.",
        },
    ),
    Entry(
        code="capacity.long_input.floor",
        title="Long input to the floor",
        checked="Whether inputs of the floor's length are answered.",
        matters="Under the floor no length is worth going live with.",
        measured="The same ladder as for the target.",
        changes="A length of at least the floor that is answered.",
        sentences={
            PASS: "Inputs up to {held} tokens were answered, the floor is {floor}.",
            FAIL: "Inputs of the floor, {floor} tokens, do not hold ({reason}): failed at {failed_at}, "
            "window declared {window}.",
            OPEN: "Inputs of the floor, {floor} tokens, were not settled ({reason}).",
            NOT_RUN: "No long input was sent.",
        },
        next_step={
            FAIL: "Raise max-model-len where it is declared smaller; else look at cache use and prefill memory at "
            "{failed_at} tokens.",
            OPEN: "Run the long-input stage to its end.",
        },
    ),
    Entry(
        code="capacity.long_input.recall",
        title="Long input understood",
        checked="Whether a fact in a long prompt is recalled as it is in a short one.",
        matters="Broken long-context state gives fluent wrong answers with HTTP 200 and healthy metrics.",
        measured="A fact a third of the way in and a question at the end, on every length; short ones are the control.",
        changes="Right answers on long prompts; a model that recalls short ones, where the control is open.",
        sentences={
            PASS: "Recalled {long_right} of {long_asked} facts in long prompts, {short_right} of {short_asked} "
            "in short ones.",
            FAIL: "Answers wrongly on long input: {long_right} of {long_asked} facts recalled, wrong from "
            "{wrong_from_tokens} tokens on, while short prompts gave {short_right} of {short_asked}.",
            OPEN: "Recall cannot be judged: {short_right} of {short_asked} short and {long_right} of {long_asked} long "
            "facts recalled.",
            NOT_RUN: "Recall was not asked for.",
        },
        next_step={
            FAIL: "Compare with eager mode and without prefix caching on the same prompts; do not serve inputs from "
            "{wrong_from_tokens} tokens on.",
            OPEN: "Repeat the lengths that were wrong, or judge answers by the team's own samples.",
        },
    ),
    Entry(
        code="capacity.concurrency.floor",
        title="Floor load held",
        checked="Whether the least load worth going live with keeps every limit for the hold time.",
        matters="If it does not hold there is nothing to go live with on these GPUs.",
        measured="A closed loop of so many requests at once; failures count as infinitely late; queue time and "
        "preemptions from the server's own counters.",
        changes="A hold of the floor within all limits, with at least the profile's number of requests.",
        sentences={
            PASS: "{floor} requests at once held; the highest load that held is {held}.",
            FAIL: "{floor} requests at once do not hold: at {level} missed {missed}; bound by {bound}; the highest "
            "load that held is {held}. KV use at most {kv_high}, {running_high} running, {waiting_high} waiting, "
            "{preemptions} preemptions.",
            OPEN: "Whether {floor} requests at once hold is open ({open}); {requests} requests were seen.",
            NOT_RUN: "The floor load was not tried.",
        },
        next_step={
            FAIL: "With a resource at its bound: change context, concurrency or topology first, then add resources; "
            "where max_num_seqs admits fewer than the floor, raise it. Without one: find what was slow at {level}.",
            OPEN: "Say every limit in the plan and hold the floor for longer.",
        },
    ),
    Entry(
        code="capacity.concurrency.target",
        title="Target load held",
        checked="Whether the wanted load keeps every limit for the hold time.",
        matters="The target is what the service is meant to carry.",
        measured="As the floor, at the target.",
        changes="A hold of the target within all limits.",
        sentences={
            PASS: "{target} requests at once held: first token p99 {ttft_ms_p99_measured} ms over {ttft_samples} "
            "requests, error rate {error_rate_measured}, preempted share {preempted_share_measured}.",
            FAIL: "{target} requests at once do not hold: at {level} missed {missed}; bound by {bound}; the highest "
            "load that held is {held}.",
            OPEN: "Whether {target} requests at once hold is open ({open}); the highest load that held is {held}.",
            NOT_RUN: "The target load was not tried.",
        },
        next_step={
            FAIL: "Serve at most {held} at once, or remove the bound ({bound}) and hold the target again.",
            OPEN: "Say every limit in the plan and hold the target for longer.",
        },
    ),
    Entry(
        code="capacity.cap.returns",
        title="Overload does not return at the cap",
        checked="Whether, after an overload, the candidate cap holds every time.",
        matters="A cap at which the same bottleneck returns is no cap.",
        measured="The load is cut to the highest that held and held again, as often as the profile says.",
        changes="All holds at the cap within the limits.",
        sentences={
            PASS: "No overload returned: overload at {overload_at}, cap {cap}, {held} of {holds} holds held.",
            FAIL: "The bottleneck came back at the cap of {cap}: {returned} of {holds} holds failed, bound by "
            "{resource} (overload at {overload_at} by {overload_resource}).",
            OPEN: "The holds at the cap of {cap} are open: {held} of {holds} held, {failed_unbound} failed with no "
            "resource at its bound, {limit_holds} are needed.",
            NOT_RUN: "No cap was held: overload at {overload_at}, cap {cap}.",
        },
        next_step={FAIL: "Scale: the cap does not carry either.", OPEN: "Hold the cap again, for longer."},
    ),
    Entry(
        code="capacity.concurrency.answers",
        title="Answers right under load",
        checked="Whether facts are recalled under concurrency as they are by a single request.",
        matters="Races and corrupted states show as wrong answers under load, with HTTP 200.",
        measured="Every eighth answer holds a fact that was asked for, compared by Fisher's exact test with those of "
        "a single stream, the idle server and short inputs, and of lower loads.",
        changes="Right answers under load.",
        sentences={
            PASS: "{wrong} of {asked} compared answers under load were wrong, {single_wrong} of {single_asked} alone.",
            FAIL: "Answers wrongly under load: {wrong} of {asked} compared answers, from {wrong_from} at once on, "
            "while {single_asked} single ones had {single_wrong} wrong (chance {chance}).",
            OPEN: "Answers under load cannot be judged: {wrong} of {asked} wrong, {single_wrong} of {single_asked} "
            "wrong alone, {unread} not kept.",
            NOT_RUN: "No answer under load was compared.",
        },
        next_step={
            FAIL: "Repeat the wrong prompts alone, and under load in eager mode.",
            OPEN: "Hold the loads for longer, so that more answers are compared.",
        },
    ),
    Entry(
        code="capacity.concurrency.reuse",
        title="Reuse of the load as planned",
        checked="Whether no more prompt tokens came from the prefix cache than the plan's reuse share.",
        matters="More reuse than real traffic has makes a load look lighter than it is.",
        measured="Growth of hits over growth of queries in all loads.",
        changes="A load whose reuse is the plan's.",
        sentences={
            PASS: "{reuse_share_measured} of the prompt tokens came from the cache, planned were {reuse_share}.",
            OPEN: "The reuse of the load is not as planned or was not seen: {reuse_share_measured} measured, "
            "{reuse_share} planned.",
            NOT_RUN: "No load was held.",
        },
        next_step={OPEN: "Set load.reuse_share to what real traffic has."},
    ),
    *capacity_more.ENTRIES,
)
