"""Rows that carry attack texts in every field that a client, a model or a person can fill."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from evaluation.experiments.models import Experiment, Look
from evaluation.models import EvaluationRun
from memory.effects.models import HeuristicFeedback
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.projects.models import Project
from memory.releases.models import Deployment, DeploymentEvent, Release
from memory.retrieval.models import Retrieval
from memory.review.models import Review
from memory.runs.models import Trajectory
from memory.runs.steps import make_step
from reflection.llm.models import DailySpend, ModelCall
from reflection.reflectors.models import Proposal, Reflection
from tests.evaluation.evolution_rows import store_evolution
from tests.factories import make_api_key
from tests.runtime.rows import store_agent

PAYLOADS = (Path(__file__).parent / "xss_payloads.txt").read_text(encoding="utf-8").splitlines()
_PACK = 30
_INDEXED = 400  # characters; the API takes no more for these fields, and an index holds no more


@dataclass(frozen=True, kw_only=True)
class HostileRows:
    """What the pages are opened for: the rows whose pages show most."""

    project: Project
    waiting: Heuristic
    served: Heuristic
    trajectory: Trajectory


def store_payloads() -> HostileRows:
    """Store each payload alone in some row of each kind, and all of them packed in the rows that are opened."""
    packs = ["\n".join(PAYLOADS[start : start + _PACK]) for start in range(0, len(PAYLOADS), _PACK)]
    whole = "\n".join(PAYLOADS)
    project = Project.objects.create(slug="hostile", name=PAYLOADS[8])
    Project.objects.bulk_create(Project(slug=f"hostile-{n}", name=text) for n, text in enumerate(packs))
    for text in PAYLOADS[:3]:
        make_api_key(project=project, client=text)
    get_user_model().objects.create_user(
        PAYLOADS[9][:150], first_name=PAYLOADS[4], last_name=PAYLOADS[0], email="x@x.x"
    )
    Group.objects.create(name=PAYLOADS[13])
    trajectories = Trajectory.objects.bulk_create(
        Trajectory(project=project, **_run_texts(text, external_id=f"{n} {text}")) for n, text in enumerate(PAYLOADS)
    )
    trajectory = Trajectory.objects.create(
        project=project, **_run_texts(whole) | {"steps": [_step(n, text) for n, text in enumerate(PAYLOADS, 1)]}
    )
    lessons = [_lesson(project, text, _words(text)) for text in packs] + _many_lessons(project)
    waiting = _lesson(project, whole, _all_words(packs))
    served = _lesson(project, whole, _all_words(packs[::-1]), status="approved")
    everything = [waiting, served, *lessons]
    for heuristic in (waiting, served):
        Evidence.objects.create(
            project=project, heuristic=heuristic, trajectory=trajectory, first_step=1, last_step=60, quote=whole
        )
        HeuristicRevision.objects.create(
            heuristic=heuristic, project=project, number=2, **_all_words(packs[1:] + packs[:1])
        )
    revisions = {revision.heuristic_id: revision for revision in HeuristicRevision.objects.filter(number=1)}
    Review.objects.bulk_create(
        Review(
            project=project,
            kind=heuristic.kind,
            heuristic=heuristic,
            revision=revisions[heuristic.pk],
            decision=("approve", "reject", "retire")[n % 3],
            content_sha256=revisions[heuristic.pk].content_sha256,
            reason=PAYLOADS[n % 300],
            reviewer=f"user:{PAYLOADS[n % 300]}",
            request_id=PAYLOADS[n % 300],
        )
        for n, heuristic in enumerate(everything)
    )
    retrieval = _retrieval(project, whole, [waiting.pk, served.pk])
    Retrieval.objects.bulk_create(
        Retrieval(project=project, mode="hybrid", top_k=1, budget_tokens=1, **_asked(text)) for text in PAYLOADS
    )
    Trajectory.objects.filter(pk=trajectory.pk).update(retrieval=retrieval)
    for heuristic in (waiting, served):
        HeuristicFeedback.objects.create(
            project=project,
            heuristic=heuristic,
            trajectory=trajectory,
            verdict="followed",
            client=whole[:_INDEXED],
            comment=whole,
        )
    _reflections(project, [trajectory, *trajectories[:20]], waiting)
    _evaluation(whole)
    store_evolution(text=whole)
    store_agent(project, whole)
    _experiment(project, packs)
    return HostileRows(project=project, waiting=waiting, served=served, trajectory=trajectory)


def _run_texts(text: str, **more: Any) -> dict[str, Any]:
    texts = dict.fromkeys(("task", "model", "summary", "client", "request_id"), text)
    texts |= dict.fromkeys(("task_id", "agent"), text[:_INDEXED])
    lists = {"tags": [text[:_INDEXED]], "mistakes": [text], "successes": [text]}
    card = {"mistake": text, "bad_decision": text, "correct_decision": text}
    steps = [_step(1, text)]
    return texts | lists | {"mistake_cards": [card], "metadata": {text: text}, "steps": steps} | more


def _step(index: int, text: str) -> dict[str, Any]:
    action = {"name": text, "arguments": {text: text, "list": [text]}}
    return make_step(index=index, thought=text, action=action, observation=text, error=text if index % 2 else "")


def _words(text: str) -> dict[str, Any]:
    texts = ("trigger", "guideline", "avoid", "not_when", "rationale", "source_task", "created_by")
    return dict.fromkeys(texts, text) | {"tags": [text], "task_id": text[:_INDEXED], "scope": "project"}


def _all_words(packs: list[str]) -> dict[str, Any]:
    """Spread the payloads over the words of one lesson, no longer than the API takes them."""
    long = {"guideline": packs[1:4], "avoid": packs[4:7], "not_when": packs[7:10], "rationale": packs[:4]}
    return _words(packs[0]) | {name: "\n".join(some) for name, some in long.items()}


@transaction.atomic
def _lesson(project: Project, text: str, words: dict[str, Any], *, status: str = "proposed") -> Heuristic:
    told = dict.fromkeys(("reflector", "reflector_version", "model", "prompt_version", "client"), text[:4_000])
    heuristic = Heuristic.objects.create(project=project, status=status, support=3, **told)
    revision = HeuristicRevision.objects.create(heuristic=heuristic, project=project, number=1, **words)
    if status == "approved":
        revision.refresh_from_db()
        HeuristicRevision.objects.filter(pk=revision.pk).update(
            approved_sha256=revision.content_sha256, approved_by=text, approved_at=timezone.now(), served=True
        )
    Heuristic.objects.filter(pk=heuristic.pk).update(current_revision=revision)
    return heuristic


def _many_lessons(project: Project) -> list[Heuristic]:
    heuristics = Heuristic.objects.bulk_create(
        Heuristic(project=project, reflector=text, client=text, model=text) for text in PAYLOADS
    )
    revisions = HeuristicRevision.objects.bulk_create(
        HeuristicRevision(heuristic=heuristic, project=project, number=1, **_words(text))
        for heuristic, text in zip(heuristics, PAYLOADS, strict=True)
    )
    for heuristic, revision in zip(heuristics, revisions, strict=True):
        heuristic.current_revision = revision
    Heuristic.objects.bulk_update(heuristics, ["current_revision"])
    return heuristics


def _asked(text: str) -> dict[str, Any]:
    return dict.fromkeys(("task", "task_id", "agent", "requested_mode", "degraded", "client", "request_id"), text)


def _retrieval(project: Project, text: str, ids: list[Any]) -> Retrieval:
    told = {"revision": 1, "content_sha256": "0" * 64, "reason": text, "scores": {text: 0.5}, "injected": True}
    items = [{"heuristic": str(id), **told} for id in ids]
    given = {"heuristic_ids": ids, "injected_ids": ids, "items": items}
    return Retrieval.objects.create(project=project, mode="hybrid", top_k=1, budget_tokens=1, **given, **_asked(text))


def _reflections(project: Project, trajectories: list[Trajectory], heuristic: Heuristic) -> None:
    for n, trajectory in enumerate(trajectories):
        text = PAYLOADS[n * 7 % 300]
        reflection = Reflection.objects.create(
            project=project,
            trajectory=trajectory,
            status="dead",
            finished_at=timezone.now(),
            attempts=1,
            last_error=text,
            last_error_code=text,
        )
        ModelCall.objects.create(
            project=project,
            job=reflection,
            prompt_sha256="0" * 64,
            **dict.fromkeys(("step", "provider", "model", "response"), text),
        )
        if n == 0:
            Proposal.objects.create(
                ordinal=1,
                effect="new",
                project=project,
                reflection=reflection,
                heuristic=heuristic,
                findings=[{"code": each, "message": each} for each in PAYLOADS],
            )
    DailySpend.objects.create(project=project, day=timezone.now().date())


def _evaluation(text: str) -> None:
    EvaluationRun.objects.create(
        suites=[text], configuration={text: text}, versions={text: text}, requested_by=text, failure=text,
        status="failed", finished_at=timezone.now(),
    )  # fmt: skip


def _experiment(project: Project, packs: list[str]) -> None:
    """Store releases with hostile notes, a deployment with a hostile history, and an experiment that ended badly."""
    whole = "\n".join(packs)
    lessons = [
        {"heuristic": str(heuristic), "revision": str(revision), "content_sha256": "0" * 64}
        for heuristic, revision in HeuristicRevision.objects.filter(project=project).values_list("heuristic", "pk")
    ]
    prompts = {"lessons": whole, "record": whole, "record_titles": {}}
    manifest = {"lessons": lessons, "retrieval": {"mode": whole}, "quotas": {whole: [0.5, 0.5]}, "prompts": prompts}
    first, second = (
        Release.objects.create(
            project=project, number=number, sha256=f"{number:064x}", manifest=each, note=whole, created_by=whole
        )
        for number, each in ((1, manifest), (2, manifest | {"lessons": [], "retrieval": {}}))
    )
    deployment = Deployment.objects.create(project=project, mode="releases", stable=first, candidate=second)
    state = {"stable_id": str(first.pk), "candidate_id": str(second.pk), "canary_share": 10, "holdout_share": 0}
    DeploymentEvent.objects.bulk_create(
        DeploymentEvent(
            project=project,
            deployment=deployment,
            version=version,
            kind="rolled_back",
            state=state,
            reason=text,
            made_by=f"policy:{text}",
        )
        for version, text in enumerate(packs, 1)
    )
    experiment = Experiment.objects.create(
        project=project,
        number=1,
        deployment=deployment,
        treated_release=second,
        control_release=first,
        first_version=1,
        max_units=100,
        status="ended",
        ended_at=timezone.now(),
        **dict.fromkeys(("reason", "started_by", "ended_by"), whole),
    )
    figures = {"control_units": 1, "treated_units": 1, "e_value": 1.0, "ratio_e_value": 2000.0, "missing_e_value": 1.0}
    Look.objects.create(
        project=project, experiment=experiment, number=1, share=10, verdict="invalid", reason=whole, **figures
    )
