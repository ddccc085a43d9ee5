"""A finished run of an agent as a trajectory, so that it is reflected on, counted and searched like any other."""

from typing import Any

from memory.intake.recording import RunSender, record_trajectory
from memory.limits import MAX_NAME_CHARS, MAX_STEPS, MAX_TASK_CHARS, MAX_TEXT_CHARS
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from runtime.models.conversations import Message
from runtime.models.effects import Effect
from runtime.models.runs import Run, RunStatus, StopReason

_OBSERVATION_CHARS = 8_000
# Where a provider or ERL itself failed, that says nothing about the task, nor about the lessons that the run was given.
_NOT_OF_THE_AGENT = (
    StopReason.MODEL_FAILED,
    StopReason.WORKER_LOST,
    StopReason.ERROR,
    StopReason.EMPTY_ANSWER,
    StopReason.CUT_OFF,
    StopReason.REFUSED,
    StopReason.FILTERED,
    StopReason.CONTEXT_OVERFLOW,
)


def record_run(run: Run, *, by: Actor) -> Trajectory:
    """Record a run that has just ended, in the caller's transaction. Secrets are removed from its texts."""
    is_failure = run.status == RunStatus.FAILED and run.stop_reason not in _NOT_OF_THE_AGENT
    data: dict[str, Any] = {
        "external_id": f"run:{run.pk}",
        "task": run.task[:MAX_TASK_CHARS],
        "task_id": run.task_id,
        "user_id": run.conversation.user_id,
        "steps": _write_steps(run),
        # Whether the task was done, the environment or a person says later, with POST /trajectories/…/outcome.
        "outcome": Trajectory.Outcome.FAILURE if is_failure else Trajectory.Outcome.UNKNOWN,
        "outcome_source": Trajectory.OutcomeSource.AGENT,
        "agent": run.agent.name,
        "model": run.steps.order_by("-seq").values_list("model", flat=True).first() or run.revision.model,
        "tools": run.tools,
        "system_prompt": run.revision.system,
        "tokens": run.tokens,
        "cost_usd": run.cost_usd,
        "metadata": {
            "run": str(run.pk),
            "conversation": str(run.conversation_id),
            "agent_revision": run.revision.number,
            "stop_reason": run.stop_reason,
        },
        "started_at": run.started_at,
        "ended_at": run.finished_at,
    }
    if run.retrieval_id is not None:
        data["retrieval_id"] = run.retrieval_id
    return record_trajectory(
        run.project,
        data=data,
        by=by,
        id=run.pk,
        reflect=False if run.status == RunStatus.CANCELLED else None,
        sender=RunSender(client=run.client, api_key=run.api_key, request_id=run.request_id),
    ).trajectory


def _write_steps(run: Run) -> list[dict[str, Any]]:
    """Return a step for each call, and one for each answer without calls, as far as a trajectory holds them."""
    effects = {
        effect.call_id: effect
        for effect in run.effects.filter(parent__isnull=True).exclude(status=Effect.Status.SUPERSEDED)
    }
    steps: list[dict[str, Any]] = []
    for message in run.messages.filter(role=Message.Role.ASSISTANT).order_by("seq"):
        if not message.tool_calls:
            # What the tool send_message wrote is shown as its call.
            if message.effect_id is None and message.content:
                steps.append({"thought": message.content[:MAX_TEXT_CHARS]})
            continue
        thought = message.content[:MAX_TEXT_CHARS]
        for call in message.tool_calls:
            effect = effects.get(call["id"])
            step: dict[str, Any] = {
                "action": {"name": call["name"].strip()[:MAX_NAME_CHARS] or "unnamed"},
                "thought": thought,
            }
            if effect is not None:
                step["action"]["arguments"] = effect.arguments
                step["observation"] = effect.result[:_OBSERVATION_CHARS]
                step["error"] = effect.error[:_OBSERVATION_CHARS]
            steps.append(step)
            # Told once, with the first of its calls.
            thought = ""
    return steps[:MAX_STEPS]
