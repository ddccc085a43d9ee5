"""Bodies no honest client sends (reliability D10): `HOSTILE` maps a name to bytes that must be refused."""

import itertools
import json

DEEP = 10_000


def _wrap(raw: str) -> bytes:
    return f'{{"task": "x", "metadata": {{"value": {raw}}}}}'.encode()


BAD_VALUES = {
    "nul": r'"a\u0000b"',
    "lone-high-surrogate": r'"\ud800"',
    "lone-low-surrogate": r'"\udc00 and more"',
    "surrogates-in-wrong-order": r'"\ude00\ud83d"',
    "infinite": "1e400",
    "minus-infinite": "-1e400",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "minus-Infinity": "-Infinity",
    "int-2-to-63": str(2**63),
    "int-minus-2-to-63": str(-(2**63)),
    "int-5000-digits": "9" * 5000,
    "int-100-digits": "9" * 100,
    "long-text": json.dumps("x" * 300_001),
    "long-text-in-utf8": json.dumps("é" * 300_001, ensure_ascii=False),
    "deep-33": "[" * 33 + "]" * 33,
    "repeated-name": '{"a": 1, "a": 1}',
    "repeated-name-by-escape": r'{"a": 1, "\u0061": 2}',
    "nul-name": r'{"a\u0000": 1}',
    "surrogate-name": r'{"\ud800": 1}',
    "long-name": json.dumps({"x" * 300_001: 1}),
    "raw-control-character": '"a\x01b"',
    "raw-newline": '"a\nb"',
    "bad-escape": r'"\x41"',
    "short-escape": r'"\u12"',
    "leading-zero": "01",
    "leading-plus": "+1",
    "bare-dot": ".5",
    "trailing-dot": "5.",
    "hexadecimal": "0x10",
    "underscore": "1_000",
    "single-quotes": "'a'",
    "bare-word": "true false",
    "trailing-comma": "[1,]",
    "comment": "1 // one",
    "undefined": "undefined",
}
BAD_BODIES = {
    "empty-text": b" ",
    "nothing-but-nul": b"\x00",
    "unclosed": b'{"task": "x"',
    "two-documents": b'{"task": "x"}{"task": "y"}',
    "array": b"[]",
    "array-of-objects": b'[{"task": "x"}]',
    "text": b'"task"',
    "number": b"1",
    "null": b"null",
    "true": b"true",
    "byte-order-mark": b'\xef\xbb\xbf{"task": "x"}',
    "utf-16": '{"task": "x"}'.encode("utf-16"),
    "utf-32": '{"task": "x"}'.encode("utf-32-be"),
    "latin-1": '{"task": "é"}'.encode("latin-1"),
    "overlong-utf8": b'{"task": "\xc0\xaf"}',
    "surrogate-in-utf8": b'{"task": "\xed\xa0\x80"}',
    "cut-utf8": b'{"task": "\xe2\x82"}',
    "form": b"task=x&outcome=success",
    "xml": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
    "deep-arrays": b'{"task":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep-objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep-and-unclosed": b"[" * 100_000,
    "many-values": b'{"task": "x", "metadata": {"v": [' + b"1," * 60_000 + b"1]}}",
    "many-names": json.dumps({str(number): 0 for number in range(60_000)}).encode(),
    "repeated-task": b'{"task": "x", "task": "y"}',
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00.",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56\x2a",
}
HOSTILE: dict[str, bytes] = {
    **BAD_BODIES,
    **{name: _wrap(raw) for name, raw in BAD_VALUES.items()},
    # each bad value again as an item, as a member of a list's object, and twice
    **{f"{name}-in-list": _wrap(f"[0, {raw}]") for name, raw in BAD_VALUES.items()},
    **{
        f"{name}-in-step": f'{{"task": "x", "steps": [{{"observation": {raw}}}]}}'.encode()
        for name, raw in BAD_VALUES.items()
    },
    **{f"{name}-as-task": f'{{"task": {raw}}}'.encode() for name, raw in BAD_VALUES.items()},
    **{
        f"{first}-and-{second}": _wrap(f"[{BAD_VALUES[first]}, {BAD_VALUES[second]}]")
        for first, second in itertools.islice(itertools.combinations(sorted(BAD_VALUES), 2), 0, 600, 5)
    },
}
WRONG_TYPES = {
    "task-number": b'{"task": 1}',
    "task-null": b'{"task": null}',
    "task-list": b'{"task": ["x"]}',
    "task-object": b'{"task": {"a": 1}}',
    "task-empty": b'{"task": ""}',
    "task-missing": b"{}",
    "steps-text": b'{"task": "x", "steps": "go"}',
    "steps-number": b'{"task": "x", "steps": 1}',
    "steps-of-numbers": b'{"task": "x", "steps": [1]}',
    "steps-of-lists": b'{"task": "x", "steps": [[]]}',
    "step-thought-number": b'{"task": "x", "steps": [{"thought": 1}]}',
    "step-action-list": b'{"task": "x", "steps": [{"action": []}]}',
    "outcome-unknown": b'{"task": "x", "outcome": "maybe"}',
    "outcome-list": b'{"task": "x", "outcome": []}',
    "outcome-object": b'{"task": "x", "outcome": {}}',
    "score-text": b'{"task": "x", "score": "high"}',
    "score-high": b'{"task": "x", "score": 2}',
    "score-negative": b'{"task": "x", "score": -0.5}',
    "score-list": b'{"task": "x", "score": [1]}',
    "tags-text": b'{"task": "x", "tags": "a"}',
    "tags-of-objects": b'{"task": "x", "tags": [{}]}',
    "metadata-list": b'{"task": "x", "metadata": []}',
    "metadata-text": b'{"task": "x", "metadata": "a"}',
    "tokens-negative": b'{"task": "x", "tokens": -1}',
    "tokens-text": b'{"task": "x", "tokens": "many"}',
    "tokens-float": b'{"task": "x", "tokens": 1.5}',
    "cost-text": b'{"task": "x", "cost_usd": "cheap"}',
    "cost-negative": b'{"task": "x", "cost_usd": -1}',
    "cost-huge": b'{"task": "x", "cost_usd": 1e300}',
    "mistake-cards-text": b'{"task": "x", "mistake_cards": "a"}',
    "external-id-object": b'{"task": "x", "external_id": {}}',
    "retrieval-id-text": b'{"task": "x", "retrieval_id": "nope"}',
    "unknown-member": b'{"task": "x", "approved_by": "me"}',
}
