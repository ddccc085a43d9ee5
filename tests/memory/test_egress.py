"""Which addresses models, rerankers and embedding services may have (reliability D8)."""

from typing import Any

import pytest

from memory.egress import find_url_fault


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
