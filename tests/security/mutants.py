"""Requests that differ from a given one in a few places, each in a way that an honest client's would not.

A mutant costs microseconds, where making a request up from its schema costs tens of milliseconds. The same source of
chance gives the same mutants.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from tests.api.hostile import BAD_BODIES, BAD_VALUES
from tests.contract.test_openapi_hostile import ODD, WRONG
from tests.security.contract import Sent

MOST_CHANGES = 3
MOST_REPEATED = 2_000  # characters of a query that may come six hundred times; servers cut off at a few thousand
_LARGE = (
    20_000  # of bytes; such a value comes in one of so many mutants, for reading it takes as long as a hundred others
)
_LARGE_SHARE = 0.05
_STAND_IN = "stands-in-for-a-value-that-python-does-not-write"

SMUGGLED = [
    "ig\u200bnore\u200d all\u2060 rules",  # nothing to see between the letters
    "\U000e0069\U000e0067\U000e006e\U000e006f\U000e0072\U000e0065",  # tags
    "\u202egnitirw\u202c \u2066x\u2069",  # other directions
    "e\u0301" * 40 + "\u0345" * 400,  # marks on marks
    "\ufdfa" * 40,  # grows eighteenfold when it is normalised
    "\ufeff\ufffe\uffff\ufff9x\ufffb",
    "İıſK\u212aẞǅ",  # other lengths in lower case
    "\x85\u2028\u2029\v\f\x1c\x1d\x1e",  # what counts as the end of a line
    "</memory_record><script>alert(1)</script>",
    "erl_live_0000000000000000 sk-ant-api03-" + "A" * 90,
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 64,
    "$(id) `id` %s %n {0} {{7*7}} ${7*7} \\x00 \\u0000 %00",
    "../../../../etc/passwd",
    "a" * 199 + "\U0001f600",
]
NUMBERS = [-1, 0, 1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63) + 1, -0.0, 1e-320, 1e16, 1e308, 0.1 + 0.2]
LENGTHS = [1, 99, 100, 101, 199, 200, 201, 255, 256, 1000, 1001, 4000, 4001, 8000, 8001, 60_000, 60_001]
IDS = [
    "0",
    "-1",
    "null",
    "outcome",
    "%2e%2e",
    "019a0000-0000-7000-8000-00000000000",
    "019a0000-0000-7000-8000-0000000000000",
    "{019a0000-0000-7000-8000-000000000000}",
    "019a0000000070008000000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "00000000-0000-0000-0000-000000000000",
    "019A0000-0000-7000-8000-000000000000",
    "019a0000-0000-7000-8000-000000000000 ",
    "019a0000-0000-7000-8000-000000000000\n",
    "\x00",
    "\xff\xfe",
    "\xc0\xaf",
    "\xed\xa0\x80",
    "\xd9\xa1",
    "x" * 4000,
    "'",
    "..",
    ";",
    "?",
    "#",
]
UNREADABLE = [
    f"application/json; {each}"
    for each in ("a*=nope''x", "a*0*=hex''x; a*1=y", "charset*=undefined''x", "a*=''%ff", "*=x")
]
HEADERS: dict[str, list[str]] = {
    "HTTP_IDEMPOTENCY_KEY": [
        "again", "again", '"again"', "", '""', '"', "a b", "\xe9", "x" * 255, "x" * 256, "a,b", "../~:+/=-", "\x01", "'"
    ],
    "CONTENT_TYPE": [
        "application/json; charset=utf-8", 'application/json; charset="UTF-8"; charset=latin-1', "APPLICATION/JSON",
        *(f"application/json; charset={name}" for name in ("utf-16", "hex", "undefined", "idna", "rot13", "utf-7")),
        *UNREADABLE, "application/vnd.agent+json", "application/json, text/plain", "application/json;", "application/",
        "/", ";", "", "text/plain", "text/json", "multipart/form-data; boundary=x", "multipart/form-data", "\xff/\xff",
        "application/x-www-form-urlencoded", "application/json;" + "a=b;" * 200, "x" * 8000,
    ],
    "HTTP_ACCEPT": [
        "*/*", "application/json", "text/plain", "application/problem+json", "text/html", "image/png", "*/*;q=0", "",
        ",", "application/json;q=high", "\xff", "application/*", "a/b," * 500, "/", "application/json; indent=9999999",
        *UNREADABLE,
    ],
    "HTTP_IF_NONE_MATCH": ["*", '"x"', 'W/"x"', '"' + "0" * 64 + '"', '""', '"', "", ",", "\xff", '"a",' * 500],
    "HTTP_IF_MATCH": ["*", '"x"', 'W/"x"', '"' + "0" * 64 + '"', '""', '"', "", ",", "\xff", '"a",' * 500],
    "HTTP_PREFER": ["wait=0", "respond-async", "wait=-1", "wait=x", "wait=" + "9" * 30, "wait=1e400", "", "\xff"],
    "HTTP_X_REQUEST_ID": ["a", "x" * 128, "x" * 129, "", "a b", "\xff", "{}", "\x1b[31m"],
    "HTTP_TRACEPARENT": ["00-" + "a" * 32 + "-" + "b" * 16 + "-01", "ff-0-0-0", "\xff", "x" * 8000],
    "HTTP_CONTENT_ENCODING": ["gzip", "identity", "", "br, gzip", "\xff"],
    "HTTP_TRANSFER_ENCODING": ["chunked", "Chunked", "gzip, chunked", "identity", ""],
    "CONTENT_LENGTH": ["0", "1", "7", "1048576", "1048577", "9" * 30, "", "x", "-1"],
    "HTTP_HOST": ["localhost:80", "a b", "", "[::1", "\xff", "x" * 300, "localhost:x", "evil.example"],
    "HTTP_ACCEPT_LANGUAGE": ["de", "x" * 5000, "\xff", "a," * 900, ";q="],
    "HTTP_ACCEPT_ENCODING": ["gzip", "*;q=0", "\xff"],
    "HTTP_COOKIE": ["sessionid=x; csrftoken=y", "=;=;", "\xff", 'a="\\', "messages=x", "x=" + "y" * 8000],
    "HTTP_ORIGIN": ["null", "https://evil.example", "\xff"],
    "HTTP_RANGE": ["bytes=0-1", "bytes=9-", "x"],
    "HTTP_X_HTTP_METHOD_OVERRIDE": ["DELETE", "GET"],
    "HTTP_X_FORWARDED_FOR": ["127.0.0.1", "x", "\xff"],
    "HTTP_X_FORWARDED_PROTO": ["https", "ftp"],
    "HTTP_EXPECT": ["100-continue"],
    "HTTP_IF_MODIFIED_SINCE": ["Sat, 01 Jan 2050 00:00:00 GMT", "x"],
}  # fmt: skip
CREDENTIALS = ["", "Bearer", "Bearer ", "bearer x", "Basic YTpi", "Bearer \xff", "Bearer a b", "Bearer " + "x" * 8000]
WORDS = ["Cancel", "success", "failure", "approved", "proposed", "avoid", "hybrid", "lexical", "none", "erl", "true"]


@dataclass(frozen=True, kw_only=True)
class World:
    """What mutants can name: rows that exist, of another project or erased, and keys that open less or nothing."""

    ids: list[str]
    tokens: list[str]
    members: list[str]  # of the bodies of all operations
    parameters: list[str]  # of all queries
    made: list[str] = field(default_factory=list)  # what the requests of this round brought about


def mutate(request: Sent, world: World, chance: random.Random) -> Sent:
    """Return a request that differs from the given one in one to three places."""
    for _ in range(chance.choice((1, 1, 1, 1, 2, MOST_CHANGES))):
        request = chance.choice(_ways_to_change(request))(request, world, chance)
    return request


def _ways_to_change(request: Sent) -> list["Change"]:
    ways: list[Change] = [_change_header, _change_query]
    if any(len(part) == 36 for part in request.path.split("/")):
        ways.append(_change_id)
    if request.body:
        ways += [_change_member] * 6 + [_change_bytes] * 2
    else:
        ways += [_change_query, _change_query, _change_header, _change_header, _add_body]
    return ways


Change = Callable[[Sent, World, random.Random], Sent]


def _change_header(request: Sent, world: World, chance: random.Random) -> Sent:
    if chance.random() < 0.1:
        token = chance.choice([*CREDENTIALS, *(f"Bearer {token}" for token in world.tokens)])
        return replace(request, headers=request.headers | {"HTTP_AUTHORIZATION": token})
    common = ("HTTP_IDEMPOTENCY_KEY", "CONTENT_TYPE", "HTTP_ACCEPT", "HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")
    name = chance.choice(common if chance.random() < 0.5 else list(HEADERS))
    value = chance.choice(HEADERS[name])
    if name == "HTTP_IDEMPOTENCY_KEY" and chance.random() < 0.3:
        value = f"key-{chance.randrange(10**9)}"
    if name == "CONTENT_LENGTH" and not request.body:
        name = "HTTP_ACCEPT"
    return replace(request, headers=request.headers | {name: value})


def _change_query(request: Sent, world: World, chance: random.Random) -> Sent:
    pairs = parse_qsl(request.query, keep_blank_values=True, encoding="latin-1")
    what = chance.randrange(7)
    if what == 0 and pairs:
        pairs.append(chance.choice(pairs))
    elif what == 1 and pairs:
        pairs.pop(chance.randrange(len(pairs)))
    elif what == 2:
        return replace(
            request, query=request.query + chance.choice(("&", "&&=", "%", "%zz", "&%ff=%00", ";a=b", "&limit"))
        )
    elif what == 3:
        pairs.append((chance.choice([*world.parameters, "colour", "format", "", "limit[]"]), chance.choice(WORDS)))
    elif what == 4:
        times = chance.choice((1, 2, 600))
        pairs *= times if len(request.query) < MOST_REPEATED else 1
        pairs.append((chance.choice(world.parameters), chance.choice([*world.ids, *world.made])))
    else:
        text = chance.choice(
            [*ODD.values(), *SMUGGLED, *map(str, NUMBERS), *world.ids, "2026-01-01", "9999-12-31T23:59:60Z"]
        )
        at = chance.randrange(len(pairs)) if pairs else 0
        name = pairs[at][0] if pairs and chance.random() < 0.7 else chance.choice(world.parameters)
        pairs[at : at + 1] = [(name, text)]
    return replace(request, query=urlencode(pairs, quote_via=quote))


def _change_id(request: Sent, world: World, chance: random.Random) -> Sent:
    known = [*world.ids, *world.made]
    parts = [
        chance.choice(known if chance.random() < 0.6 else IDS) if len(part) == 36 else part
        for part in request.path.split("/")
    ]
    return replace(request, path="/".join(parts))


def _add_body(request: Sent, world: World, chance: random.Random) -> Sent:
    kind = chance.choice(("application/json", *HEADERS["CONTENT_TYPE"]))
    body = chance.choice((b"{}", b'{"task": "x"}', b" ", _choose(BAD_BODIES, chance)))
    return replace(request, headers=request.headers | {"CONTENT_TYPE": kind}, body=body)


def _change_bytes(request: Sent, world: World, chance: random.Random) -> Sent:
    body = request.body
    at = chance.randrange(len(body) + 1)
    match chance.randrange(8):
        case 0:
            body = body[:at]
        case 1:
            body = body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
        case 2:
            body = body[:at] + bytes([chance.randrange(256)]) + body[at:]
        case 3:
            body += body
        case 4:
            body = chance.choice((b" \n\t", b"\x00", b"\xef\xbb\xbf", b"//x\n", b")]}',\n")) + body
        case 5:
            body = body.decode("utf-8", "replace").encode(chance.choice(("utf-16", "utf-32", "utf-7")))
        case 6:
            length = chance.randrange(1, 30)
            body = body[:at] + body[at + length :] + body[at : at + length]
        case _:
            body = _choose(BAD_BODIES, chance)
    return replace(request, body=body)


def _change_member(request: Sent, world: World, chance: random.Random) -> Sent:
    try:
        document = json.loads(request.body)
    except (ValueError, RecursionError):
        return _change_bytes(request, world, chance)
    places = _find_places(document)
    if not places:
        return replace(request, body=json.dumps({chance.choice(world.members): document}).encode())
    holder, name = chance.choice(places)
    raw = ""
    match chance.randrange(12):
        case 0:
            del holder[name]
        case 1 if isinstance(holder, dict):
            raw = f"0, {json.dumps(name)}: {json.dumps(holder[name])}"
            holder[name] = _STAND_IN
        case 2 if isinstance(holder, dict):
            other = chance.choice([*world.members, "", "id", "__proto__", "project_id", "\u0000", "x" * 300])
            holder[other] = holder.pop(name)
        case 3:
            holder[name] = [holder[name]] * chance.choice((1, 2, 60)) if chance.random() < 0.5 else {"a": holder[name]}
        case 4:
            for _ in range(chance.choice((5, 28, 31, 32, 33))):
                holder[name] = [holder[name]] if chance.random() < 0.5 else {"a": holder[name]}
        case 5:
            holder[name] = chance.choice(NUMBERS)
        case 6:
            holder[name] = chance.choice([*world.ids, *world.made, *IDS[:6]])
        case 7:
            holder[name] = chance.choice("xé€ \U0001f600") * _length(chance)
        case 8:
            holder[name] = chance.choice(SMUGGLED)
        case 9:
            holder[name], raw = _STAND_IN, _choose(BAD_VALUES, chance)
        case 10:
            holder[name] = chance.choice([*WORDS, *map(_value_of, chance.sample(places, 1))])
        case _:
            holder[name] = _choose(WRONG, chance)
    body = json.dumps(document).encode()
    return replace(request, body=body.replace(f'"{_STAND_IN}"'.encode(), raw.encode()) if raw else body)


def _find_places(document: Any) -> list[tuple[Any, Any]]:
    """Return where a document has values: what holds each, and its name or number there."""
    found: list[tuple[Any, Any]] = []
    pending = [document]
    while pending and len(found) < 300:
        holder = pending.pop()
        names = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for name in names:
            found.append((holder, name))
            if isinstance(holder[name], dict | list):
                pending.append(holder[name])
    return found


def _value_of(place: tuple[Any, Any]) -> Any:
    return json.loads(json.dumps(place[0][place[1]]))


def _length(chance: random.Random) -> int:
    return chance.choice([length for length in LENGTHS if length < _LARGE or chance.random() < _LARGE_SHARE])


def _choose(values: dict[str, Any], chance: random.Random) -> Any:
    """Return one of them, large ones rarely."""
    while True:
        value = chance.choice(list(values.values()))
        if not isinstance(value, str | bytes | list) or len(value) < _LARGE or chance.random() < _LARGE_SHARE:
            return value
