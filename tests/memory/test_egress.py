"""Which addresses models, rerankers, embedding services and webhooks may have (reliability D8)."""

from typing import Any

import pytest

from memory.egress import find_address_fault, find_project_url_fault, find_url_fault


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1",
        "https://10.0.0.1/v1",
        "http://localhost:11434/v1",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
        "http://gpu.internal:8000/v1",
        "http://GPU.internal.:8000/v1",
    ],
)
def test_url_of_a_service_is_accepted(url: str, settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = ["gpu.internal"]

    assert find_url_fault(url) == ""


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "must start with https://"),
        ("ftp://api.example.com/", "must start with https://"),
        ("https:///v1", "name a host"),
        ("https://[::1/", "not valid"),
        ("http://api.example.com/v1", "ERL_HTTP_HOSTS"),
        ("http://10.0.0.1/v1", "ERL_HTTP_HOSTS"),
        ("https://user:secret@api.example.com/", "user name or password"),
        ("https://api.example.com@127.0.0.1/", "user name or password"),
        ("http://169.254.169.254/latest", "metadata"),
        ("https://[::ffff:169.254.169.254]/", "metadata"),
        ("https://[fe80::1]/", "metadata"),
    ],
)
def test_url_of_a_service_is_refused(url: str, fault: str) -> None:
    assert fault in find_url_fault(url)


def test_listed_host_does_not_open_metadata(settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = ["169.254.169.254"]

    assert "metadata" in find_url_fault("http://169.254.169.254/")


# ── Webhooks: whose addresses operators of projects set ───────────────────────────────────────────────────────────
PRIVATE = [
    "127.0.0.1",
    "0.0.0.0",  # noqa: S104 - what is refused
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fd00::1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
]


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34"])
def test_public_address_may_be_told(address: str) -> None:
    assert find_address_fault("hooks.example.com", address) == ""


@pytest.mark.parametrize("address", PRIVATE)
def test_private_address_may_be_told_only_where_the_operator_names_the_host(address: str, settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = ["ci.internal"]

    assert "private network" in find_address_fault("hooks.example.com", address)
    assert find_address_fault("CI.internal.", address) == ""


@pytest.mark.parametrize("address", ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0"])
def test_metadata_service_is_never_told(address: str, settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = ["hooks.example.com"]

    assert "metadata" in find_address_fault("hooks.example.com", address)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://hooks.example.com/x", ""),
        ("http://hooks.example.com/x", "https://"),
        ("http://localhost:8000/x", "private network"),
        ("https://127.0.0.1/x", "private network"),
        ("https://[::1]/x", "private network"),
        ("https://10.0.0.1/x", "private network"),
        ("http://ci.internal/x", ""),
        ("https://169.254.169.254/x", "metadata"),
        ("https://u:p@hooks.example.com/x", "password"),
    ],
)
def test_url_of_a_webhook(url: str, fault: str, settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = ["ci.internal"]
    found = find_project_url_fault(url)

    assert (fault in found) if fault else found == ""
