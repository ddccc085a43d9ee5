"""An agent that plays cooking games without knowing how to cook. A game is anything that answers commands.

It explores the house, reads the recipe, collects the ingredients and follows the directions word by word. It does not
know which tools fry, roast, grill, chop, slice and dice; its lessons tell it, otherwise it guesses once.
"""

import random
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

MAX_COMMANDS = 100
TOOLS = ("knife", "oven", "stove", "BBQ")
COOKED = {"fried": "fry", "roasted": "roast", "grilled": "grill"}
CUTS = ("chop", "slice", "dice")
TRIGGER = "a meal is cooked from the cookbook in the kitchen and its recipe says to "
USE = "Use the "

_LINE = re.compile(rf"^\[H-[0-9a-f]{{8}}\] When {re.escape(TRIGGER)}(?P<verb>\w+): {re.escape(USE)}(?P<tool>\w+)\.")
_ROOM = re.compile(r"-= ([^=\n]+) =-")
_DIRECTION = re.compile(rf"^({'|'.join([*COOKED.values(), *CUTS])}) the (.+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class GameState:
    """What a game says after a command, and which commands it accepts now."""

    text: str
    commands: tuple[str, ...]
    is_over: bool = False
    is_won: bool = False


class Game(Protocol):
    """A started game."""

    def begin(self) -> GameState: ...

    def send(self, command: str) -> GameState: ...


@dataclass(kw_only=True, slots=True)
class Recipe:
    """The ingredients and directions in a cookbook."""

    ingredients: list[str] = field(default_factory=list)
    directions: list[tuple[str, str]] = field(default_factory=list)  # verb and ingredient


def read_lessons(context: str) -> dict[str, str]:
    """Return the tool for each verb according to the context block; the first lesson about a verb counts."""
    known: dict[str, str] = {}
    for line in context.splitlines():
        if match := _LINE.match(line.partition(" ")[2]):
            known.setdefault(match["verb"], match["tool"])
    return known


def read_recipe(text: str) -> Recipe:
    """Parse the page of a cookbook; a page without a recipe gives an empty one."""
    recipe = Recipe()
    lines = [line.strip() for line in text.splitlines()]
    if "Ingredients:" not in lines or "Directions:" not in lines:
        return recipe
    start, middle = lines.index("Ingredients:"), lines.index("Directions:")
    recipe.ingredients = [line for line in lines[start + 1 : middle] if line]
    matches = (_DIRECTION.match(line) for line in lines[middle + 1 :])
    recipe.directions = [(match[1], match[2]) for match in matches if match]
    return recipe


class Cook:
    """One try at one game."""

    def __init__(self, game: Game, known: Mapping[str, str], *, seed: str) -> None:
        self.game, self.known, self.seed = game, known, seed
        self.steps: list[dict[str, Any]] = []
        self.room = ""
        self.ways: dict[str, dict[str, str]] = {}  # by room and command, the room it leads to
        self.places: dict[str, str] = {}  # the room where each thing was seen
        self.taking: dict[str, str] = {}  # the command that takes each thing

    def play(self) -> GameState:
        """Play until the game ends or the commands run out."""
        self.seen = self.game.begin()
        self._look_around()
        self._explore()
        if self._go_to("cookbook"):
            recipe = read_recipe(self._do("examine cookbook"))
            for ingredient in recipe.ingredients:
                self._take(ingredient)
            for verb, ingredient in recipe.directions:
                self._follow(verb, ingredient)
            self._go_to("cookbook")
            self._do("prepare meal")
            self._do("eat meal")
        return self.seen

    def _follow(self, verb: str, ingredient: str) -> None:
        guess = random.Random(f"{self.seed}:{verb}:{ingredient}").choice(TOOLS)  # noqa: S311 - repeatable by design
        tool = self.known.get(verb, guess)
        if tool == "knife":
            self._take(tool)
        else:
            self._go_to(tool)
        self._do(f"{verb if verb in CUTS else 'cook'} {ingredient} with {tool}")

    def _take(self, thing: str) -> None:
        if thing in self.taking and self._go_to(thing):
            self._do(self.taking.pop(thing))

    def _explore(self) -> None:
        """Visit every room, opening whatever is closed."""
        while not self._is_done():
            ways = self.ways[self.room]
            untried = next((command for command in ways if not ways[command]), "")
            if untried:
                start = self.room
                self._do(untried)
                self.ways[start][untried] = self.room
                self._look_around()
                continue
            target = next((room for room in self.ways if room != self.room and "" in self.ways[room].values()), "")
            if not target or not self._walk(target):
                return

    def _look_around(self) -> None:
        if rooms := _ROOM.findall(self.seen.text):
            self.room = rooms[0]
        for command in self.seen.commands:
            if command.startswith("open ") and not command.endswith(("oven", "BBQ")) and not self._is_done():
                self._do(command)
        ways = self.ways.setdefault(self.room, {})
        for command in self.seen.commands:
            verb, _, rest = command.partition(" ")
            if verb == "go":
                ways.setdefault(command, "")
            elif verb == "take":
                thing = rest.partition(" from ")[0]
                self.taking[thing] = command
                self.places[thing] = self.room
            elif verb == "examine":
                self.places.setdefault(rest, self.room)

    def _go_to(self, thing: str) -> bool:
        """Walk to where a thing was seen; return whether it was reached."""
        return thing in self.places and (self.places[thing] == self.room or self._walk(self.places[thing]))

    def _walk(self, target: str) -> bool:
        for command in find_way(self.ways, self.room, target):
            start = self.room
            self._do(command)
            self.room = self.ways[start][command]
        return self.room == target

    def _do(self, command: str) -> str:
        if self._is_done():
            return ""
        self.seen = self.game.send(command)
        if command.startswith("go ") and (rooms := _ROOM.findall(self.seen.text)):
            self.room = rooms[0]
        action = {"name": "play", "arguments": {"command": command}}
        self.steps.append({"action": action, "observation": self.seen.text})
        return self.seen.text

    def _is_done(self) -> bool:
        return self.seen.is_over or len(self.steps) >= MAX_COMMANDS


def find_way(ways: Mapping[str, Mapping[str, str]], start: str, target: str) -> list[str]:
    """Return the commands of the shortest way between two rooms; empty if there is none."""
    waiting: deque[tuple[str, list[str]]] = deque([(start, [])])
    visited = {start}
    while waiting:
        room, done = waiting.popleft()
        if room == target:
            return done
        for command, following in ways.get(room, {}).items():
            if following and following not in visited:
                visited.add(following)
                waiting.append((following, [*done, command]))
    return []


def find_facts(steps: Iterator[tuple[str, str]]) -> dict[str, tuple[str, int]]:
    """Return for each verb its tool and the number of the step, from 1, that shows it.

    Args:
        steps: commands and answers.
    """
    facts: dict[str, tuple[str, int]] = {}
    for number, (command, answer) in enumerate(steps, 1):
        verb, _, rest = command.partition(" ")
        if verb == "cook" and (match := re.match(r"You (fried|roasted|grilled) ", answer)):
            facts.setdefault(COOKED[match[1]], (rest.rpartition(" with ")[2], number))
        elif verb in CUTS and ("requires a knife" in answer or answer.startswith(f"You {verb} ")):
            facts.setdefault(verb, ("knife", number))
    return facts
