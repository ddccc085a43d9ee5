"""What a call costs, by the prices in the settings."""

from decimal import Decimal

from django.conf import settings

from reflection.providers.base import Completion

TOKENS_A_PRICE_IS_FOR = 1_000_000


def cost_usd(completion: Completion) -> Decimal:
    """Return the price of an answer in US dollars, to a millionth; 0 where no prices are set."""
    cost = (
        Decimal(str(settings.ERL_LLM_INPUT_USD_PER_MTOK)) * completion.input_tokens
        + Decimal(str(settings.ERL_LLM_OUTPUT_USD_PER_MTOK)) * completion.output_tokens
    ) / TOKENS_A_PRICE_IS_FOR
    return cost.quantize(Decimal("0.000001"))
