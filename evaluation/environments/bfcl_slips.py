"""How an agent that never read the documentation of the leaderboard's services would write their arguments."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

CITIES = {
    "SFO": "San Francisco", "LAX": "Los Angeles", "JFK": "New York", "BOS": "Boston", "ORD": "Chicago",
    "LHR": "London", "CDG": "Paris", "HND": "Tokyo", "RMS": "Rivermist", "OKD": "Oakendale", "CRH": "Crescent Hollow",
    "SBK": "Stonebrook", "PHV": "Pinehaven",
}  # fmt: skip
COMPANIES = {"AAPL": "Apple", "GOOG": "Google", "TSLA": "Tesla", "MSFT": "Microsoft", "NVDA": "Nvidia",
             "ZETA": "Zeta Corp", "OMEG": "Omega Industries", "QUAS": "Quasar Ltd.", "AMZN": "Amazon"}  # fmt: skip


def _city(code: str) -> str:
    return CITIES.get(code, code)


def _company(symbol: str) -> str:
    return COMPANIES.get(symbol, symbol)


def _spoken_date(date: str) -> str:
    try:
        day = datetime.strptime(date, "%Y-%m-%d")  # noqa: DTZ007 - a date without a time
    except ValueError:
        return date
    return f"{day:%B} {day.day}, {day.year}"


def _spoken_class(name: str) -> str:
    return f"{name.title()} Class"


def _path(name: str) -> str:
    return f"./{name}"


def _in_words(priority: int) -> str:
    return {1: "low", 2: "low", 3: "medium", 4: "high", 5: "urgent"}.get(priority, "medium")


def _as_number(value: str) -> Any:
    return int(value) if value.isdigit() else value


def _first(values: list[str]) -> list[str]:
    return values[:1]


def _half(value: float) -> float:
    return value / 2


def _without_mark(values: list[str]) -> list[str]:
    return [value.lstrip("#@") for value in values]


FORMS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("get_flight_cost", "travel_from"): _city,
    ("get_flight_cost", "travel_to"): _city,
    ("get_flight_cost", "travel_date"): _spoken_date,
    ("get_flight_cost", "travel_class"): _spoken_class,
    ("book_flight", "travel_from"): _city,
    ("book_flight", "travel_to"): _city,
    ("book_flight", "travel_date"): _spoken_date,
    ("book_flight", "travel_class"): _spoken_class,
    ("retrieve_invoice", "booking_id"): _as_number,
    ("cancel_booking", "booking_id"): _as_number,
    ("get_stock_info", "symbol"): _company,
    ("place_order", "symbol"): _company,
    ("add_to_watchlist", "stock"): _company,
    ("get_order_details", "order_id"): str,
    ("cancel_order", "order_id"): str,
    ("get_ticket", "ticket_id"): str,
    ("resolve_ticket", "ticket_id"): str,
    ("close_ticket", "ticket_id"): str,
    ("create_ticket", "priority"): _in_words,
    ("mv", "destination"): _path,
    ("cp", "destination"): _path,
    ("cat", "file_name"): _path,
    ("touch", "file_name"): _path,
    ("wc", "file_name"): _path,
    ("echo", "file_name"): _path,
    ("grep", "file_name"): _path,
    ("lockDoors", "door"): _first,
    ("pressBrakePedal", "pedalPosition"): _half,
    ("startEngine", "ignitionMode"): str.lower,
    ("displayCarStatus", "option"): str.title,
    ("activateParkingBrake", "mode"): lambda mode: {"engage": "on", "release": "off"}.get(mode, mode),
    ("post_tweet", "tags"): _without_mark,
    ("post_tweet", "mentions"): _without_mark,
    ("send_message", "receiver_id"): lambda user: user.lower().removeprefix("usr"),
}

TOOLS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "tail": ("cat", lambda arguments: {"file_name": arguments["file_name"]}),
    "close_ticket": ("resolve_ticket", lambda arguments: arguments | {"resolution": "Closed on request."}),
    "retrieve_invoice": (
        "get_booking_history",
        lambda arguments: {"access_token": arguments["access_token"]},
    ),
    "estimate_drive_feasibility_by_mileage": ("displayCarStatus", lambda arguments: {"option": "fuel"}),
    "view_messages_sent": ("get_message_stats", lambda arguments: {}),
    "find_nearest_tire_shop": ("displayCarStatus", lambda arguments: {"option": "doors"}),
    "get_watchlist": ("get_account_info", lambda arguments: {}),
    "comment": ("post_tweet", lambda arguments: {"content": arguments["comment_content"]}),
    "retweet": ("get_tweet", lambda arguments: {"tweet_id": arguments["tweet_id"]}),
}
