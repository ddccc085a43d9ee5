"""The list of passages, searched by meaning and words, and the page of each."""

from django.contrib import admin
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpRequest
from django.utils.text import Truncator

from desk.shell.columns import column, who
from desk.shell.read_only import ReadOnlyAdmin, yes_filter
from memory.limits import MAX_TASK_CHARS
from memory.passages.models import Passage
from memory.passages.search import PassageQuery, search_passages
from memory.projects.models import Project
from memory.redaction.visible_text import show_text

MOST_FOUND = 100
MOST_PROJECTS = 10  # that one search looks into; the filter chooses among more


@admin.register(Passage)
class PassageAdmin(ReadOnlyAdmin[Passage]):
    nothing_yet = "No passage has been stored yet. Agents store what they want to find again."
    list_display = [
        "says",
        "shown_tags",
        "owner",
        column("user_id", "user"),
        who("created_by", "stored by"),
        "created_at",
        "project",
    ]
    list_filter = [
        "project",
        yes_filter(
            "quarantine",
            "quarantined",
            "Under a quarantine order",
            lambda passages: passages.filter(quarantine_order_id__isnull=False),
        ),
        "created_at",
    ]
    list_select_related = ["project"]
    # For the search box alone; get_search_results does the work.
    search_fields = ["text"]
    search_help_text = "By meaning, words and names, as agents search; the best come first."
    ordering = ["-created_at", "-id"]
    facts = (
        "whole_text",
        "shown_tags",
        "owner",
        column("user_id", "user"),
        column("run_id", "id of the run"),
        who("created_by", "stored by"),
        "created_at",
        column("text_sha256", "hash of the text"),
        column("quarantine_order_id", "id of the quarantine order"),
        "project",
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Passage], search_term: str
    ) -> tuple[QuerySet[Passage], bool]:
        text = search_term.replace("\x00", "").strip()[:MAX_TASK_CHARS]
        if not text:
            return queryset, False
        ids = queryset.order_by().values("project").distinct()[:MOST_PROJECTS]
        projects = Project.objects.filter(pk__in=list(ids.values_list("project", flat=True)))
        answers = [search_passages(project, PassageQuery(text=text), limit=MOST_FOUND) for project in projects]
        passages = sorted((row for answer in answers for row in answer.passages), key=lambda row: -row.score)
        # The admin pages through a queryset, so the order of the search becomes an expression.
        ranks = [When(pk=row.passage.pk, then=Value(rank)) for rank, row in enumerate(passages)]
        ranked = queryset.filter(pk__in=[row.passage.pk for row in passages])
        return ranked.order_by(Case(*ranks, default=len(ranks), output_field=IntegerField()), "-pk"), False

    @admin.display(description="text")
    def says(self, passage: Passage) -> str:
        return show_text(Truncator(passage.text).chars(160))

    @admin.display(description="text")
    def whole_text(self, passage: Passage) -> str:
        return show_text(passage.text)

    @admin.display(description="tags")
    def shown_tags(self, passage: Passage) -> str:
        return show_text(", ".join(passage.tags))
