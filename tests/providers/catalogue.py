"""The providers that are imitated, in the order of the docs' table."""

from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.chat_vendors import DeepSeek, Groq, LaPlateforme
from tests.providers.gateways import Azure, OpenRouter
from tests.providers.gemini import CompatibleGemini, Gemini
from tests.providers.gpt import Gpt
from tests.providers.imitation import Imitation
from tests.providers.local_servers import GemmaTemplate, LlamaCpp, MistralTemplate, Ollama, QwenTemplate, Vllm
from tests.providers.openai_responses import OpenAIResponses

IMITATIONS: tuple[type[Imitation], ...] = (
    OpenAIResponses,
    Gpt,
    AnthropicMessages,
    Gemini,
    CompatibleGemini,
    DeepSeek,
    Groq,
    LaPlateforme,
    OpenRouter,
    Azure,
    Ollama,
    Vllm,
    LlamaCpp,
    MistralTemplate,
    QwenTemplate,
    GemmaTemplate,
)
