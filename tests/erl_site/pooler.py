"""A connection pooler in transaction mode at its worst: every transaction goes to another connection of the server.

Speaks PostgreSQL's protocol as far as it has to: logins without a password, queries, no cancellation. Like poolers that
know nothing of prepared statements, it forgets nothing and cleans nothing up between two clients.
"""

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.stack import free_port

STARTUP, SSL, GSS = 196608, 80877103, 80877104
READY_IDLE = b"Z\x00\x00\x00\x05I"


@dataclass(kw_only=True)
class Server:
    """One connection to the server. Whoever holds the lock is in a transaction on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(kw_only=True)
class Pooler:
    """Takes clients at a port of loopback and shares `size` connections of the server out among them."""

    database: dict[str, Any]
    size: int = 3
    port: int = field(default_factory=free_port)
    servers: list[Server] = field(default_factory=list)
    clients: list[asyncio.StreamWriter] = field(default_factory=list)
    transactions: int = 0

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        self.servers = [await self._connect() for _ in range(self.size)]
        async with await asyncio.start_server(self._welcome, "127.0.0.1", self.port):
            ready.set()
            await stop.wait()
        writers = [*(server.writer for server in self.servers), *self.clients]
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)

    async def _connect(self) -> Server:
        host, port = self.database["HOST"] or "localhost", int(self.database["PORT"] or 5432)
        if host.startswith("/"):
            reader, writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            reader, writer = await asyncio.open_connection(host, port)
        named = b"user\0%s\0database\0%s\0\0" % (self.database["USER"].encode(), self.database["NAME"].encode())
        writer.write(struct.pack("!II", len(named) + 8, STARTUP) + named)
        greeting = b""
        while (message := await _read(reader)) != READY_IDLE:
            greeting += message
        return Server(reader=reader, writer=writer, greeting=greeting)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length, code = struct.unpack("!II", await reader.readexactly(8))
                await reader.readexactly(length - 8)
                if code == STARTUP:
                    break
                if code not in (SSL, GSS):
                    writer.close()
                    return
                writer.write(b"N")
            writer.write(self.servers[0].greeting + READY_IDLE)
            while message := await _read(reader):
                if message[:1] == b"X":
                    break
                await self._run(message, reader, writer)
        writer.close()

    async def _run(self, message: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the next connection for as long as this client is in a transaction."""
        self.transactions += 1
        server = self.servers[self.transactions % self.size]
        async with server.lock:
            while True:
                server.writer.write(message)
                if message[:1] in b"QS":  # each of them is answered to its end
                    answer = b""
                    while answer[:1] != b"Z":
                        answer = await _read(server.reader)
                        writer.write(answer)
                    if answer == READY_IDLE:
                        return
                message = await _read(reader)


async def _read(reader: asyncio.StreamReader) -> bytes:
    kind = await reader.readexactly(1)
    size = await reader.readexactly(4)
    return kind + size + await reader.readexactly(struct.unpack("!I", size)[0] - 4)


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def pooled(database: dict[str, Any]) -> Iterator[Pooler]:
    """Run a pooler in a thread of its own."""
    pooler, ready, loop, stop = Pooler(database=database), threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        loop.run_until_complete(pooler.serve(ready, stop))
        loop.run_until_complete(_end_tasks())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(30), "the pooler does not reach the server"
        yield pooler
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
