"""Set the polarity quotas of a project from an evaluation."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.errors import EvaluationError
from evaluation.quotas import MIN_TASKS, LearntQuota, learn_quotas
from evaluation.reports.lookup import find_report
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.limits import set_polarity_quota

_ADVICE = {
    "mixed": "free mix: neither half is shown to be better",
    "failures": "only lessons from failures",
    "successes": "only lessons from successes",
}


class Command(BaseCommand):
    help = (
        "Show for each task family whether only lessons from failures, or only lessons from successes, work better "
        "than both, from an evaluation with the arms hybrid:N, hybrid:N:failures and hybrid:N:successes. --apply sets "
        "the result as the project's polarity quotas; families without a clear result keep the quota they have."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", help="id of an evaluation run, or a file of `evaluate --json`")
        parser.add_argument("--suite", default="yours", help="suite whose tasks to use; default: %(default)s")
        parser.add_argument("--project", metavar="SLUG", help="project whose quotas to set")
        parser.add_argument("--apply", action="store_true", help="set the quotas instead of only showing them")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            learnt = learn_quotas(find_report(options["run"]), suite=options["suite"])
        except EvaluationError as error:
            raise CommandError(str(error)) from error
        width = max(len(_name(quota)) for quota in learnt)
        self.stdout.write(f"{'family':<{width}}  tasks  mixed  failures  successes  smallest p  best")
        for quota in learnt:
            mixed, failures, successes = (quota.success[name] for name in ("mixed", "failures", "successes"))
            self.stdout.write(
                f"{_name(quota):<{width}}  {quota.tasks:5}  {mixed:5.3f}  {failures:8.3f}  {successes:9.3f}  "
                f"{quota.p:10.4f}  {_ADVICE[quota.best]}"
            )
        self.stdout.write(
            f"Families with fewer than {MIN_TASKS} tasks count only under “every family”. A half is chosen if an "
            f"exact sign test against the mix gives p ≤ 0.05 / {2 * len(learnt)}."
        )
        shown = [quota for quota in learnt if quota.best != "mixed"]
        if not options["apply"]:
            self.stdout.write(
                "Nothing was changed. Add --project SLUG --apply to set these quotas."
                if shown
                else "There is nothing to set."
            )
            return
        project = Project.objects.filter(slug=options["project"] or "").first()
        if project is None:
            raise CommandError("Name the project whose quotas to set with --project SLUG.")
        for quota in shown:
            works, avoid = quota.shares
            set_polarity_quota(
                project,
                task_id=quota.family,
                max_works_share=works,
                max_avoid_share=avoid,
                by=Actor.policy(f"evaluation {options['run']}"[:100]),
            )
        self.stdout.write(f"Quotas set in {project.slug}: {len(shown)}. All processes use them within five seconds.")


def _name(quota: LearntQuota) -> str:
    return quota.family or "every family"
