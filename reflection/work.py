"""What the workers do: the kinds of jobs of this app, and the periodic work of this app and the memory."""

from datetime import timedelta
from functools import partial

from memory import housekeeping
from memory.housekeeping import PeriodicWork
from reflection.consolidation import models as consolidation
from reflection.consolidation.execution import run_consolidation
from reflection.consolidation.requests import request_due_consolidations, request_nightly_consolidations
from reflection.jobs.doorbell import doorbell
from reflection.jobs.kinds import JobKind
from reflection.jobs.workers import forget_old_workers
from reflection.llm.budget import resume_projects
from reflection.reflectors import models as reflectors
from reflection.reflectors.reflections import run_reflection

KINDS = (
    JobKind(name=reflectors.KIND, run=run_reflection, command="run_reflections"),
    JobKind(name=consolidation.KIND, run=run_consolidation),
)
PERIODIC = (
    PeriodicWork("raised budgets", timedelta(seconds=4), resume_projects),
    *housekeeping.PERIODIC,
    PeriodicWork("due consolidations", timedelta(seconds=4), request_due_consolidations),
    PeriodicWork("nightly consolidations", timedelta(minutes=1), request_nightly_consolidations),
    PeriodicWork("old workers", timedelta(minutes=1), forget_old_workers),
    PeriodicWork("search indexes", timedelta(hours=1), partial(doorbell.send, "memory.tasks.tune_retrieval")),
)
