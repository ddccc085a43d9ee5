"""What must hold of reflections and their effects (reliability B3, B4, B14)."""

from memory.trust.invariants import Invariant, same_project

_PAIRS = (
    ("reflection_reflection", "trajectory_id", "memory_trajectory"),
    ("reflection_proposal", "heuristic_id", "memory_heuristic"),
    ("reflection_proposal", "reflection_id", "reflection_reflection"),
    ("reflection_modelcall", "reflection_id", "reflection_reflection"),
)

INVARIANTS = [
    Invariant(
        name="effect_and_end_are_one",
        says="Only a reflection that is done has effects, and it has as many as it says.",
        broken_by="SELECT r.id FROM reflection_reflection r LEFT JOIN reflection_proposal p ON p.reflection_id = r.id "
        "GROUP BY r.id HAVING (r.status <> 'done' AND count(p.id) > 0) OR "
        "(r.status = 'done' AND r.heuristics_proposed < count(p.id) FILTER (WHERE p.effect <> 'support'))",
    ),
    Invariant(
        name="running_has_a_lease",
        says="A reflection has a lease while it runs, and no longer.",
        broken_by="SELECT id FROM reflection_reflection WHERE (status = 'running') <> (lease_until IS NOT NULL)",
    ),
    Invariant(
        name="finished_has_an_end",
        says="A reflection that is done or dead says when it ended; another does not.",
        broken_by="SELECT id FROM reflection_reflection WHERE (status IN ('done', 'dead')) <> "
        "(finished_at IS NOT NULL)",
    ),
    Invariant(
        name="reflection_costs_what_its_calls_cost",
        says="A finished reflection has the tokens of its model calls.",
        broken_by="SELECT r.id FROM reflection_reflection r LEFT JOIN reflection_modelcall c ON c.reflection_id = r.id "
        "WHERE r.status IN ('done', 'dead') GROUP BY r.id "
        "HAVING r.input_tokens + r.output_tokens > coalesce(sum(c.input_tokens + c.output_tokens), 0)",
    ),
    Invariant(
        name="machine_lesson_has_evidence",
        says="A lesson that a reflector proposed names the run it comes from.",
        broken_by="SELECT h.id FROM memory_heuristic h JOIN reflection_proposal p ON p.heuristic_id = h.id "
        "WHERE h.status <> 'superseded' AND NOT EXISTS (SELECT FROM memory_evidence e WHERE e.heuristic_id = h.id)",
    ),
    *(same_project(*pair) for pair in _PAIRS),
]
