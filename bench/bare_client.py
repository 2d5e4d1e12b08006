"""The limit: a client that only stamps reads and looks for the end of each answer. It parses nothing, so nothing that
measures can be cheaper; what it sees of the server on this machine is what there is to see.

    python bench/bare_client.py PORT STREAMS REQUESTS TOKENS SPREAD_S
"""

import asyncio
import json
import sys
import time

import numpy as np
import uvloop

REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
LAST = b"0\r\n\r\n"


class Bare(asyncio.Protocol):
    def __init__(self, per_stream: int, tokens: int, ended: asyncio.Future[None]) -> None:
        body = b'{"stream":true,"max_tokens":%d}' % tokens
        self.request = REQUEST % (len(body), body)
        self.left = per_stream
        self.ended = ended
        self.written: list[int] = []
        self.reads: list[list[int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.reads.append([])
        self.transport.write(self.request)
        self.written.append(time.perf_counter_ns())

    def data_received(self, data: bytes) -> None:
        self.reads[-1].append(time.perf_counter_ns())
        if data.endswith(LAST):
            self.left -= 1
            if self.left:
                self.ask()
            else:
                self.transport.close()
                self.ended.set_result(None)


async def main(port: int, streams: int, requests: int, tokens: int, spread_s: float) -> None:
    loop = asyncio.get_running_loop()
    clients: list[Bare] = []

    async def lane(index: int) -> None:
        await asyncio.sleep(spread_s * index / streams)
        client = Bare(requests // streams, tokens, loop.create_future())
        clients.append(client)
        await loop.create_connection(lambda: client, "127.0.0.1", port)
        await client.ended

    cpu_s, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*[lane(index) for index in range(streams)])
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - began
    # the first read holds the head, and the first chunk is the second; torn or joined reads are rare on loopback
    ttft = [reads[1] - at for client in clients for at, reads in zip(client.written, client.reads, strict=True)]
    gaps = np.concatenate([np.diff(reads[1:]) for client in clients for reads in client.reads])
    chunks = requests * tokens
    print(
        json.dumps(
            {
                "ttft_ms": dict(zip(("p50", "p99"), np.quantile(ttft, (0.5, 0.99)) / 1e6, strict=True)),
                "itl_ms": dict(zip(("p50", "p99"), np.quantile(gaps, (0.5, 0.99)) / 1e6, strict=True)),
                "tokens_per_s": chunks / wall_s,
                "cpu_us_per_chunk": cpu_s / chunks * 1e6,
            }
        )
    )


if __name__ == "__main__":
    port, streams, requests, tokens = map(int, sys.argv[1:5])
    uvloop.run(main(port, streams, requests, tokens, float(sys.argv[5])))
