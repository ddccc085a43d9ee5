"""Tables and unique keys name their project, so that the database can be distributed by it."""

from tests.cluster.keys import ACROSS_PROJECTS, BY_PARENT, find_keys, find_tables_without_project, lies_in_project


def test_every_table_of_projects_names_the_project_or_says_why_not() -> None:
    assert find_tables_without_project() == set(BY_PARENT)


def test_every_unique_key_lies_in_a_project_or_says_why_not() -> None:
    keys = list(find_keys())

    assert len(keys) > 40
    assert {key for key in keys if not lies_in_project(*key)} == set(ACROSS_PROJECTS)
