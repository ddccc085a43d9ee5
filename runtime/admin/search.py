"""What the search finds of agents."""

from collections.abc import Iterable

from django.http import HttpRequest
from django.urls import reverse

from memory.admin.chosen_project import narrow_to_chosen
from memory.admin.search import Hit, Source, add_source, contains, shorten
from runtime.models.agents import Agent
from runtime.models.runs import Run


def find_agents(request: HttpRequest, words: str, limit: int) -> Iterable[Hit]:
    rows = contains(narrow_to_chosen(Agent.objects.all(), request), words, "name", "description")
    for agent in rows.order_by("name", "id")[:limit]:
        link = reverse("admin:agents_agent_change", args=[agent.pk])
        yield Hit(title=shorten(agent.name), link=link, note=shorten(agent.description))


def find_conversations(request: HttpRequest, words: str, limit: int) -> Iterable[Hit]:
    rows = contains(narrow_to_chosen(Run.objects.select_related("agent"), request), words, "task", "agent__name")
    for run in rows.order_by("-created_at", "-id")[:limit]:
        link = reverse("admin:agents_run_change", args=[run.pk])
        note = f"{shorten(run.agent.name)} · {run.get_status_display()} · {run.created_at:%Y-%m-%d}"
        yield Hit(title=shorten(run.task), link=link, note=note)


add_source(Source(label="Agents", permission="agents.view_agent", find=find_agents))
add_source(Source(label="Conversations", permission="agents.view_run", find=find_conversations))
