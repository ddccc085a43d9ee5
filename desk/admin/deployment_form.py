"""What people can do to a deployment: its settings, the canary, promotion, roll-back."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.db import transaction

from memory.errors import ChangedMeanwhile, MemoryAppError
from memory.limits import MAX_REASON_CHARS
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import Project, ProjectMembership
from memory.releases.deployments import (
    DeploymentChange,
    acknowledge_roll_back,
    change_deployment,
    cut_release,
    get_deployment,
    get_release,
    lock_deployment,
    promote,
    roll_back,
    start_canary,
)
from memory.releases.models import MOST_SHADOWED, Deployment, Release

STEPS = (10, 100, 500)  # shares of a canary that the button goes through, in thousandths
_Role = ProjectMembership.Role


def may_deploy(user: Any, project: Project) -> bool:
    """Tell whether a person may deploy in a project, by permission and by role."""
    return user.has_perm("memory.deploy_release") and has_role(user, project.pk, _Role.REVIEWER, _Role.OPERATOR)


def find_next_step(deployment: Deployment) -> int | None:
    """Return the next share of the canary, in thousandths."""
    return next((share for share in STEPS if share > deployment.canary_share), None)


def _percent_field(label: str, help_text: str) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "0.1", "min": "0", "max": "100"})
    return forms.FloatField(min_value=0, max_value=100, label=label, help_text=help_text, widget=widget)


class _DeploymentForm(forms.Form):
    """A form about the deployment that a person saw, known by its version."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    reason = forms.CharField(required=False, max_length=MAX_REASON_CHARS, label="Why", help_text="Kept in the history.")


class SettingsForm(_DeploymentForm):
    """How a project is served."""

    field_order = ("mode", "holdout_percent", "shadow_percent", "shadow_per_minute", "unit", "cut_policy", "reason")
    mode = forms.ChoiceField(
        choices=Deployment.Mode.choices, widget=forms.RadioSelect, label="When do agents get what is approved?"
    )
    holdout_percent = _percent_field("Hold-out, %", "Share of the units that get no lessons: the control group.")
    shadow_percent = _percent_field("Shadow, %", "Share of the answers that are worked out for the candidate too.")
    shadow_per_minute = forms.IntegerField(
        min_value=1, max_value=MOST_SHADOWED, label="Compared answers per minute, at most"
    )
    unit = forms.ChoiceField(choices=Deployment.Unit.choices, help_text="What stays in one arm.")
    cut_policy = forms.ChoiceField(choices=Deployment.CutPolicy.choices, label="Cut releases")

    @classmethod
    def of(cls, deployment: Deployment) -> "SettingsForm":
        """The form as it is first shown."""
        same = ("mode", "shadow_per_minute", "unit", "cut_policy", "version")
        copied = {name: getattr(deployment, name) for name in same}
        percents = {"holdout_percent": deployment.holdout_share / 10, "shadow_percent": deployment.shadow_share / 10}
        return cls(initial=copied | percents, prefix="settings")


class CanaryForm(_DeploymentForm):
    """A release to try on a share of the units."""

    field_order = ("release", "percent", "reason")
    release = forms.CharField(max_length=64, label="Release", help_text="Its number or hash.")
    percent = _percent_field("Share, %", "Of the units that get it.")

    @classmethod
    def of(cls, deployment: Deployment, newest: Release | None) -> "CanaryForm":
        """The form as it is first shown: the next step of the candidate, or the first of the newest release."""
        tried = deployment.candidate or newest
        share = find_next_step(deployment) or deployment.canary_share
        number = str(tried.number) if tried and tried.pk != deployment.stable_id else ""
        initial = {"release": number, "percent": share / 10, "version": deployment.version}
        return cls(initial=initial, prefix="canary")


class ActForm(_DeploymentForm):
    """One button: the next step of the canary, or what a release is cut for."""


class DeploymentForm(_DeploymentForm):
    """A promotion or a roll-back, which a page of its own asks about. It needs a reason."""

    reason = forms.CharField(max_length=MAX_REASON_CHARS, label="Why", help_text="Kept in the history.")


