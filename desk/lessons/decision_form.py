"""The form with which a reviewer decides."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.core import signing

from desk.shell.word_diff import DiffPart, diff_heuristics
from memory.curation.decisions import (
    approve_heuristic,
    ask_again,
    confirm_evidence,
    edit_and_approve_heuristic,
    keep_heuristic,
    quarantine_heuristic,
    reject_heuristic,
    retire_heuristic,
    split_heuristic,
)
from memory.curation.merge import merge_heuristics
from memory.curation.proposals import restore_revision
from memory.curation.reviewers import release_heuristic, take_over_heuristic
from memory.errors import CannotMerge, MemoryAppError
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import VALIDITY, HeuristicText
from memory.limits import MAX_VALID_DAYS
from memory.projects.actors import Actor
from memory.releases.deployments import serves_releases

# In the order of the keys 1 to 7.
REASONS = [
    ("Too general to act on", "Too general"),
    ("Applies to this one case only", "One case only"),
    ("Wrong", "Wrong"),
    ("Not proven by the cited steps", "Not proven"),
    ("Agents do this anyway", "Obvious"),
    ("Harmful or against policy", "Harmful"),
    ("Unclear what to do", "Unclear"),
]

_PROPOSED = Heuristic.Status.PROPOSED
# After these the page shows the same heuristic.
STAYING = frozenset({"restore", "confirm_evidence", "split", "again", "claim"})
_TEXTS = ("trigger", "guideline", "avoid", "not_when", "rationale")
_NEEDS_REASON = {"reject", "retire", "quarantine"}
FIRST_APPROVAL = (
    "Your approval is recorded as the first of two. Agents get this lesson once a second reviewer approves it."
)
# A page that was left open for longer was not being read.
_MAX_SECONDS = 3600


class DaysField(forms.FloatField):
    """A duration in days."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=1 / 24, max_value=MAX_VALID_DAYS, **options)

    def prepare_value(self, value: Any) -> Any:
        return f"{value / timedelta(days=1):g}" if isinstance(value, timedelta) else value

    def clean(self, value: Any) -> timedelta | None:
        days = super().clean(value)
        return None if days is None else timedelta(days=days)


