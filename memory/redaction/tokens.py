"""Tokens recognised by their form: vendor prefixes, JSON web tokens, private keys, URLs with a password.

No pattern runs over the whole text. A cheap scan (`str.find`, a byte translation) finds where a rule could match, and a
pattern with bounded repetitions decides there. The formats follow the vendors' documentation and the gitleaks rule set
(MIT), reimplemented here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from memory.redaction.spans import SEPARATOR, Span, find_all

# Tokens with a known prefix: kind, prefixes, the rest. Each contains a run of at least `_RUN` characters of
# [A-Za-z0-9_-] and does not follow a letter or digit.
_RUN = 17
_LOOK_BACK = 32  # the longest part of a token before its long run
_END = r"(?![A-Za-z0-9])"
_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("erl_api_key", "erl_live_ erl_test_", r"[A-Za-z0-9]{4,16}_[\w-]{20,80}"),
    # Cloud
    ("aws_access_key", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16}" + _END),
    ("aws_bedrock_key", "ABSK", r"[A-Za-z0-9+/]{60,300}={0,2}"),
    ("gcp_api_key", "AIza", r"[\w-]{35}"),
    ("gcp_oauth_secret", "GOCSPX-", r"[\w-]{20,40}"),
    ("gcp_access_token", "ya29.", r"[\w.-]{20,2048}"),
    ("gcp_refresh_token", "1//0", r"[\w-]{30,256}"),
    ("alibaba_access_key", "LTAI", r"[A-Za-z0-9]{16,24}" + _END),
    ("tencent_secret_id", "AKID", r"[A-Za-z0-9]{28,36}" + _END),
    ("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    ("cloudflare_origin_key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{100,160}"),
    ("heroku_token", "HRKU-", r"[\w-]{36,70}"),
    ("netlify_token", "nfp_", r"[A-Za-z0-9]{36,64}"),
    ("supabase_token", "sbp_ sb_secret_", r"[\w-]{20,64}"),
    ("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.=-]{32,64}"),
    ("databricks_token", "dapi", r"[a-f0-9]{32}(?:-\d)?"),
    ("vault_token", "hvs. hvb. hvr.", r"[\w-]{24,300}"),
    ("tailscale_key", "tskey-", r"[a-z]{2,12}-[\w-]{16,80}"),
    ("doppler_token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"[\w.-]{40,80}"),
    ("pulumi_token", "pul-", r"[a-f0-9]{40}"),
    # Code and packages
    ("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,255}"),
    ("github_token", "github_pat_", r"\w{40,255}"),
    (
        "gitlab_token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent- gloas-",
        r"[\w-]{20,300}(?:\.[\w-]{2,40}){0,3}",
    ),
    ("bitbucket_token", "ATBB", r"[A-Za-z0-9_=.-]{28,200}"),
    ("atlassian_token", "ATATT3 ATCTT3", r"[\w=-]{60,250}"),
    ("npm_token", "npm_", r"[A-Za-z0-9]{36}" + _END),
    ("pypi_token", "pypi-AgE", r"[\w-]{50,1000}"),
    ("rubygems_token", "rubygems_", r"[a-f0-9]{48}"),
    ("docker_token", "dckr_pat_ dckr_oat_", r"[\w-]{24,64}"),
    ("circleci_token", "CCIPAT_", r"[A-Za-z0-9]{20,24}_[a-f0-9]{40}"),
    ("sonar_token", "sqp_ squ_ sqa_", r"[a-f0-9]{40}"),
    ("artifactory_key", "AKCp", r"[A-Za-z0-9]{60,80}"),
    ("postman_key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    # Models
    ("anthropic_key", "sk-ant-", r"[\w-]{20,200}"),
    ("openrouter_key", "sk-or-", r"(?:v1-)?[a-f0-9]{40,64}"),
    ("langfuse_key", "sk-lf-", r"[a-f0-9-]{36}"),
    ("openai_key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{20,250}"),
    ("openai_key", "sk-", r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{20,64}(?![\w-])"),
    ("groq_key", "gsk_", r"[A-Za-z0-9]{40,64}"),
    ("xai_key", "xai-", r"[A-Za-z0-9]{60,100}"),
    ("perplexity_key", "pplx-", r"[A-Za-z0-9]{40,64}"),
    ("huggingface_token", "hf_ api_org_", r"[A-Za-z0-9]{30,40}" + _END),
    ("replicate_token", "r8_", r"[A-Za-z0-9]{37,40}"),
    ("nvidia_key", "nvapi-", r"[\w-]{50,80}"),
    ("cerebras_key", "csk-", r"[a-z0-9]{40,64}"),
    ("pinecone_key", "pcsk_", r"\w{40,90}"),
    ("tavily_key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{28,40}"),
    ("langsmith_key", "lsv2_pt_ lsv2_sk_", r"[a-f0-9]{32}_[a-f0-9]{10}"),
    # Messages and mail
    ("slack_token", "xoxa- xoxb- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp-", r"(?:xox[bp]-)?[A-Za-z0-9-]{20,250}"),
    ("sendgrid_key", "SG.", r"[\w-]{17,32}\.[\w-]{32,64}"),
    ("twilio_key", "SK", r"[a-f0-9]{32}" + _END),
    ("mailgun_key", "key-", r"[a-f0-9]{32}" + _END),
    # Money and shops
    ("stripe_key", "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_", r"[A-Za-z0-9]{16,250}"),
    ("stripe_webhook_secret", "whsec_", r"[A-Za-z0-9+/]{24,64}"),
    ("shopify_token", "shpat_ shpca_ shppa_ shpss_ shptka_", r"[a-fA-F0-9]{32}"),
    ("square_token", "sq0atp- sq0csp- sq0idp-", r"[\w-]{22,43}"),
    ("square_token", "EAAA", r"[\w-]{60}"),
    ("razorpay_key", "rzp_live_ rzp_test_", r"[A-Za-z0-9]{14,24}"),
    # Tools
    ("grafana_token", "glsa_ glc_", r"[A-Za-z0-9+/=_]{32,300}"),
    ("newrelic_key", "NRAK-", r"[A-Z0-9]{27}"),
    ("sentry_token", "sntrys_ sntryu_", r"[\w=+/-]{40,300}"),
    ("dynatrace_token", "dt0", r"[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("linear_key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40,64}"),
    ("notion_token", "ntn_", r"[A-Za-z0-9]{40,50}"),
    ("figma_token", "figd_ figu_ figr_", r"[\w-]{40,64}"),
    ("airtable_token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("facebook_token", "EAA", r"[A-Za-z0-9]{90,300}"),
    ("onepassword_token", "ops_eyJ", r"[\w=+/-]{100,2000}"),
    ("age_secret_key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
)


class _Marked(NamedTuple):
    """A token recognised by a mark inside it, with the possible distances of the mark from its start."""

    kind: str
    mark: bytes
    distances: tuple[int, ...]
    pattern: re.Pattern[str]


# Marks searched for in the whole text
_MARKED_TOKENS = (
    _Marked("azure_client_secret", b"~", (5,), re.compile(r"[\w~.-]{3}\dQ~[\w~.-]{31,34}", re.ASCII)),
    _Marked("terraform_token", b".atlasv1.", (14,), re.compile(r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}", re.ASCII)),
)
# Marks at the start, at the end and inside of a long run
_TELEGRAM = _Marked("telegram_token", b":AA", (10, 9, 8), re.compile(r"\d{8,10}:AA[\w-]{32,34}(?![\w-])", re.ASCII))
_DISCORD = _Marked(
    "discord_token",
    b".G",
    tuple(range(28, 23, -1)),
    re.compile(r"[MNO][A-Za-z\d]{23,27}\.G[\w-]{5}\.[\w-]{27,40}", re.ASCII),
)
_MAILCHIMP = _Marked("mailchimp_key", b"-us", (32,), re.compile(r"[a-f0-9]{32}-us\d{1,2}(?!\d)", re.ASCII))
_HEAD = 2  # rules are chosen by this many first characters


def _by_head() -> dict[str, tuple[tuple[str, re.Pattern[str]], ...]]:
    rules: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {}
    for kind, prefixes, rest in _TOKENS:
        for prefix in prefixes.split():
            pattern = re.compile(re.escape(prefix) + rest, re.ASCII)
            rules[prefix[:_HEAD]] = (*rules.get(prefix[:_HEAD], ()), (kind, pattern))
    return rules


_RULES = _by_head()
_HEADS = frozenset(head[:length].encode() for head in _RULES for length in (1, _HEAD))
_WORD_START = re.compile(rb"(?<![A-Za-z0-9])[A-Za-z0-9]")
_WORDISH = bytes(0x61 if chr(i).isascii() and (chr(i).isalnum() or chr(i) in "_-") else 0x20 for i in range(256))
_LONG_RUN = b"a" * _RUN


def find_tokens(text: str, raw: bytes) -> Iterator[Span]:
    """Find tokens by their prefix or mark. `raw` is the text with one ASCII byte per character."""
    done = 0
    marks: list[tuple[_Marked, int]] = []
    read: dict[bytes, tuple[list[int], list[tuple[_Marked, int]]]] = {}  # a cache: names of functions repeat
    for begin, end in _find_long_runs(raw):
        run = raw[begin:end]
        if run not in read:
            read[run] = _read_run(run)
        heads, marked = read[run]
        # Only a dot or slash can separate a prefix from the run, as in "ya29." and "1//0".
        before = _LOOK_BACK if begin and raw[begin - 1] in b"./" else 0
        if heads or before:
            for start in _starts(raw, begin, heads, before=before):
                if start < done:
                    continue
                for kind, pattern in _RULES.get(text[start : start + _HEAD], ()):
                    if match := pattern.match(text, start):
                        yield Span(start, match.end(), kind)
                        done = match.end()
                        break
        done = max(done, end)
        if marked:
            marks += [(rule, begin + offset) for rule, offset in marked]
    for rule in _MARKED_TOKENS:
        marks += ((rule, position) for position in find_all(raw, rule.mark))
    for rule, position in marks:
        for distance in rule.distances if raw.startswith(rule.mark, position) else ():
            if position >= distance and (match := rule.pattern.match(text, position - distance)):
                yield Span(match.start(), match.end(), rule.kind)
                break


def _find_long_runs(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of every run of at least `_RUN` letters, digits, _ and -."""
    wordish = raw.translate(_WORDISH)
    begin = wordish.find(_LONG_RUN)
    while begin >= 0:
        end = wordish.find(b" ", begin + _RUN)
        if end < 0:
            end = len(wordish)
        yield begin, end
        begin = wordish.find(_LONG_RUN, end)


