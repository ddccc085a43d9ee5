"""Who sends the requests of `request_paths`: an agent by the API, and a reviewer at the desk.

Both call Django in this process, so that the functions entered can be counted.
"""

import io
import json
from html.parser import HTMLParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import reverse


class Api:
    """A client with a key for everything in a project of its own."""

    def __init__(self, slug: str) -> None:
        out = io.StringIO()
        options = {"project": slug, "client": "paths", "scopes": ["all"], "create_project": True, "json": True}
        call_command("create_api_key", stdout=out, **options)
        key = next(value for name, value in json.loads(out.getvalue()).items() if name in ("token", "api_key", "key"))
        self.slug = slug
        self._client = Client(headers={"Authorization": f"Bearer {key}", "Host": "127.0.0.1"})

    def post(self, path: str, body: dict[str, Any], *, key: str = "") -> dict[str, Any]:
        headers = {"Idempotency-Key": key} if key else {}
        response = self._client.post(f"/api/v1/{path}", json.dumps(body), "application/json", headers=headers)
        if response.status_code >= 300:
            raise SystemExit(f"POST {path} {body} answered {response.status_code}: {response.content[:500]!r}")
        read: dict[str, Any] = response.json()
        return read


class _Form(HTMLParser):
    """Collects the named fields of a page with the values they are sent with."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._area = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        name = values.get("name") or ""
        if tag == "input" and values.get("type", "text") in ("hidden", "text", "number"):
            self.values.setdefault(name, values.get("value") or "")
        if tag == "textarea":
            self._area = name
            self.values.setdefault(name, "")

    def handle_data(self, data: str) -> None:
        if self._area:
            # HTML: the first line break after <textarea> is no part of its value.
            self.values[self._area] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        self._area = "" if tag == "textarea" else self._area


class Desk:
    """The review desk as a reviewer uses it."""

    def __init__(self) -> None:
        self._client = Client(headers={"Host": "127.0.0.1"})
        user = get_user_model()._default_manager.create_superuser("ana", password="correct horse battery")
        self._client.force_login(user)

    def open(self, row: Any) -> tuple[str, dict[str, str]]:
        """Open the page of a row; return its address and the fields of its form."""
        address = reverse(f"admin:{row._meta.label_lower.replace('.', '_')}_change", args=[row.pk])
        response: Any = self._client.get(address, follow=True)
        if response.status_code != 200:
            raise SystemExit(f"GET {address} answered {response.status_code}")
        for leads_to, _ in response.redirect_chain:  # to the inbox, which decides
            address = leads_to
        return address, _Form(response.content.decode()).values

    def decide(self, opened: tuple[str, dict[str, str]], decision: str, **values: str) -> str:
        """Send a decision and return the address of the page that follows."""
        address, fields = opened
        names = ("content_sha256", "opened", "trigger", "guideline", "avoid", "not_when", "rationale")
        sent = {name: fields[name] for name in names if name in fields}
        response = self._client.post(address, sent | {"decision": decision} | values)
        if response.status_code != 302:
            raise SystemExit(f"POST {address} with {decision} answered {response.status_code}")
        following: str = response["Location"]
        return following

    def follow(self, address: str) -> None:
        if self._client.get(address, follow=True).status_code != 200:
            raise SystemExit(f"GET {address} did not answer 200")
