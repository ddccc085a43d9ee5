"""Periodic work of the evaluation. The sweeper of the reflection app runs it."""

from datetime import timedelta

from evaluation.evolution.aftercare import take_back_worse
from evaluation.experiments.looks import look_at_experiments
from evaluation.shadow.jobs import queue_shadow_jobs
from memory.housekeeping import PeriodicWork

PERIODIC = (
    PeriodicWork("experiments", timedelta(seconds=4), look_at_experiments),
    PeriodicWork("promoted changes", timedelta(minutes=1), take_back_worse),
    PeriodicWork("shadow answers", timedelta(minutes=1), queue_shadow_jobs),
)
