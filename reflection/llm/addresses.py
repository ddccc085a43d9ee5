"""Addresses on the internet, and those a provider may never have (RFC 6890 and the metadata services of clouds)."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


LOOPBACK = _networks("127.0.0.0/8", "::1/128")
# Reachable only for a host that the operator named in ERL_LLM_ALLOWED_HOSTS
PRIVATE = _networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
# Reachable for nobody: cloud metadata, link-local, multicast, reserved, and IPv6 that hides an IPv4 address
NEVER = _networks(
    "0.0.0.0/8",
    "100.100.100.200/32",  # metadata, Alibaba
    "168.63.129.16/32",  # metadata, Azure
    "169.254.0.0/16",  # link-local; metadata of most clouds
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "fd00:ec2::254/128",  # metadata, AWS
    "fd20:ce::254/128",  # metadata, Google
    "2001::/23",  # Teredo, ORCHID and other protocol assignments
    "2001:db8::/32",
    "2002::/16",  # 6to4
    "3fff::/20",
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
GLOBAL_IPV6 = ipaddress.IPv6Network("2000::/3")


def kind_of(address: Address) -> str:
    """Return "public", "loopback", "private" or "forbidden". What is on no list of ours is forbidden."""
    if any(address in network for network in NEVER):
        return "forbidden"
    if any(address in network for network in LOOPBACK):
        return "loopback"
    if any(address in network for network in PRIVATE):
        return "private"
    if isinstance(address, ipaddress.IPv6Address):
        if address in NAT64:  # what DNS64 answers in a network without IPv4
            inner = kind_of(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
            return "public" if inner == "public" else "forbidden"
        return "public" if address in GLOBAL_IPV6 else "forbidden"
    return "public" if address.is_global else "forbidden"


def is_loopback_literal(host: str) -> bool:
    """Say whether a host is a loopback address itself, not a name that leads to one."""
    try:
        return any(ipaddress.ip_address(host) in network for network in LOOPBACK)
    except ValueError:
        return False
