"""The suite's own reflector: a deterministic rule that reads which tools a run shows as accepted and rejected."""

from evaluation.suites.toolchoice.agent import ACCEPTED, AVOID, BETWEEN, NONE, TRIGGER, USE
from memory.heuristics.text import Citation, HeuristicText
from memory.runs.episode import Episode
from reflection.reflectors.base import NearHeuristic, ProposedLesson, ReflectionResult

MAX_REQUEST_CHARACTERS = 250


class ToolChoiceReflector:
    """Proposes one lesson per run: what was accepted, and what was rejected before it."""

    name = "toolchoice"
    version = "1"
    reads_near = False
    reads_family = False
    reads_tries = False

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...] = ()) -> ReflectionResult:
        accepted, rejected = "", []
        for step in episode.steps:
            if step.action is None:
                continue
            tool = str(step.action.arguments.get("tool", ""))
            if step.observation == ACCEPTED:
                accepted = tool
            else:
                rejected.append(tool)
        if not accepted and not rejected:
            return ReflectionResult(skip_reason="The run tried no tool.")
        text = write_lesson(episode.task, use=accepted, avoid=rejected, task_id=episode.task_id)
        last = len(episode.steps)
        return ReflectionResult(
            lessons=(ProposedLesson(text=text, citations=(Citation(first_step=1, last_step=last),)),)
        )


def write_lesson(request: str, *, use: str, avoid: list[str], task_id: str = "") -> HeuristicText:
    """Write a lesson in the form that the agent can parse from its prompt."""
    polarity = "works" if use and not avoid else "mixed" if use else "avoid"
    return HeuristicText(
        trigger=f"{TRIGGER}{' '.join(request.split())[:MAX_REQUEST_CHARACTERS]}",
        guideline=f"{USE}{use}." if use else NONE,
        avoid=BETWEEN.join(f"{AVOID}{name}" if number == 0 else name for number, name in enumerate(avoid)),
        polarity=polarity,
        # MetaTool has no families, so lessons hold for all of its requests.
        scope="project",
        task_id=task_id,
        tags=(get_tag(use),) if use else (),
        source_task=request,
    )


def get_tag(tool: str) -> str:
    """Return the tag of lessons that recommend a tool."""
    return f"tool:{tool.lower()}"
