"""The numbers of the home page."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number on the home page, as a tile if it `is_large`. `link` is a path of the admin to the list behind it."""

    label: str
    value: str
    link: str = ""
    note: str = ""
    alarming: bool = False
    is_large: bool = False
