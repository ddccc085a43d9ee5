"""Every limit on what comes in, with its unit: requests, imported files and command options are held to these.

`ERL_API_MAX_REQUEST_BYTES` can change the size of a request. How fast a key may ask is set by `ERL_RATE_LIMITS`.
"""

from dataclasses import dataclass

MAX_REQUEST_BYTES = 1024 * 1024  # the default of ERL_API_MAX_REQUEST_BYTES
MAX_MEDIA_TYPE_CHARS = 256

# A JSON document
MAX_DEPTH_LEVELS = 32
MAX_JSON_TEXT_CHARS = 300_000  # any text in a document; members have limits of their own
MAX_TEXT_CHARS = 200_000
MAX_REQUEST_VALUES = 50_000
MAX_FILE_VALUES = 5_000_000
MAX_FILE_TEXT_CHARS = 50_000_000  # images in logs


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonLimits:
    """How large a JSON document may be.

    `values` counts members, items and the document itself. Tool calls are the densest thing agents record, measured at
    16–19 bytes a value, so 50,000 values let a full 1 MiB of any real run through; 20,000 would not.
    """

    depth_levels: int = MAX_DEPTH_LEVELS
    values: int = MAX_REQUEST_VALUES
    text_chars: int = MAX_JSON_TEXT_CHARS


REQUEST_JSON = JsonLimits()
FILE_JSON = JsonLimits(values=MAX_FILE_VALUES, text_chars=MAX_FILE_TEXT_CHARS)

# A run
MAX_TASK_CHARS = 60_000
MAX_NAME_CHARS = 200  # ids, task families, agents, tools: what is searched by
MAX_STEPS = 2_000
MAX_OBSERVATION_CHARS = 60_000  # longer ones are cut in the middle, with a mark
MAX_ARGUMENTS_CHARS = 200_000  # the arguments of one tool call, written as JSON
MAX_TOOLS = 500
MAX_OPEN_RUN_CHARS = 16 * 1024 * 1024  # the steps or spans of a run that is recorded in parts, as JSON
MAX_TRACE_SPANS = 5_000
MAX_REQUEST_TRACES = 100  # of agents, in one OTLP request
MAX_CALLED_RUNS = 100  # of sub-agents, in one trace
MAX_SUMMARY_CHARS = 20_000
MAX_REMARKS = 200  # mistakes, successes and mistake cards of one run, each
MAX_STATED_STEPS = 2**31 - 1
MAX_TOKENS = 2**53

# A lesson
MAX_TRIGGER_CHARS = 2_000
MAX_LESSON_TEXT_CHARS = 8_000  # guideline, avoid, not_when, rationale; a remark about a run
MAX_RELEASE_NAME_CHARS = 64  # a SHA-256
MAX_RELEASE_NUMBER = 9_999_999
MAX_REASON_CHARS = 4_000  # why a person decided, what an agent says about a lesson
MAX_TAGS = 50
MAX_VALID_DAYS = 3_650  # after its approval
MAX_TAG_CHARS = 100
MAX_LESSON_METADATA_CHARS = 10_000  # written as JSON
MAX_EVIDENCE = 50  # pieces that one request may bring for one lesson
MAX_PROPOSALS_AT_ONCE = 50  # lessons in one request

# Memory of agents
DEFAULT_BLOCK_CHARS = 5_000
MAX_BLOCK_CHARS = 100_000
MAX_BLOCK_DESCRIPTION_CHARS = 4_000
MAX_PASSAGE_CHARS = 20_000
MAX_FOUND_PASSAGES = 200  # of one search, over all pages

# An export that is sent over HTTP
MAX_IMPORT_BYTES = 1024**3  # of all files; larger ones are for manage.py import_memory
MAX_IMPORT_PARTS = 100  # in one request
MAX_IMPORT_PART_CHARS = 100_000

# A question
DEFAULT_TOP_K = 5
MAX_TOP_K = 200
DEFAULT_BUDGET_TOKENS = 4_000
MAX_BUDGET_TOKENS = 100_000
MAX_OUTCOME_DAYS = 3_650
MAX_OUTCOME_ROWS = 500

# A list
DEFAULT_PAGE_ROWS = 50
MAX_PAGE_ROWS = 200
MAX_PAGE_OFFSET = 100_000

# An error answer
MAX_ERROR_DETAIL_CHARS = 1_000
MAX_ERROR_TEXT_CHARS = 300
MAX_ERROR_FIELDS = 50

MAX_RETENTION_DAYS = 36_500  # a longer period counts as this one: dates end at the year 1
