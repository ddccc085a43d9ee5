"""Rules: heuristics that are for every task of a family, or of a project, and are given without a search."""

from memory.heuristics.text import RULE_TAG, HeuristicText

WORKS_MARK, AVOID_MARK = "[WORKS]", "[AVOID]"


def get_rule_trigger(task_id: str) -> str:
    """Return the condition of a rule: every task of a family, or every task where the family is ""."""
    return f"a task of the family {task_id} begins" if task_id else "any task begins"


def make_rule(words: str, *, polarity: str, task_id: str = "", source_task: str = "") -> HeuristicText:
    """Write a rule for every task of a family, or of the project where `task_id` is "".

    Args:
        words: what to do, or what to avoid where `polarity` is "avoid".
    """
    return HeuristicText(
        trigger=get_rule_trigger(task_id),
        guideline=words,
        polarity=polarity,
        scope="task_family" if task_id else "project",
        task_id=task_id,
        tags=(RULE_TAG,),
        source_task=source_task,
    )


def split_mark(words: str) -> tuple[str, str]:
    """Return the polarity and the words of a rule as agents' own memory files write it: `[AVOID] …`."""
    for mark, polarity in ((WORKS_MARK, "works"), (AVOID_MARK, "avoid")):
        if words.upper().startswith(mark):
            return polarity, words[len(mark) :].strip()
    return "mixed", words.strip()
