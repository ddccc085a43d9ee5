"""A scratch project that is filled and asked through the HTTP API alone, as a client and a reviewer would.

`ApiMemory.load` brings lessons with the past requests that each of them served: `POST /trajectories` for every request,
`POST /heuristics/batch` for the lessons, which cite those runs as evidence, and `POST /heuristics/{id}/approve` with a
key that may review. An answer with an unexpected status, or one that lacked something (`degraded`), ends the benchmark:
figures that count it would be wrong.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.test import Client
from tqdm import tqdm

from memory.housekeeping import count_new_terms
from memory.limits import MAX_EVIDENCE, MAX_PROPOSALS_AT_ONCE
from memory.projects.api_keys import create_api_key
from memory.projects.models import ApiKey, Project

Scope = ApiKey.Scope


@dataclass(frozen=True, kw_only=True, slots=True)
class Lesson:
    """A lesson to propose under an id of its own, and the past requests that it served."""

    id: str
    trigger: str
    guideline: str
    requests: Sequence[str] = ()


class ApiMemory:
    """A project, its agent, which records, proposes and asks, and its reviewer."""

    def __init__(self, name: str) -> None:
        self.project = project = Project.objects.create(slug=f"bench-{Project.objects.count()}", name=name)
        agent = [Scope.RETRIEVE, Scope.TRAJECTORIES_WRITE, Scope.HEURISTICS_READ, Scope.HEURISTICS_WRITE]
        self.agent_key = create_api_key(project, client="agent", scopes=agent).token
        reviewer = [Scope.HEURISTICS_READ, Scope.REVIEW]
        self._agent = connect(self.agent_key)
        self._reviewer = connect(create_api_key(project, client="reviewer", scopes=reviewer).token)

    def load(self, lessons: Iterable[Lesson]) -> dict[str, str]:
        """Record the past requests, propose the lessons, approve them; return the lessons' own ids by heuristic id."""
        ids = {}
        waiting = list(lessons)
        for first in tqdm(range(0, len(waiting), MAX_PROPOSALS_AT_ONCE), desc="lessons", leave=False):
            some = waiting[first : first + MAX_PROPOSALS_AT_ONCE]
            proposed = self._propose([self._describe(lesson) for lesson in some])
            for lesson, result in zip(some, proposed, strict=True):
                self._approve(result["heuristic_id"], result["content_sha256"])
                ids[result["heuristic_id"]] = lesson.id
        # In a running system the periodic work does this.
        count_new_terms()
        return ids

    def ask(self, task: str, *, may_be_degraded: bool = False, **options: Any) -> dict[str, Any]:
        """Return what an agent is given for a task, also in a language that the embedding model does not know."""
        question = {"task": task, "record": False, "considered": True, **options}
        answer = post(self._agent, "/retrieve", question)
        # A late part would lower the figures for a reason that has nothing to do with ranking.
        lacked = answer["degraded"] and not answer["degraded_reason"].startswith("meaning (the model does not know ")
        if lacked and not may_be_degraded:
            raise SystemExit(f"An answer lacked something ({answer['degraded_reason']}); no figures are given.")
        return answer

    @staticmethod
    def rank(answer: Mapping[str, Any]) -> list[str]:
        """Return the ids of what an answer lists, best first: what was injected and what was not."""
        listed = [*answer["items"], *answer["considered"]]
        return [item["id"] for item in sorted(listed, key=lambda item: -item["scores"].get("score", 0.0))]

    def _describe(self, lesson: Lesson) -> dict[str, Any]:
        # To leave some out would change the set.
        if len(lesson.requests) > MAX_EVIDENCE:
            raise SystemExit(f"{lesson.id} served more requests than one lesson takes at once.")
        return {
            "external_id": lesson.id,
            "trigger": lesson.trigger,
            "guideline": lesson.guideline,
            "scope": "project",
            "evidence": [{"trajectory_id": run} for run in self._record(lesson)],
        }

    def _record(self, lesson: Lesson) -> Iterator[str]:
        for number, request in enumerate(lesson.requests):
            run = {"task": request, "external_id": f"{lesson.id}/{number}", "outcome": "success", "reflect": False}
            yield post(self._agent, "/trajectories", run)["id"]

    def _propose(self, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = post(self._agent, "/heuristics/batch", {"heuristics": bodies})["results"]
        if refused := [result["error"] for result in results if result["error"]]:
            raise SystemExit(f"Lessons were refused: {refused}")
        return results

    def _approve(self, id: str, content_sha256: str) -> None:
        body = {"content_sha256": content_sha256, "reason": "Loaded by the benchmark."}
        post(self._reviewer, f"/heuristics/{id}/approve", body)


def connect(key: str) -> Client:
    """Return a client of the API that sends a key."""
    return Client(headers={"Authorization": f"Bearer {key}"})


def post(client: Client, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    response = client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
    if response.status_code not in (200, 201):
        raise SystemExit(f"POST {path} answered {response.status_code}: {response.content[:300]!r}")
    answer: dict[str, Any] = response.json()
    return answer
