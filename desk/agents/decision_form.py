"""The form with which a person decides about a call."""

import json
from collections.abc import Mapping
from typing import Any

from django import forms

from desk.shell.word_diff import DiffPart, diff_words
from memory.errors import InvalidInput
from memory.limits import MAX_REASON_CHARS, MAX_TEXT_CHARS
from memory.projects.actors import Actor
from memory.strict_json import InvalidJson, parse_json
from runtime.api.shapes import DecisionInput
from runtime.approvals import CallDecision, decide_effect
from runtime.models.effects import Approval, Effect

# In the order of the keys 1 to 5.
REASONS = [
    ("The arguments are wrong", "Wrong arguments"),
    ("It is not needed for the task", "Not needed"),
    ("It is against policy", "Against policy"),
    ("Ask the user first", "Ask the user first"),
    ("Not now", "Not now"),
]
PREVIEW = "preview"
_DONE = {
    CallDecision.APPROVE: "Approved. The run goes on with this call.",
    CallDecision.EDIT: "The call happens with your arguments.",
    CallDecision.REJECT: "Rejected. The agent reads your reason.",
    CallDecision.ANSWER: "The agent gets your answer in place of the tool's.",
}


class CallDecisionForm(forms.Form):
    """One decision about the arguments that a person read, known by their hash."""

    decision = forms.ChoiceField(choices=[*CallDecision.choices, (PREVIEW, PREVIEW)])
    arguments_sha256 = forms.CharField(max_length=64, widget=forms.HiddenInput)
    reason_code = forms.ChoiceField(required=False, choices=REASONS, widget=forms.RadioSelect)
    reason = forms.CharField(
        required=False,
        # With room for the reason that is chosen from the list, which comes before it.
        max_length=MAX_REASON_CHARS - 100,
        label="Another reason",
        widget=forms.Textarea(attrs={"rows": 1}),
    )
    arguments = forms.CharField(
        required=False,
        max_length=MAX_TEXT_CHARS,
        strip=False,
        label="Arguments, as JSON",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )
    answer = forms.CharField(
        required=False,
        max_length=MAX_TEXT_CHARS,
        strip=False,
        label="What the agent reads as the result",
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    def __init__(self, *args: Any, effect: Effect, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.effect = effect
        self.difference: list[DiffPart] = []  # what an edit would change, once it was asked for

    @classmethod
    def for_approval(cls, approval: Approval) -> "CallDecisionForm":
        """Return the form as it is first shown: the arguments as they are, ready to be edited."""
        arguments = write_arguments(approval.effect.arguments)
        initial = {"arguments_sha256": approval.arguments_sha256, "arguments": arguments}
        return cls(effect=approval.effect, initial=initial)

    @property
    def is_editing(self) -> bool:
        return bool(self.difference) or "arguments" in self.errors

    @property
    def is_answering(self) -> bool:
        return "answer" in self.errors

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        data["reason"] = ": ".join(part for part in (data.get("reason_code"), data.get("reason")) if part)
        decision = data.get("decision")
        if decision == CallDecision.REJECT and not data["reason"]:
            self.add_error("reason", "Choose a reason or write one; the agent reads it.")
        if decision == CallDecision.ANSWER and not data.get("answer", "").strip():
            self.add_error("answer", "Write what the agent is to read.")
        if decision in (CallDecision.EDIT, PREVIEW) and "arguments" not in self.errors:
            self._read_arguments(data)
        return data

    def _read_arguments(self, data: dict[str, Any]) -> None:
        try:
            data["read"] = parse_json(data.get("arguments", "").encode())
        except InvalidJson as error:
            self.add_error("arguments", f"This is not JSON that can be stored. {error}")
            return
        if not isinstance(data["read"], dict):
            self.add_error("arguments", 'Write a JSON object, such as {"order": "A1"}.')

    def show_difference(self) -> None:
        """Compare the edited arguments with those of the call, for the page to show before they are used."""
        edited = write_arguments(self.cleaned_data["read"])
        self.difference = diff_words(write_arguments(self.effect.arguments), edited)

    def carry_out(self, *, by: Actor) -> str:
        """Carry out the decision and return a sentence about what happened.

        Raises:
            MemoryAppError: it cannot be done now.
        """
        data = self.cleaned_data
        decision = data["decision"]
        sent: dict[str, Any] = {name: data[name] for name in ("decision", "arguments_sha256", "reason")}
        if decision == CallDecision.EDIT:
            sent["arguments"] = data["read"]
        if decision == CallDecision.ANSWER:
            sent["answer"] = data["answer"].replace("\r\n", "\n")  # browsers send line ends as CR LF
        read = DecisionInput.from_body(sent)
        decide_effect(
            self.effect,
            decision=read.decision,
            arguments_sha256=read.arguments_sha256,
            by=by,
            reason=read.reason,
            arguments=read.arguments,
            answer=read.answer,
        )
        return _DONE[CallDecision(decision)]

    def add_refusal(self, refusal: InvalidInput) -> None:
        """Show what is wrong with what was sent beside the field that it is about."""
        for pointer, texts in refusal.fields.items():
            name = pointer.strip("/").partition("/")[0]
            for text in texts:
                self.add_error(name if name in self.fields else None, text)


def write_arguments(arguments: Mapping[str, Any]) -> str:
    """Return arguments as people read and edit them."""
    return json.dumps(arguments, ensure_ascii=False, indent=2)
