"""The launch-log reader on logs of a real vLLM, on crafted ones, and on what other programs print."""

from pathlib import Path

import pytest

from signoff.core.words import Cause, Phase
from signoff.read.launch_log import LaunchLog, read_launch_log

SAMPLES = Path(__file__).parent / "samples"
PREFIX = "(EngineCore_DP0 pid=902) ERROR 12-11 09:20:11 [core.py:708] "


def read(text: str) -> LaunchLog:
    return read_launch_log(text.encode())


def test_real_start_serve_stop() -> None:
    log = read_launch_log((SAMPLES / "vllm_cpu_start_serve_stop.log").read_bytes())
    assert (log.version, log.architecture, log.boots) == ("0.32.0", "LlamaForCausalLM", 1)
    assert (log.tp, log.pp, log.dp) == (1, 1, 1)
    assert log.arguments["tool_call_parser"] == "'hermes'"
    assert log.prefix_caching is True
    assert (log.max_model_len, log.kv_tokens, log.kv_concurrency) == (8192, 26752, 3.27)
    assert log.ranks[0].world_size == 1
    assert [mark.name for mark in log.phases] == [
        "start", "engine_init", "weights", "kv_cache", "warmup", "ready", "stats", "shutdown",
    ]  # fmt: skip
    assert log.phases[0].stamp == "12-01 03:42:51"
    assert log.ready
    assert not log.truncated
    assert log.first_error is None
    assert not [note for note in log.notes if note.family in ("failure", "unknown")]
    assert [note.kind for note in log.notes if note.family == "exposure"] == ["dev_endpoints"]
    assert {(count.path, count.status) for count in log.http} == {("/nothere", 404), ("/v1/chat/completions", 400)}
    assert log.stats[0].running == 0


def test_real_window_unfit_names_the_cause_and_not_its_envelope() -> None:
    log = read_launch_log((SAMPLES / "vllm_cpu_window_unfit.log").read_bytes())
    assert log.first_error is not None
    assert log.first_error.kind == "kv_window_too_long"
    assert log.first_error.process == "EngineCore"
    assert log.first_error.values["window"] == "8192"
    assert log.first_error.values["fits"] == "2016"
    assert {note.kind for note in log.notes if note.envelope} >= {"engine_start", "engine_init"}
    assert not log.ready


def test_an_empty_log_says_nothing() -> None:
    log = read("")
    assert (log.lines, log.boots, log.ready, log.first_error, log.notes) == (0, 0, False, None, ())


def test_colours_and_missing_prefix() -> None:
    log = read("\x1b[1;31mERROR\x1b[0m 09-14 06:00:00 [core.py:1] RuntimeError: CUDA error: out of memory\n")
    assert log.notes[0].level == "ERROR"
    assert "\x1b" not in log.notes[0].text
    assert log.notes[0].kind == "oom"


def test_the_innermost_process_counts() -> None:
    log = read(
        "(APIServer pid=1) (EngineCore_DP0 pid=68) ERROR 02-06 16:34:06 [core.py:936] EngineCore failed to start.\n"
    )
    assert log.notes[0].process == "EngineCore_DP0"


def test_interleaved_ranks_keep_their_own_tracebacks() -> None:
    rows = []
    for text in (
        "Traceback (most recent call last):",
        '  File "/x/gpu_worker.py", line 2, in load_model',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ):
        rows += [f"(Worker_TP{rank} pid=9{rank}) ERROR 09-14 06:00:0{rank} [mp.py:9] {text}" for rank in (0, 1)]
    log = read("\n".join(rows))
    assert [(note.process, note.values["frames"]) for note in log.notes] == [
        ("Worker_TP0", "load_model"),
        ("Worker_TP1", "load_model"),
    ]
    assert log.first_error is not None
    assert log.first_error.phase is Phase.LOAD


def test_facts_are_of_the_last_boot_and_so_is_the_first_error() -> None:
    boot = "INFO 09-14 06:00:00 [api_server.py:1] vLLM API server version 0.{}.0\n"
    log = read(boot.format(27) + PREFIX + "ValueError: No available memory for the cache blocks.\n" + boot.format(28))
    assert (log.boots, log.version, log.boot_line) == (2, "0.28.0", 3)
    assert log.first_error is None
    assert [note.kind for note in log.notes] == ["kv_none_left"]
    assert log.truncated


