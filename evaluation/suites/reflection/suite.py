"""Replay a strong model's recorded answers through today's reflection, or ask the configured model.

The prompts change from version to version, so an answer is found by its run and not by the text of the question.
"""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.arms import EVALUATION
from evaluation.errors import EvaluationError
from evaluation.ledger import CAP_REACHED, attach_ledger
from evaluation.suites.base import About, Options, Progress, Suite, UnitResult
from evaluation.suites.reflection.recording import (
    LATER,
    LIVE,
    RECORDED,
    UNTOLD,
    read_answers,
    read_briefing,
    read_openings,
    read_runs,
    read_verdicts,
)
from evaluation.suites.reflection.summary import INSTRUCTIONS, summarise_answers
from memory.heuristics.models import Heuristic
from memory.intake.files import as_trajectory
from memory.intake.recording import record_trajectory
from memory.projects.models import Project
from memory.retrieval.context import count_tokens
from memory.runs.episode import Episode
from reflection.jobs.execution import Outcome
from reflection.llm.base import ProviderNotConfigured
from reflection.llm.calls import Ask
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.registry import find_config, get_provider
from reflection.reflectors.base import NearHeuristic, ReflectionResult
from reflection.reflectors.llm import LlmReflector
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import run_reflection

NOTHING = '{"learn": false, "skip_reason": "No answer to this question was recorded."}'


@dataclass(kw_only=True)
class _Asked:
    """What was asked and answered about one run."""

    prompts: dict[str, ChatRequest] = field(default_factory=dict)
    lessons: int = 0


class ReflectionSuite(Suite):
    """One unit for each arm: the answers to 0.2.0's prompts, also without what the agents were told; those to 1.1's;
    and the configured model's own."""

    about = About(
        name="reflection",
        title="Reflection with a strong model: what is lost between its answer and the reviewer?",
        data=(
            "Questions about recorded runs, answered by a strong model: 26 of version 0.2.0 and 40 of version 1.1. 16 "
            "failed runs of tau-bench airline, with the other tries of their tasks, 8 of SWE-agent, 2 of a test agent; "
            "in version 1.1 also 11 of WebShop and 3 in German, Chinese and Spanish"
        ),
        licence="MIT (tau-bench, SWE-agent, WebShop runs of ReAct); the answers may be used freely",
        splits="None: every run is reflected on once, in the order of the recording.",
        seeds="None: the replay is the same each time.",
        proves=(
            "This shows what a prompt costs, and what parsing, checks and the search for duplicates do with the "
            "answers of a strong model. Recorded answers do not show whether a model answers today's prompts "
            "better; the arm live does. Readers judged which flags are right and which lessons say the same."
        ),
        reflector="llm, with recorded answers; in the arm live the configured model",
    )

    def units(self, options: Options) -> list[str]:
        arms = list(options.arms or (RECORDED, LATER))
        if unknown := [name for name in arms if name not in (RECORDED, LATER, UNTOLD, LIVE)]:
            raise EvaluationError(
                f"The suite reflection has no arm {unknown[0]}. Its arms are {RECORDED}, {LATER}, {UNTOLD} and {LIVE}."
            )
        if LIVE in arms:
            _check_model()
        return arms

    def asks_model(self, options: Options) -> bool:
        return LIVE in options.arms

    def foresee_seconds(self, options: Options) -> float | None:
        return None if LIVE in options.arms else 30.0

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        started = time.perf_counter()
        project = Project.objects.create(slug=f"reflection-{unit}", name=f"Reflection, {unit}")
        answers, logs = read_answers(unit), read_runs()
        # The other tries of a task first: they are what a run is compared with.
        for name in sorted(logs.keys() - read_answers(LATER).keys()):
            record_trajectory(project, data=_read_run(name, unit), by=EVALUATION, reflect=False)
        rows, reflections = [], {}
        names = list(answers)[: options.limit]
        for number, name in enumerate(names, 1):
            data = _read_run(name, unit)
            trajectory = record_trajectory(project, data=data, by=EVALUATION, reflect=True).trajectory
            reflections[name] = Reflection.objects.get(trajectory=trajectory)
            # The prompts of 0.2.0 lacked what the customer said first.
            before = 1 if name in read_openings() and unit != LATER else 0
            answer = _ask_configured(options) if unit == LIVE else _replay(answers[name], reflections, before)
            rows.append({"run": name} | _reflect(reflections[name], answer, read_verdicts()["rules"].get(name, ())))
            progress(f"{unit} answers", number, len(names))
        pairs = _find_pairs({name: reflection.pk for name, reflection in reflections.items()})
        return {"rows": rows, "pairs": pairs, "timing": {"seconds": round(time.perf_counter() - started, 1)}}

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        return self.about.as_json() | summarise_answers(units)


class _Watched:
    """A reflector whose lessons are counted."""

    reads_near, reads_family, reads_tries = True, False, True

    def __init__(self, reflector: LlmReflector, asked: _Asked) -> None:
        self.name, self.version, self.prompt_version = reflector.name, reflector.version, reflector.prompt_version
        self._reflector, self._asked = reflector, asked

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...]) -> ReflectionResult:
        result = self._reflector.reflect(episode, near=near)
        self._asked.lessons = len(result.lessons)
        return result


def _read_run(name: str, arm: str) -> dict[str, Any]:
    """Return a run as it is recorded: those of the airline with the policy and tools of their agents.

    They begin with what the customer said, which the logs lack.
    """
    log, opening = read_runs()[name], read_openings().get(name)
    if opening:
        log = log | {"steps": [{"observation": opening}, *log["steps"]]}
    briefing = read_briefing() if name.startswith("tau-airline-") and arm != UNTOLD else {}
    return as_trajectory(log, defaults=briefing)


