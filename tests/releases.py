"""Lessons in a project that serves releases, for tests."""

from typing import Any

from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import DeploymentChange, change_deployment
from memory.releases.models import Deployment
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.question import Question
from tests.factories import make_heuristic

BY = Actor.policy("test")
TASK = "Cancel the basic economy flight of a customer"


def make_lesson(project: Project, guideline: str, **text: Any) -> Heuristic:
    """Make an approved lesson that fits TASK."""
    words = {"trigger": "A customer asks to cancel a basic economy flight", "guideline": guideline} | text
    heuristic = make_heuristic(project=project, status="approved", **words)
    embed_heuristics([heuristic.pk])
    return heuristic


def serve_releases(project: Project, **settings: Any) -> Deployment:
    """Let a project serve releases from now on: what is approved is the stable one."""
    change = DeploymentChange(mode=Deployment.Mode.RELEASES, **settings)
    return change_deployment(project, by=BY, change=change)


def ask(project: Project, **options: Any) -> RetrievalAnswer:
    """Ask for the lessons for TASK."""
    asked: dict[str, Any] = {"project": project, "task": TASK, "by": BY, "record": False}
    return retrieve(Question(**asked | options))


def get_guidelines(project: Project, **options: Any) -> list[str]:
    """Return what the lessons say that TASK is given."""
    return sorted(item["guideline"] for item in ask(project, **options).items)
