"""Pages for people when something is wrong in the admin; programs get problem+json."""

import pytest
from django.template.loader import get_template
from django.templatetags.static import static
from django.test import Client


@pytest.mark.django_db
def test_unknown_admin_page_is_a_page(admin_client: Client) -> None:
    response = admin_client.get("/admin/no/such/page/")

    assert response.status_code == 404
    assert "Page not found" in response.content.decode()


def test_unknown_host_is_told_which_setting_knows_the_hosts() -> None:
    response = Client(headers={"host": "elsewhere.test"}).get("/health")

    assert response.status_code == 400
    assert "ERL_ALLOWED_HOSTS" in response.json()["detail"]


@pytest.mark.parametrize("status", [400, 403, 404, 500])
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
