"""Which release answers a request: the arm of its unit, by a sticky hash. Nothing is stored to decide it.

A deployment says which release is stable, which is tried as the candidate, and which shares of the units get the
candidate or, as a control group, no lessons at all. Releases are a package above this one; retrieval reads them by SQL
alone.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self
from uuid import UUID

from django.db import models

from memory.errors import NoSuchRelease
from memory.retrieval.database import read_prepared
from memory.retrieval.question import Question

BUCKETS = 1000  # shares are counted in thousandths
RELEASES_KEPT = 256  # settings of releases that a process remembers; they never change

# Of the deployment `d`, in the order of `Deployed`.
DEPLOYED_COLUMNS = """d.id, d.mode, d.stable_id, d.candidate_id, d.canary_share, d.holdout_share, d.unit,
    d.canary_salt, d.holdout_salt, d.version"""

_SETTINGS = "SELECT number, settings FROM servable_release WHERE id = %(release)s"


class DeploymentMode(models.TextChoices):
    CONTINUOUS = "continuous", "Every approval is live at once"
    RELEASES = "releases", "Approvals wait for the next release"


class DeploymentUnit(models.TextChoices):
    SESSION = "session", "Session, else task family, else agent, else task"
    TASK = "task", "Task, by its words"
    AGENT = "agent", "Agent, else client"


class ServedArm(models.TextChoices):
    STABLE = "stable"
    CANDIDATE = "candidate"
    HOLDOUT = "holdout"
    PINNED = "pinned"


class Deployed(NamedTuple):
    """A deployment as a request sees it: read once, in the statement that every request makes anyway."""

    id: UUID
    mode: str
    stable_id: UUID | None
    candidate_id: UUID | None
    canary_share: int
    holdout_share: int
    unit: str
    canary_salt: str
    holdout_salt: str
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Exposure:
    """What a request was given, as its row keeps it.

    `arm` is empty where nothing is assigned, `release_id` None where every approval is live. `bucket`, from 0 to 999,
    is the place of the unit in the draw that decided: the canary's where one runs, else the hold-out's. `version` names
    the state of the deployment, and with it the shares.
    """

    arm: str = ""
    release_id: UUID | None = None
    unit: str = ""
    bucket: int | None = None
    version: int | None = None


NOT_EXPOSED = Exposure()


def draw_bucket(salt: str, deployment_id: UUID, unit: str) -> int:
    """Return the place of a unit in a draw, from 0 to 999: the same in every process, independent for another salt."""
    digest = hashlib.sha256(f"{salt}:{deployment_id}:{unit}".encode()).hexdigest()
    # 32 bits over 1000 buckets: the bias is below one in four million.
    return int(digest[:8], 16) % BUCKETS


def name_unit(kind: str, question: Question) -> str:
    """Return what keeps its arm: "session:a1", "family:airline", "agent:bot", or the hash of the task's words."""
    if kind == DeploymentUnit.AGENT:
        return f"agent:{question.agent or question.client or question.by.label}"
    if kind == DeploymentUnit.SESSION:
        names = (("session", question.session), ("family", question.task_id), ("agent", question.agent))
        for name, value in names:
            if value:
                return f"{name}:{value}"
    return f"task:{hashlib.sha256(question.task.encode()).hexdigest()[:32]}"


def assign(deployed: Deployed, unit: str) -> Exposure:
    """Return the arm of a unit. The hold-out is drawn first, by its own salt, so that no canary touches it."""
    stays = {"unit": unit, "version": deployed.version}
    held_out = draw_bucket(deployed.holdout_salt, deployed.id, unit)
    if held_out < deployed.holdout_share:
        return Exposure(arm=ServedArm.HOLDOUT, release_id=deployed.stable_id, bucket=held_out, **stays)  # type: ignore[arg-type]
    if deployed.candidate_id is None:
        return Exposure(arm=ServedArm.STABLE, release_id=deployed.stable_id, bucket=held_out, **stays)  # type: ignore[arg-type]
    bucket = draw_bucket(deployed.canary_salt, deployed.id, unit)
    if bucket < deployed.canary_share:
        return Exposure(arm=ServedArm.CANDIDATE, release_id=deployed.candidate_id, bucket=bucket, **stays)  # type: ignore[arg-type]
    return Exposure(arm=ServedArm.STABLE, release_id=deployed.stable_id, bucket=bucket, **stays)  # type: ignore[arg-type]


def expose(deployed: Deployed | None, question: Question) -> Exposure:
    """Return what a question is given. A client that pins a release gets that one and belongs to no arm."""
    if deployed is None:
        return NOT_EXPOSED
    if question.release_id is not None:
        return Exposure(arm=ServedArm.PINNED, release_id=question.release_id, version=deployed.version)
    if deployed.mode == DeploymentMode.CONTINUOUS and not deployed.holdout_share:
        return NOT_EXPOSED
    return assign(deployed, name_unit(deployed.unit, question))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseSettings:
    """How the lessons of a release are chosen, as it was when the release was cut."""

    number: int
    mode: str
    top_k: int
    context_budget_tokens: int
    quotas: dict[str, list[float | None]]

    @classmethod
    def of(cls, number: int, settings: dict[str, Any]) -> Self:
        """Read the settings of a manifest."""
        chosen = settings["retrieval"]
        return cls(
            number=number,
            mode=chosen["mode"],
            top_k=chosen["top_k"],
            context_budget_tokens=chosen["context_budget_tokens"],
            quotas=settings["quotas"],
        )


@lru_cache(maxsize=RELEASES_KEPT)
def read_release_settings(release_id: UUID) -> ReleaseSettings:
    """Return the settings of a release. One statement the first time; a release never changes."""
    ((number, settings),) = read_prepared(_SETTINGS, {"release": release_id})
    return ReleaseSettings.of(number, settings)


_PINNED = """
SELECT r.id FROM servable_release r JOIN memory_deployment d ON d.project_id = r.project_id AND d.mode = 'releases'
WHERE r.project_id = %(project)s
    AND CASE WHEN %(number)s::int IS NOT NULL THEN r.number = %(number)s::int ELSE r.sha256 LIKE %(start)s END
    AND (r.lessons = 0 OR EXISTS (SELECT FROM servable_member k WHERE k.release_id = r.id))
"""


def find_pinned(project_id: UUID, name: str) -> UUID:
    """Return the release that a client asks for, by its number, its hash or the beginning of it.

    Raises:
        NoSuchRelease: the project has none of that name that is kept ready, or it serves every approval at once.
    """
    # Eight digits or more may be the beginning of a hash.
    is_number = name.isdecimal() and len(name) < 8
    rows = []
    if is_number or re.fullmatch("[0-9a-f]{8,64}", name):
        asked = {"project": project_id, "number": int(name) if is_number else None, "start": f"{name}%"}
        rows = read_prepared(_PINNED, asked)
    if len(rows) != 1:
        raise NoSuchRelease(
            f"No release {name!r} is ready in this project. Name one that is deployed or among the newest; "
            "GET /releases lists them."
        )
    id: UUID = rows[0][0]
    return id
