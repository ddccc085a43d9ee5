"""Let the bundled model compute in integers, as its weights are stored.

The file holds weights of 8 bits, each matrix followed by `Cast` and `Mul`, so that the runtime turns them into floats
once and then computes in floats: 36 products for a text, four fifths of its time. Here each of these products becomes
one of integers, with the text's side rounded to 8 bits on the way (`DynamicQuantizeLinear`). The weights stay what
they are.

A model is a protocol buffer of nested messages. Only what has to change is read; everything else is copied as it is.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_GRAPH, _NODE, _INPUT, _OUTPUT, _OP_TYPE = 7, 1, 1, 2, 4  # numbers of fields in ModelProto, GraphProto and NodeProto
_LENGTH_DELIMITED = 2
_TO_FLOAT = b"\x0a\x02to\x18\x01\xa0\x01\x02"  # the attribute to=FLOAT


class _Field(NamedTuple):
    number: int
    begin: int  # of the field with its tag
    start: int  # of its content
    end: int


class _Node(NamedTuple):
    op: str
    inputs: list[str]
    outputs: list[str]


def compute_in_integers(model: bytes) -> tuple[bytes, int]:
    """Return the model with integer products, and how many it has."""
    view = memoryview(model)
    graph = next(field for field in _read_fields(view) if field.number == _GRAPH)
    changed, count = _change_graph(view[graph.start : graph.end])
    tag = model[graph.begin : graph.begin + 1]
    return b"".join([view[: graph.begin], tag, _write_varint(len(changed)), changed, view[graph.end :]]), count


def _change_graph(graph: memoryview) -> tuple[bytes, int]:
    fields = list(_read_fields(graph))
    nodes = {field.begin: _read_node(graph[field.start : field.end]) for field in fields if field.number == _NODE}
    makers = {output: node for node in nodes.values() for output in node.outputs}
    used: set[str] = set()  # floats made of weights, which nobody needs any more
    written: list[bytes | memoryview] = []
    rounded: set[str] = set()
    count = 0
    for field in fields:
        node = nodes.get(field.begin)
        weights = _find_weights(node, makers) if node is not None else None
        if node is None or weights is None:
            written.append(graph[field.begin : field.end])
            continue
        text, (output,) = node.inputs[0], node.outputs
        if text not in rounded:
            rounded.add(text)
            parts = [f"{text}_u8", f"{text}_u8_scale", f"{text}_u8_zero"]
            written.append(_write_node("DynamicQuantizeLinear", [text], parts))
        whole, scale = f"{output}_i32", f"{output}_scale"
        integers, floats = weights.inputs
        written += [
            _write_node("MatMulInteger", [f"{text}_u8", integers, f"{text}_u8_zero"], [whole]),
            _write_node("Cast", [whole], [f"{whole}_f"], attribute=_TO_FLOAT),
            _write_node("Mul", [f"{text}_u8_scale", floats], [scale]),
            _write_node("Mul", [f"{whole}_f", scale], [output]),
        ]
        used.update(weights.outputs)
        count += 1
    return b"".join(written), count


def _find_weights(node: _Node, makers: dict[str, _Node]) -> _Node | None:
    """Return the integers and the scale that a product's weights are made of, if it is a product with weights."""
    if node.op != "MatMul":
        return None
    scaled = makers.get(node.inputs[1])
    cast = makers.get(scaled.inputs[0]) if scaled is not None and scaled.op == "Mul" else None
    if scaled is None or cast is None or cast.op != "Cast" or cast.inputs[0] in makers or scaled.inputs[1] in makers:
        return None
    return _Node("weights", [cast.inputs[0], scaled.inputs[1]], [*cast.outputs, *scaled.outputs])


def _read_node(node: memoryview) -> _Node:
    inputs, outputs, op = [], [], ""
    for field in _read_fields(node):
        if field.number in (_INPUT, _OUTPUT, _OP_TYPE):
            text = bytes(node[field.start : field.end]).decode()
            if field.number == _INPUT:
                inputs.append(text)
            elif field.number == _OUTPUT:
                outputs.append(text)
            else:
                op = text
    return _Node(op, inputs, outputs)


def _write_node(op: str, inputs: Sequence[str], outputs: Sequence[str], *, attribute: bytes = b"") -> bytes:
    texts = [(_INPUT, name) for name in inputs] + [(_OUTPUT, name) for name in outputs] + [(_OP_TYPE, op)]
    content = b"".join(_write_field(number, text.encode()) for number, text in texts)
    return _write_field(_NODE, content + (_write_field(5, attribute) if attribute else b""))


def _read_fields(message: memoryview) -> Iterator[_Field]:
    place = 0
    while place < len(message):
        begin = place
        tag, place = _read_varint(message, place)
        match tag & 7:
            case 0:
                start = place
                _, place = _read_varint(message, place)
            case 1:
                start, place = place, place + 8
            case 5:
                start, place = place, place + 4
            case _:
                length, start = _read_varint(message, place)
                place = start + length
        yield _Field(tag >> 3, begin, start, place)


def _write_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | _LENGTH_DELIMITED]) + _write_varint(len(content)) + content


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
        shift += 7


def _write_varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])
