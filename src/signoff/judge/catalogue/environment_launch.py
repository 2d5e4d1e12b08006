"""The words of the environment gate's findings: launch and launch log."""

from signoff.core.words import Outcome
from signoff.judge.catalogue.entry import Entry

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
NO_LAUNCH = "{title} of {subject}: not compared: {reason}."
READ_LAUNCH = "Probe the node where the server's command line can be read, or give its whole launch log."

ENTRIES: tuple[Entry, ...] = (
    Entry(
        code="environment.launch.recipe",
        title="Options against the recipe",
        checked="That no option is set otherwise than the recipe sets it.",
        matters="The recipe's combination is what was tested; another value is another server.",
        measured="The process's command line, else the log's non-default arguments, against the profile's rules.",
        changes="A launch with the recipe's values.",
        sentences={
            PASS: "No option of {subject} contradicts the recipe (rules: {rules}); adjusted as the recipe allows: "
                  "{options}.",
            FAIL: "{count} options of {subject} contradict the recipe: {options}.",
            UNCLEAR: NO_LAUNCH,
        },
        next_step={FAIL: "Launch with the recipe's values.", UNCLEAR: READ_LAUNCH},
    ),
    Entry(
        code="environment.launch.missing",
        title="Options of the recipe",
        checked="That every option of the recipe is set, or its value is in force without it.",
        matters="What is not set takes a default, and defaults differ between builds.",
        measured="The process's command line against the profile's rules; the engine's configuration line in the log.",
        changes="A launch that sets them.",
        sentences={
            PASS: "All options of the recipe are in force on {subject}; left out as the recipe allows: {options}.",
            FAIL: "{count} options of the recipe are missing on {subject}: {options}.",
            UNCLEAR: NO_LAUNCH,
        },
        next_step={FAIL: "Add the missing options to the launch.", UNCLEAR: READ_LAUNCH},
    ),
    Entry(
        code="environment.launch.variables",
        title="Environment variables of the recipe",
        checked="That the recipe's variables are set and known to this server, and vLLM's compatibility switch is off.",
        matters="A variable that is missing or unknown changes the server silently.",
        measured="/proc/PID/environ of the server, secrets removed, and warnings of the launch log.",
        changes="The recipe's variables in the container.",
        sentences={
            PASS: "The recipe's variables are set on {subject}; left out as the recipe allows: {options}.",
            FAIL: "Variables on {subject}: {options}.",
            UNCLEAR: "Variables of the server on {subject}: not compared: {reason}.",
        },
        next_step={FAIL: "Set the variables as the recipe does.",
                   UNCLEAR: "Probe as the server's user or as root."},
    ),
    Entry(
        code="environment.launch.added",
        title="Options beyond the recipe",
        checked="Which options are set that the recipe does not speak of.",
        matters="The signer should know them; they do not contradict anything.",
        measured="The process's command line.",
        changes="Nothing: it is a list.",
        sentences={PASS: "{count} options beyond the recipe on {subject}: {options}.", UNCLEAR: NO_LAUNCH},
        next_step={UNCLEAR: READ_LAUNCH},
    ),
    Entry(
        code="environment.launch.layout",
        title="GPUs for the layout",
        checked="That the node has as many GPUs as its share of the layout needs.",
        matters="A layout larger than the node cannot start, or runs elsewhere than thought.",
        measured="Parallel sizes of log and options against the GPUs seen.",
        changes="A layout that fits the GPUs.",
        sentences={
            PASS: "{subject} has {gpus} GPUs for layout {layout}, which needs {gpus_least} a node.",
            FAIL: "{subject} has {gpus} GPUs, and layout {layout} needs {gpus_least} a node.",
            UNCLEAR: "Layout of {subject}: GPUs or parallel sizes were not read.",
        },
        next_step={FAIL: "Mend the layout or bring the missing GPU back.", UNCLEAR: READ_LAUNCH},
    ),
    Entry(
        code="environment.launch.serves",
        title="Launch serves the plan",
        checked="That the launch can serve what the plan asks at all: tools and prefix caching.",
        matters="A server without a tool parser or with caching off cannot pass the gates, however fast it is.",
        measured="Options and launch log against plan and profile.",
        changes="A launch with the parser and the cache.",
        sentences={
            PASS: "The launch of {subject} serves what the plan asks.",
            FAIL: "The launch of {subject} cannot serve the plan: {options}.",
            UNCLEAR: NO_LAUNCH,
        },
        next_step={FAIL: "Launch with what is missing.", UNCLEAR: READ_LAUNCH},
    ),
    Entry(
        code="environment.log.whole",
        title="Launch log whole",
        checked="That the log of the node runs from the start of the process to readiness.",
        matters="Fallbacks are logged once, at the start: a log that begins later hides them.",
        measured="The given log files.",
        changes="The whole log, from the first line.",
        sentences={
            PASS: "{logs} logs of {subject} with {lines} lines run from start to readiness.",
            UNCLEAR: "Launch log of {subject}: {reason}.",
        },
        next_step={UNCLEAR: "Give the whole log of every rank under nodes.logs, from the start of the container."},
    ),
    Entry(
        code="environment.log.failures",
        title="Known failures in the log",
        checked="Lines of the last start that are known to mean a failure.",
        matters="A server can be up with a failure behind it that comes back under load.",
        measured="The launch log against the table of known lines; the first one that is not only an envelope.",
        changes="A start without it.",
        sentences={
            PASS: "No known failure in the launch log of {subject}.",
            FAIL: "{subject}, line {line} ({kind}): {text} {why}",
            UNCLEAR: "Launch log of {subject}: {reason}.",
        },
        next_step={FAIL: "Mend the cause that line {line} names and start again.",
                   UNCLEAR: "Give the launch log under nodes.logs."},
    ),
    Entry(
        code="environment.log.during",
        title="Failures in the log under load",
        checked="Lines known to mean a failure that the log got while load was sent.",
        matters="A server that answers again may have failed in between, and will again under traffic.",
        measured="The launch log after the load less the one before it; failures of single requests are counted by the "
        "gates that sent them, and a death that the capacity gate saw is placed there.",
        changes="A run without such lines, or with their cause located.",
        sentences={
            PASS: "The log of {subject} got no known failure under load; of single requests: {of_requests}.",
            FAIL: "{subject} under load, line {line} ({kind}): {text} {why}",
            UNCLEAR: "Log of {subject} under load: {reason}.",
        },
        next_step={FAIL: "Locate the cause of line {line} ({kind}), mend it, and run again.",
                   UNCLEAR: "Give the whole log under nodes.logs, one that is not rotated during the run."},
    ),
    Entry(
        code="environment.log.unexplained",
        title="Unexplained warnings",
        checked="Warnings and errors in the launch log that no rule explains.",
        matters="What nobody can explain may be the reason of the next outage.",
        measured="The launch log, before and after the load.",
        changes="A named reviewer who explains each line, or a start without them.",
        sentences={
            PASS: "Every warning in the launch log of {subject} is explained.",
            UNCLEAR: "{count} kinds of unexplained lines in the log of {subject}: {texts}; {reason}.",
        },
        next_step={UNCLEAR: "Have a named reviewer explain each line, or remove its cause and start again."},
    ),
    Entry(
        code="environment.log.fallbacks",
        title="Fallbacks in the log",
        checked="Whether a wanted path was given up for another, and whether the profile forbids that.",
        matters="A fallback starts fine and is slow, or is another numeric path than the tested one.",
        measured="The launch log against the profile's list.",
        changes="A start without the forbidden ones.",
        sentences={
            PASS: "No forbidden fallback on {subject}; {count} others: {texts}.",
            FAIL: "{count} forbidden fallbacks on {subject}: {texts}.",
            UNCLEAR: "Launch log of {subject}: {reason}.",
        },
        next_step={FAIL: "Remove the cause of the fallback: image, hardware or option.",
                   UNCLEAR: "Give the launch log under nodes.logs."},
    ),
    Entry(
        code="environment.log.degradations",
        title="Slower paths in the log",
        checked="Lines that say that the server runs slower or lesser than it could.",
        matters="They explain numbers that disappoint later.",
        measured="The launch log.",
        changes="Nothing: it is a list.",
        sentences={PASS: "{count} lines about slower paths on {subject}: {texts}.",
                   UNCLEAR: "Slower paths on {subject}: no launch log."},
        next_step={UNCLEAR: "Give the launch log under nodes.logs."},
    ),
)  # fmt: skip
