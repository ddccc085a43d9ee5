"""Cut, compare, try, promote and roll back releases."""

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.errors import MemoryAppError
from memory.heuristics.models import HeuristicRevision
from memory.management.options import add_project_argument, get_project, quiet_logs
from memory.projects.actors import Actor
from memory.projects.models import Project
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
from memory.releases.diff import diff_releases
from memory.releases.models import MOST_SHADOWED, Deployment, Release
from memory.retrieval.context import write_body

BY = Actor(label="command:release")
_SHARE_HELP = "share of the units in percent, such as 5 or 0.5"


class Command(BaseCommand):
    help = "Cut releases of what is approved, compare them, and decide which one agents are given."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project_argument(parser)
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        cut = actions.add_parser("cut", help="make a release of what is approved now")
        cut.add_argument("--note", default="", help="what is new in it, for people to read")
        actions.add_parser("list", help="list releases, and what is deployed")
        diff = actions.add_parser("diff", help="show what differs between two releases")
        diff.add_argument("before", help="number or hash")
        diff.add_argument("after", help="number or hash")
        canary = actions.add_parser("canary", help="give a release to a share of the units, or change the share")
        canary.add_argument("release", help="number or hash")
        canary.add_argument("share", type=float, help=_SHARE_HELP)
        promote_it = actions.add_parser("promote", help="make a release stable")
        promote_it.add_argument("release", nargs="?", help="number or hash (default: the candidate)")
        rollback = actions.add_parser("rollback", help="end the canary or, if none runs, return to the release before")
        rollback.add_argument("release", nargs="?", help="number or hash of the release to return to")
        holdout = actions.add_parser("holdout", help="give a share of the units no lessons, as a control group")
        holdout.add_argument("share", type=float, help=_SHARE_HELP)
        shadow = actions.add_parser(
            "shadow", help="work out what the candidate would answer, for a share of the answers"
        )
        shadow.add_argument("share", type=float, help="share of the answers in percent")
        shadow.add_argument("--per-minute", type=_read_number, help="most of them in a minute")
        mode = actions.add_parser("mode", help="serve releases, or every approval at once")
        mode.add_argument("mode", choices=Deployment.Mode.values)
        for action in (canary, promote_it, rollback, holdout, shadow, mode):
            action.add_argument("--reason", default="", help="why; kept with the change")

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        with quiet_logs(verbosity=options["verbosity"]):
            try:
                getattr(self, f"_{options['action']}")(project, options)
            except MemoryAppError as refusal:
                raise CommandError(str(refusal)) from refusal

    def _cut(self, project: Project, options: dict[str, Any]) -> None:
        release = cut_release(project, by=BY, note=options["note"])
        self.stdout.write(release.cut_in_words(note=options["note"]))

    def _list(self, project: Project, options: dict[str, Any]) -> None:
        deployment = get_deployment(project)
        places = {
            deployment.previous_id: "previous",
            deployment.candidate_id: "candidate",
            deployment.stable_id: "stable",
        }
        for release in Release.objects.filter(project=project).order_by("-number"):
            place = places.get(release.pk, "")
            self.stdout.write(
                f"{release.number:>5}  {release.sha256[:12]}  {release.created_at:%Y-%m-%d %H:%M}  "
                f"{len(release.manifest['lessons']):>6,} lessons  {place:<9}  {release.note}".rstrip()
            )
        self._say(deployment)

    def _diff(self, project: Project, options: dict[str, Any]) -> None:
        diff = diff_releases(get_release(project, options["before"]), get_release(project, options["after"]))
        for sign, changes in (("+", diff.added), ("-", diff.removed), ("~", diff.reworded)):
            for change in changes:
                if change.before is not None and sign != "+":
                    self.stdout.write(f"- {_write(change.before)}")
                if change.after is not None and sign != "-":
                    self.stdout.write(f"+ {_write(change.after)}")
        for name, before, after in diff.settings:
            self.stdout.write(f"{name}: {before} → {after}")
        self.stdout.write(
            f"{len(diff.added)} added, {len(diff.removed)} removed, {len(diff.reworded)} reworded, "
            f"{len(diff.settings)} settings changed, {diff.unchanged:,} lessons unchanged."
        )

    def _canary(self, project: Project, options: dict[str, Any]) -> None:
        release = get_release(project, options["release"])
        share = _read_share(options["share"])
        self._say(start_canary(project, release=release, share=share, by=BY, reason=options["reason"]))

    def _promote(self, project: Project, options: dict[str, Any]) -> None:
        self._say(promote(project, release=_find(project, options), by=BY, reason=options["reason"]))

    def _rollback(self, project: Project, options: dict[str, Any]) -> None:
        self._say(roll_back(project, to=_find(project, options), by=BY, reason=options["reason"]))

    def _holdout(self, project: Project, options: dict[str, Any]) -> None:
        change = DeploymentChange(holdout_share=_read_share(options["share"]))
        self._say(change_deployment(project, change=change, by=BY, reason=options["reason"]))

    def _shadow(self, project: Project, options: dict[str, Any]) -> None:
        change = DeploymentChange(shadow_share=_read_share(options["share"]), shadow_per_minute=options["per_minute"])
        self._say(change_deployment(project, change=change, by=BY, reason=options["reason"]))

    def _mode(self, project: Project, options: dict[str, Any]) -> None:
        change = DeploymentChange(mode=options["mode"])
        self._say(change_deployment(project, change=change, by=BY, reason=options["reason"]))

    def _say(self, deployment: Deployment) -> None:
        self.stdout.write(deployment.in_words())


def _find(project: Project, options: dict[str, Any]) -> Release | None:
    return get_release(project, options["release"]) if options["release"] else None


def _read_share(percent: float) -> int:
    """Return a share in thousandths."""
    if not 0 <= percent <= 100:
        raise CommandError(f"{percent:g} is not a share: give a number from 0 to 100.")
    return round(percent * 10)


def _read_number(text: str) -> int:
    """Return how many answers a minute may be worked out again."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SHADOWED:
        raise ArgumentTypeError(f"{text} is not a number from 1 to {MOST_SHADOWED}")
    return int(text)


def _write(wording: HeuristicRevision) -> str:
    words = {name: getattr(wording, name) for name in ("trigger", "guideline", "avoid", "not_when")}
    return write_body({"id": wording.heuristic_id} | words)
