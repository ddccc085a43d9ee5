"""What shadow promises of writes, and what must not help an evolution: `python -m bench.evolution shadow|controls`.

`shadow` rehearses a change until so many calls were answered or refused, while the service that the agent's tools call
listens, and counts who knocked there. `controls` tries on the suite bfcl what must not help and what must not get
through, after the same evolution as `manage.py evolve demo --suite bfcl --generations 5`. Figures of a live canary:
`python -m bench.live_changes`. Of a sleep that is killed: `python -m tests.chaos.agents sleep`.
"""

import argparse
import json
import os
import random
import sys
import time
from functools import partial
from typing import Any

from tests.servers import throw_away_servers  # names the throw-away servers before Django reads its settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from django.core.management import call_command  # noqa: E402

from bench.evolution_controls import hold_controls, write_controls  # noqa: E402
from evaluation.evolution.bfcl import BfclSuite  # noqa: E402
from evaluation.evolution.generations import evolve  # noqa: E402
from reflection.llm.chat import ChatAnswer, ChatRequest  # noqa: E402
from runtime.changes.rehearsals import describe, rehearse, subject_of  # noqa: E402
from tests.runtime.changing import Service, make_shop_agent, propose_refund  # noqa: E402
from tests.runtime.running import Script, go_on, make_run  # noqa: E402

ORDERS = 20  # in the recorded run: each is read and paid back
EXTRA = 10  # writes and reads that only the candidate wants


def rehearse_often(*, calls: int) -> dict[str, Any]:
    """Rehearse until so many calls were made, and count what reached the service."""
    with Service().running() as service:
        agent = make_shop_agent(service)
        orders = [f"A{number}" for number in range(ORDERS)]
        recorded: list[tuple[str, dict[str, Any]]] = [("read_order", {"order": order}) for order in orders]
        recorded += [("pay_back", {"order": order_id, "amount": 150}) for order_id in orders]
        run = make_run(agent)
        go_on(run, Script(recorded, "Paid."))
        change = propose_refund(agent, run)
        wanted = [*recorded]
        wanted += [("notify", {"text": f"order {number}"}) for number in range(EXTRA // 2)]
        wanted += [("pay_back", {"order": "Z9", "amount": 10**number}) for number in range(EXTRA // 2)]
        # Shuffled, so that new calls come between recorded ones.
        random.Random(22).shuffle(wanted)
        # From here on: recording the run has asked the service, and rehearsing must not.
        sent, knocked = len(service.requests), service.connections
        made = refused = 0
        while made < calls:
            script = Script(wanted, [("refund_order", {"order": "A1"})], "Paid.")
            done = rehearse(subject_of(change.target, run), run, partial(_ask, script))
            figures = describe(change, run, done, attempt=1, by="bench").figures
            made += figures["same"] + figures["new_writes"] + figures["new_reads"]
            refused += figures["new_writes"]
        return {
            "part": "shadow",
            "calls": made,
            "writes_refused": refused,
            "requests_sent": len(service.requests) - sent,
            "connections": service.connections - knocked,
            "passed": len(service.requests) == sent and service.connections == knocked,
        }


def _ask(script: Script, step: int, request: ChatRequest) -> ChatAnswer:
    return script.chat(request)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.evolution", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["shadow", "controls"])
    parser.add_argument("--times", type=int, help="How many calls, or how often the agent is judged against itself.")
    options = parser.parse_args()
    if options.part == "controls":
        suite = BfclSuite()
        controls = hold_controls(suite, evolve(suite, generations=5), times=options.times or 100, seed=0)
        print("\n".join(write_controls(controls)))
        return 0
    call_command("migrate", verbosity=0)
    started = time.monotonic()
    result = rehearse_often(calls=options.times or 10_000)
    print(json.dumps(result | {"seconds": round(time.monotonic() - started, 1)}), flush=True)
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    with throw_away_servers():
        sys.exit(main())
