"""Debian's nginx and Caddy in front of the product, which is served under a path of their host."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.programs import require_program
from tests.stack import free_port
from tests.waiting import wait_until

PREFIX = "/erl"
# As a company has it: HTTP/1.0 to what is behind, answers buffered and compressed, the path passed on
NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on;
    gzip_types *;
    gzip_min_length 1;
    gzip_proxied any;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 418; }}
        location {prefix}/ {{
            proxy_pass http://127.0.0.1:{upstream};
            proxy_http_version 1.0;
            proxy_buffering on;
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
    }}
}}
"""
# `handle_path` removes the prefix
CADDY = """
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    encode gzip
    handle_path {prefix}/* {{
        reverse_proxy 127.0.0.1:{upstream}
    }}
    respond 418
}}
"""


@contextmanager
def nginx(upstream: int, folder: Path) -> Iterator[str]:
    """Run nginx; gives the address of the site."""
    with _proxy("nginx", NGINX, "-c", upstream=upstream, folder=folder) as address:
        yield address


@contextmanager
def caddy(upstream: int, folder: Path) -> Iterator[str]:
    """Run Caddy; gives the address of the site."""
    with _proxy("caddy", CADDY, "run", "--adapter", "caddyfile", "--config", upstream=upstream, folder=folder) as site:
        yield site


@contextmanager
def _proxy(name: str, template: str, *options: str, upstream: int, folder: Path) -> Iterator[str]:
    program, port = require_program(name), free_port()
    configuration = folder / f"{name}.conf"
    configuration.write_text(template.format(port=port, upstream=upstream, prefix=PREFIX, folder=folder))
    environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin"}
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([program, *options, str(configuration)], env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(port) or process.poll() is not None)
        assert process.poll() is None, (folder / f"{name}.log").read_text()
        yield f"http://127.0.0.1:{port}{PREFIX}"
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).status_code == 418
    except httpx.TransportError:
        return False
