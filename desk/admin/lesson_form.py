"""A lesson that a person writes from a step of a run: the form, and the proposal that cites the step."""

from typing import Any

from django import forms
from django.utils.text import Truncator

from desk.lessons.decision_form import DaysField
from memory.curation.client_lessons import CitedRun, ClientLesson, bring_lesson
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import Citation, HeuristicText
from memory.limits import MAX_LESSON_TEXT_CHARS, MAX_NAME_CHARS, MAX_TRIGGER_CHARS
from memory.projects.actors import Actor
from memory.runs.models import Trajectory

_QUOTE_CHARS = 200


def _long(label: str, *, required: bool = False, help_text: str = "") -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 3})
    return forms.CharField(
        required=required, label=label, max_length=MAX_LESSON_TEXT_CHARS, widget=widget, help_text=help_text
    )


class LessonForm(forms.Form):
    """What the lesson says, and the words of the step it rests on."""

    trigger = forms.CharField(label="When", max_length=MAX_TRIGGER_CHARS, widget=forms.Textarea(attrs={"rows": 2}))
    guideline = _long("Do", required=True)
    avoid = _long("Avoid")
    not_when = _long("Not when")
    rationale = _long("Why")
    polarity = forms.ChoiceField(choices=HeuristicRevision.Polarity.choices, label="It says")
    task_id = forms.CharField(required=False, label="Task family", max_length=MAX_NAME_CHARS)
    valid_until = forms.DateTimeField(required=False, label="Valid until")
    expires_after = DaysField(required=False, label="Expires (days after approval)")
    quote = forms.CharField(
        required=False,
        label="Words of the step",
        max_length=MAX_LESSON_TEXT_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Cited as evidence, so they have to stand in the step as they are here.",
    )

    @classmethod
    def for_step(cls, trajectory: Trajectory, step: dict[str, Any], data: Any = None) -> "LessonForm":
        """Return the form with what the step tells already filled in."""
        action = step.get("action") or {}
        failed = step.get("error", "")
        text = failed or step.get("observation", "") or step.get("thought", "")
        initial = {
            "trigger": f"{'calling' if failed else 'about to call'} {action['name']}" if action else "",
            "polarity": HeuristicRevision.Polarity.AVOID if failed else HeuristicRevision.Polarity.WORKS,
            "task_id": trajectory.task_id,
            # A quote has to stand in the step as it is, so it is cut without an ellipsis.
            "quote": text.strip().split("\n")[0][:_QUOTE_CHARS],
            "rationale": Truncator(f"In a run that ended as {trajectory.outcome}.").chars(200),
        }
        return cls(data, initial=initial)


def propose_from_step(trajectory: Trajectory, index: int, *, asked: dict[str, Any], by: Actor) -> Heuristic:
    """Propose a lesson that cites one step of a run.

    Raises:
        MemoryAppError: the quoted words do not stand in the step.
    """
    asked = dict(asked)
    citation = Citation(first_step=index, last_step=index, quote=asked.pop("quote"))
    text = HeuristicText(**asked, source_task=trajectory.task)
    evidence = (CitedRun(named=str(trajectory.pk), citation=citation),)
    return bring_lesson(trajectory.project, ClientLesson(text=text, evidence=evidence), by=by, client="").heuristic
