"""The words of the capacity gate's findings: soak, idle, the service as a whole."""

from signoff.core.words import Outcome
from signoff.judge.catalogue.entry import Entry

PASS, FAIL, OPEN, NOT_RUN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="capacity.soak.errors",
        title="Soak without errors",
        checked="Failures of the steady mixed traffic.",
        matters="Leaks and races fail requests after a time, not at once.",
        measured="All requests of the soak, exact interval of the rate.",
        changes="A soak whose failures stay under the plan's limit.",
        sentences={
            PASS: "{failed} of {requests} requests of the soak failed.",
            FAIL: "{failed} of {requests} requests of the soak failed (rate {error_rate_measured}, at least "
            "{error_rate_low}; limit {error_rate}).",
            OPEN: "The soak's error rate is open: {failed} of {requests} failed, limit {error_rate}; {caller_faults} "
            "more were refused as the caller's fault.",
            NOT_RUN: "The soak was not run.",
        },
        next_step={FAIL: "Look at the failed requests' own words and the log at those instants.", OPEN: "Soak longer."},
    ),
    Entry(
        code="capacity.soak.drift",
        title="Soak without drift",
        checked="Whether first tokens and token times grow slower over the soak.",
        matters="A service that degrades until it is restarted passes every short test.",
        measured="Short turns of the last third against the first: medians, and Mann and Whitney's rank test.",
        changes="A soak without growth; a longer one where too few requests were seen.",
        sentences={
            PASS: "No drift: first token {ttft_ms_first} to {ttft_ms_last} ms, a token {token_ms_first} to "
            "{token_ms_last} ms; at rest {rest_token_ms_before} before and {rest_token_ms_after} ms after.",
            FAIL: "Degrades ({drifted}): over the soak first token {ttft_ms_first} to {ttft_ms_last} ms, a token "
            "{token_ms_first} to {token_ms_last} ms; a token at rest {rest_token_ms_before} ms before all load, "
            "{rest_token_ms_after} ms after.",
            OPEN: "Drift cannot be told: {samples_each} requests in each third, {samples_each_min} are needed.",
            NOT_RUN: "The soak was not run.",
        },
        next_step={FAIL: "Restart, soak again, and watch what grows.", OPEN: "Soak longer or with more at once."},
    ),
    Entry(
        code="capacity.soak.kv_idle",
        title="Cache given back when idle",
        checked="Whether cache use returns to what it was before the load.",
        matters="Blocks that are kept by ended requests are capacity lost until the next restart.",
        measured="KV use and running requests after an idle phase and one last request, against the first scrape.",
        changes="Cache use back at its start.",
        sentences={
            PASS: "KV use {kv_before} before, {kv_after} after {idle_s} s of silence.",
            FAIL: "Keeps cache: KV use {kv_before} before, {kv_after} after {idle_s} s of silence, {running_after} "
            "still running.",
            OPEN: "Whether cache is given back is open: KV use {kv_before} before, {kv_after} after the idle phase, "
            "{running_after} "
            "running, prompt tokens of others meanwhile {foreign_prompt_tokens}.",
            NOT_RUN: "The idle phase was not run.",
        },
        next_step={FAIL: "Find which requests keep their blocks: aborted, preempted, or waiting for a transfer."},
    ),
    Entry(
        code="capacity.soak.memory",
        title="Memory of the front process",
        checked="Whether the server's front process grows over the soak.",
        matters="Host memory leaks kill after days.",
        measured="Resident memory from its own metrics: medians of six parts of the soak, rising from part to part and "
        "in the last third still; other processes are not published.",
        changes="Memory that levels off.",
        sentences={
            PASS: "Resident memory {memory_ratio} of its start and not rising all through, peak {peak_gib} GiB.",
            FAIL: "Grows: resident memory {memory_ratio} of its start and still rising, peak {peak_gib} GiB.",
            OPEN: "Resident memory was not published or seen too seldom ({scrapes} scrapes).",
            NOT_RUN: "The soak was not run.",
        },
        next_step={
            FAIL: "Watch anonymous memory of every process of the server over a longer soak.",
            OPEN: "Serve metrics by a frontend that publishes process_resident_memory_bytes, or soak longer.",
        },
    ),
    Entry(
        code="capacity.memory.curves",
        title="Memory curves seen",
        checked="Whether KV use and resident memory of every server were seen all through the stages.",
        matters="A peak or a leak that no curve shows cannot be excluded.",
        measured="Scrapes of both series from the first request of the gate to its last.",
        changes="Metrics with both series.",
        sentences={
            PASS: "Curves over inputs to {input_tokens_most} tokens, outputs of {output_tokens}, {concurrency_most} at "
            "once: KV use at most {kv_peak}, resident memory at most {memory_peak_gib} GiB.",
            OPEN: "No curve of {missing}: KV use at most {kv_peak}, resident memory at most {memory_peak_gib} GiB.",
            NOT_RUN: "Nothing was sent.",
        },
        next_step={OPEN: "Make the metrics of every server publish {missing}."},
    ),
    Entry(
        code="capacity.soak.answers",
        title="Answers right through the soak",
        checked="Whether facts are recalled in the soak as they are by a single request and under short load.",
        matters="State that rots over time gives fluent wrong answers with HTTP 200.",
        measured="Kept answers spread over the soak hold a fact that was asked for, compared by Fisher's exact test "
        "with single requests and with the loads before.",
        changes="Right answers through the soak, all of them kept.",
        sentences={
            PASS: "{wrong} of {asked} compared answers of the soak were wrong, {single_wrong} of {single_asked} alone.",
            FAIL: "Answers wrongly in the soak: {wrong} of {asked} compared answers, while {single_asked} single ones "
            "had {single_wrong} wrong (chance {chance}).",
            OPEN: "Answers of the soak cannot be judged: {wrong} of {asked} wrong, {single_wrong} of {single_asked} "
            "wrong alone, {unread} not kept.",
            NOT_RUN: "The soak was not run.",
        },
        next_step={
            FAIL: "Restart, soak again, and repeat the wrong prompts alone while it runs.",
            OPEN: "Soak longer, so that more answers are compared.",
        },
    ),
    Entry(
        code="capacity.soak.sentinels",
        title="Prefixes stay in the cache",
        checked="Whether prefixes that come again keep being hit under the soak's load.",
        matters="Eviction at the load that is meant to hold turns reuse into recomputation.",
        measured="Two prefixes sent again and again; cached tokens after each was hit once.",
        changes="Hits that stay; a server that says cached tokens, where they are not said.",
        sentences={
            PASS: "{evicted} of {after_first_hit} repeats found their prefix evicted; where no cached tokens are said, "
            "{counted_share} of the possible hits were counted.",
            FAIL: "Evicts: {evicted} of {after_first_hit} repeats found their prefix gone.",
            OPEN: "No repeat was ever hit, or cached tokens are not said and the counters do not show it "
            "({counted_share} of the possible hits counted); {sent} were sent.",
            NOT_RUN: "The soak was not run.",
        },
        next_step={
            FAIL: "Lower the concurrency or give the cache more room.",
            OPEN: "Launch with --enable-prompt-tokens-details, so that answers say their cached tokens.",
        },
    ),
    Entry(
        code="capacity.soak.length",
        title="Soak long enough",
        checked="Whether the soak lasted as long as plan and profile demand.",
        matters="A soak excludes only the drift that it was long enough to show.",
        measured="From its first to its last request.",
        changes="A soak of the demanded time.",
        sentences={
            PASS: "Soaked for {held_s} s, demanded are {soak_s} s.",
            OPEN: "Soaked for {held_s} s of {soak_s} s with {load_share} of the load in flight ({stopped}).",
            NOT_RUN: "The soak was not run.",
        },
        next_step={OPEN: "Soak for {soak_s} s.", NOT_RUN: "Soak for {soak_s} s."},
    ),
    Entry(
        code="capacity.service.alive",
        title="Alive to the end",
        checked="Whether the service died, hung or restarted under the gate's load, and where that belongs.",
        matters="An out-of-memory, stall or restart without a located cause may come back at any time.",
        measured="Requests that were refused, cut or silent in a row; start times; cache use shortly before; the log "
        "after the run.",
        changes="A retest on the same samples, seeds and limits that passes.",
        sentences={
            PASS: "The service answered to the end of the gate.",
            FAIL: "The service {kind} in {stage} (KV use {kv_at_death}; the log says {log_says}: {log_text}).",
            OPEN: "Whether the service lived to the end is open: it {kind} in {stage}, and nothing shows why (KV use "
            "{kv_at_death}).",
            NOT_RUN: "Nothing was sent.",
        },
        next_step={
            FAIL: "Locate it by phase and memory, change one thing, and run the same samples again.",
            OPEN: "Collect the log of every rank from after the failure.",
        },
    ),
    Entry(
        code="capacity.errors.inband",
        title="No errors inside answers",
        checked="Error objects, missing ends and missing usage inside answers of HTTP 200.",
        matters="Callers and benchmarks that look at the status alone count them as successes.",
        measured="Every answer of the gate is read to its end.",
        changes="Answers that end as they should.",
        sentences={
            PASS: "{failed} of {requests} answers of HTTP 200 broke inside.",
            FAIL: "{failed} of {requests} answers of HTTP 200 broke inside (at least {error_rate_low}; limit "
            "{error_rate}): {says}",
            OPEN: "{failed} of {requests} answers of HTTP 200 broke inside; above {error_rate} or not is open.",
            NOT_RUN: "No answer was read.",
        },
        next_step={FAIL: "Look into the engine's log at the instants of the failed answers."},
    ),
    Entry(
        code="capacity.errors.server",
        title="No server errors up to the floor",
        checked="HTTP 5xx at loads up to the floor while no resource is at its bound.",
        matters="Errors with resources to spare are the software's, and no GPU mends them.",
        measured="All requests of those loads, exact interval of the rate; not 503, a queue that says no.",
        changes="No such errors.",
        sentences={
            PASS: "{failed} of {requests} requests up to the floor were answered with HTTP 5xx.",
            FAIL: "{failed} of {requests} requests up to the floor were answered with HTTP 5xx while no resource was "
            "at its bound (at least {error_rate_low}; limit {error_rate}): {says}",
            OPEN: "{failed} of {requests} requests up to the floor were answered with HTTP 5xx; limit {error_rate}.",
            NOT_RUN: "No load up to the floor was seen with resources to spare.",
        },
        next_step={FAIL: "Find the traceback of these requests in the server's log."},
    ),
    Entry(
        code="capacity.limits.said",
        title="Limits said",
        checked="Whether the plan says every limit that loads are judged by.",
        matters="Without a limit nothing can pass.",
        measured="Read from the plan.",
        changes="All limits in objective.limits.",
        sentences={PASS: "All limits are said.", OPEN: "The plan does not say {missing}."},
        next_step={OPEN: "Add {missing} to objective.limits."},
    ),
    Entry(
        code="capacity.metrics.seen",
        title="Server metrics seen",
        checked="Whether scrapes cover every stage and hold what saturation is judged by.",
        matters="Without them no one can say which resource was at its bound.",
        measured="Scrapes before, inside and after every stage; KV use, running and waiting requests.",
        changes="A reachable metrics endpoint with these series.",
        sentences={
            PASS: "{scrapes} scrapes cover {stages} stages.",
            OPEN: "Metrics do not cover the stages: uncovered {stages_uncovered}, series missing {series_missing}, "
            "{scrapes_failed} scrapes failed.",
            NOT_RUN: "Nothing was sent.",
        },
        next_step={OPEN: "Make /metrics of every server reachable, and name it in service.metrics."},
    ),
)
