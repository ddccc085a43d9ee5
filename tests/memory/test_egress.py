"""Which addresses models, rerankers, embedding services and webhooks may have (reliability D8)."""

import ipaddress
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


# IANA's registries of special-purpose addresses, with multicast and what is assigned to nobody. Each network is tried
# at both ends and inside, and where it borders on public addresses, these are.
SPECIAL = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/31", "192.0.0.192/32"),
    *("192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
    *("::/128", "::1/128", "::/96", "::ffff:0:0/112", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64"),
    *("100:0:0:1::/64", "2001::/23", "2001::/32", "2001:1::1/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48"),
    *("2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    *("4000::/3", "5f00::/16", "8000::/1", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
]
MAPPED = ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:192.0.0.192", "::ffff:169.254.169.254"]
EMBEDDED = ["::7f00:1", "::ffff:0:7f00:1", "2002:7f00:1::1", "64:ff9b::10.0.0.1", "2001:0:a00:1::1"]
PUBLIC_NEIGHBOURS = [
    *("1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"),
    *("169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0"),
    *("192.31.195.255", "192.88.98.255", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
    *(
        "198.51.99.255",
        "203.0.112.255",
        "223.255.255.255",
        "8.8.8.8",
        "::ffff:8.8.8.8",
        "2001:200::",
        "2001:4860::8888",
    ),
    *(
        "2001:db7:ffff::",
        "2001:db9::",
        "2003::",
        "2606:4700::1111",
        "2620:4f:7fff::",
        "2620:4f:8001::",
        "3ffe::",
        "2000::",
    ),
]


@pytest.mark.parametrize("network", SPECIAL)
def test_special_addresses_are_not_public(network: str) -> None:
    special = ipaddress.ip_network(network)
    inside = [special[0], special[special.num_addresses // 2], special[-1]]

    assert [str(address) for address in inside if not find_address_fault("example.com", str(address))] == []


@pytest.mark.parametrize("address", [*MAPPED, *EMBEDDED])
def test_special_addresses_inside_others_are_not_public(address: str) -> None:
    assert find_address_fault("example.com", address)


@pytest.mark.parametrize("address", PUBLIC_NEIGHBOURS)
def test_addresses_beside_the_special_ones_are_public(address: str) -> None:
    assert find_address_fault("example.com", address) == ""


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "::ffff:169.254.169.254"),
        *("::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::"),
        "2001:0:a9fe:a9fe::1",
    ],
)
def test_metadata_is_refused_in_whatever_form(address: str, settings: Any) -> None:
    settings.ERL_HTTP_HOSTS = [address]
    host = f"[{address}]" if ":" in address else address

    assert "metadata" in find_url_fault(f"https://{host}/")
    assert "metadata" in find_address_fault(address, address)
