"""The kill switch while agents go on asking (reliability D3, F17)."""

import http.client
import json
import threading
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.trust.carried import find_carried
from memory.trust.quarantine import find_covered_by, quarantine_source
from tests.chaos.profile import pick, report
from tests.chaos.web import ChaosWeb
from tests.factories import approve_as_read, make_api_key, make_heuristic, make_project, make_trajectory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SECONDS = pick(2, 10)
LESSONS = 20


class Asker(threading.Thread):
    """Asks for lessons again and again, and notes when an answer that carried a poisoned one was asked for."""

    def __init__(self, port: int, token: str, poisoned: set[str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port, self.token, self.poisoned, self.stop = port, token, poisoned, stop
        self.answers = 0
        self.carried: dict[str, float] = {}  # by retrieval, when it was asked for
        self.failures: list[int] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        while not self.stop.is_set():
            asked_at = time.monotonic()
            connection.request("POST", "/api/v1/retrieve", json.dumps({"task": "Cancel a reservation"}), headers)
            response = connection.getresponse()
            body = json.loads(response.read())
            self.answers += 1
            if response.status != 200:
                self.failures.append(response.status)
            elif self.poisoned & {item["id"] for item in body["items"]}:
                self.carried[body["retrieval_id"]] = asked_at
            time.sleep(0.02)
        connection.close()


@pytest.mark.nightly
def test_poison_stops_at_once_and_every_answer_with_it_is_listed(chaos_web: ChaosWeb) -> None:
    project = make_project()
    mallory = make_api_key(project=project, client="mallory").api_key
    run = make_trajectory(project=project, api_key=mallory, client="mallory")
    poisoned = [make_heuristic(trajectory=run, trigger=f"A reservation is cancelled ({n})") for n in range(LESSONS)]
    for heuristic in poisoned:
        approve_as_read(heuristic, by=Actor(label="user:ana"))
    embed_heuristics([heuristic.pk for heuristic in poisoned])
    token = make_api_key(project=project).token
    stop = threading.Event()
    askers = [Asker(chaos_web.port, token, {str(one.pk) for one in poisoned}, stop) for _ in range(2)]
    for asker in askers:
        asker.start()
    time.sleep(SECONDS / 2)

    since = timezone.now() - timedelta(hours=1)
    ordered_at = time.monotonic()
    done = quarantine_source(project, api_key=mallory, since=since, by=Actor(label="user:ops"))
    committed_at = time.monotonic()
    time.sleep(SECONDS / 2)
    stop.set()
    for asker in askers:
        asker.join()

    carried = {id: at for asker in askers for id, at in asker.carried.items()}
    late = [at - committed_at for at in carried.values() if at > committed_at]
    # What was being answered at the very moment of the order is in the list that is asked for a little later.
    listed = {str(each.retrieval_id) for each in find_carried(project, find_covered_by(done.order))}
    report(
        "F17",
        answers=sum(asker.answers for asker in askers),
        carried=len(carried),
        listed_at_once=len(done.carried),
        listed=len(listed),
        order_seconds=round(committed_at - ordered_at, 3),
        asked_after_and_carried=len(late),
        not_200=sum(len(asker.failures) for asker in askers),
    )
    assert carried
    assert late == []
    assert listed == carried.keys()
