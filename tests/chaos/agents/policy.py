"""What the agents of the chaos do: a list of calls for each case, and a model on loopback that asks for them."""

import random
from collections.abc import Callable
from typing import Any

from tests.scripted_answers import Behaviour, Exchange, answer, lesson

Call = tuple[str, dict[str, Any]]
Plan = Callable[[str], list[list[Call]]]
MODEL_SECONDS = 0.02  # at most, at random

TOOLS = '''
from runtime.definitions import http_tool, tool

TOKEN = {{"type": "object", "properties": {{"token": {{"type": "string"}}}}, "required": ["token"]}}

look = http_tool("look", description="Look.", parameters=TOKEN, kind="pure",
                 request={{"method": "GET", "url": "{url}/pure/{{token}}"}})
order = http_tool("order", description="Order.", parameters=TOKEN, kind="idempotent",
                  request={{"method": "POST", "url": "{url}/keyed/{{token}}"}})
pay = http_tool("pay", description="Pay.", parameters=TOKEN, kind="unsafe",
                request={{"method": "POST", "url": "{url}/unsafe/{{token}}"}})


@tool(uses=["order", "pay", "send_message"], kind="pure")
def buy(token: str) -> str:
    """Order, pay and tell the user."""
    order(token=token + "-order")
    pay(token=token + "-pay")
    send_message(message="bought " + token)
    return "Bought."
'''
NAMES = ("look", "order", "pay", "buy")


def every_kind(case: str) -> list[list[Call]]:
    """Return the calls of a case, answer by answer: tools of every kind in an order of its own, some at once."""
    calls: list[Call] = [(name, {"token": f"{case}-{name}"}) for name in ("look", "order", "pay", "buy")]
    calls += [
        ("send_message", {"message": f"said {case}"}),
        ("archival_insert", {"text": f"kept {case}"}),
    ]
    order = random.Random(case)
    order.shuffle(calls)
    cut = order.randrange(1, len(calls) - 1)
    return [calls[:1], calls[1 : cut + 1], calls[cut + 1 :]] if cut + 1 < len(calls) else [calls[:1], calls[1:]]


def one_payment(case: str) -> list[list[Call]]:
    """Return one call that pays: by itself, or inside a tool in the sandbox."""
    inside = int(case.rsplit("-", 1)[1]) % 2
    return [[("buy", {"token": f"{case}-buy"})]] if inside else [[("pay", {"token": f"{case}-pay"})]]


def model(plan: Plan, *, seconds: float = MODEL_SECONDS) -> Behaviour:
    """Answer with the next calls of the plan, and in the end with `done` and the case."""

    def play(exchange: Exchange) -> None:
        if not exchange.request.body.get("tools"):  # the reflection on a run that has ended
            answer(lesson(learn=False, skip_reason="It went well."))(exchange)
            return
        exchange.stopping.wait(random.uniform(0, seconds))
        said = exchange.request.body["messages"]
        case = next(each["content"] for each in said if each["role"] == "user").split()[-1]
        turns = plan(case)
        taken = sum(bool(each.get("tool_calls")) for each in said)
        answer("", *turns[taken])(exchange) if taken < len(turns) else answer(f"done {case}")(exchange)

    return play
