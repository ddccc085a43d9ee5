"""The table in the docs is the suite's own."""

import re

from tests.providers.table import CASES, write_table
from tests.stack import ROOT

TEST = re.compile(r"^def (test_\w+)\(", re.M)
# Of one provider each, and one that is no case of its own
NO_CASES = {
    "test_paused_answer",
    "test_prompt_stays_where_only_the_answer_had_no_room",
    "test_call_of_a_name_that_no_tool_could_have",
    "test_ids_that_come_again_in_each_answer",
}
FILES = ("test_turns", "test_bad_answers", "test_windows", "test_another_model", "test_kills", "test_docs_example")


def test_table_of_the_docs_has_every_provider_and_case() -> None:
    docs = (ROOT / "docs" / "language-models.md").read_text()

    assert write_table(lambda imitation, case: True) in docs


def test_every_case_has_a_column() -> None:
    texts = [(ROOT / "tests" / "providers" / f"{file}.py").read_text() for file in FILES]

    assert {test for text in texts for test in TEST.findall(text)} - {*CASES} == NO_CASES
