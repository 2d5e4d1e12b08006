"""The words of the product, each with one spelling in plan, code, bundle, report and documents."""

from enum import StrEnum


class Gate(StrEnum):
    """One of the four proofs."""

    ENVIRONMENT = "environment"
    CAPACITY = "capacity"
    PREFIX = "prefix"
    AGENT = "agent"


class Outcome(StrEnum):
    """What a check came to. `INCONCLUSIVE`: looked, cannot tell. `NOT_APPLICABLE`: by plan or profile only."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not_run"
    NOT_APPLICABLE = "not_applicable"


class Severity(StrEnum):
    FAIL = "fail"
    WARN = "warn"
    INFO = "info"


class Cause(StrEnum):
    """Where a trouble belongs."""

    ENVIRONMENT = "environment"
    TOPOLOGY = "topology"
    LONG_INPUT = "long_input"
    CONCURRENCY = "concurrency"
    SUSTAINED = "sustained"
    PREFIX_CACHE = "prefix_cache"
    MODEL_PARSER = "model_parser"
    GATEWAY = "gateway"
    CLIENT = "client"
    HARDWARE = "hardware"
    NONE = "none"


class Phase(StrEnum):
    """When it showed. Also the stages of the capacity gate."""

    LOAD = "load"
    WARMUP = "warmup"
    LONG_INPUT = "long_input"
    CONCURRENCY = "concurrency"
    SOAK = "soak"
    PREFIX = "prefix"
    AGENT = "agent"
    NA = "na"


class VerdictName(StrEnum):
    GO = "go"
    LIMITED = "limited"
    REWORK = "rework"
    SCALE = "scale"
    INCOMPLETE = "incomplete"


class Scope(StrEnum):
    """What a `rework` must rework."""

    ENVIRONMENT = "environment"
    LAUNCH = "launch"
    HARDWARE = "hardware"
    SOFTWARE = "software"
    INTERFACE = "interface"


class Bearing(StrEnum):
    """What a finding bears upon in the verdict table; `judge.decide` reads this and nothing finer.

    CHAIN     a link of the compatibility chain          fail: row 1 environment; not proved: row 4
    LAUNCH    the launch against the recipe or the plan  fail: row 1 launch
    HOST      host, weights or a GPU in use              fail: row 1 hardware
    SERVICE   dies, hangs, leaks, answers wrongly        fail: row 2
    CALLS     critical calls at every measured load      fail: row 3 interface
    EFFECT    an effect happened twice                   fail: row 3 interface
    LAYOUT    arithmetic: weights and one request fit    fail: row 5a
    FLOOR     a load from the floor up held              fail with `resource`: row 5b; by lost hits, retries,
                                                         a cut or a launch value: row 3; else row 6
    CAP       held at the cap, three times               fail: row 5c
    TARGET    the target held                            fail: row 7
    HITS      prefix hits against expectation            fail: row 7
    MINOR     non-critical formats, retry paths, edges   fail: row 7
    EVIDENCE  anything else required                     fail or not proved: row 6
    NOTE      said, never weighed
    """

    CHAIN = "chain"
    LAUNCH = "launch"
    HOST = "host"
    SERVICE = "service"
    CALLS = "calls"
    EFFECT = "effect"
    LAYOUT = "layout"
    FLOOR = "floor"
    CAP = "cap"
    TARGET = "target"
    HITS = "hits"
    MINOR = "minor"
    EVIDENCE = "evidence"
    NOTE = "note"


class State(StrEnum):
    """The terminal state of one request. Only `OK` is a success: a finish reason, `[DONE]` when streamed, usage
    where asked, and no error object."""

    OK = "ok"
    REFUSED = "refused"  # no connection
    RESET = "reset"  # connection reset or closed before the answer ended, no error object seen
    TIMEOUT = "timeout"  # total deadline passed
    STALLED = "stalled"  # bytes stopped for longer than the silence limit
    HTTP_ERROR = "http_error"  # a status other than 2xx
    INBAND_ERROR = "inband_error"  # HTTP 200, then an error object
    UNFINISHED = "unfinished"  # ended cleanly without finish reason or `[DONE]`
    NO_USAGE = "no_usage"  # finished, but the usage that was asked for never came
    MALFORMED = "malformed"  # not HTTP, not SSE, not JSON, too large
    ABORTED = "aborted"  # we hung up: operator stop or guard rail
