"""The admin's addresses, typed by hand: what a role does not allow, and values that name nothing."""

import re

import pytest
from django.contrib import admin
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from memory.heuristics.models import SavedFilter
from memory.projects.models import Project
from memory.retrieval.models import PolarityQuota
from reflection.consolidation.models import ConsolidationRun
from tests.factories import make_api_key, make_member, make_project

pytestmark = pytest.mark.django_db

QUOTA = [f"{action}_polarityquota" for action in ("view", "add", "change", "delete")]


def log_in_auditor(project: Project, *permissions: str) -> Client:
    """Log in a person who may do it somewhere, and only looks on here."""
    client = Client()
    client.force_login(make_member(project=project, role="auditor", permissions=permissions))
    return client


def test_auditor_with_an_operators_permissions_elsewhere_changes_no_quota() -> None:
    project = make_project()
    quota = PolarityQuota.objects.create(project=project, task_id="a", max_avoid_share=0.5, set_by="test")
    client = log_in_auditor(project, *QUOTA)
    sent = {"project": project.pk, "task_id": "b", "max_works_share": "0", "max_avoid_share": "0"}
    client.post(reverse("admin:memory_polarityquota_change", args=[quota.pk]), sent)
    client.post(reverse("admin:memory_polarityquota_add"), sent)
    client.post(reverse("admin:memory_polarityquota_delete", args=[quota.pk]), {"post": "yes"})
    selected = {"action": "delete_selected", "_selected_action": [quota.pk], "post": "yes"}
    client.post(reverse("admin:memory_polarityquota_changelist"), selected)
    assert list(PolarityQuota.objects.values_list("task_id", "max_avoid_share")) == [("a", 0.5)]


def test_operator_still_sets_quotas() -> None:
    project, client = make_project(), Client()
    client.force_login(make_member(project=project, role="operator", permissions=QUOTA))
    sent = {"project": project.pk, "task_id": "b", "max_works_share": "", "max_avoid_share": "0.5"}
    client.post(reverse("admin:memory_polarityquota_add"), sent)
    assert PolarityQuota.objects.get().task_id == "b"


def test_auditor_with_an_operators_permissions_elsewhere_queues_no_consolidation() -> None:
    project = make_project()
    now = timezone.now()
    run = ConsolidationRun.objects.create(project=project, status="done", finished_at=now)
    client = log_in_auditor(project, "view_consolidationrun", "consolidate_project")
    sent = {"action": "consolidate_again", "_selected_action": [run.pk]}
    said = client.post(reverse("admin:reflection_consolidationrun_changelist"), sent, follow=True)
    assert "You are not an operator of the project" in said.content.decode()
    assert list(ConsolidationRun.objects.all()) == [run]


def test_operator_consolidates_a_project_from_the_list() -> None:
    project, client = make_project(), Client()
    permissions = ["view_project", "consolidate_project"]
    client.force_login(make_member(project=project, role="operator", permissions=permissions))

    sent = {"action": "consolidate", "_selected_action": [project.pk]}
    client.post(reverse("admin:memory_project_changelist"), sent)

    assert ConsolidationRun.objects.get().project == project


def test_answer_under_no_id_is_not_found(admin_client: Client) -> None:
    response = admin_client.get(reverse("admin:memory_retrieval_change", args=["abc"]))
    assert (response.status_code, response.headers["Location"]) == (302, reverse("admin:index"))


@pytest.mark.parametrize("query", ["status__exact=%00", "created_at__year=99999"])
def test_filter_by_what_no_column_holds_shows_the_list(admin_client: Client, query: str) -> None:
    response = admin_client.get(f"{reverse('admin:memory_heuristic_changelist')}?{query}", follow=True)
    assert response.redirect_chain[-1][0].endswith("?e=1")
    assert response.status_code == 200


def test_scores_of_a_family_no_column_holds_are_none(admin_client: Client) -> None:
    make_project()
    assert admin_client.get(f"{reverse('admin:memory_scores')}?task_id=%00").status_code == 200


def test_saved_filter_loses_what_no_column_holds(admin_client: Client) -> None:
    admin_client.post(reverse("admin:memory_heuristic_save_filter"), {"name": "my\x00 own", "query": "q=a\x00b"})
    assert SavedFilter.objects.values_list("name", "query").get() == ("my own", "q=ab")


@pytest.mark.parametrize("lookup", ["secret_sha256", "secret_sha256__startswith", "secret_sha256__gte"])
def test_hash_of_a_key_cannot_be_searched(admin_client: Client, lookup: str) -> None:
    key = make_api_key().api_key
    address = reverse("admin:memory_apikey_changelist")
    found = admin_client.get(address, {lookup: key.secret_sha256})
    assert found.status_code == 400
    assert key.prefix not in found.content.decode()


@pytest.mark.parametrize(
    ("model", "path"), [("project", "api_keys"), ("retrieval", "api_key"), ("trajectory", "api_key")]
)
def test_hash_of_a_key_cannot_be_searched_from_another_page(admin_client: Client, model: str, path: str) -> None:
    address = reverse(f"admin:memory_{model}_changelist")
    assert admin_client.get(address, {f"{path}__secret_sha256__startswith": "0"}).status_code == 400


def test_no_page_of_the_admin_filters_by_a_secret(rf: RequestFactory) -> None:
    request, secrets = rf.get("/"), []
    for model, page in admin.site._registry.items():
        names = [field.name for field in model._meta.fields if re.search("secret|password|token$", field.name)]
        secrets += names
        assert [name for name in names if page.lookup_allowed(f"{name}__startswith", "0", request)] == []
        assert [name for name in names if name in str(page.search_fields)] == []
    assert secrets == ["password", "secret_sha256"]


def test_hash_of_a_key_is_not_shown(admin_client: Client) -> None:
    key = make_api_key().api_key
    pages = [reverse("admin:memory_apikey_changelist"), reverse("admin:memory_apikey_change", args=[key.pk])]
    assert [page for page in pages if key.secret_sha256[:12] in admin_client.get(page).content.decode()] == []
