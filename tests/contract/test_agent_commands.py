"""`run_agent` and `agent_run` with arguments that make no sense: a sentence, and no run that cannot end."""

from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from runtime.models.runs import Run
from tests.runtime.running import make_agent, make_run

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--goal", ""], "--goal: Write something here."),
        (["--goal", "  "], "--goal: Write something here."),
        (["--goal", "x" * 60_001], "--goal: This should have at most 60000 characters, not 60001."),
        (["--goal", "\udcff"], "Leave out lone surrogates."),
        (["--goal", "x", "--max-steps", "0"], "--max-steps: This should be greater than or equal to 1."),
        (["--goal", "x", "--max-steps", "99999999999"], "--max-steps: This should be less than or equal to 10000."),
        (["--goal", "x", "--max-iterations", "0"], "'0' is not a whole number from 1 to 1,000"),
        (["--goal", "x", "--project", "nowhere"], "There is no project 'nowhere'"),
    ],
)
def test_run_agent_refuses_nonsense_before_a_run_begins(arguments: list[str], said: str) -> None:
    agent = make_agent()
    with pytest.raises(CommandError) as raised:
        call_command("run_agent", agent.name, *arguments)
    assert said in str(raised.value)
    assert not Run.objects.exists()


def test_run_agent_names_the_agents_it_knows() -> None:
    agent = make_agent()
    with pytest.raises(CommandError, match=f"known: {agent.name}"):
        call_command("run_agent", "nobody", goal="x")


@pytest.mark.parametrize("options", [{"at": 1}, {"at": -1, "prompt": True}, {"prompt": True}])
def test_agent_run_names_the_steps_there_are(options: dict[str, int]) -> None:
    with pytest.raises(CommandError, match="It has asked the model nothing yet"):
        call_command("agent_run", str(make_run(make_agent()).pk), **options)


def test_agent_run_of_no_run_says_so() -> None:
    with pytest.raises(CommandError, match="There is no run"):
        call_command("agent_run", str(uuid4()))
