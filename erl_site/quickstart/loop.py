"""Run the loop once on sample runs: record, reflect, approve a few lessons, retrieve them for a new task."""

import hashlib
import json
import shlex
import time
from dataclasses import dataclass
from typing import Any

import httpx
from django.conf import settings

from erl_site.embedded.patience import Patience
from erl_site.quickstart.access import Access
from erl_site.quickstart.agent_demo import run_agent_demo
from erl_site.quickstart.terminal import Terminal
from memory.curation.decisions import approve_heuristic
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from reflection.reflectors.models import Reflection

SAMPLE = settings.BASE_DIR / "memory" / "sample_data" / "trajectories.jsonl"
POLICY = Actor.policy("quickstart-demo")
POLICY_REASON = "Approved automatically, so that the demo has a lesson to retrieve. Review it like any other."
APPROVALS = 3
NEW_TASK = {
    "task": "A customer wants to fly home a day later but does not remember the reservation number.",
    "task_id": "tau-airline",
}


class LoopError(Exception):
    """The loop could not finish; the message says where to look."""


@dataclass(frozen=True, kw_only=True)
class ApiAnswer:
    """The answer of POST /retrieve, a command that repeats the request, and where the sample's agent waits."""

    body: dict[str, Any]
    curl: str
    agent_page: str | None


class Loop:
    """Runs the loop once against the running stack; `worker` tells whether the worker still does something."""

    def __init__(self, *, access: Access, terminal: Terminal, worker: Patience) -> None:
        self.access = access
        self.terminal = terminal
        self.worker = worker
        self.project = Project.objects.get(slug=access.project)
        self.client = httpx.Client(
            base_url=access.base_url,
            headers={"Authorization": f"Bearer {access.api_key}"},
            timeout=300,  # a busy machine may take a while, and each request is sent once
            trust_env=False,  # no proxy for a local port
        )

    def run(self) -> ApiAnswer:
        """Run the loop. A second run records, proposes and approves nothing new."""
        with self.client:
            external_ids = self._record()
            self._wait_for_reflections(external_ids)
            self._approve_a_few()
            return self._retrieve()

    def _record(self) -> list[str]:
        lines = SAMPLE.read_text().splitlines()
        external_ids, new = [], 0
        with self.terminal.working("Runs") as words:
            for done, line in enumerate(lines):
                self.terminal.progress("Runs", done, len(lines))
                external_id = json.loads(line)["external_id"]
                # A run that is sent again is the same request, unless the sample has changed.
                key = f"quickstart-{external_id}-{hashlib.sha256(line.encode()).hexdigest()[:12]}"
                answer = self._post("trajectories", line, headers={"Idempotency-Key": key}, accept=(409,))
                new += answer.status_code == 201 and "Idempotent-Replayed" not in answer.headers
                external_ids.append(external_id)
            duplicates = len(lines) - new
            words.extend([f"{new} sample runs recorded"] if new else [])
            words.extend([f"{duplicates} already recorded"] if duplicates else [])
        return external_ids

    def _wait_for_reflections(self, external_ids: list[str]) -> None:
        mine = Reflection.objects.for_project(self.project).filter(trajectory__external_id__in=external_ids)
        total = mine.count()
        with self.terminal.working("Reflections") as words:
            while left := mine.live().count():
                if self.worker.is_over():
                    raise LoopError(
                        f"{left} of {total} reflections are left, and the worker has done nothing for "
                        f"{self.worker.seconds:.0f} s: {self.worker.describe()}. Look at "
                        f"{self.access.admin_url}reflection/reflection/ and {settings.ERL_HOME / 'logs'}."
                    )
                if self.worker.is_word_due():
                    self.terminal.event("worker", f"has {left} of {total} reflections left: {self.worker.describe()}.")
                self.terminal.progress("Reflections", total - left, total)
                time.sleep(0.1)
            dead = mine.filter(status=Reflection.Status.DEAD).count()
            names = sorted({reflection.reflector for reflection in mine} - {""})
            words.append(f"{total - dead} done by the {' and '.join(names) or 'configured'} reflector")
            words.extend([f"({dead} failed)"] if dead else [])
        if total and dead == total:
            raise LoopError(
                f"All reflections failed. Their errors are at {self.access.admin_url}reflection/reflection/."
            )

    def _approve_a_few(self) -> None:
        with self.terminal.working("Review") as words:
            earlier = Review.objects.filter(project=self.project, reviewer=POLICY.label).count()
            proposals = Heuristic.objects.for_project(self.project).proposed().leading()
            count = proposals.count()
            if earlier:
                words.append(f"{count} proposals waiting for your review")
                return
            of_the_family = proposals.filter(evidence__trajectory__task_id=NEW_TASK["task_id"]).distinct().with_text()
            first: dict[str, tuple[Heuristic, HeuristicRevision]] = {}  # one per condition
            for heuristic in of_the_family.order_by("-support", "-confidence", "created_at", "id"):
                assert heuristic.current_revision is not None
                first.setdefault(heuristic.current_revision.trigger, (heuristic, heuristic.current_revision))
            chosen = list(first.values())[:APPROVALS]
            for heuristic, revision in chosen:
                approve_heuristic(heuristic, by=POLICY, content_sha256=revision.content_sha256, reason=POLICY_REASON)
            words.append(f"{count} lessons proposed")
        if chosen:
            self.terminal.say(
                f"For the demo, the policy quickstart-demo approved {len(chosen)} of {count} proposals. "
                f"Left for your review: {count - len(chosen)}.",
                indent=4,
            )

    def _retrieve(self) -> ApiAnswer:
        body = json.dumps(NEW_TASK)
        with self.terminal.working("Retrieval") as words:
            answer: dict[str, Any] = self._post("retrieve", body).json()
            words.append(f"{len(answer['items'])} lessons for a new task")
        if not answer["items"] or not answer["context"].strip():
            raise LoopError(
                "Retrieval found no approved lesson for the new task. Approve a proposal in the review queue, then run "
                "the quickstart again."
            )
        page = run_agent_demo(self.project, **NEW_TASK, terminal=self.terminal)
        return ApiAnswer(body=answer, curl=self._curl("retrieve", body), agent_page=page)

    def _post(
        self, path: str, body: str, *, headers: dict[str, str] | None = None, accept: tuple[int, ...] = ()
    ) -> httpx.Response:
        answer = self.client.post(
            path, content=body.encode(), headers={"Content-Type": "application/json"} | (headers or {})
        )
        if not answer.is_success and answer.status_code not in accept:
            raise LoopError(f"POST /{path} answered {answer.status_code}: {answer.text[:500]}")
        return answer

    def _curl(self, path: str, body: str) -> str:
        return " \\\n     ".join(
            [
                f"curl -s {self.access.base_url}/{path}",
                f"-H 'Authorization: Bearer {self.access.api_key}'",
                "-H 'Content-Type: application/json'",
                f"-d {shlex.quote(body)}",
            ]
        )
