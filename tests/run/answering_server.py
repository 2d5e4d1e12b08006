"""A small HTTP server with fixed answers, for what asks a service who it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

METRICS = (
    'vllm:cache_config_info{block_size="128",enable_prefix_caching="True",engine="0"} 1.0\n'
    'vllm:num_requests_running{engine="0",model_name="m"} 0.0\n'
)


@asynccontextmanager
async def answering(
    models: object = None,
    *,
    key: str = "",
    status: int = 200,
    metrics: str = METRICS,
    metrics_type: str = "text/plain",
    version: object = None,
) -> AsyncIterator[str]:
    """The base URL of a server that lists `models` (a list of ids, or any JSON)."""
    listed = models if models is not None else ["served"]
    if isinstance(listed, list):
        listed = {"data": [{"id": name, "max_model_len": 4096} for name in listed]}

    async def list_models(request: web.Request) -> web.Response:
        if key and request.headers.get("Authorization") != f"Bearer {key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return web.json_response(listed, status=status)

    async def tell_version(request: web.Request) -> web.Response:
        return web.json_response(version if version is not None else {"version": "0.32.0"})

    async def expose(request: web.Request) -> web.Response:
        return web.Response(body=metrics.encode(), content_type=metrics_type)

    app = web.Application()
    app.router.add_get("/v1/models", list_models)
    app.router.add_get("/version", tell_version)
    app.router.add_get("/metrics", expose)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
