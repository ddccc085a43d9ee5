"""The fault proxy does what its faults are named for."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.proxy import Fault, FaultProxy


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """A proxy before a server that answers every piece with the same in upper case."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            while data := client.recv(1000):
                client.sendall(data.upper())

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=[client], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with FaultProxy(upstream=listener.getsockname()) as made:
        yield made
    listener.close()


def ask(proxy: FaultProxy, data: bytes = b"hello", *, seconds: float = 0.3) -> bytes:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=seconds) as client:
        client.sendall(data)
        return client.recv(1000)


def test_bytes_pass_while_nothing_is_broken(proxy: FaultProxy) -> None:
    assert ask(proxy, seconds=5) == b"HELLO"


def test_half_open_takes_the_connection_and_says_nothing_until_it_is_healed(proxy: FaultProxy) -> None:
    proxy.break_with(Fault.HALF_OPEN)
    with pytest.raises(TimeoutError):
        ask(proxy)

    proxy.heal()
    assert ask(proxy, seconds=5) == b"HELLO"


def test_refused_and_back_again(proxy: FaultProxy) -> None:
    proxy.break_with(Fault.REFUSED)
    time.sleep(0.2)
    with pytest.raises(ConnectionError):
        ask(proxy)

    proxy.heal()
    time.sleep(0.2)
    assert ask(proxy, seconds=5) == b"HELLO"


def test_reset_ends_what_is_open(proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as client:
        client.sendall(b"a")
        assert client.recv(10) == b"A"
        proxy.break_with(Fault.RESET)
        with pytest.raises(ConnectionError):
            client.recv(10)


def test_lost_answer_was_an_answer(proxy: FaultProxy) -> None:
    seen: list[bytes] = []
    proxy.on_lost_answer = seen.append
    proxy.break_with(Fault.LOSE_ANSWERS)
    with pytest.raises(ConnectionError):
        ask(proxy, seconds=5)

    assert seen == [b"HELLO"]


def test_cut_lets_so_many_bytes_through(proxy: FaultProxy) -> None:
    proxy.cut_after_bytes = 3
    proxy.break_with(Fault.CUT)
    assert ask(proxy, seconds=5) == b"HEL"


def test_slow_waits_both_ways(proxy: FaultProxy) -> None:
    proxy.delay_seconds = 0.1
    proxy.break_with(Fault.SLOW)
    started = time.monotonic()

    assert ask(proxy, seconds=5) == b"HELLO"
    assert time.monotonic() - started >= 0.2