def _read_run(run: bytes) -> tuple[list[int], list[tuple[_Marked, int]]]:
    """Return where words in a run start like a token, and which marks it may contain where."""
    words = (word.start() for word in _WORD_START.finditer(run))
    heads = [word for word in words if run[word : word + _HEAD] in _HEADS]
    marked = [(_MAILCHIMP, position) for position in find_all(run, _MAILCHIMP.mark)]
    if run.startswith(_TELEGRAM.mark[1:]):
        marked.append((_TELEGRAM, -1))
    if len(run) >= min(_DISCORD.distances):
        marked.append((_DISCORD, len(run)))
    return heads, marked


def _starts(raw: bytes, begin: int, heads: list[int], *, before: int) -> Iterator[int]:
    """Yield where a token may start in the run at `begin`, or up to `before` characters before it."""
    for word in _WORD_START.finditer(raw, max(0, begin - before), begin):
        yield word.start()
    for head in heads:
        yield begin + head


_JWT = re.compile(r"eyJ[\w-]{8,8192}\.eyJ[\w-]{8,16384}(?:\.[\w-]{0,2048}){0,3}", re.ASCII)
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_REST = re.compile(r"(?:[A-Za-z0-9+/= \t\r\n:,-]|\\[nr]){0,20000}")
_PEM_MAX = 20_000
_URL_PASSWORD = re.compile(r"://[^\s/:@?#\"'<>\\]{0,256}:([^\s/@\"'<>\\]{1,512})@")
_WEBHOOK = re.compile(
    r"https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks"
    r"|[\w-]{1,64}\.webhook\.office\.com/webhookb2)/([\w/@.-]{20,400})"
)


