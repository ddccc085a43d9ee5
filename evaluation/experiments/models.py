"""Experiments and their looks. The database keeps plans and looks as they are (evaluation/sql/experiments.sql)."""

from typing import Self

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from evaluation.experiments.analysis import ArmVerdict
from evaluation.experiments.plan import DecisionRule, ExperimentPlan, Guardrail, Method, Metric, RolloutStep, UnitRule
from memory.constraints import one_of
from memory.ids import uuid7
from memory.projects.models import Project
from memory.releases.models import Deployment, Release
from memory.stored_text import BY_PEOPLE, FIGURES, StoredJson, StoredText


class ComparedArms(models.TextChoices):
    CANARY = "canary", "The candidate against the stable release"
    MEMORY = "memory", "The lessons against none, in the hold-out"


class Promotes(models.TextChoices):
    PEOPLE = "people", "A person promotes"
    POLICY = "policy", "Promoted as soon as the decision rule is met"


class ExperimentStatus(models.TextChoices):
    RUNNING = "running"
    ENDED = "ended"


class ExperimentQuerySet(models.QuerySet["Experiment"]):
    def running(self) -> Self:
        return self.filter(status=ExperimentStatus.RUNNING)


class Experiment(models.Model):
    """Two arms of a deployment, a plan that is fixed from the start, and how it ended.

    `conclusion` is the verdict that ended it, or empty where a person or a change of the deployment did. A candidate
    that is `better` still waits for a person, unless `promotes` lets the policy promote it.
    """

    Status = ExperimentStatus
    Compared = ComparedArms
    Promotes = Promotes

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField(help_text="Counts the experiments of the project.")
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="+")
    compared = models.TextField(choices=ComparedArms.choices, default=ComparedArms.CANARY)
    treated_release = models.ForeignKey(
        Release,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Empty where every approval is live at once.",
    )
    control_release = models.ForeignKey(
        Release, null=True, blank=True, on_delete=models.CASCADE, related_name="+", help_text="Empty for no lessons."
    )
    first_version = models.PositiveIntegerField(help_text="The state of the deployment in which it started.")
    metric = models.TextField(choices=Metric.choices, default=Metric.SUCCESS)
    method = models.TextField(choices=Method.choices, default=Method.MIXTURE)
    rule = models.TextField(choices=DecisionRule.choices, default=DecisionRule.BETTER)
    unit_rule = models.TextField(choices=UnitRule.choices, default=UnitRule.FIRST)
    alpha = models.FloatField(default=0.05)
    tau = models.FloatField(default=0.1)
    margin = models.FloatField(default=0.0)
    max_units = models.PositiveIntegerField()
    look_back_seconds = models.PositiveIntegerField(default=86_400)
    use_past = models.BooleanField(default=False)
    only_differing = models.BooleanField(
        default=False, help_text="The verdict counts only units that the two releases answer differently."
    )
    guardrails = models.JSONField(default=list)
    steps = models.JSONField(default=list, blank=True)
    promotes = models.TextField(choices=Promotes.choices, default=Promotes.PEOPLE)
    started_by = models.TextField()
    started_at = models.DateTimeField(db_default=Now())
    status = models.TextField(choices=Status.choices, default=Status.RUNNING)
    conclusion = models.TextField(blank=True, default="")
    reason = StoredText(blank=True, default="", help_text="Why it ended.", kept=BY_PEOPLE)
    ended_by = models.TextField(blank=True, default="")
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = ExperimentQuerySet.as_manager()

    class Meta:
        ordering = ["-started_at", "-id"]
        constraints = [
            one_of("compared", ComparedArms, "evaluation_experiment_compared_known"),
            one_of("metric", Metric, "evaluation_experiment_metric_known"),
            one_of("method", Method, "evaluation_experiment_method_known"),
            one_of("rule", DecisionRule, "evaluation_experiment_rule_known"),
            one_of("unit_rule", UnitRule, "evaluation_experiment_unit_rule_known"),
            one_of("promotes", Promotes, "evaluation_experiment_promotes_known"),
            one_of("status", ExperimentStatus, "evaluation_experiment_status_known"),
            models.CheckConstraint(
                condition=Q(conclusion="") | Q(conclusion__in=ArmVerdict.values),
                name="evaluation_experiment_conclusion_known",
            ),
            models.CheckConstraint(
                # An end without a time, or a conclusion before the end, cannot be stored.
                condition=Q(status="running", ended_at__isnull=True, conclusion="")
                | Q(status="ended", ended_at__isnull=False),
                name="evaluation_experiment_end_has_time",
            ),
            models.CheckConstraint(
                condition=Q(alpha__gt=0, alpha__lt=1, tau__gt=0, margin__gte=0, max_units__gt=0),
                name="evaluation_experiment_rates_in_range",
            ),
            models.CheckConstraint(
                # The hold-out gets no lessons, so there is no release of a control then.
                condition=Q(compared="canary", treated_release__isnull=False, control_release__isnull=False)
                | Q(compared="memory", control_release__isnull=True),
                name="evaluation_experiment_control_fits",
            ),
            models.UniqueConstraint(fields=["project", "number"], name="evaluation_experiment_number_once"),
            models.UniqueConstraint(
                fields=["deployment", "compared"],
                # Two experiments at once in one deployment would disturb each other.
                condition=Q(status="running"),
                name="evaluation_experiment_one_running",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-started_at", "-id"], name="evaluation_exp_recent"),
        ]

    def __str__(self) -> str:
        return f"Experiment {self.number}"

    @property
    def plan(self) -> ExperimentPlan:
        """Return the part of the row that the analysis needs."""
        return ExperimentPlan(
            metric=self.metric,
            method=self.method,
            rule=self.rule,
            unit_rule=self.unit_rule,
            alpha=self.alpha,
            tau=self.tau,
            margin=self.margin,
            max_units=self.max_units,
            look_back_seconds=self.look_back_seconds,
            use_past=self.use_past,
            only_differing=self.only_differing,
            guardrails=tuple(Guardrail.from_json(guardrail) for guardrail in self.guardrails),
            steps=tuple(RolloutStep(**step) for step in self.steps),
        )


class Look(models.Model):
    """What was found at one time. A look is written when something new is known, and never changed."""

    Verdict = ArmVerdict

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="looks", db_index=False)
    number = models.PositiveIntegerField()
    taken_at = models.DateTimeField(db_default=Now())
    control_units = models.PositiveIntegerField(help_text="Units whose outcome counts.")
    treated_units = models.PositiveIntegerField()
    control_mean = models.FloatField(null=True)
    treated_mean = models.FloatField(null=True)
    estimate = models.FloatField(null=True, help_text="Treated minus control, compared within each share.")
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    e_value = models.FloatField()
    ratio_e_value = models.FloatField()
    missing_e_value = models.FloatField()
    guardrails = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    outcomes = models.JSONField(default=dict, help_text="Units of each arm by what is known of their outcome.")
    families = StoredJson(
        default=dict,
        db_default={},
        help_text="The arms in each task family, and whether the effect differs between them.",
        kept=FIGURES,
    )
    share = models.PositiveIntegerField(help_text="Of the treated arm at the time, in thousandths of all units.")
    verdict = models.TextField(choices=ArmVerdict.choices)
    reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["experiment", "number"]
        constraints = [
            one_of("verdict", ArmVerdict, "evaluation_look_verdict_known"),
            models.CheckConstraint(condition=Q(low__isnull=True) | Q(low__lte=F("high")), name="evaluation_look_order"),
            models.UniqueConstraint(fields=["experiment", "number"], name="evaluation_look_number_once"),
        ]

    def __str__(self) -> str:
        return f"Look {self.number}: {self.verdict}"
