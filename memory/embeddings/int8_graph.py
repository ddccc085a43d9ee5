"""Let the bundled model compute in integers, as its weights are stored.

The file holds weights of 8 bits, each matrix followed by `Cast` and `Mul`, so that the runtime turns them into floats
once and then computes in floats: 36 products for a text, four fifths of its time. Here each of these products becomes
one of integers, with the text's side rounded to 8 bits on the way (`DynamicQuantizeLinear`). The weights stay what
they are; that nobody needs their floats any more, the runtime sees by itself.
"""

from memory.errors import EmbedderError


def compute_in_integers(model: bytes) -> tuple[bytes, int]:
    """Return the model with integer products, and how many it has.

    Raises:
        EmbedderError: the library that reads models is not installed.
    """
    try:
        from onnx import NodeProto, TensorProto, load_from_string
        from onnx.helper import make_node
    except ImportError as error:
        raise EmbedderError(
            "ERL_EMBEDDER_INTEGERS needs the package onnx, which is not installed. Run `uv sync --group integers`, "
            "install it into the image, or take the setting back.",
            transient=False,
        ) from error
    loaded = load_from_string(model)
    makers = {output: node for node in loaded.graph.node for output in node.output}
    rounded: set[str] = set()
    nodes: list[NodeProto] = []
    count = 0
    for node in loaded.graph.node:
        scaled = makers.get(node.input[1]) if node.op_type == "MatMul" else None
        cast = makers.get(scaled.input[0]) if scaled is not None and scaled.op_type == "Mul" else None
        if scaled is None or cast is None or cast.op_type != "Cast" or makers.keys() & {cast.input[0], scaled.input[1]}:
            nodes.append(node)  # no product with weights
            continue
        text, output = node.input[0], node.output[0]
        if text not in rounded:
            rounded.add(text)
            nodes.append(make_node("DynamicQuantizeLinear", [text], [f"{text}_u8", f"{text}_scale", f"{text}_zero"]))
        nodes += [
            make_node("MatMulInteger", [f"{text}_u8", cast.input[0], f"{text}_zero"], [f"{output}_i32"]),
            make_node("Cast", [f"{output}_i32"], [f"{output}_f32"], to=TensorProto.FLOAT),
            make_node("Mul", [f"{text}_scale", scaled.input[1]], [f"{output}_scales"]),
            make_node("Mul", [f"{output}_f32", f"{output}_scales"], [output]),
        ]
        count += 1
    del loaded.graph.node[:]
    loaded.graph.node.extend(nodes)
    return loaded.SerializeToString(), count
