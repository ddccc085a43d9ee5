"""What embedding leaves in a process's memory: `python -m tests.bench.embedder_memory [--threads 4]`.

Two fresh processes embed short and then long texts in several threads, one with the limits of `return_large_blocks`
and one as glibc does by itself. Prints MB of resident memory after each step, and the median CPU time of a short text.
"""

import argparse
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from memory.embeddings import minilm
from memory.embeddings.minilm import MiniLM

SHORT, LONG = "some words of a task and its flights", "some words of a task about flights and hotels " * 30


def read_resident_mb() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) // 1024


def embed_in_threads(model: MiniLM, texts: list[str], *, threads: int, times: int) -> int:
    """Let every thread embed the texts so often; return what the process holds then."""

    def embed() -> None:
        for _ in range(times):
            model.embed(texts)

    started = [threading.Thread(target=embed) for _ in range(threads)]
    for each in started:
        each.start()
    for each in started:
        each.join()
    return read_resident_mb()


def measure(*, threads: int, limited: bool) -> None:
    if not limited:
        minilm.return_large_blocks = lambda: None
    model = MiniLM()
    model.warm_up()
    loaded = read_resident_mb()
    short = embed_in_threads(model, [SHORT], threads=threads, times=50)
    long = embed_in_threads(model, [LONG] * 8, threads=threads, times=4)
    each = []
    for number in range(200):
        started = time.thread_time()
        model.embed([f"{SHORT} {number}"])
        each.append((time.thread_time() - started) * 1000)
    name = "returns large blocks" if limited else "as glibc does"
    print(f"{name:22} loaded {loaded}, short {short}, long {long} MB; a short text {statistics.median(each):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--only", choices=["limited", "plain"])
    options = parser.parse_args()
    if options.only:
        measure(threads=options.threads, limited=options.only == "limited")
        return
    for only in ("plain", "limited"):
        command = [sys.executable, "-m", "tests.bench.embedder_memory", "--threads", str(options.threads)]
        subprocess.run([*command, "--only", only], check=True)


if __name__ == "__main__":
    main()
