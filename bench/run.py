"""How near our client comes to the truth, beside a client that only stamps: interleaved rounds against a paced server.

    python bench/run.py [--rounds N] [--streams N]... [-o FILE]

First token after 200 ms, then one every 10 ms, 200 tokens an answer, four answers a stream. The server's own lateness
is printed: rounds in which it was late on average by more than a millisecond say nothing about a client, and do not
count. Single figures on a shared machine are worth little; compare the two clients of one run.
"""

import argparse
import contextlib
import heapq
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FIRST_US, GAP_US, TOKENS, PER_STREAM = 200_000, 10_000, 200, 4
SPREAD_S = 2.048
LATE_US_MAX = 1000
GOALS = """goals at 1024 streams: first token p50 within 1 ms of 200, its p99 within 5 ms with starts spread and 60 ms
with all at once; between chunks p99 within 1 ms of the bare client; 98.5 % of ideal; at most 8 us CPU a chunk"""


def build(folder: Path) -> Path:
    """The paced server, compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "paced"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O2", "-o", str(target), str(HERE / "paced.c")], check=True)
    return target


def ideal_s(streams: int, spread_s: float, shared: bool) -> float:
    """How long the round takes a client that costs nothing. `shared`: lanes take requests from one pile, as ours do,
    and those that started first take more; the bare client gives every lane its own four."""
    answer_s = (FIRST_US + GAP_US * (TOKENS - 1)) / 1e6
    free = [spread_s * index / streams for index in range(streams)]
    if not shared:
        return free[-1] + PER_STREAM * answer_s
    heapq.heapify(free)
    for _ in range(PER_STREAM * streams):
        heapq.heapreplace(free, free[0] + answer_s)
    return max(free)


def one_round(server: Path, client: str, streams: int, spread_s: float) -> dict:
    """One client against a fresh server; what it said, what it missed of the ideal, and how late the server was."""
    paced = subprocess.Popen(
        [str(server), "0", str(FIRST_US), str(GAP_US), str(TOKENS)], stdout=subprocess.PIPE, text=True
    )
    assert paced.stdout is not None
    try:
        port = int(paced.stdout.readline())
        words = [sys.executable, str(HERE / client), *map(str, (port, streams, PER_STREAM * streams, TOKENS, spread_s))]
        said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    finally:
        paced.terminate()
        late = json.loads(paced.stdout.readlines()[-1])
        paced.wait()
    rate = said.get("tokens_per_s") or said["output_tokens_per_s"]
    cost = said.get("cpu_us_per_chunk") or said["client"]["cpu_us_per_chunk"]
    return {
        "ttft_p50": said["ttft_ms"]["p50"],
        "ttft_p99": said["ttft_ms"]["p99"],
        "itl_p99": said["itl_ms"]["p99"],
        "share": rate * ideal_s(streams, spread_s, "client" in said) / (PER_STREAM * streams * TOKENS),
        "cpu_us": cost,
        "late_us": late["late_us_mean"],
        "late_us_p99": late["late_us_p99"],
        "ok": said.get("ok", PER_STREAM * streams) == PER_STREAM * streams,
    }


def show(title: str, rounds: list[dict]) -> None:
    counted = [each for each in rounds if each["late_us"] <= LATE_US_MAX]
    median = {key: statistics.median(each[key] for each in counted) for key in rounds[0]} if counted else None
    figures = (
        "no round counted: the server was late"
        if median is None
        else (
            f"{median['ttft_p50']:9.1f} {median['ttft_p99']:9.1f} {median['itl_p99']:9.2f} {median['share']:8.1%}"
            f" {median['cpu_us']:8.2f} {median['late_us']:9.0f} {median['late_us_p99']:9.0f}"
        )
    )
    print(f"{title:<28} {len(counted)}/{len(rounds)} {figures}", flush=True)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--streams", type=int, action="append")
    words.add_argument("-o", "--output", type=Path, default=Path("out/bench/client.json"))
    chosen = words.parse_args()
    with contextlib.suppress(OSError):  # as our client asks for itself; all three processes of a round inherit it
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    server = build(chosen.output.parent)
    print(f"{GOALS}\n")
    print(f"{'':<28} n   ttft p50  ttft p99   itl p99    share   us CPU   late us  late p99")
    kept = {}
    for streams in chosen.streams or [256, 1024]:
        for spread_s, how in ((0.0, "at once"), (SPREAD_S, "spread")):
            rounds: dict[str, list[dict]] = {"our_client.py": [], "bare_client.py": []}
            for _ in range(chosen.rounds):
                for client, found in rounds.items():
                    found.append(one_round(server, client, streams, spread_s))
            for client, found in rounds.items():
                show(f"{streams} {how}, {client.removesuffix('.py')}", found)
            kept[f"{streams} {how}"] = rounds
    chosen.output.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
