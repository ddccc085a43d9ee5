"""A project with rows of nearly every kind, made as the product makes them."""

from dataclasses import replace
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.plan import ExperimentPlan, Guardrail
from memory.blocks.decisions import decide_block_revision
from memory.blocks.edits import Edit, NewBlock, append_to_block, create_block, set_block
from memory.blocks.models import Block
from memory.curation.decisions import reject_heuristic, retire_heuristic
from memory.curation.proposals import revise_heuristic
from memory.discussion.models import Comment
from memory.effects.feedback import Feedback, record_feedback
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.passages.storage import NewPassage, insert_passage
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import DeploymentChange, change_deployment, cut_release, start_canary
from memory.trust.erasure import erase_trajectory
from memory.trust.quarantine import QuarantinedSource, quarantine_source
from runtime.models.runs import Run
from tests.conftest import empty_tables
from tests.factories import (
    approve_as_read,
    make_heuristic,
    make_project,
    make_reflection,
    make_retrieval,
    make_trajectory,
    read,
)
from tests.memory.mistakes import CARD, OTHER, record
from tests.runtime.running import Script, go_on, make_agent, make_run

ANA = Actor(label="user:ana")
BAD = Actor(label="key:bad")
SENTENCES = ("Check the fare.", "Ask for the booking code.", "Read the policy.", "Offer a voucher.", "Call the desk.")


def make_small_project(slug: str = "small") -> Project:
    """Make a project with a run and a lesson from it that ana approved."""
    project = make_project(slug=slug, name="Small")
    run = make_trajectory(project=project)
    lesson = make_heuristic(project=project, trajectory=run, trigger="A fare is asked for", created_by="key:agent")
    approve_as_read(lesson, by=ANA)
    return project


def make_whole_project() -> Project:
    """Make a project that serves releases, with runs, lessons in every state, memory, an agent, orders and erasures."""
    project = make_project(slug="whole", name="Whole", daily_call_budget=100, record_sizes={"mean_score": 0})
    lessons = [_make_lesson(project, sentence) for sentence in SENTENCES]
    change_deployment(project, by=ANA, change=DeploymentChange(mode="releases", holdout_share=100))
    lessons.append(_make_lesson(project, "Look up the seat map."))
    release = cut_release(project, by=ANA)
    start_canary(project, release=release, share=500, by=ANA)
    plan = ExperimentPlan(guardrails=(Guardrail(metric="success"),), max_units=5000)
    start_experiment(project, plan=plan, by=ANA, release=release)
    _decide(project, lessons)
    _answer(project, lessons)
    _remember(project)
    _talk(project)
    _erase(project)
    _quarantine(project)
    return project


def empty_database() -> None:
    """Make this the database of another installation."""
    empty_tables()


def find_wordings(project: Project) -> list[tuple[str, bool, bool, str]]:
    """Return what each wording says, whether it is served and live, and who approved it."""
    rows = HeuristicRevision.objects.filter(project=project).order_by("id")
    return list(rows.values_list("guideline", "served", "live", "approved_by"))


def _make_lesson(project: Project, guideline: str, *, client: str = "agent") -> Heuristic:
    run = make_trajectory(project=project, client=client)
    trigger = f"A customer needs this: {guideline}"
    lesson = make_heuristic(
        project=project, trajectory=run, trigger=trigger, guideline=guideline, created_by=f"key:{client}", client=client
    )
    return approve_as_read(lesson, by=ANA, reason="It is so.")


def _decide(project: Project, lessons: list[Heuristic]) -> None:
    """Leave lessons in every state, and cards of mistakes."""
    retire_heuristic(lessons[0], by=ANA, reason="No longer.")
    waiting = make_heuristic(project=project, trigger="Nobody has looked")
    Comment.objects.create(project=project, kind="lesson", object_id=waiting.pk, text="Why?", written_by=ANA.label)
    refused = make_heuristic(project=project, trigger="It is not so")
    reject_heuristic(refused, by=ANA, content_sha256=read(refused), reason="It is not so.")
    text = lessons[1].current_revision.as_text()  # type: ignore[union-attr]
    revise_heuristic(lessons[1], text=replace(text, guideline="Check the fare twice."), by=ANA)
    record(project, CARD, OTHER)


def _answer(project: Project, lessons: list[Heuristic]) -> None:
    answer = make_retrieval(project=project, heuristic_ids=[lessons[2].pk])
    run = make_trajectory(project=project, retrieval=answer, outcome="success", score=1.0, external_id="run-1")
    record_feedback(lessons[2], Feedback(verdict="followed"), client="agent", trajectory=run, retrieval=answer)
    make_reflection(trajectory=run, status="done", reflector="rules")
    make_reflection(trajectory=make_trajectory(project=project), status="queued")


def _remember(project: Project) -> None:
    """Write blocks of each policy, with edits that were approved and rejected, and a passage."""
    block = create_block(project, NewBlock(label="human", value="Likes aisles.", policy="propose"), by=ANA)
    for value, decision in (("Likes windows.", "approve"), ("Likes nothing.", "reject")):
        edit = set_block(block, value=value, edit=Edit(by=Actor(label="key:agent")))
        number = Block.objects.get(pk=block.pk).current.number  # type: ignore[union-attr]
        decide_block_revision(
            edit, decision=decision, content_sha256=edit.content_sha256, by=ANA, expected_revision=number
        )
    set_block(block, value="Likes to wait.", edit=Edit(by=Actor(label="key:agent")))
    insert_passage(project, NewPassage(text="The lounge opens at six.", tags=["lounge"]), by=ANA)


def _talk(project: Project) -> None:
    """Let an agent answer, use a tool, and leave a run that waits for a worker."""
    agent = make_agent(project=project, system="You help.")
    go_on(make_run(agent), Script("Hello."))
    run = make_run(agent, input="Is it open?")
    go_on(run, Script([("no_such_tool", {"a": 1})], "It is."))
    make_run(agent, input="And tomorrow?")
    assert Run.objects.filter(project=project, status="queued").count() == 1


def _erase(project: Project) -> None:
    """Erase a run that had written into a block."""
    run = make_trajectory(project=project)
    block = create_block(project, NewBlock(label="notes", value="First."), by=ANA)
    append_to_block(block, text="Said by the run.", edit=Edit(by=Actor(label="key:agent"), run_id=run.pk))
    erase_trajectory(run, by=ANA)


def _quarantine(project: Project) -> None:
    """Place an order on a client whose words were in use."""
    _make_lesson(project, "Promise a refund.", client="bad")
    insert_passage(project, NewPassage(text="Refunds are for all."), by=BAD)
    block = create_block(project, NewBlock(label="persona"), by=ANA)
    append_to_block(block, text="Refund everything.", edit=Edit(by=BAD))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    source = QuarantinedSource(client="bad", since=timezone.now() - timedelta(days=1))
    quarantine_source(project, client=source.client, since=source.since, by=ANA, reason="It lies.")
