"""HAProxy before web servers: each request goes to the next one, and one that does not answer is passed over."""

from collections.abc import Iterable
from pathlib import Path

_CONFIGURATION = """
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    timeout check 2s
    retries 3
    option redispatch 1

frontend requests
    bind {place}
    default_backend web

backend web
    balance roundrobin
    option httpchk GET /health
    default-server check inter 1s fall 2 rise 1
{servers}
"""


def make_command(program: str, file: Path, *, place: str, servers: Iterable[str]) -> tuple[str, ...]:
    """Write the configuration for these servers and return the command; places are an address and a port."""
    lines = [f"    server web{number} {server}" for number, server in enumerate(servers, start=1)]
    file.write_text(_CONFIGURATION.format(place=place, servers="\n".join(lines)))
    return program, "-db", "-f", str(file)