def find_blocks(text: str, raw: bytes) -> Iterator[Span]:
    """Find PEM private keys, JSON web tokens, passwords in URLs and webhook addresses. `raw` as in `find_tokens`."""
    done = 0
    for position in find_all(raw, b"-----BEGIN "):
        if position < done or not (head := _PEM.match(text, position)):
            continue
        limit = head.end() + _PEM_MAX
        if (border := text.find(SEPARATOR, head.end(), limit)) >= 0:
            limit = border
        close = text.find("-----END", head.end(), limit)
        if close >= 0:
            tail = text.find("-----", close + 8, min(close + 80, limit))
            done = tail + 5 if tail >= 0 else close + 8
        else:  # truncated: anything that looks like base64 belongs to the key
            rest = _PEM_REST.match(text, head.end())
            done = rest.end() if rest else head.end()
        yield Span(position, done, "private_key")
    for position in find_all(raw, b"eyJ"):
        before = text[position - 1 : position]
        if not (before.isalnum() or before in {"_", "-"}) and (match := _JWT.match(text, position)):
            yield Span(position, match.end(), "jwt")
    for position in find_all(raw, b"://"):
        if match := _URL_PASSWORD.match(text, position):
            yield Span(match.start(1), match.end(1), "url_password")
        elif text.startswith("https", max(0, position - 5)) and (match := _WEBHOOK.match(text, position - 5)):
            yield Span(match.start(1), match.end(1), "webhook_url")
