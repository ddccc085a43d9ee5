"""Forward connections to servers in turn, in place of HAProxy: `python -m tests.cluster.balancer ADDRESS:PORT SERVER…`.

A server that does not accept is passed over.
"""

import asyncio
import sys
from itertools import cycle


async def forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, servers: "cycle[tuple[str, str]]", count: int
) -> None:
    """Connect a client to the next server that accepts, and pass bytes both ways until one side closes."""
    for _ in range(count):
        host, port = next(servers)
        try:
            behind = await asyncio.wait_for(asyncio.open_connection(host, int(port)), 1.0)
        except (OSError, TimeoutError):
            continue
        await asyncio.gather(pass_on(reader, behind[1]), pass_on(behind[0], writer), return_exceptions=True)
        return
    writer.close()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def serve(place: str, servers: list[str]) -> None:
    host, port = place.split(":")
    turns = cycle([(name, number) for name, number in (server.split(":") for server in servers)])
    server = await asyncio.start_server(lambda r, w: forward(r, w, turns, len(servers)), host, int(port))
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
