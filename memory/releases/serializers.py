"""Releases and deployments as clients read and change them."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.input import WHOLE, Input, OneOf, Percent, ReleaseName
from memory.api.output import Pagination
from memory.limits import MAX_REASON_CHARS
from memory.releases.models import MOST_SHADOWED, Deployment, DeploymentEvent, Release

Named = Annotated[
    str, ReleaseName(min_length=1), Field(description="Its number, its hash, or the beginning of its hash.")
]
Why = Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Why; kept with the change.")]


class CutInput(Input):
    """A note to keep with the release."""

    note: Annotated[str, Field(max_length=MAX_REASON_CHARS, description="For people: what is new in it.")] = ""


class DeploymentPatch(Input):
    """The settings to change; what is left out stays as it is."""

    mode: Annotated[str | None, OneOf(Deployment.Mode)] = None
    holdout_percent: Annotated[
        Percent | None, Field(description="Share of the units that get no lessons, rounded to tenths.")
    ] = None
    shadow_percent: Annotated[
        Percent | None,
        Field(
            description="Share of the answers, rounded to tenths, for which the answer of the candidate is worked "
            "out afterwards; see GET /shadow."
        ),
    ] = None
    shadow_per_minute: Annotated[
        int | None,
        Field(ge=1, le=MOST_SHADOWED, description="Most of them in a minute; the others are dropped."),
        WHOLE,
    ] = None
    unit: Annotated[str | None, OneOf(Deployment.Unit)] = None
    cut_policy: Annotated[str | None, OneOf(Deployment.CutPolicy)] = None
    reason: Why = ""


class CanaryInput(Input):
    """A release to try on a share of the units."""

    release: Named
    percent: Annotated[Percent, Field(description="Share of the units that get it, rounded to tenths.")]
    reason: Why = ""


class PromoteInput(Input):
    """What becomes stable."""

    release: Annotated[str, ReleaseName(), Field(description="Its number or hash; empty for the candidate.")] = ""
    reason: Why = ""


class RollbackInput(Input):
    """What to return to."""

    release: Annotated[
        str,
        ReleaseName(),
        Field(description="Its number or hash; empty ends the canary or, if none runs, returns to the release before."),
    ] = ""
    reason: Why = ""


class ReleaseAnswer(BaseModel):
    """A release, without its manifest."""

    id: UUID
    number: int
    sha256: str
    parent: int | None
    lessons: Annotated[int, Field(description="How many lessons it has.")]
    how: Annotated[str, OneOf(Release.How)]
    note: str
    created_by: str
    created_at: datetime


class ReleaseDetail(ReleaseAnswer):
    """A release with its manifest, whose canonical JSON (RFC 8785) has the hash `sha256`."""

    manifest: dict[str, Any]


class ReleasePage(BaseModel):
    """Releases, the newest first."""

    results: list[ReleaseAnswer]
    pagination: Pagination


class WordingAnswer(BaseModel):
    """The words of a lesson in a release."""

    revision: int
    content_sha256: str
    trigger: str
    guideline: str
    avoid: str
    not_when: str


class LessonChangeAnswer(BaseModel):
    """A lesson that differs; a side is null if that release lacks the lesson, or its words were erased."""

    heuristic: UUID
    before: WordingAnswer | None
    after: WordingAnswer | None


class SettingChange(BaseModel):
    """A setting that differs; null where one release has none."""

    name: str
    before: Any
    after: Any


class ReleaseDiffAnswer(BaseModel):
    """What differs between two releases."""

    before: int
    after: int
    added: list[LessonChangeAnswer]
    removed: list[LessonChangeAnswer]
    reworded: list[LessonChangeAnswer]
    settings: list[SettingChange]
    unchanged: Annotated[int, Field(description="How many lessons are the same in both.")]


class DeploymentEventAnswer(BaseModel):
    """A change of the deployment."""

    version: int
    kind: Annotated[str, OneOf(DeploymentEvent.Kind)]
    reason: str
    made_by: str
    made_at: datetime


class DeploymentAnswer(BaseModel):
    """What the agents of the project are given. Shares are in percent of the units; releases are named by number."""

    mode: Annotated[str, OneOf(Deployment.Mode)]
    stable: int | None
    candidate: int | None
    previous: Annotated[int | None, Field(description="What a roll-back returns to.")]
    canary_percent: float
    holdout_percent: float
    shadow_percent: Annotated[float, Field(description="Of the answers; see GET /shadow.")]
    shadow_per_minute: int
    unit: Annotated[str, OneOf(Deployment.Unit)]
    cut_policy: Annotated[str, OneOf(Deployment.CutPolicy)]
    version: Annotated[int, Field(description="Number of changes so far; recorded with every answer.")]
    waiting: Annotated[int, Field(description="Approved lessons that the stable release lacks or has in other words.")]
    events: Annotated[list[DeploymentEventAnswer], Field(description="The newest changes, at most 20.")]
