"""What a project may spend on models in a UTC day: reserved before each call, settled after it (reliability B11)."""

from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, Sum
from django.db.models.functions import Now

from memory.database_clock import database_today
from memory.projects.models import Project
from reflection.errors import BudgetExhausted
from reflection.jobs.models import Job
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import DailySpend, ModelCall, Reservation
from reflection.llm.registry import find_daily_usd, find_prices

MILLION = Decimal(1_000_000)


def cost_usd(*, input_tokens: int, output_tokens: int, provider: str = "") -> Decimal:
    """Return what a call costs by the prices in the settings, those of the provider where it has its own."""
    price_in, price_out = (Decimal(str(price)) for price in find_prices(provider))
    return (input_tokens * price_in + output_tokens * price_out) / MILLION


def reserve(project: Project, request: ChatRequest, *, job: Job | None = None, provider: str = "") -> Reservation:
    """Set aside what a call may cost at most, in one conditional statement, so that two calls cannot pass the limit.

    Raises:
        BudgetExhausted: it does not fit into what is left of the project's day, or of the provider's.
    """
    _check_provider(provider)
    input_tokens = request.estimated_input_tokens
    tokens = input_tokens + request.max_output_tokens
    cost = cost_usd(input_tokens=input_tokens, output_tokens=request.max_output_tokens, provider=provider)
    # The day of the database: workers with different clocks share one row.
    spend, _ = DailySpend.objects.get_or_create(project=project, day=database_today())
    fits = _within(project, calls=1, tokens=tokens, cost=cost)
    reservation = Reservation(project=project, spend=spend, job=job, tokens=tokens, cost_usd=cost)
    with transaction.atomic(savepoint=False):
        # The condition is part of the update: of two calls that each would fit alone, one changes no row.
        reserved = DailySpend.objects.filter(fits, pk=spend.pk).update(
            calls=F("calls") + 1, tokens=F("tokens") + tokens, cost_usd=F("cost_usd") + cost
        )
        if reserved:
            reservation.save(force_insert=True)
    if not reserved:
        raise BudgetExhausted("The project's budget for today is used up. The work waits for the next day.")
    return reservation


def _check_provider(provider: str) -> None:
    """Refuse a call to a provider at which as much was spent today as may be."""
    daily_usd = find_daily_usd(provider)
    if daily_usd is None:
        return
    today = ModelCall.objects.filter(provider=provider, created_at__date=database_today())
    spent = today.aggregate(total=Sum("cost_usd"))["total"] or Decimal(0)
    if spent >= Decimal(str(daily_usd)):
        raise BudgetExhausted(f"The budget for the provider {provider} is used up today. The work waits for tomorrow.")


def settle(reservation: Reservation, completion: ChatAnswer, *, provider: str = "") -> Decimal:
    """Replace what was set aside by what the call took, and return its cost.

    A job makes one call at a time. What is still set aside for others was left by workers that died in the call: it is
    replaced by the same, since they asked what was asked again.
    """
    cost = cost_usd(input_tokens=completion.input_tokens, output_tokens=completion.output_tokens, provider=provider)
    tokens = completion.input_tokens + completion.output_tokens
    _end(reservation, tokens=tokens, cost=cost)
    if reservation.job_id is not None:
        # One call a job at a time: whatever else is set aside was left by a dead worker.
        for left in Reservation.objects.filter(job=reservation.job_id).exclude(pk=reservation.pk):
            _end(left, tokens=tokens, cost=cost)
    return cost


def release(reservation: Reservation) -> None:
    """Give back what was set aside for a call that the provider refused. It still counts as a call."""
    _end(reservation, tokens=0, cost=Decimal(0))


def keep(reservation: Reservation) -> None:
    """Count as spent what was set aside for a call that may have been charged and will not be answered."""
    _end(reservation, tokens=reservation.tokens, cost=reservation.cost_usd)


def resume_projects() -> int:
    """Make due what waits for budget in projects whose budget was raised; return how many jobs.

    A project has budget where the largest call that the settings allow would fit: less would be deferred again at once.
    """
    resumed = 0
    waiting = Job.objects.filter(status=Job.Status.DEFERRED_BUDGET, available_at__gt=Now())
    largest_in, largest_out = settings.ERL_LLM_MAX_INPUT_TOKENS, settings.ERL_LLM_MAX_OUTPUT_TOKENS
    largest = {
        "calls": 1,
        "tokens": largest_in + largest_out,
        "cost": cost_usd(input_tokens=largest_in, output_tokens=largest_out),
    }
    for project in Project.objects.filter(pk__in=waiting.values("project").distinct()):
        spend, _ = DailySpend.objects.get_or_create(project=project, day=database_today())
        if DailySpend.objects.filter(_within(project, **largest), pk=spend.pk).exists():
            resumed += waiting.filter(project=project).update(available_at=Now())
    return resumed


def _within(project: Project, *, calls: int, tokens: int, cost: Decimal) -> Q:
    fits = Q()
    if project.daily_call_budget is not None:
        fits &= Q(calls__lte=project.daily_call_budget - calls)
    if project.daily_token_budget is not None:
        fits &= Q(tokens__lte=project.daily_token_budget - tokens)
    if project.daily_cost_budget_usd is not None:
        fits &= Q(cost_usd__lte=project.daily_cost_budget_usd - cost)
    return fits


@transaction.atomic(savepoint=False)
def _end(reservation: Reservation, *, tokens: int, cost: Decimal) -> None:
    """Correct the day by what a call took; not twice, where another worker settled for one that was held up."""
    # The row that was deleted decides, so the day is corrected once.
    ended, _ = Reservation.objects.filter(pk=reservation.pk).delete()
    if ended:
        DailySpend.objects.filter(pk=reservation.spend_id).update(
            tokens=F("tokens") - reservation.tokens + tokens, cost_usd=F("cost_usd") - reservation.cost_usd + cost
        )
