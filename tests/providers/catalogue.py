"""The providers that are imitated, in the order of the docs' table."""

from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.gpt import Gpt
from tests.providers.imitation import Imitation

IMITATIONS: tuple[type[Imitation], ...] = (Gpt, AnthropicMessages)
