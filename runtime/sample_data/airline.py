"""The agent of the quickstart: it works at the service desk of an airline and plays a script (airline.json)."""

from runtime.definitions import agent, block, rule, tool

RESERVATIONS = {"olivia_gonzalez_2305": ["Z7GOZK", "DTW to EWR, 15 May, basic economy"]}
FEE_PER_DAY = 75


@tool(
    kind="pure",
    examples=[({"customer": "olivia_gonzalez_2305"}, "Z7GOZK: DTW to EWR, 15 May, basic economy")],
)
def find_reservation(customer: str) -> str:
    """Find the reservation of a customer.

    Args:
        customer: The customer's name in our books.
    """
    if customer not in RESERVATIONS:
        raise ValueError("there is no such customer")
    number, flight = RESERVATIONS[customer]
    return f"{number}: {flight}"


@tool(
    kind="pure",
    examples=[({"reservation": "Z7GOZK", "days": 1}, "Z7GOZK, 1 day later: 75 dollars")],
)
def quote_change(reservation: str, days: int) -> str:
    """Say what it costs to fly some days later."""
    if days < 1:
        raise ValueError("a change is at least one day")
    return f"{reservation}, {days} day later: {days * FEE_PER_DAY} dollars"


@tool(examples=[({"reservation": "Z7GOZK", "days": 1, "fee": 75}, "Z7GOZK now flies 1 day later for 75 dollars")])
def change_flight(reservation: str, days: int, fee: int) -> str:
    """Move a flight by some days and charge the fee."""
    return f"{reservation} now flies {days} day later for {fee} dollars"


agent(
    "front-desk",
    description="The demo of the quickstart: it changes flights, and asks a person before it charges a fee.",
    system="You work at the service desk of an airline. Change flights, and charge no fee without asking.",
    model="scripted",
    blocks=[
        block("persona", "I am polite and brief.", description="Who you are.", read_only=True),
        block("human", "", description="What you know about the customer.", policy="direct", limit=2000),
    ],
    tools=[find_reservation, quote_change, change_flight, "memory_append", "get_lessons"],
    rules=[
        rule.parent_last_tool("quote_change", ["change_flight"]),
        rule.requires_approval("change_flight", when="args.fee > 0"),
    ],
    limits={"max_steps": 12},
)