def test_lines_cut_at_a_terminals_width_are_joined_and_keep_their_numbers() -> None:
    whole = [
        PREFIX + "ValueError: Free memory on device (0.49/79.32 GiB) on startup is less than desired GPU memory "
        "utilization (0.6, 47.59 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    ] * 3  # fmt: skip
    cut = "\n".join(line[i : i + 80] for line in whole for i in range(0, len(line), 80))
    log = read(cut)
    assert [note.kind for note in log.notes] == ["gpu_occupied"] * 3
    assert log.notes[0].values["free_gib"] == "0.49"
    assert log.notes[1].line == 5


def test_words_wrapped_onto_the_next_line_still_match() -> None:
    log = read("RuntimeError: Error 803: system has unsupported display driver /\n   cuda driver combination\n")
    assert log.notes[0].kind == "driver_mismatch_803"


def test_gloo_loopback_is_noise_on_one_node_and_the_cause_when_the_mesh_fails() -> None:
    warning = (
        "[W926 18:06:34.2 ProcessGroupGloo.cpp:514] Warning: Unable to resolve hostname to a (local) address. "
        "Using the loopback address as fallback.\n"
    )
    assert read(warning + "INFO:     Application startup complete.\n").notes[0].family == "noise"
    failed = read(
        warning + "RuntimeError: Gloo connectFullMesh failed with timed out connecting: SO_ERROR: Connection refused\n"
    )
    assert failed.first_error is not None
    assert failed.first_error.kind == "gloo_loopback"
    assert failed.first_error.cause is Cause.ENVIRONMENT


WAIT = (
    "(EngineCore pid=2) INFO 09-01 15:39:04 [shm_broadcast.py:801] "
    "No available shared memory broadcast block found in 60 seconds.\n"
)


def test_waiting_ranks_are_noise_at_warm_up_and_a_symptom_before_a_time_out() -> None:
    assert read(WAIT + "INFO:     Application startup complete.\n").notes[0].family == "noise"
    hung = read(WAIT + PREFIX + "TimeoutError: RPC call to sample_tokens timed out.\n")
    assert [note.family for note in hung.notes] == ["degradation", "failure"]
    assert hung.notes[0].cause is Cause.SUSTAINED


@pytest.mark.parametrize(
    ("before", "phase"),
    [
        ("INFO 09-14 06:00:00 [x.py:1] Starting to load model /m...\n", Phase.LOAD),
        ("INFO 09-14 06:00:00 [x.py:1] Model loading took 61.2 GiB memory and 2.0 seconds\n", Phase.WARMUP),
        ("INFO 09-14 06:00:00 [x.py:1] GPU KV cache size: 1,000 tokens\n", Phase.WARMUP),
        ("INFO:     Application startup complete.\n", Phase.CONCURRENCY),
    ],
)
def test_the_phase_of_an_out_of_memory_is_that_of_the_last_mark(before: str, phase: Phase) -> None:
    log = read(before + PREFIX + "torch.OutOfMemoryError: CUDA out of memory.\n")
    assert log.first_error is not None
    assert log.first_error.phase is phase


def test_prompts_and_paths_that_quote_errors_are_not_the_server_speaking() -> None:
    log = read(
        "INFO 09-14 06:00:00 [logger.py:1] Received request chatcmpl-1: prompt: 'why CUDA out of memory?'\n"
        'INFO:     10.0.0.1:5 - "GET /?q=CUDA+out+of+memory: HTTP/1.1" 404 Not Found\n'
    )
    assert log.notes == ()


def test_unknown_lines_with_a_level_become_unknown_notes() -> None:
    log = read(
        "WARNING 09-14 06:00:00 [x.py:1] the moon is full\n"
        "INFO 09-14 06:00:00 [x.py:1] nothing\n"
        "ERROR 09-14 06:00:01 [x.py:1] MoonError: it is\n"
    )
    assert [(note.kind, note.level) for note in log.notes] == [("unknown", "WARNING"), ("unknown", "ERROR")]
    assert log.first_error is not None
    assert log.first_error.line == 3


def test_docker_json_lines_are_unboxed() -> None:
    log = read(
        '{"log":"INFO 09-14 06:00:00 [x.py:1] vLLM is using nccl==2.30.7\\n","stream":"stderr","time":"t"}\n' * 2
    )
    assert log.nccl == ("2.30.7",)
    assert log.lines == 2


def test_statistics_requests_and_answers() -> None:
    log = read(
        "(APIServer pid=1) INFO 03-23 10:00:02 [async_llm.py:270] Added request chatcmpl-a1.\n"
        "(APIServer pid=1) INFO 03-23 10:00:10 [loggers.py:271] Engine 000: Avg prompt throughput: 5.0 tokens/s, "
        "Avg generation throughput: 38.0 tokens/s, Running: 7 reqs, Waiting: 3 reqs, Preemptions: 2, "
        "GPU KV cache usage: 93.1%, External prefix cache hit rate: 9.0%\n"
        "(APIServer pid=1) INFO 03-23 10:10:02 [async_llm.py:922] Aborted request(s) chatcmpl-a1.\n"
        "[2025-05-30 17:14:51 TP0] Decode batch. #running-req: 36, #token: 958017, token usage: 0.96, "
        "gen throughput (token/s): 512.30, #queue-req: 41\n"
    )
    vllm, sglang = log.stats
    assert (vllm.running, vllm.waiting, vllm.kv_perc, vllm.preemptions, vllm.hit_perc) == (7, 3, 93.1, 2, None)
    assert (sglang.running, sglang.waiting, sglang.tokens, sglang.kv_perc) == (36, 41, 958017, 96.0)
    assert [(mark.what, mark.id) for mark in log.requests] == [("added", "chatcmpl-a1"), ("aborted", "chatcmpl-a1")]


def test_the_last_line_of_a_tool_parsers_traceback_is_the_parsers_whatever_the_exception():
    place = "(APIServer pid=5758) ERROR 12-01 05:41:41 [hermes_tool_parser.py:117]"
    raw = (
        f"{place} Error in extracting tool call from response.\n{place} Traceback (most recent call last):\n"
        f'{place}   File "/opt/json/decoder.py", line 353, in raw_decode\n{place}     obj = self.scan_once(s, idx)\n'
        f"{place} json.decoder.JSONDecodeError: Unterminated string starting at: line 11 column 32 (char 310)\n"
    ).encode()
    log = read_launch_log(raw)
    assert {(note.kind, note.cause) for note in log.notes} == {("tool_parser_error", Cause.MODEL_PARSER)}