def _reflect(reflection: Reflection, answer: Ask, rules: Sequence[str]) -> dict[str, Any]:
    """Reflect on one run; return what was asked, which of the rules that decide it showed, and what became of it."""
    asked = _Asked()

    def ask(step: str, request: ChatRequest) -> ChatAnswer:
        asked.prompts.setdefault(step, request)
        return answer(step, request)

    attempt = run_reflection(
        reflection.pk,
        owner="evaluation",
        make_reflector=lambda *, ask: _Watched(LlmReflector(ask=ask), asked),
        ask_model=ask,
    )
    reflection.refresh_from_db()
    if reflection.last_error_code == CAP_REACHED:
        raise EvaluationError("The limit on calls of the language model is reached. Raise --max-calls or --max-cost.")
    proposals = list(Proposal.objects.filter(reflection=reflection).order_by("ordinal"))
    repair = asked.prompts.get("reflect:repair")
    user = asked.prompts["reflect"].user if "reflect" in asked.prompts else ""
    told = user.partition(" WHAT THE AGENT WAS TOLD\n")[2].partition("\nEND ")[0]
    return {
        "tokens": _measure(asked.prompts["reflect"]) if "reflect" in asked.prompts else {},
        "repair_tokens": _size(repair) if repair else 0,
        "rules": sum(rule in told for rule in rules),
        "finished": attempt.outcome == Outcome.DONE,
        "error": reflection.last_error,
        "lessons": asked.lessons,
        "stored": len(proposals),
        "skipped": reflection.skip_reason if not proposals else "",
        "effects": [proposal.effect for proposal in proposals],
        "flags": [finding["code"] for proposal in proposals for finding in proposal.findings],
        "messages": [finding["message"] for proposal in proposals for finding in proposal.findings],
    }


def _replay(answers: dict[str, Any], reflections: dict[str, Reflection], before: int) -> Ask:
    """Return what answers about one run; `before` is how many steps the run has before those that the answers cite."""

    def ask(step: str, request: ChatRequest) -> ChatAnswer:
        kind = "repair" if step == "reflect:repair" else "reflect"
        text = answers[kind]["answer"] if kind in answers else NOTHING
        if before and kind in answers:
            cited = json.loads(text)["evidence_steps"]
            text = json.dumps(json.loads(text) | {"evidence_steps": [number + before for number in cited]})
        if covered := answers.get(kind, {}).get("covers"):
            text = json.dumps(json.loads(text) | {"covers_existing": _find_label(reflections[covered], request)})
        return ChatAnswer(
            text=text,
            finish_reason="stop",
            input_tokens=_size(request),
            output_tokens=count_tokens(text),
            model="recorded",
            latency_ms=0.0,
        )

    return ask


def _find_label(covered: Reflection, request: ChatRequest) -> str | None:
    """Return the label that a run's lesson has in this prompt, None if it is not shown: each prompt has its own."""
    trigger = Proposal.objects.values_list("heuristic__current_revision__trigger", flat=True).get(reflection=covered)
    beginning = json.dumps(trigger[:40], ensure_ascii=False)[1:-1]
    shown = re.search(rf'"(H\d+)(?: \(given\))?: {re.escape(beginning)}', request.user)
    return shown[1] if shown else None


def _ask_configured(options: Options) -> Ask:
    ledger = attach_ledger(
        get_provider("reflect"),
        journal=Path(options.journal) if options.journal else None,
        max_calls=options.max_calls,
        max_cost_usd=options.max_cost_usd,
    )
    return lambda step, request: ledger(request)


def _check_model() -> None:
    try:
        config = find_config("reflect")
    except ProviderNotConfigured as error:
        raise EvaluationError(str(error)) from error
    if config is None:
        raise EvaluationError(
            "The arm live needs a language model, and none is configured. Set ERL_LLM_PROVIDER "
            "(docs/language-models.md), and start with --limit 3."
        )


def _size(request: ChatRequest) -> int:
    return sum(count_tokens(message.content) for message in request.messages)


def _measure(request: ChatRequest) -> dict[str, int]:
    """Return the tokens of each block of data in a prompt, and of the instructions around them."""
    blocks: dict[str, int] = {}
    lines: list[str] = []
    for line in request.user.split("\n"):
        if line.startswith("BEGIN ") and not lines:
            lines = [line]
        elif lines:
            lines.append(line)
            # The same mark and name as in the first line
            if line.startswith("END ") and line.removeprefix("END ") == lines[0].removeprefix("BEGIN "):
                blocks[line.split(" ", 2)[2]] = count_tokens("\n".join(lines))
                lines = []
    return {INSTRUCTIONS: max(_size(request) - sum(blocks.values()), 0)} | blocks


def _find_pairs(reflections: dict[str, Any]) -> list[dict[str, Any]]:
    """Return which runs' lessons became one row, or are shown side by side."""
    rows = Proposal.objects.filter(reflection__in=reflections.values()).order_by("pk")
    names = {pk: name for name, pk in reflections.items()}
    firsts: dict[Any, str] = {}
    pairs = []
    for proposal in rows.select_related("heuristic"):
        run, heuristic = names[proposal.reflection_id], proposal.heuristic
        row = heuristic.leader_id or heuristic.pk
        if row in firsts:
            pairs.append({"runs": [firsts[row], run], "joined": True})
        elif proposal.near_id is not None:
            near = Heuristic.objects.filter(pk=proposal.near_id).values_list("leader_id", flat=True).first()
            other = firsts.get(near or proposal.near_id)
            pairs += [{"runs": [other, run], "joined": False}] if other else []
        firsts.setdefault(row, run)
    return pairs
