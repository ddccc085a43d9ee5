"""A file of definitions, for tests."""

SHOP = '''"""Agents of a shop."""

import re

from runtime.definitions import agent, block, http_tool, rule, tool

LARGEST = 500.0
PERSONA = """You work for a shop.
Be brief."""


def is_order(order_id: str) -> bool:
    return re.fullmatch("[A-Z][0-9]+", order_id) is not None  # as printed on the invoice


get_order = http_tool(
    "get_order",
    description="Read an order.",
    parameters={
        "type": "object",
        "properties": {"order_id": {"type": "string"}},
        "required": ["order_id"],
    },
    request={"method": "GET", "url": "https://shop.example/orders/{order_id}"},
    kind="pure",
)


@tool(kind="idempotent", examples=[({"order_id": "A1", "amount": 5.0}, "refunded 5.0")])
def refund(order_id: str, amount: float) -> str:
    """Pay money back."""
    if amount > LARGEST:
        raise ValueError("too much")
    return f"refunded {amount}"


@tool(
    uses=["get_order", "refund"],
    examples=[({"order_id": "A1"}, "refunded 150", {"get_order": {"total": 150}, "refund": "refunded 150"})],
)
def refund_order(order_id: str, reason: str = "", share: float | None = None) -> str:
    """Refund an order after checking its total.

    Args:
        order_id: As on the invoice,
            with its letter.
        reason: Why.
    """
    if not is_order(order_id):
        raise ValueError("not an order")
    order = get_order(order_id)
    answer: str = refund(order_id, min(order["total"] * (share or 1), LARGEST))
    return answer


support = agent(
    "support",
    system=PERSONA,
    model="scripted",
    window_tokens=8000,
    blocks=[block("persona", PERSONA), block("human", policy="direct", limit=500)],
    tools=[get_order, refund_order, "send_message"],
    rules=[
        rule.run_first("get_order"),
        rule.requires_approval("refund_order", when="args.share > 0.5"),
        rule.max_count_per_run("refund_order", 3),
    ],
    limits={"max_steps": 10},
)
'''
