"""The form with which a reviewer decides."""

from dataclasses import replace
from typing import Any

from django import forms

from memory.models import Heuristic, HeuristicRevision
from memory.services.review_heuristic import (
    approve_heuristic,
    edit_and_approve_heuristic,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
)
from memory.values import Actor

_TEXTS = ("trigger", "guideline", "avoid", "not_when", "rationale")
_NEEDS_REASON = {"reject", "retire", "quarantine"}


class DecisionForm(forms.Form):
    """One decision on the text the reviewer saw, known by its hash."""

    decision = forms.ChoiceField(
        choices=[(name, name) for name in ("approve", "edit", "reject", "retire", "quarantine")]
    )
    content_sha256 = forms.CharField(max_length=64, widget=forms.HiddenInput)
    reason = forms.CharField(required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 2}))
    trigger = forms.CharField(required=False, max_length=300, widget=forms.Textarea(attrs={"rows": 3}))
    guideline = forms.CharField(required=False, max_length=600, widget=forms.Textarea(attrs={"rows": 5}))
    avoid = forms.CharField(required=False, max_length=600, widget=forms.Textarea(attrs={"rows": 2}))
    not_when = forms.CharField(required=False, max_length=300, widget=forms.Textarea(attrs={"rows": 2}))
    rationale = forms.CharField(required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 3}))

    def __init__(self, *args: Any, heuristic: Heuristic, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heuristic = heuristic

    @classmethod
    def for_revision(cls, heuristic: Heuristic, revision: HeuristicRevision) -> "DecisionForm":
        """The form as it is first shown: the present wording, ready to be edited."""
        initial = {name: getattr(revision, name) for name in _TEXTS}
        return cls(heuristic=heuristic, initial=initial | {"content_sha256": revision.content_sha256})

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("decision") in _NEEDS_REASON and not data.get("reason"):
            self.add_error("reason", "Say why in a few words; the reason stays with the decision.")
        if data.get("decision") == "edit":
            for name in ("trigger", "guideline"):
                if name not in self.errors and not data.get(name):
                    self.add_error(name, "This may not be empty.")
        return data

    def carry_out(self, *, by: Actor) -> str:
        """Call the service the decision stands for; return a sentence about what happened."""
        data = self.cleaned_data
        seen, reason = data["content_sha256"], data["reason"]
        match data["decision"]:
            case "approve":
                approve_heuristic(self.heuristic, by=by, content_sha256=seen, reason=reason)
                return "Approved. Agents get this heuristic from now on."
            case "edit":
                revision = self.heuristic.current_revision
                assert revision is not None
                # Browsers send line ends as CR LF.
                texts = {name: data[name].replace("\r\n", "\n") for name in _TEXTS}
                edit_and_approve_heuristic(
                    self.heuristic, text=replace(revision.as_text(), **texts), by=by, content_sha256=seen, reason=reason
                )
                return "Edited and approved. Agents get your wording from now on."
            case "reject":
                reject_heuristic(self.heuristic, by=by, content_sha256=seen, reason=reason)
                return "Rejected. The heuristic stays in the records with your reason."
            case "retire":
                retire_heuristic(self.heuristic, by=by, reason=reason)
                return "Retired. Agents no longer get this heuristic."
            case _:
                quarantine_heuristic(self.heuristic, by=by, reason=reason)
                return "Quarantined. Agents do not get this heuristic."
