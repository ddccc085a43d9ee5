"""Releases and what is deployed, over HTTP."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.pagination import LimitOffset
from memory.api.schema import describe
from memory.heuristics.models import HeuristicRevision
from memory.projects.models import ApiKey, Project
from memory.releases.deployments import (
    DeploymentChange,
    change_deployment,
    cut_release,
    get_deployment,
    get_release,
    promote,
    roll_back,
    start_canary,
)
from memory.releases.diff import LessonChange, ReleaseDiff, diff_releases
from memory.releases.models import Deployment, DeploymentEvent, Release, ReleaseMember
from memory.releases.serializers import (
    CanaryInput,
    CutInput,
    DeploymentAnswer,
    DeploymentPatch,
    PromoteInput,
    ReleaseDetail,
    ReleaseDiffAnswer,
    ReleasePage,
    RollbackInput,
)

Scope = ApiKey.Scope
EVENTS_SHOWN = 20
_WORDS = ("content_sha256", "trigger", "guideline", "avoid", "not_when")


class ReleaseListView(ApiView):
    required_scopes = {"GET": Scope.HEURISTICS_READ, "POST": Scope.RELEASE}
    pagination_class = LimitOffset
    queryset = Release.objects.none()
    body_optional = True

    @describe(
        "listReleases",
        tag="releases",
        summary="List releases",
        description="Immutable manifests of the lessons and settings that were approved when each was cut, the newest "
        "first.",
        responses=ReleasePage,
    )
    def get(self, request: Request) -> Response:
        releases = Release.objects.filter(project=self.project).select_related("parent").order_by("-number")
        return self.answer_rows(releases, describe_release)

    @describe(
        "cutRelease",
        tag="releases",
        summary="Cut a release",
        description="Makes a release of the lessons that are approved now, with the settings that choose among them. "
        "Agents do not get it yet. If nothing differs from a release that exists, that one is the answer, with the "
        "status 200 and the note that it has.",
        request=CutInput,
        responses={
            201: OpenApiResponse(ReleaseDetail, "It is new."),
            200: OpenApiResponse(ReleaseDetail, "A release with this content exists."),
        },
    )
    def post(self, request: Request) -> Response:
        sent = CutInput.from_body(self.body)
        release = cut_release(self.project, by=self.actor, how=Release.How.API, note=sent.note)
        status = 201 if release.is_new else 200
        response = Response(describe_release(release) | {"manifest": release.manifest}, status=status)
        response.resource_id = release.pk  # type: ignore[attr-defined]
        return response


class ReleaseView(ApiView):
    required_scopes = {"GET": Scope.HEURISTICS_READ}

    @describe(
        "getRelease",
        tag="releases",
        summary="Read a release",
        description="By its number, its hash, or the beginning of the hash from 8 characters on.",
        responses=ReleaseDetail,
    )
    def get(self, request: Request, id: str) -> Response:
        release = get_release(self.project, id)
        return Response(describe_release(release) | {"manifest": release.manifest})


class ReleaseDiffView(ApiView):
    required_scopes = {"GET": Scope.HEURISTICS_READ}

    @describe(
        "diffReleases",
        tag="releases",
        summary="Compare two releases",
        description="The lessons that were added, removed or reworded from the first to the second, with their words, "
        "and the settings that changed.",
        responses=ReleaseDiffAnswer,
    )
    def get(self, request: Request, id: str, other: str) -> Response:
        before, after = get_release(self.project, id), get_release(self.project, other)
        return Response(describe_diff(before, after, diff_releases(before, after)))


class DeploymentView(ApiView):
    required_scopes = {"GET": Scope.HEURISTICS_READ, "PATCH": Scope.RELEASE}

    @describe(
        "getDeployment",
        tag="releases",
        summary="Read what is deployed",
        description="What the agents of the project are given: every approval at once (`continuous`), or a stable "
        "release and perhaps a candidate; and the share that gets no lessons.",
        responses=DeploymentAnswer,
    )
    def get(self, request: Request) -> Response:
        return Response(describe_deployment(self.project))

    @describe(
        "changeDeployment",
        tag="releases",
        summary="Change how the project is served",
        description="With the mode `releases`, what is approved now becomes the stable release, and later approvals "
        "wait for the next one. With `continuous`, every approval is live at once again.",
        request=DeploymentPatch,
        responses=DeploymentAnswer,
    )
    def patch(self, request: Request) -> Response:
        sent = DeploymentPatch.from_body(self.body)
        change = DeploymentChange(
            mode=sent.mode,
            holdout_share=_as_thousandths(sent.holdout_percent),
            unit=sent.unit,
            cut_policy=sent.cut_policy,
            shadow_share=_as_thousandths(sent.shadow_percent),
            shadow_per_minute=sent.shadow_per_minute,
        )
        change_deployment(self.project, by=self.actor, change=change, reason=sent.reason)
        return Response(describe_deployment(self.project))


class CanaryView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}

    @describe(
        "startCanary",
        tag="releases",
        summary="Try a release on a share of the units",
        description="The release becomes the candidate. The same release with another share changes the share: units "
        "keep their arm while it grows. A different release ends the current canary.",
        request=CanaryInput,
        responses=DeploymentAnswer,
    )
    def post(self, request: Request) -> Response:
        sent = CanaryInput.from_body(self.body)
        release = get_release(self.project, sent.release)
        share = round(sent.percent * 10)
        start_canary(self.project, release=release, share=share, by=self.actor, reason=sent.reason)
        return Response(describe_deployment(self.project))


class PromoteView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}
    body_optional = True

    @describe(
        "promoteRelease",
        tag="releases",
        summary="Make a release stable",
        description="The candidate, unless another release is named. A canary ends; the hold-out stays.",
        request=PromoteInput,
        responses=DeploymentAnswer,
    )
    def post(self, request: Request) -> Response:
        sent = PromoteInput.from_body(self.body)
        release = get_release(self.project, sent.release) if sent.release else None
        promote(self.project, by=self.actor, release=release, reason=sent.reason)
        return Response(describe_deployment(self.project))


class RollbackView(ApiView):
    required_scopes = {"POST": Scope.RELEASE}
    body_optional = True

    @describe(
        "rollBack",
        tag="releases",
        summary="Take back what was deployed last",
        description="Ends the canary if one runs; otherwise the release that was stable before is stable again. One "
        "pointer moves: requests get the other release within a second.",
        request=RollbackInput,
        responses=DeploymentAnswer,
    )
    def post(self, request: Request) -> Response:
        sent = RollbackInput.from_body(self.body)
        release = get_release(self.project, sent.release) if sent.release else None
        roll_back(self.project, by=self.actor, to=release, reason=sent.reason)
        return Response(describe_deployment(self.project))


def describe_release(release: Release) -> dict[str, Any]:
    """Return a release as clients read it, without its manifest."""
    return {
        "id": release.pk,
        "number": release.number,
        "sha256": release.sha256,
        "parent": release.parent.number if release.parent else None,
        "lessons": len(release.manifest["lessons"]),
        "how": release.how,
        "note": release.note,
        "created_by": release.created_by,
        "created_at": release.created_at,
    }


def describe_deployment(project: Project) -> dict[str, Any]:
    """Return what is deployed in a project as clients read it."""
    deployment = get_deployment(project)
    events = DeploymentEvent.objects.filter(project=project).order_by("-version")[:EVENTS_SHOWN]
    members = ReleaseMember.objects.filter(release=deployment.stable_id)
    served = HeuristicRevision.objects.of_lessons().for_project(project).served()
    is_staged = deployment.mode == Deployment.Mode.RELEASES
    return {
        "mode": deployment.mode,
        **{
            name: release.number if release else None
            for name in ("stable", "candidate", "previous")
            for release in (getattr(deployment, name),)
        },
        "canary_percent": deployment.canary_share / 10,
        "holdout_percent": deployment.holdout_share / 10,
        "shadow_percent": deployment.shadow_share / 10,
        "shadow_per_minute": deployment.shadow_per_minute,
        "unit": deployment.unit,
        "cut_policy": deployment.cut_policy,
        "version": deployment.version,
        "waiting": served.exclude(pk__in=members.values("revision")).count() if is_staged else 0,
        "events": [
            {name: getattr(event, name) for name in ("version", "kind", "reason", "made_by", "made_at")}
            for event in events
        ],
    }


def describe_diff(before: Release, after: Release, diff: ReleaseDiff) -> dict[str, Any]:
    """Return what differs between two releases as clients read it."""
    return {
        "before": before.number,
        "after": after.number,
        **{
            name: [_describe_change(change) for change in getattr(diff, name)]
            for name in ("added", "removed", "reworded")
        },
        "settings": [{"name": name, "before": was, "after": now} for name, was, now in diff.settings],
        "unchanged": diff.unchanged,
    }


def _describe_change(change: LessonChange) -> dict[str, Any]:
    return {
        "heuristic": change.heuristic_id,
        "before": _describe_wording(change.before),
        "after": _describe_wording(change.after),
    }


def _describe_wording(wording: HeuristicRevision | None) -> dict[str, Any] | None:
    if wording is None:
        return None
    return {"revision": wording.number, **{name: getattr(wording, name) for name in _WORDS}}


def _as_thousandths(percent: float | None) -> int | None:
    return None if percent is None else round(percent * 10)
