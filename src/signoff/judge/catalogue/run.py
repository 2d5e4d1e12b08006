"""The words of the findings that belong to the run as a whole."""

from signoff.core.words import Outcome
from signoff.judge.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="run.whole.finished",
        title="Run finished",
        checked="Whether the run came to the end of its plan.",
        matters="What was not measured cannot be judged, and a run that stopped early measured less than it planned.",
        measured="From the events that the run wrote as it went; a run that was killed leaves no last event.",
        changes="Run the plan to its end.",
        sentences={
            Outcome.PASS: "The run came to the end of its plan.",
            Outcome.NOT_RUN: "The run stopped before its end: {stopped}.",
        },
        next_step={Outcome.NOT_RUN: "Find out why the run stopped ({stopped}) and run the plan again to its end."},
    ),
    Entry(
        code="run.gates.planned",
        title="Gates in the plan",
        checked="Whether the plan asks for all four gates.",
        matters="A verdict speaks only of the gates that were asked for.",
        measured="From the plan.",
        changes="Name all four gates under `gates` in the plan.",
        sentences={
            Outcome.PASS: "The plan asks for all four gates.",
            Outcome.NOT_APPLICABLE: "The plan leaves out: {left_out}. The verdict says nothing about them.",
            Outcome.NOT_RUN: "The plan leaves out: {left_out}. Without the environment nothing measured has a chain to "
            "stand on.",
        },
        next_step={Outcome.NOT_RUN: "Put `environment` back under `gates` in the plan."},
    ),
    Entry(
        code="run.traffic.exclusive",
        title="No other traffic",
        checked="Whether the server counted exactly the requests and prompt tokens that this run sent.",
        matters="Other traffic in the window changes latency, cache and counters, and then proves neither way.",
        measured="Growth of request_success_total and prompt_tokens_total over the run against the client's records.",
        changes="Keep other callers away from the server for the whole run, and run again.",
        sentences={
            Outcome.PASS: "The server counted what was sent: {server_requests} requests, {server_prompt_tokens} prompt "
            "tokens.",
            Outcome.INCONCLUSIVE: "The server's counters are not those of this run alone: {foreign_requests} foreign "
            "requests, {foreign_prompt_tokens} foreign prompt tokens ({reason}).",
        },
        next_step={
            Outcome.INCONCLUSIVE: "Take every other caller off the server for the time of the run and repeat it."
        },
    ),
    Entry(
        code="run.service.same_process",
        title="One server process",
        checked="Whether one server process answered for the whole run.",
        matters="Evidence of another process start is not of this run, and a restart nobody planned is a failure.",
        measured="process_start_time_seconds and counters that must not fall, in every scrape.",
        changes="A run without a restart.",
        sentences={
            Outcome.PASS: "One process answered for the whole run.",
            Outcome.FAIL: "The server restarted during the run: {process_starts} process starts, counters fell: "
            "{counters_fell}.",
            Outcome.INCONCLUSIVE: "No scrape says that one process answered (several behind one address: "
            "{several_behind_one_address}).",
        },
        next_step={
            Outcome.FAIL: "Read the server's log around the restart, mend what ended it, and run again.",
            Outcome.INCONCLUSIVE: "Make /metrics of every server reachable and run again.",
        },
    ),
    Entry(
        code="run.client.fit",
        title="Client fit to measure",
        checked="Whether the measuring client itself was ever the bottleneck.",
        matters="A late client makes a good server look slow, and a slow one look the same.",
        measured="A self-check against a paced server before the run, and a lag probe during it that marks records.",
        changes="A client machine with a free core, near the server.",
        sentences={
            Outcome.PASS: "The client was fit: {disqualified_share:.1%} of {requests} requests disqualified, first "
            "token off by {self_check_ttft_error_ms_p99} ms at p99 in its self-check.",
            Outcome.INCONCLUSIVE: "The client cannot be trusted here: {disqualified_share:.1%} of {requests} requests "
            "disqualified (at most {disqualified_share_max:.0%}); self-check {self_check_ok} of {self_check_requests} "
            "ok, first token off by {self_check_ttft_error_ms_p99} ms at p99 (at most {ttft_error_ms_max}).",
        },
        next_step={Outcome.INCONCLUSIVE: "Give the client a core of its own, close other programs, and run again."},
    ),
    Entry(
        code="run.review.named",
        title="Reviewers named",
        checked="Whether the plan names a reviewer for each of the thirteen items.",
        matters="The machine gives the verdict; people sign it. An item nobody owns is signed by nobody.",
        measured="From `review.items` in the plan.",
        changes="Name a reviewer for each item, or for `all`.",
        sentences={
            Outcome.PASS: "Every checklist item has a named reviewer.",
            Outcome.INCONCLUSIVE: "Not every checklist item has a reviewer in the plan.",
        },
        next_step={
            Outcome.INCONCLUSIVE: "Name a reviewer under `review.items` in the plan (a number 1 to 13, or `all`)."
        },
    ),
    Entry(
        code="run.operations.planned",
        title="Triggers and rollback in the plan",
        checked="Whether throttle, scale-out and rollback triggers and the rollback target stand in the plan.",
        matters="A service that goes live without a way back has no way back when it is needed.",
        measured="From `triggers` and `rollback` in the plan.",
        changes="Fill in what is missing.",
        sentences={
            Outcome.PASS: "Triggers stand in the plan; rollback goes to {rollback_to}.",
            Outcome.INCONCLUSIVE: "The plan does not say: {missing}.",
        },
        next_step={Outcome.INCONCLUSIVE: "Fill in {missing} in the plan."},
    ),
)
