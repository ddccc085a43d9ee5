"""List, start, show and stop the experiments of a project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evaluation.errors import EvaluationError
from evaluation.experiments.lifecycle import start_experiment, stop_experiment
from evaluation.experiments.looks import find_last_looks, take_look
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import LONGEST_LOOK_BACK, STEPS, Method, Plan, Rule
from evaluation.reports.experiments import describe_experiment, show_look, write_sentence
from memory.errors import MemoryAppError
from memory.management.options import add_project_argument, get_project, quiet_logs
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import get_release

OPERATOR = Actor.policy("operator")


class Command(BaseCommand):
    help = (
        "Try a release against the stable one, or the lessons against the hold-out, with a plan that is fixed from the "
        "start. Workers look at running experiments once a minute and roll back at once when a guardrail fires."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_project_argument(parser)
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list the experiments, each with its result in a sentence")
        start = actions.add_parser("start", help="start an experiment")
        start.add_argument(
            "--release", default="", help="number or hash of the release to try (default: compare with the hold-out)"
        )
        start.add_argument(
            "--max-units",
            type=int,
            default=Plan().max_units,
            help="units with a known outcome, in the last step, after which it ends; default: %(default)s",
        )
        start.add_argument("--tau", type=float, default=Plan().tau, help="the effect hoped for; default: %(default)s")
        start.add_argument("--method", choices=Method.values, default=Method.MIXTURE)
        start.add_argument("--margin", type=float, default=0.0, help="accept a release that is at most this much worse")
        start.add_argument(
            "--hours", type=float, default=24.0, help="how long an outcome may take; default: %(default)s"
        )
        start.add_argument("--by-hand", action="store_true", help="no steps; people set the share of the canary")
        start.add_argument("--promote", action="store_true", help="promote without a person if the rule is met")
        for name, says in (
            ("show", "show figures and looks"),
            ("look", "look now"),
            ("stop", "end without a conclusion"),
        ):
            actions.add_parser(name, help=says).add_argument("number", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        with quiet_logs(verbosity=options["verbosity"]):
            try:
                getattr(self, f"_{options['action']}")(project, options)
            except (EvaluationError, MemoryAppError) as error:
                raise CommandError(str(error)) from error

    def _list(self, project: Project, options: dict[str, Any]) -> None:
        found = list(Experiment.objects.filter(project=project).select_related("treated_release"))
        looks = find_last_looks(found)
        for experiment in found:
            sentence = write_sentence(experiment, looks.get(experiment.pk))
            self.stdout.write(f"{experiment.number:>4}  {experiment.status:<7}  {sentence}")
        if not found:
            self.stdout.write("There are no experiments yet. `start` starts one.")

    def _start(self, project: Project, options: dict[str, Any]) -> None:
        release = get_release(project, options["release"]) if options["release"] else None
        if not 0 < options["hours"] * 3600 <= LONGEST_LOOK_BACK:  # also where it is not a number
            raise CommandError(f"Give --hours as a number above 0, at most {LONGEST_LOOK_BACK // 3600:,}.")
        plan = Plan(
            method=options["method"],
            rule=Rule.NOT_WORSE if options["margin"] else Rule.BETTER,
            margin=options["margin"],
            tau=options["tau"],
            max_units=options["max_units"],
            look_back_seconds=round(options["hours"] * 3600),
            steps=() if options["by_hand"] or release is None else STEPS,
        )
        promotes = Experiment.Promotes.POLICY if options["promote"] else Experiment.Promotes.PEOPLE
        experiment = start_experiment(project, plan=plan, by=OPERATOR, release=release, promotes=promotes)
        self.stdout.write(f"{experiment} runs. `show {experiment.number}` says what is known so far.")

    def _show(self, project: Project, options: dict[str, Any]) -> None:
        shown = describe_experiment(_get(project, options["number"]))
        self.stdout.write(shown["sentence"])
        self.stdout.write(f"{shown['planned']}\n")
        width = max(len(name) for name, _ in shown["plan"])
        for name, value in shown["plan"]:
            self.stdout.write(f"{name:<{width}}  {value}")
        if shown["last"]:
            self.stdout.write("\nlook  control  treated  points  interval          e-value  verdict")
            for look in shown["looks"][-10:]:
                self.stdout.write(show_look(look))
            self.stdout.write("")
        for row in shown["guardrails"]:
            self.stdout.write(f"Guardrail {row['label'].lower()}: {row['shown']}{', FIRED' if row['fired'] else ''}")
        for alarm in shown["alarms"]:
            self.stdout.write(f"Alarm: {alarm}")
        for unknown in shown["cannot_tell"]:
            self.stdout.write(f"Not known: {unknown}")

    def _look(self, project: Project, options: dict[str, Any]) -> None:
        experiment = _get(project, options["number"])
        take_look(experiment.pk)
        self.stdout.write(describe_experiment(_get(project, options["number"]))["sentence"])

    def _stop(self, project: Project, options: dict[str, Any]) -> None:
        experiment = stop_experiment(_get(project, options["number"]), by=OPERATOR, reason="Stopped by the operator.")
        self.stdout.write(f"{experiment} has ended. What is deployed stays as it is.")


def _get(project: Project, number: int) -> Experiment:
    found = Experiment.objects.filter(project=project, number=number).select_related(
        "treated_release", "control_release"
    )
    experiment = found.first()
    if experiment is None:
        raise CommandError(f"The project has no experiment {number}. `list` lists them.")
    return experiment
