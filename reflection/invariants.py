"""What must hold of jobs, of reflections and of their effects (reliability B3, B4, B14)."""

from memory.trust.invariants import Invariant, same_project

_PAIRS = (
    ("reflection_job", "trajectory_id", "memory_trajectory"),
    ("reflection_proposal", "heuristic_id", "memory_heuristic"),
    ("reflection_proposal", "reflection_id", "reflection_job"),
    ("reflection_modelcall", "job_id", "reflection_job"),
)

INVARIANTS = [
    Invariant(
        name="effect_and_end_are_one",
        says="Only a reflection that is done has effects, and it has as many as it says.",
        broken_by="SELECT j.id FROM reflection_job j LEFT JOIN reflection_proposal p ON p.reflection_id = j.id "
        "WHERE j.kind = 'reflection' GROUP BY j.id HAVING (j.status <> 'done' AND count(p.id) > 0) OR (j.status = "
        "'done' AND coalesce((j.result->>'heuristics_proposed')::int, 0) < "
        "count(p.id) FILTER (WHERE p.effect <> 'support'))",
    ),
    Invariant(
        name="running_has_a_lease",
        says="A job has a lease while it runs, and no longer.",
        broken_by="SELECT id FROM reflection_job WHERE (status = 'running') <> (lease_until IS NOT NULL)",
    ),
    Invariant(
        name="finished_has_an_end",
        says="A job that is done or dead says when it ended; another does not.",
        broken_by="SELECT id FROM reflection_job WHERE (status IN ('done', 'dead')) <> (finished_at IS NOT NULL)",
    ),
    Invariant(
        name="job_costs_what_its_calls_cost",
        says="A job has the tokens of its model calls.",
        broken_by="SELECT j.id FROM reflection_job j LEFT JOIN reflection_modelcall c ON c.job_id = j.id "
        "GROUP BY j.id HAVING j.input_tokens + j.output_tokens > coalesce(sum(c.input_tokens + c.output_tokens), 0)",
    ),
    Invariant(
        name="machine_lesson_has_evidence",
        says="A lesson that a reflector proposed names the run it comes from.",
        broken_by="SELECT h.id FROM memory_heuristic h JOIN reflection_proposal p ON p.heuristic_id = h.id "
        "WHERE h.status <> 'superseded' AND NOT EXISTS (SELECT FROM memory_evidence e WHERE e.heuristic_id = h.id)",
    ),
    *(same_project(*pair) for pair in _PAIRS),
]
