"""What changes of agents were worth in their trials, for the pages of agents and changes."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html

from evaluation.experiments.looks import find_last_looks
from evaluation.experiments.models import Experiment
from evaluation.reports.experiments import show_estimate
from runtime.models.changes import Change


def draw_worth(changes: Sequence[Change]) -> Mapping[UUID, str]:
    """Return for each change what its last experiment found, with a link. Two queries."""
    releases = [row.release_id for row in changes if row.release_id is not None]
    rows = Experiment.objects.filter(treated_release__in=releases, compared=Experiment.Compared.CANARY)
    # If a release was tried more than once, the last trial counts.
    tried = {row.treated_release_id: row for row in rows.order_by("number")}
    looks = find_last_looks(tried.values())
    drawn = {}
    for change in changes:
        if (experiment := tried.get(change.release_id)) is None:
            continue
        look, text = looks.get(experiment.pk), "nothing known yet"
        if look is not None and look.low is not None:
            text = show_estimate(look)
        page = reverse("admin:evaluation_experiment_change", args=[experiment.pk])
        drawn[change.pk] = format_html('<a href="{}">{}</a>: {}', page, str(experiment).lower(), text)
    return drawn