class DecisionForm(forms.Form):
    """One decision on the text the reviewer saw, known by its hash."""

    decision = forms.CharField(max_length=20)
    content_sha256 = forms.CharField(max_length=64, widget=forms.HiddenInput)
    opened = forms.CharField(required=False, max_length=200, widget=forms.HiddenInput)
    # Seconds. A page is fetched before it is shown, so the browser counts them.
    on_screen = forms.FloatField(required=False, widget=forms.HiddenInput)
    into = forms.UUIDField(required=False, widget=forms.HiddenInput)
    into_sha256 = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    number = forms.IntegerField(required=False, widget=forms.HiddenInput)
    reason_code = forms.ChoiceField(required=False, choices=REASONS, widget=forms.RadioSelect)
    reason = forms.CharField(
        required=False, max_length=2000, label="Another reason", widget=forms.Textarea(attrs={"rows": 1})
    )
    trigger = forms.CharField(required=False, max_length=300, label="When", widget=forms.Textarea(attrs={"rows": 3}))
    guideline = forms.CharField(
        required=False, max_length=600, label="Do (guideline)", widget=forms.Textarea(attrs={"rows": 5})
    )
    avoid = forms.CharField(required=False, max_length=600, widget=forms.Textarea(attrs={"rows": 2}))
    not_when = forms.CharField(required=False, max_length=300, widget=forms.Textarea(attrs={"rows": 2}))
    rationale = forms.CharField(
        required=False, max_length=4000, label="Because", widget=forms.Textarea(attrs={"rows": 3})
    )
    valid_until = forms.DateTimeField(required=False, label="Valid until")
    expires_after = DaysField(required=False, label="Expires (days after approval)")

    def __init__(self, *args: Any, heuristic: Heuristic, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heuristic = heuristic
        self.difference: list[DiffPart] = []  # what an edit would change, once it was asked for

    @classmethod
    def after_change(cls, stale: "DecisionForm", heuristic: Heuristic) -> "DecisionForm":
        """The form of a decision that came too late: the person's own words are kept, the text to decide on is new."""
        assert heuristic.current_revision is not None
        sha256 = heuristic.current_revision.content_sha256
        data = {**stale.data.dict(), "content_sha256": sha256}  # type: ignore[attr-defined]  # a POST
        data["opened"] = signing.dumps(time.time(), salt="desk")
        form = cls(data, heuristic=heuristic)
        form.is_valid()
        if stale.cleaned_data["decision"] in ("edit", "preview"):
            form.show_difference()
        return form

    @classmethod
    def for_revision(cls, heuristic: Heuristic, revision: HeuristicRevision) -> "DecisionForm":
        """The form as it is first shown: the present wording, ready to be edited."""
        initial = {name: getattr(revision, name) for name in (*_TEXTS, *VALIDITY)}
        initial |= {"content_sha256": revision.content_sha256, "opened": signing.dumps(time.time(), salt="desk")}
        return cls(heuristic=heuristic, initial=initial)

    @property
    def edits(self) -> list[forms.BoundField]:
        """The fields of the wording."""
        return [self[name] for name in (*_TEXTS, *VALIDITY)]

    @property
    def is_editing(self) -> bool:
        """Whether the wording was being edited when the form came back."""
        asked = self.is_bound and self.data.get("decision") in ("edit", "preview")
        return asked or any(name in self.errors for name in (*_TEXTS, *VALIDITY))

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        data["reason"] = ": ".join(part for part in (data.get("reason_code"), data.get("reason")) if part)
        if data.get("decision") in _NEEDS_REASON and not data["reason"]:
            self.add_error("reason", "Choose a reason or write one; it is kept with the decision.")
        if data.get("decision") in ("edit", "preview"):
            for name in ("trigger", "guideline"):
                if name not in self.errors and not data.get(name):
                    self.add_error(name, "This may not be empty.")
        return data

    def show_difference(self) -> None:
        """Compare the edited wording with the present one, for the page to show before it is saved."""
        revision = self.heuristic.current_revision
        assert revision is not None
        self.difference = diff_heuristics(revision.as_text(), self._edited(revision))

    def carry_out(self, *, by: Actor) -> str:
        """Call the service for the decision; return a sentence about what happened."""
        data = self.cleaned_data
        seen: dict[str, Any] = {"content_sha256": data["content_sha256"]}
        opened_at = self._find_opening()
        approved = {**seen, "read_at": opened_at}
        about: dict[str, Any] = {"by": by, "reason": data["reason"], "seconds_on_screen": None}
        if opened_at is not None:
            seconds, on_screen = time.time() - opened_at.timestamp(), data["on_screen"]
            # The browser's figure counts only if it is no longer than the page has been open.
            if on_screen is not None and 0 <= on_screen <= seconds:
                seconds = on_screen
            if 0 <= seconds <= _MAX_SECONDS:
                about["seconds_on_screen"] = round(seconds, 1)
        match data["decision"]:
            case "approve":
                done = approve_heuristic(self.heuristic, **approved, **about)
                return self._say_approved(done, "Approved. Agents get this lesson {}.")
            case "edit":
                revision = self.heuristic.current_revision
                assert revision is not None
                done = edit_and_approve_heuristic(self.heuristic, text=self._edited(revision), **approved, **about)
                return self._say_approved(done, "Edited and approved. Agents get your wording {}.")
            case "reject":
                reject_heuristic(self.heuristic, **approved, **about)
                return "Rejected. The lesson stays on record with your reason."
            case "retire":
                retire_heuristic(self.heuristic, **about)
                if serves_releases(self.heuristic.project_id):
                    return "Retired. The next release leaves it out. To withdraw it at once, quarantine it."
                return "Retired. Agents no longer get this lesson."
            case "quarantine":
                quarantine_heuristic(self.heuristic, **about)
                return "Quarantined. Agents do not get this lesson."
            case "keep":
                keep_heuristic(self.heuristic, **seen, **about)
                return "Kept in use. You will not be asked about it for 30 days."
            case "restore":
                revision = self.heuristic.revisions.filter(number=data["number"]).first()
                if revision is None:
                    raise MemoryAppError(f"There is no revision {data['number']}. Reload the page and choose again.")
                restore_revision(self.heuristic, revision=revision, by=by)
                return f"Revision {revision.number} is proposed again and is waiting for a decision."
            case "confirm_evidence":
                confirm_evidence(self.heuristic, **approved, **about)
                return "Confirmed. Tasks like those of its runs lead to this lesson from now on."
            case "split":
                split_heuristic(self.heuristic, **seen, **about)
                return "Taken out of its group. It now has a row of its own in the queue."
            case "again":
                return ask_again(self.heuristic, **about)
            case "claim":
                claimed = take_over_heuristic(self.heuristic, by=by)
                return f"Reserved for you until {claimed.claimed_until:%H:%M} UTC."
            case "release":
                release_heuristic(self.heuristic, by=by)
                return "Released. Other reviewers can take it now."
            case "merge" | "duplicate":
                return self._merge(about)
            case _:
                raise MemoryAppError("Choose one of the buttons.")

    def _merge(self, about: dict[str, Any]) -> str:
        data = self.cleaned_data
        into = Heuristic.objects.filter(project=self.heuristic.project_id, pk=data["into"]).first()
        if into is None:
            raise CannotMerge("The other heuristic no longer exists. Reload the page and choose another.")
        takes_over = data["decision"] == "merge"
        about["reason"] = about["reason"] or ("Merged, using this wording" if takes_over else "Duplicate")
        kept = merge_heuristics(
            self.heuristic,
            into=into,
            take_wording=takes_over,
            content_sha256=data["content_sha256"],
            into_sha256=data["into_sha256"] or None,
            read_at=self._find_opening(),
            **about,
        )
        if takes_over and kept.status == _PROPOSED and into.status != _PROPOSED:
            return f"Merged. {FIRST_APPROVAL}"
        if takes_over:
            return "Merged. The other lesson now has this wording and the evidence of both."
        return "Marked as a duplicate. The other lesson now has the evidence of both."

    def _say_approved(self, lesson: Heuristic, said: str) -> str:
        # A lesson that is still proposed has its first approval of two.
        if lesson.status == _PROPOSED:
            return FIRST_APPROVAL
        releases = serves_releases(self.heuristic.project_id)
        return said.format("with the next release that is deployed" if releases else "from now on")

    def _edited(self, revision: HeuristicRevision) -> HeuristicText:
        # Browsers send line ends as CR LF.
        texts = {name: self.cleaned_data[name].replace("\r\n", "\n") for name in _TEXTS}
        return replace(revision.as_text(), **texts, **{name: self.cleaned_data[name] for name in VALIDITY})

    def _find_opening(self) -> datetime | None:
        """Return when the page was drawn, as it says itself; None if it does not."""
        try:
            return datetime.fromtimestamp(float(signing.loads(self.cleaned_data["opened"], salt="desk")), UTC)
        except (signing.BadSignature, TypeError, ValueError):
            return None
