"""Write the graph with which the bundled model computes in integers: memory/embeddings/data/integers.onnx.

    uv run --with onnx==1.23.2 python -m bench.integer_graph [--out FILE]

The installed model holds its weights in 8 bits, each matrix followed by `Cast` and `Mul`, so the runtime turns them
into floats when it loads them, and computes in floats. In this graph each of the 36 products of a text with weights is
one of integers: the text's side is rounded to 8 bits on the way (`DynamicQuantizeLinear`), one scale for all of its
numbers. Rows of the tables of words and positions become floats one at a time, when they are looked up.

The matrices stay in the installed file: the graph names their offset and length there (ONNX external data). Biases and
scales are copied into the graph, because the file has them at offsets that are no multiple of 4. So the graph fits one
exact file only; `memory/embeddings/minilm.py` checks the hashes of both. The command prints the graph's hash.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any

from memory.embeddings.minilm import GRAPH, MODEL_SHA256, find_model_file, read_pinned


def compute_in_integers(model: bytes, *, location: str) -> bytes:
    """Return the graph of a model with integer products, whose matrices are read from the file at `location`."""
    from onnx import TensorProto, load_from_string

    loaded = load_from_string(model)
    tensors = {tensor.name: tensor for tensor in loaded.graph.initializer}
    makers = {output: node for node in loaded.graph.node for output in node.output}
    nodes: list[Any] = []
    rounded: set[str] = set()
    for node in loaded.graph.node:
        # The input of each operation that holds the weights.
        weights = {"MatMul": 1, "Gather": 0}.get(node.op_type)
        scaled = makers.get(node.input[weights]) if weights is not None else None
        cast = makers.get(scaled.input[0]) if scaled is not None else None
        if scaled is None or cast is None or cast.op_type != "Cast" or cast.input[0] not in tensors:
            nodes.append(node)
        elif node.op_type == "MatMul":
            nodes += _multiply(node.input[0], cast.input[0], scaled.input[1], node.output[0], rounded)
        else:
            nodes += _look_up(cast.input[0], scaled.input[1], node.input[1], node.output[0])
    # What made floats of the weights is used by nothing now, and left out.
    used = {name for node in nodes for name in node.input} | {output.name for output in loaded.graph.output}
    del loaded.graph.node[:]
    loaded.graph.node.extend(node for node in nodes if used.intersection(node.output))
    del loaded.graph.value_info[:]
    for node in loaded.graph.node:
        del node.metadata_props[:]
    for tensor in tensors.values():
        if tensor.data_type == TensorProto.INT8:
            # The bytes stand unchanged in the installed file, so their place can be searched for.
            offset = model.index(tensor.raw_data)
            external = {"location": location, "offset": offset, "length": len(tensor.raw_data)}
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in external.items():
                tensor.external_data.add(key=key, value=str(value))
    # The same bytes each time, as their hash is pinned.
    graph: bytes = loaded.SerializeToString(deterministic=True)
    return graph


def _multiply(text: str, weights: str, scale: str, output: str, rounded: set[str]) -> list[Any]:
    """Return the nodes of text · weights in integers; `rounded` names the texts that have been rounded before."""
    from onnx import TensorProto
    from onnx.helper import make_node

    names = [f"{text}_u8", f"{text}_scale", f"{text}_zero"]
    # Three products share one text (query, key, value), which is rounded once.
    rounding = [] if text in rounded else [make_node("DynamicQuantizeLinear", [text], names)]
    rounded.add(text)
    return [
        *rounding,
        make_node("MatMulInteger", [names[0], weights, names[2]], [f"{output}_i32"]),
        make_node("Cast", [f"{output}_i32"], [f"{output}_f32"], to=TensorProto.FLOAT),
        make_node("Mul", [names[1], scale], [f"{output}_scale"]),
        make_node("Mul", [f"{output}_f32", f"{output}_scale"], [output]),
    ]


def _look_up(table: str, scales: str, rows: str, output: str) -> list[Any]:
    """Return the nodes that make floats of the given rows of a table with one scale per row."""
    from onnx import TensorProto
    from onnx.helper import make_node

    return [
        make_node("Gather", [table, rows], [f"{output}_i8"], axis=0),
        make_node("Cast", [f"{output}_i8"], [f"{output}_f32"], to=TensorProto.FLOAT),
        make_node("Gather", [scales, rows], [f"{output}_scale"], axis=0),
        make_node("Mul", [f"{output}_f32", f"{output}_scale"], [output]),
    ]


def main() -> None:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=GRAPH)
    arguments = parser.parse_args()
    path = find_model_file()
    graph = compute_in_integers(read_pinned(path, MODEL_SHA256), location=path.name)
    arguments.out.write_bytes(graph)
    print(f"{arguments.out}: {len(graph):,} bytes, sha256 {hashlib.sha256(graph).hexdigest()}")


if __name__ == "__main__":
    main()
