"""Working together on items of the inbox: comments, mentions, assignment, snoozing, and who is told."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.discussion.models import Comment, ItemState
from memory.discussion.services import Item, write_comment
from memory.errors import NotAllowed
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.trust.erasure import erase_trajectory
from reflection.webhooks.bodies import write_body
from reflection.webhooks.models import WebhookDelivery, WebhookEndpoint
from tests.desk.desk_pages import log_in
from tests.factories import make_heuristic, make_member, make_project, make_trajectory

pytestmark = pytest.mark.django_db
INBOX = reverse("admin:inbox")
JSON = {"Accept": "application/json"}


@pytest.fixture
def project() -> Project:
    return make_project(name="Airline")


@pytest.fixture
def lesson(project: Project) -> Heuristic:
    return make_heuristic(project=project, trigger="A fare is asked for")


@pytest.fixture
def ben(project: Project) -> Any:
    return make_member("ben", project=project, email="ben@example.com")


@pytest.fixture
def mail_server(settings: LazySettings) -> None:
    settings.EMAIL_HOST = "mail.example.com"


def discuss(client: Client, lesson: Heuristic, do: str, **values: Any) -> Any:
    return client.post(reverse("admin:inbox_discuss", args=["lesson", lesson.pk]), {"do": do, **values})


def read(client: Client, address: str = INBOX) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def read_discussion(client: Client, lesson: Heuristic) -> str:
    return read(client, reverse("admin:inbox_item", args=["lesson", lesson.pk]) + "?tab=discussion")


def tomorrow() -> str:
    return f"{timezone.now() + timedelta(days=1):%Y-%m-%d}"


def test_comment_stands_in_the_tab_of_the_item(reviewer: Client, lesson: Heuristic) -> None:
    response = discuss(
        reviewer, lesson, "comment", text="Is `fare_class` <b>right</b>?", back=f"{INBOX}?tab=discussion"
    )

    assert response["Location"] == f"{INBOX}?tab=discussion"
    html = read_discussion(reviewer, lesson)
    assert "Is <code>fare_class</code> &lt;b&gt;right&lt;/b&gt;?" in html
    assert "Discussion 1" in html


def test_comment_without_words_is_refused(reviewer: Client, lesson: Heuristic) -> None:
    url = reverse("admin:inbox_discuss", args=["lesson", lesson.pk])

    answer = reviewer.post(url, {"do": "comment", "text": " "}, headers=JSON)

    assert (answer.status_code, answer.json()["said"]) == (409, "Write something first.")
    assert not Comment.objects.exists()


@pytest.mark.usefixtures("ben", "mail_server")
def test_people_who_are_mentioned_get_an_email(
    reviewer: Client, lesson: Heuristic, django_capture_on_commit_callbacks: Any
) -> None:
    make_member("eve", project=make_project(), email="eve@example.com")  # works elsewhere

    with django_capture_on_commit_callbacks(execute=True):
        discuss(reviewer, lesson, "comment", text="What do you think, @ben? And @eve, ben@example.com?")

    (sent,) = mail.outbox
    assert (sent.to, sent.subject) == (["ben@example.com"], "ana mentioned you on a lesson")
    assert f"http://testserver/admin/inbox/lesson/{lesson.pk}/?tab=discussion" in sent.body
    assert "think" not in sent.body


@pytest.mark.usefixtures("mail_server")
def test_assigned_item_is_listed_for_its_person_who_is_told(
    reviewer: Client, lesson: Heuristic, ben: Any, django_capture_on_commit_callbacks: Any
) -> None:
    make_heuristic(project=lesson.project, trigger="Another one")
    with django_capture_on_commit_callbacks(execute=True):
        discuss(reviewer, lesson, "assign", assignee=str(ben.pk))
    client = Client()
    client.force_login(ben)

    html = read(client, f"{INBOX}?show=mine")

    assert "A fare is asked for" in html
    assert "Another one" not in html
    assert "for ben" in read(reviewer)
    assert [sent.subject for sent in mail.outbox] == ["ana assigned a lesson to you"]


def test_nothing_is_mailed_without_a_mail_server(
    reviewer: Client, lesson: Heuristic, ben: Any, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        discuss(reviewer, lesson, "assign", assignee=str(ben.pk))

    assert ItemState.objects.get().assignee == ben
    assert mail.outbox == []


def test_only_reviewers_of_the_project_can_be_assigned(reviewer: Client, lesson: Heuristic) -> None:
    eve = make_member("eve", project=make_project())

    discuss(reviewer, lesson, "assign", assignee=str(eve.pk))

    assert not ItemState.objects.exists()


def test_snoozed_item_leaves_the_list_until_its_day(reviewer: Client, lesson: Heuristic) -> None:
    discuss(reviewer, lesson, "snooze", until=tomorrow())
    assert "A fare is asked for" not in read(reviewer)
    assert "A fare is asked for" in read(reviewer, f"{INBOX}?show=snoozed")

    ItemState.objects.update(snoozed_until=timezone.now() - timedelta(minutes=1))

    assert "A fare is asked for" in read(reviewer)


def test_snoozed_item_can_be_put_back(reviewer: Client, lesson: Heuristic) -> None:
    discuss(reviewer, lesson, "snooze", until=tomorrow())

    discuss(reviewer, lesson, "wake")

    assert "A fare is asked for" in read(reviewer)


@pytest.mark.parametrize("until", ["", "2020-01-01", "2026-13-40"])
def test_item_is_snoozed_until_a_day_to_come(reviewer: Client, lesson: Heuristic, until: str) -> None:
    discuss(reviewer, lesson, "snooze", until=until)

    assert not ItemState.objects.exists()


def test_auditors_read_and_say_nothing(lesson: Heuristic) -> None:
    auditor = log_in("eve", project=lesson.project, role="auditor", permissions=["view_heuristic"])

    discuss(auditor, lesson, "comment", text="Hello")

    assert not Comment.objects.exists()
    assert "talk-text" not in read_discussion(auditor, lesson)


def test_item_of_another_project_cannot_be_discussed(lesson: Heuristic) -> None:
    stranger = log_in("eve", project=make_project())

    assert discuss(stranger, lesson, "comment", text="Hello").status_code == 404


def test_programs_do_not_comment(lesson: Heuristic) -> None:
    item = Item(kind="lesson", id=lesson.pk, project_id=lesson.project_id, noun="lesson")

    with pytest.raises(NotAllowed):
        write_comment(item, text="Hello", by=Actor.policy("quickstart"))


def test_comments_are_erased_with_their_item(reviewer: Client) -> None:
    run = make_trajectory()
    lesson = make_heuristic(trajectory=run)
    discuss(reviewer, lesson, "comment", text="About to go")
    discuss(reviewer, lesson, "snooze", until=tomorrow())

    erase_trajectory(run, by=Actor(label="user:ops"))

    assert not Comment.objects.exists()
    assert not ItemState.objects.exists()


@pytest.mark.parametrize(
    ("do", "kind", "said"),
    [
        ("comment", "comment.written", "ana commented on a lesson in the inbox and mentioned ben."),
        ("assign", "item.assigned", "ana assigned a lesson in the inbox to ben."),
    ],
)
def test_webhooks_are_told(reviewer: Client, lesson: Heuristic, ben: Any, do: str, kind: str, said: str) -> None:
    WebhookEndpoint.objects.create(
        project=lesson.project, url="https://chat.example.com/", style="slack", events=[kind], created_by="user:ops"
    )

    discuss(reviewer, lesson, do, text="Look, @ben.", assignee=str(ben.pk))

    body = write_body(WebhookDelivery.objects.get()).decode()
    assert said in body
    assert f"/admin/inbox/lesson/{lesson.pk}/?tab=discussion" in body


def test_navigation_counts_what_waits_in_the_chosen_project(reviewer: Client, lesson: Heuristic) -> None:
    make_heuristic(project=make_project())
    assert "<span>2</span>" in read(reviewer, reverse("admin:inbox_count"))

    reviewer.post(reverse("admin:choose_project"), {"project": str(lesson.project_id)})

    assert "<span>1</span>" in read(reviewer, reverse("admin:inbox_count"))
    assert read(reviewer).count('class="row-title"') == 1


def test_counting_does_not_keep_a_session_alive(reviewer: Client, settings: LazySettings) -> None:
    read(reviewer)
    session = reviewer.session
    session["seen_at"] -= 3600
    session.save()

    read(reviewer, reverse("admin:inbox_count"))

    assert reviewer.session["seen_at"] == session["seen_at"]
