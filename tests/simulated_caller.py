"""A simulated service in the test's own loop, and a plain client of it."""

import contextlib
import tempfile
from pathlib import Path

import aiohttp
import msgspec

from signoff.sim.gateway import Gateway
from signoff.sim.http1 import Listener
from signoff.sim.launch import launched
from signoff.sim.serve import Server


class Caller:
    """A plain client of one service and its gateway."""

    def __init__(self, session, base_url, gateway_url, server):
        self.session, self.base_url, self.gateway_url, self.server = session, base_url, gateway_url, server

    async def get(self, path, gateway=False):
        async with self.session.get((self.gateway_url if gateway else self.base_url) + path) as response:
            return response.status, await response.text(), response.headers

    async def post(self, path, body, gateway=False, headers=None):
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        url = (self.gateway_url if gateway else self.base_url) + path
        sent = {"Content-Type": "application/json", **(headers or {})}
        async with self.session.post(url, data=raw, headers=sent) as response:
            text = await response.read()
            return response.status, msgspec.json.decode(text) if text else None

    async def chat(self, content, gateway=False, headers=None, **more):
        messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
        body = {"model": "kimi-k3", "messages": messages, **more}
        return await self.post("/v1/chat/completions", body, gateway, headers)

    async def stream(self, path, body, gateway=False):
        """The events of a stream, decoded; `[DONE]` stays text."""
        url = (self.gateway_url if gateway else self.base_url) + path
        async with self.session.post(url, json={"model": "kimi-k3", "stream": True, **body}) as response:
            raw = await response.text()
        events = [event.removeprefix("data: ") for event in raw.split("\n\n") if event]
        return response.status, [e if e == "[DONE]" else msgspec.json.decode(e.encode()) for e in events]

    async def complete(self, prompt, max_tokens=1, **more):
        body = {"model": "kimi-k3", "prompt": prompt, "max_tokens": max_tokens, **more}
        return await self.post("/v1/completions", body)

    async def cached(self, prompt, **more):
        """Hit tokens of a prompt, as the answer tells them."""
        _, body = await self.complete(prompt, **more)
        return body["usage"]["prompt_tokens_details"]["cached_tokens"]

    async def metric(self, name, **labels):
        """The sum of a metric over the given labels."""
        _, text, _ = await self.get("/metrics")
        total = 0.0
        for line in text.splitlines():
            if line.split("{", 1)[0].split(" ", 1)[0] == name and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def log(self):
        return (self.server.root / "var/log/vllm.log").read_text()


@contextlib.asynccontextmanager
async def serving(*faults, **changes):
    """A Caller of a service with `faults`, its settings changed by `changes`."""
    settings, host = launched(faults)
    settings = msgspec.structs.replace(settings, **changes)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(settings, host, Path(folder) / "root", lay_root=False)
        await server.start(0)
        gateway = Gateway(settings, f"http://127.0.0.1:{server.port}")
        front = Listener(gateway.handle)
        await gateway.start()
        await front.start(0)
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Caller(session, f"http://127.0.0.1:{server.port}", f"http://127.0.0.1:{front.port}", server)
        await front.stop()
        await gateway.stop()
        await server.stop()