def describe_decision(deployment: Deployment, do: str) -> dict[str, str] | None:
    """Return what the page asks before a promotion or a roll-back, and what will happen; None if it is not possible."""
    stable, candidate, previous = deployment.stable, deployment.candidate, deployment.previous
    share = f"{deployment.canary_share / 10:g}%"
    if do == "promote" and candidate is not None and stable is not None:
        return {
            "question": f"Promote release {candidate.number}?",
            "button": f"Promote release {candidate.number}",
            "happens": f"All agents get release {candidate.number}, now given to {share} of the units. Release "
            f"{stable.number} is kept to roll back to.",
        }
    if do == "rollback" and candidate is not None and stable is not None:
        return {
            "question": f"End the canary of release {candidate.number}?",
            "button": f"Roll back to release {stable.number}",
            "happens": f"All agents get release {stable.number}, also the {share} of the units that now get release "
            f"{candidate.number}.",
        }
    if do == "rollback" and previous is not None and stable is not None:
        return {
            "question": f"Roll back to release {previous.number}?",
            "button": f"Roll back to release {previous.number}",
            "happens": f"All agents get release {previous.number} again, and none gets release {stable.number}.",
        }
    return None


def carry_out(project: Project, do: str, data: dict[str, Any], *, by: Actor) -> str:
    """Do what a button says; return a sentence about what happened.

    Raises:
        ChangedMeanwhile: the deployment is no longer the one the person saw.
        MemoryAppError: it is refused; the message says why.
    """
    if do == "seen":
        acknowledge_roll_back(project, by=by)
        return "Noted. Reviewers are no longer told of this roll-back."
    if do == "cut":
        note = data["reason"]
        return cut_release(project, by=by, note=note).cut_in_words(note=note)
    if do == "settings":
        _check_unchanged(get_deployment(project), data)
        return f"Saved. {_change_settings(project, data, by=by).in_words()}"
    with transaction.atomic():
        deployment = lock_deployment(project, serves_releases=True)
        # Compared under the lock, so that nothing can change in between.
        _check_unchanged(deployment, data)
        changed = _deploy(deployment, do, data, by=by)
    return f"Done. {get_deployment(changed.project).in_words()}"


def _deploy(deployment: Deployment, do: str, data: dict[str, Any], *, by: Actor) -> Deployment:
    project, reason = deployment.project, data["reason"]
    match do:
        case "canary":
            share = round(data["percent"] * 10)
            return start_canary(
                project, release=get_release(project, data["release"]), share=share, by=by, reason=reason
            )
        case "step":
            share = find_next_step(deployment) or 0
            if deployment.candidate is None or not share:
                raise MemoryAppError("There is no further step. Promote the candidate, or roll it back.")
            return start_canary(project, release=deployment.candidate, share=share, by=by, reason=reason)
        case "promote":
            return promote(project, by=by, reason=reason)
        case "rollback":
            return roll_back(project, by=by, reason=reason)
        case _:
            raise MemoryAppError("Nothing was changed: press one of the buttons of the page.")


def _change_settings(project: Project, data: dict[str, Any], *, by: Actor) -> Deployment:
    change = DeploymentChange(
        mode=data["mode"],
        holdout_share=round(data["holdout_percent"] * 10),
        shadow_share=round(data["shadow_percent"] * 10),
        shadow_per_minute=data["shadow_per_minute"],
        unit=data["unit"],
        cut_policy=data["cut_policy"],
    )
    return change_deployment(project, by=by, change=change, reason=data["reason"])


def _check_unchanged(deployment: Deployment, data: dict[str, Any]) -> None:
    if deployment.version != data["version"]:
        raise ChangedMeanwhile(
            "Nothing was done: the deployment was changed after you opened the page. Read what agents are given now, "
            "and decide again."
        )


DECISIONS = frozenset({"promote", "rollback"})
FORMS: dict[str, Callable[..., _DeploymentForm]] = {
    "settings": SettingsForm,
    "canary": CanaryForm,
    **dict.fromkeys(DECISIONS, DeploymentForm),
}
