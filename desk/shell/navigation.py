"""The navigation of the admin: seven sections, each with its pages, as far as a person may open them."""

from dataclasses import dataclass, replace
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One entry. `table` is the model it lists, such as memory_heuristic: who may open that list sees the entry.

    A page without a table is shown to people with `permission`, or to everyone who may sign in. The lists of `tables`
    have no entry of their own and are reached from this page.
    """

    label: str
    table: str = ""
    tables: tuple[str, ...] = ()
    name: str = ""
    permission: str = ""
    superuser: bool = False
    is_outside: bool = False  # of the admin
    link: str = ""
    current: bool = False

    @property
    def view_name(self) -> str:
        return self.name if self.is_outside else f"admin:{self.name or f'{self.table}_changelist'}"

    def owns(self, url_name: str) -> bool:
        """Tell whether an address is this page, or one of its rows and not a page of its own."""
        if url_name.startswith(tuple(f"{table}_" for table in self.tables)):
            return True
        if self.name:
            return url_name == self.name or url_name.startswith(f"{self.name}_")
        return url_name.startswith(f"{self.table}_") and url_name not in _NAMED


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One of the seven, with the pages of its second row."""

    label: str
    pages: tuple[Page, ...]
    counter: str = ""  # the view that returns how many items wait there
    link: str = ""
    current: bool = False


_SECTIONS = (
    Section(
        label="Inbox",
        counter="admin:inbox_count",
        pages=(
            Page(label="To decide", name="inbox"),
            Page(label="Agent calls", table="agents_approval"),
            Page(label="Rule changes", table="memory_rulechange"),
            Page(label="Decisions", table="memory_review"),
        ),
    ),
    Section(
        label="Lessons",
        pages=(
            Page(label="Lessons", table="memory_heuristic"),
            Page(label="Effect", name="lessons", permission="memory.view_heuristic"),
            Page(label="Mistake cards", table="memory_mistakecard"),
            Page(label="Suggestions", table="reflection_suggestion"),
            Page(label="Releases", table="memory_release"),
            Page(label="Deployments", table="memory_deployment"),
            Page(label="Blocks", table="memory_block"),
            Page(label="Passages", table="memory_passage"),
            Page(label="Consolidations", table="reflection_consolidationrun"),
        ),
    ),
    Section(
        label="Runs",
        pages=(
            Page(label="Runs", table="memory_trajectory"),
            Page(label="Answers", table="memory_retrieval"),
            Page(label="Reflections", table="reflection_reflection"),
            Page(label="Model calls", table="reflection_modelcall"),
        ),
    ),
    Section(
        label="Agents",
        pages=(
            Page(label="Conversations", table="agents_run"),
            Page(label="Agents", table="agents_agent"),
            Page(label="Tools", table="agents_tool"),
            Page(label="Changes", table="agents_change"),
        ),
    ),
    Section(
        label="Insights",
        pages=(
            Page(label="Trends", name="insights"),
            Page(label="Gaps", name="coverage", permission="memory.view_trajectory"),
            Page(label="Outcomes", name="memory_retrieval_outcomes", permission="memory.view_retrieval"),
            Page(label="Scores", name="memory_scores", permission="memory.view_trajectory"),
            Page(label="Reviewers", name="memory_review_statistics", permission="memory.view_review"),
            Page(label="Spending", table="reflection_dailyspend"),
        ),
    ),
    Section(
        label="Evaluate",
        pages=(
            Page(label="Evaluations", table="evaluation_evaluationrun"),
            Page(label="Experiments", table="evaluation_experiment"),
            Page(label="Evolutions", table="evaluation_evolution"),
            Page(label="Shadow answers", table="evaluation_shadowanswer"),
        ),
    ),
    Section(
        label="Settings",
        pages=(
            Page(label="Projects", table="memory_project"),
            Page(label="API keys", table="memory_apikey"),
            Page(label="Members", table="memory_projectmembership"),
            Page(label="Webhooks", table="reflection_webhookendpoint", tables=("reflection_webhookdelivery",)),
            Page(label="Quotas", table="memory_polarityquota"),
            Page(label="Health", name="health", superuser=True),
            Page(label="Audit", table="memory_auditentry"),
            Page(label="Quarantine", table="memory_quarantineorder"),
            Page(label="Erasures", table="memory_erasure"),
            Page(label="A person", name="person", permission="memory.erase_person"),
            Page(label="Retention", name="retention", permission="memory.view_project"),
            Page(label="API docs", name="api-docs", is_outside=True),
            Page(label="All tables", name="tables", tables=("auth_user", "auth_group"), superuser=True),
        ),
    ),
)
# Some of these begin like the pages of a table's rows, but are pages of their own.
_NAMED = frozenset(page.name for section in _SECTIONS for page in section.pages if page.name)


def build_navigation(request: HttpRequest, apps: Any = None, *, here: str = "") -> tuple[Section, ...]:
    """Return what a person may open, the present page marked. No query of its own.

    Args:
        apps: the tables the person may open, where the page has them already.
        here: the name of the page that the present one belongs to, where its address does not say so.
    """
    listed = admin.site.get_app_list(request) if apps is None else apps
    lists = {model["admin_url"] for app in listed for model in app["models"] if model["admin_url"]}
    if not here and request.resolver_match:
        here = request.resolver_match.url_name or ""
    user, sections = request.user, []
    for section in _SECTIONS:
        pages = []
        for page in section.pages:
            link = reverse(page.view_name)
            is_open = (not page.superuser or user.is_superuser) and (
                not page.permission or user.has_perm(page.permission)
            )
            if is_open and (page.name or link in lists):
                pages.append(replace(page, link=link, current=page.owns(here)))
        if pages:
            current = any(page.current for page in pages)
            sections.append(replace(section, pages=tuple(pages), link=pages[0].link, current=current))
    return tuple(sections)
