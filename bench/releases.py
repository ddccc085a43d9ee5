"""What releases promise, measured: assignment, a flip under load, blocks rebuilt, and what a request costs more.

    uv run python -m bench.releases [assignment] [flip] [kill] [rebuild] [cost] [--pairs 1500] [--seconds 20]

Starts a PostgreSQL of its own and, for `flip` and `cost`, gunicorn as the product runs it. docs/releases.md has the
figures.

assignment: 100,000 units get an arm here and in other processes. flip: releases are flipped by the API under 50
requests a second; every answer names its release, and so does every wording. kill: a process that flips all the time is
killed with -9, again and again. rebuild: blocks of 1,000 answers, drawn from six releases, are written again. cost:
POST /retrieve of a project with a deployment, a canary and a hold-out against one without, in pairs.
"""

import argparse
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import django
from django.apps import apps

# A test that imports this module has servers of its own.
if apps.ready:
    HOME = Path(os.environ["ERL_HOME"])
else:
    HOME = Path(os.environ.get("ERL_BENCH_HOME") or tempfile.mkdtemp(prefix="erl-bench-"))
    # The benchmark must not reach the installation whose settings are in the environment.
    for name in [*os.environ]:
        if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
            del os.environ[name]
    os.environ |= {"ERL_HOME": str(HOME), "ERL_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "erl_site.settings"}
    django.setup()

from django.core.management import call_command
from django.db import connection, connections

from bench.serving.corpus import Corpus
from erl_site.embedded import postgres, valkey
from erl_site.quickstart.stack import WEB_PROCESSES, WEB_THREADS
from memory.curation.proposals import revise_heuristic
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import (
    DeploymentChange,
    change_deployment,
    cut_release,
    promote,
    start_canary,
)
from memory.releases.models import Deployment, DeploymentEvent
from memory.retrieval.answers import retrieve
from memory.retrieval.assignment import Deployed, assign, draw_bucket
from memory.retrieval.models import Retrieval
from memory.retrieval.question import Question
from memory.retrieval.replay import replay_block
from tests.administrator import become_administrator
from tests.factories import approve_as_read, make_api_key, make_heuristic
from tests.stack import ROOT, Stack

BY = Actor.policy("bench")
UNITS, LESSONS, RATE, KILLS, ANSWERS, RELEASES = 100_000, 120, 50, 12, 1000, 6
WORDS = {1: {"one"}, 2: {"two"}}  # that the lessons of the first two releases end in


def make_deployed() -> Deployed:
    """Return a deployment with 5 % held out and a canary of 20 %, the same in every process."""
    first_id, second_id = UUID(int=1), UUID(int=2)
    return Deployed(UUID(int=3), "releases", first_id, second_id, 200, 50, "session", "canary", "holdout", 1)


def hash_arms(units: int) -> str:
    """Return a hash of the arms of all units."""
    deployed = make_deployed()
    return hashlib.sha256(
        ",".join(assign(deployed, f"session:{number}").arm for number in range(units)).encode()
    ).hexdigest()


def measure_assignment(units: int = UNITS, *, processes: int = 2) -> dict[str, Any]:
    """Give units an arm, here and in other processes."""
    deployed = make_deployed()
    arms = [assign(deployed, f"session:{number}").arm for number in range(units)]
    # Another process: Python's own hash differs from one process to the next.
    program = f"from bench.releases import hash_arms; print(hash_arms({units}))"
    environment = os.environ | {"ERL_BENCH_HOME": str(HOME)}
    others = [
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
        for _ in range(processes)
    ]
    first, second = (
        [draw_bucket(salt, deployed.id, f"session:{number}") for number in range(units)] for salt in ("one", "two")
    )
    return {
        "units": units,
        "held out, designed 0.05": arms.count("holdout") / units,
        "candidate among the rest, designed 0.2": round(arms.count("candidate") / (units - arms.count("holdout")), 4),
        "other processes agree": [other.stdout.strip() for other in others] == [hash_arms(units)] * processes,
        "correlation of two salts": round(statistics.correlation(first, second), 4),
        "in the first tenth by both, designed 0.01": sum(
            before < 100 and other < 100 for before, other in zip(first, second, strict=True)
        )
        / units,
    }


def make_project(slug: str, *, lessons: int = LESSONS) -> Project:
    """Make a project whose lessons end in "one"."""
    corpus, project = Corpus(seed=1), Project.objects.create(slug=slug, name=slug)
    texts: list[dict[str, Any]] = [corpus.write_lesson() | {"guideline": f"Lesson {n} one"} for n in range(lessons)]
    made = [make_heuristic(project=project, status="approved", **text) for text in texts]
    embed_heuristics([lesson.pk for lesson in made])
    return project


def reword(project: Project, word: str, *, count: int = LESSONS) -> None:
    """Let some lessons end in another word."""
    lessons = random.sample(list(Heuristic.objects.filter(project=project).with_text()), count)
    for lesson in lessons:
        current = lesson.current_revision
        assert current is not None
        text = replace(current.as_text(), guideline=f"{current.guideline.rpartition(' ')[0]} {word}")
        revise_heuristic(lesson, text=text, by=BY, content_sha256=current.content_sha256)
        approve_as_read(lesson, by=BY)
    embed_heuristics([lesson.pk for lesson in lessons])


def make_flipping() -> Project:
    """Make a project with two releases, in which every lesson has other words; the second is stable."""
    project = make_project(f"flip-{random.getrandbits(32):x}")
    change_deployment(project, by=BY, change=DeploymentChange(mode="releases"))
    reword(project, "two")
    promote(project, by=BY, release=cut_release(project, by=BY))
    return project


class Web(Stack):
    """The web server with as many processes and threads as the quickstart gives it."""

    def start_web(self) -> None:
        listening = ["--bind", f"127.0.0.1:{self.port}", "--workers", str(WEB_PROCESSES), "--threads", str(WEB_THREADS)]
        options = ["--config=python:erl_site.web.gunicorn_config", "--no-control-socket"]
        self._start("web", "gunicorn", "erl_site.asgi", *options, *listening)
        self._wait("web", self._web_answers)


class Client:
    """One connection that stays open. A request that an overloaded server puts off is sent again, and counted."""

    def __init__(self, port: int, token: str) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.put_off = 0

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        while True:
            self._http.request("POST", f"/api/v1/{path}", json.dumps(body), self._headers)
            response = self._http.getresponse()
            answer = json.loads(response.read())
            # An overloaded server asks to be asked again, which is no failure of a flip.
            if response.status != 503 or answer["error"]["code"] != "overloaded":
                return response.status, answer
            self.put_off += 1
            time.sleep(0.1)


def measure_flip(seconds: float) -> dict[str, Any]:
    """Flip every second while 50 requests a second ask."""
    project = make_flipping()
    token = make_api_key(project=project).token
    corpus = Corpus(seed=1)
    tasks = [corpus.write_lesson()["trigger"] for _ in range(40)]
    stack = Web(home=HOME, environment={})
    stack.start_web()
    samples: list[tuple[float, int, Any, set[str], float]] = []
    flips: list[tuple[float, int]] = []
    local = threading.local()
    clients: list[Client] = []

    def ask(number: int) -> None:
        if not hasattr(local, "client"):
            local.client = Client(stack.port, token)
            clients.append(local.client)
        sent = time.monotonic()
        body = {"task": tasks[number % len(tasks)], "record": False, "session": str(number)}
        status, answer = local.client.post("retrieve", body)
        words = {item["guideline"].rpartition(" ")[2] for item in answer.get("items", [])}
        done = time.monotonic()
        samples.append((done, status, answer.get("release"), words, done - sent))

    try:
        flipper = Client(stack.port, token)
        with ThreadPoolExecutor(16) as pool:
            started, number = time.monotonic(), 0
            while time.monotonic() - started < seconds:
                pool.submit(ask, number)
                number += 1
                if number % RATE == 0:
                    wanted = 1 if (number // RATE) % 2 else 2
                    status, answer = flipper.post("deployment/promote", {"release": str(wanted)})
                    assert status == 200, answer
                    flips.append((time.monotonic(), wanted))
                # By the clock and not by pauses, so that slow answers do not lower the rate.
                time.sleep(max(0.0, started + number / RATE - time.monotonic()))
    finally:
        stack.kill_all()
    # Shortly before the next flip, so that an early answer of it is not counted as late.
    ends = [at - 0.2 for at, _ in flips[1:]] + [float("inf")]
    late = [
        max((done - at for done, _, given, *_ in samples if at <= done < end and given != release), default=0.0)
        for (at, release), end in zip(flips, ends, strict=True)
    ]
    return {
        "asked": number,
        "failed": sum(status != 200 for _, status, *_ in samples) + number - len(samples),
        "put off by the overloaded machine, and sent again": sum(client.put_off for client in clients),
        "flips": len(flips),
        "answers with lessons": sum(bool(words) for _, _, _, words, _ in samples),
        "answers with words of another release": sum(bool(words - WORDS[given]) for _, _, given, words, _ in samples),
        "seconds from a flip to the last old answer": round(max(late), 3),
        "p50 ms": round(statistics.median(taken for *_, taken in samples) * 1000, 1),
    }


def flip_forever(project_id: str) -> None:
    """Roll back and promote until this process is killed."""
    project = Project.objects.get(pk=project_id)
    first, second = project.releases.order_by("number")
    print("ready", flush=True)
    while True:
        deployment = Deployment.objects.get(project=project)
        promote(project, by=BY, release=second if deployment.stable_id == first.pk else first)


def measure_kills() -> dict[str, Any]:
    """Kill a process that flips all the time, and look at what it left."""
    project = make_flipping()
    program = f"from bench.releases import flip_forever; flip_forever('{project.pk}')"
    environment = os.environ | {"ERL_BENCH_HOME": str(HOME)}
    left, broken, flips = [], 0, 0
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            # Killed only once it is ready: starting takes longer than it lives.
            child.stdout.readline()
            time.sleep(random.uniform(0.2, 0.6))
            child.send_signal(signal.SIGKILL)
        deployment = Deployment.objects.get(project=project)
        events = DeploymentEvent.objects.filter(deployment=deployment).order_by("-version")
        answer = retrieve(Question(project=project, task="Lesson", by=BY, record=False, mode="random"))
        words = {item["guideline"].rpartition(" ")[2] for item in answer.items}
        assert deployment.stable is not None
        left.append(deployment.stable.number)
        broken += not (
            events.count() == deployment.version == events[0].version
            and events[0].state["stable_id"] == str(deployment.stable_id)
            and answer.release == deployment.stable.number
            and words == WORDS[deployment.stable.number]
        )
        flips = deployment.version
    return {"kills": KILLS, "flips": flips, "left on the first release": left.count(1), "in neither state": broken}


def measure_rebuild(
    answers: int = ANSWERS, *, releases: int = RELEASES, asked: int = 300, lessons: int = LESSONS
) -> dict[str, Any]:
    """Answer from several releases, to all arms, and write a random part of the blocks again."""
    project = make_project("rebuild", lessons=lessons)
    change_deployment(project, by=BY, change=DeploymentChange(mode="releases", holdout_share=50))
    corpus = Corpus(seed=1)
    tasks = [corpus.write_lesson()["trigger"] for _ in range(lessons)]
    for number in range(2, releases + 1):
        reword(project, str(number), count=lessons // 3)
        start_canary(project, release=cut_release(project, by=BY), share=300, by=BY)
        for order in range(asked):
            retrieve(Question(project=project, task=random.choice(tasks), session=f"{number}-{order}", by=BY))
        promote(project, by=BY)
    rows = list(Retrieval.objects.filter(project=project).select_related("release"))
    drawn = random.sample(rows, answers)
    outside = 0
    for row in drawn:
        assert row.release is not None
        members = {(lesson["heuristic"], lesson["content_sha256"]) for lesson in row.release.manifest["lessons"]}
        outside += any((item["heuristic"], item["content_sha256"]) not in members for item in row.items)
    return {
        "answers": len(drawn),
        "releases": len({row.release_id for row in drawn}),
        "with a block": sum(bool(row.injected_ids) for row in drawn),
        "arms": {arm: sum(row.arm == arm for row in drawn) for arm in ("stable", "candidate", "holdout")},
        "rebuilt byte for byte": sum(replay_block(row).exact for row in drawn),
        "with a lesson that its release lacks": outside,
    }


def measure_cost(pairs: int) -> dict[str, Any]:
    """Ask two projects of the same content in turns, one of them with all that a deployment has.

    Both get the same tasks, so the one asked second finds the task's vector already made. The two cases are compared
    apart: their times have little in common, and a median of both would lie in the gap between them.
    """
    plain, staged = make_project("plain"), make_project("staged")
    change_deployment(staged, by=BY, change=DeploymentChange(mode="releases", holdout_share=50))
    for project in (plain, staged):
        random.seed(1)
        reword(project, "two", count=10)
    start_canary(staged, release=cut_release(staged, by=BY), share=100, by=BY)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    stack = Web(home=HOME, environment={})
    stack.start_web()
    taken: list[Timed] = []
    try:
        clients = [Client(stack.port, make_api_key(project=one).token) for one in (plain, staged)]
        corpus = Corpus(seed=time.time_ns() % 2**32)
        for number in range(pairs + 100):
            body = {"task": corpus.write_lesson()["trigger"], "session": f"s{number}"}
            # Each of the two is first equally often.
            order = (0, 1) if number % 2 else (1, 0)
            for position in order:
                started = time.perf_counter()
                status, answer = clients[position].post("retrieve", body)
                seconds = time.perf_counter() - started
                assert status == 200, answer
                # Both have their lessons in memory by then.
                if number >= 100:
                    taken.append(Timed(seconds, staged=bool(position), new=position == order[0], arm=answer["arm"]))
    finally:
        stack.kill_all()
    return {
        "pairs": pairs,
        "new tasks": compare([one for one in taken if one.new]),
        "known tasks": compare([one for one in taken if not one.new]),
    }


@dataclass(frozen=True)
class Timed:
    seconds: float
    staged: bool
    new: bool
    arm: str


def compare(taken: list[Timed]) -> dict[str, str]:
    """Return the medians, and how much dearer a deployment is, with a 95 % interval by resampling.

    Answers of the hold-out are left out: they are empty, and so cheaper.
    """
    without = [timed.seconds for timed in taken if not timed.staged]
    with_deployment = [timed.seconds for timed in taken if timed.staged and timed.arm != "holdout"]
    draws = sorted(
        statistics.median(random.choices(with_deployment, k=len(with_deployment)))
        / statistics.median(random.choices(without, k=len(without)))
        - 1
        for _ in range(400)
    )
    middle, other = statistics.median(without), statistics.median(with_deployment)
    return {
        "p50 ms without": f"{middle * 1000:.2f}",
        "p50 ms with": f"{other * 1000:.2f}",
        "dearer": f"{other / middle - 1:+.1%} [{draws[10]:+.1%}, {draws[389]:+.1%}]",
    }


PARTS = ("assignment", "flip", "kill", "rebuild", "cost")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--pairs", type=int, default=1500)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    measures: dict[str, Any] = {
        "assignment": measure_assignment,
        "flip": lambda: measure_flip(options.seconds),
        "kill": measure_kills,
        "rebuild": measure_rebuild,
        "cost": lambda: measure_cost(options.pairs),
    }
    try:
        postgres.ensure(HOME / "postgres", durable=True, settings=("shared_memory_type=mmap",))
        valkey.ensure(HOME / "valkey")
        call_command("migrate", verbosity=0)
        become_administrator()
        for part in options.parts or PARTS:
            print(f"{part}: {json.dumps(measures[part](), indent=2)}", flush=True)
    finally:
        connections.close_all()
        postgres.discard(HOME / "postgres")
        valkey.discard(HOME / "valkey")
        shutil.rmtree(HOME, ignore_errors=True)


if __name__ == "__main__":
    main()
