"""An agent for `manage.py evaluate --agent`: it books tables, and learns from lessons how days are written."""

import json
import sys

asked = json.load(sys.stdin)  # id, task, family, lessons, trial, data
day = asked["data"]["day"]
spoken, written = f"{day} March 2027", f"2027-03-{day:02d}"
days = [written] if "YYYY-MM-DD" in asked["lessons"] else [spoken, written]
steps = [
    {
        "action": {"name": "book_table", "arguments": {"day": each}},
        "observation": "booked" if each == written else "Error: day must be written YYYY-MM-DD",
    }
    for each in days
]
outcome = "success" if len(steps) == 1 else "failure"  # one call is enough for those who know
json.dump({"outcome": outcome, "steps": steps, "tools": ["book_table"]}, sys.stdout)
