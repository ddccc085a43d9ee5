"""The table of docs/language-models.md: provider × case."""

from collections.abc import Callable

from tests.providers.catalogue import IMITATIONS
from tests.providers.imitation import Imitation

CASES = {
    "test_two_tool_turns": "two tool turns",
    "test_parallel_calls": "parallel calls",
    "test_second_message": "second message",
    "test_message_after_failures": "message after failures",
    "test_cut_answer": "cut answer",
    "test_empty_answer": "empty answer",
    "test_refusal": "refusal",
    "test_overflow": "overflow",
    "test_compaction": "compaction",
    "test_resume": "resume",
    "test_conversation_of_another_model": "another model before",
    "test_conversations_go_on_after_kill_9_between_the_steps": "kill -9",
    "test_example_of_the_docs": "[first agent](agents.md#a-first-run)",
}
REFUSALS = {"refused": "✓", "filtered": "✓, as filtered", "end_turn": "✓, as a text"}


def write_table(is_passed: Callable[[type[Imitation], str], bool]) -> str:
    """Return the table with the results of the cases."""
    columns = ["imitated provider", "what it insists on", *CASES.values()]
    lines = [_row(columns), _row(["---"] * len(columns))]
    for imitation in IMITATIONS:
        cells = [_write(imitation, case) if is_passed(imitation, case) else "✗" for case in CASES]
        lines.append(_row([imitation.name, imitation.insists_on, *cells]))
    return "".join(lines)


def _write(imitation: type[Imitation], case: str) -> str:
    return REFUSALS[imitation.refused_as] if case == "test_refusal" else "✓"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
