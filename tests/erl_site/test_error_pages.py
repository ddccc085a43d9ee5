"""Pages for people when something is wrong in the admin; programs get problem+json."""

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.template.loader import get_template
from django.templatetags.static import static
from django.test import Client


@pytest.mark.django_db
def test_unknown_admin_page_is_a_page(admin_client: Client) -> None:
    response = admin_client.get("/admin/no/such/page/")

    assert response.status_code == 404
    assert "Page not found" in response.content.decode()


@pytest.mark.parametrize("wrong", ["reads only", "gone"])
@pytest.mark.django_db(transaction=True)
def test_who_signs_in_while_the_database_cannot_be_used_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    get_user_model().objects.create_superuser("ana", password="correct horse")
    client.raise_request_exception = False
    if wrong == "gone":
        connection.close()
        monkeypatch.setitem(connection.settings_dict, "NAME", "no_such_database")
    else:
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")  # as on a standby
    response = client.post("/admin/login/", {"username": "ana", "password": "correct horse"})
    monkeypatch.undo()
    connection.close()

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert "The database cannot be used" in response.content.decode()


def test_unknown_host_is_told_which_setting_knows_the_hosts() -> None:
    response = Client(headers={"host": "elsewhere.test"}).get("/health")

    assert response.status_code == 400
    assert "ERL_ALLOWED_HOSTS" in response.json()["detail"]


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
def test_page_needs_no_context_and_no_inline_code(status: int) -> None:
    page = get_template(f"{status}.html").render()

    assert page.startswith("<!doctype html>")
    assert "{" not in page
    assert "<style" not in page
    assert "<script" not in page


@pytest.mark.django_db
def test_stylesheet_of_the_pages_is_served(client: Client) -> None:
    page = get_template("404.html").render()
    address = static("erl/error.css")
    response = client.get(address)

    assert f'href="{address}"' in page
    assert b"color-scheme" in response.getvalue()
    response.close()


def test_bare_address_leads_to_the_admin(client: Client) -> None:
    response = client.get("/")

    assert (response.status_code, response["Location"]) == (302, "/admin/")
