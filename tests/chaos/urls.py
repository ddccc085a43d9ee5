"""The product's addresses, and `/broken/trajectories`: the usual way to get idempotency wrong (negative control)."""

import time
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.urls import include, path
from rest_framework.request import Request

from erl_site import urls as site
from memory.api import idempotency
from memory.intake.views import TrajectoryListView

BETWEEN_COMMITS_SECONDS = 0.008


class TwoTransactions(TrajectoryListView):
    """Does it, then records the key: no lock, and a moment in which the effect is there and the key is not."""

    def run(self, handler: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        key = idempotency.read_idempotency_key(request)
        if request.method != "POST" or key is None:
            return super().run(handler, request, *args, **kwargs)
        attempt = idempotency._describe(request, key, kwargs)
        record = idempotency._find_record(attempt)
        if record is not None:
            return idempotency._replay(record, attempt)
        with transaction.atomic():
            response = self._execute(handler, request, *args, **kwargs)
        time.sleep(BETWEEN_COMMITS_SECONDS)
        with transaction.atomic():
            if idempotency._find_record(attempt) is None:
                idempotency._store(attempt, response)
        return response


urlpatterns = [path("broken/trajectories", TwoTransactions.as_view()), path("", include(site))]
handler400, handler403, handler404, handler500 = site.handler400, site.handler403, site.handler404, site.handler500
