"""The product's addresses, and `/broken/trajectories`: the usual way to get idempotency wrong (negative control)."""

import time
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response

from erl_site import urls as site
from memory.api import idempotency
from memory.intake.views import TrajectoryListView

BETWEEN_COMMITS_SECONDS = 0.008


class TwoTransactions(TrajectoryListView):
    """Commits the run, then the key: takes no lock, and for a moment the run is there and the key is not."""

    def run(self, handler: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        key = idempotency.read_idempotency_key(request)
        if request.method != "POST" or key is None:
            return super().run(handler, request, *args, **kwargs)
        records = idempotency._records(self.api_key, key)
        if (record := records.first()) is not None:
            return idempotency._replay(record)
        with transaction.atomic():
            response: Response = handler(request, *args, **kwargs)
            self.finalize_response(request, response, *args, **kwargs)
            response.render()
        time.sleep(BETWEEN_COMMITS_SECONDS)
        with transaction.atomic():
            if not records.exists():
                keyed = idempotency.KeyedRequest.of(request, api_key=self.api_key, key=key, body=self.body)
                keyed.store(response)
        return response


urlpatterns = [path("broken/trajectories", TwoTransactions.as_view()), path("", include(site))]
handler400, handler403, handler404, handler500 = site.handler400, site.handler403, site.handler404, site.handler500
