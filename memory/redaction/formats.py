"""Secrets recognised by their form: vendor prefixes, JSON web tokens, private keys, addresses with a password.

The formats follow the vendors' documentation and the gitleaks rule set (MIT), reimplemented here.
"""

import re

from memory.redaction.spans import SEPARATOR, SecretRule, SecretSpan, View, pattern

# Tokens with a known prefix: kind, prefixes, the rest. Each contains a run of at least `_RUN` characters of
# [A-Za-z0-9_-] and does not follow a letter or digit. A token takes the rest of the word it stands in.
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
    ("openai_key", "sk-", r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{20,64}(?!\w|-(?!-))"),
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
    ("jwt", "eyJ", r"[\w-]{14,8192}+\.eyJ[\w-]{8,16384}(?:\.[\w-]{0,2048}){0,3}"),
)
# Tokens without a prefix: kind, how many characters before the long run they may start, the whole
_WITHOUT_PREFIX = (
    ("telegram_token", (11, 10, 9), re.compile(r"(?<![\w.,-])\d{8,10}:AA[\w-]{32,}+", re.ASCII)),
    ("terraform_token", (23,), re.compile(r"(?<!\w)[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}+", re.ASCII)),
    ("discord_token", (0,), re.compile(r"[MNO][A-Za-z\d]{23,27}\.G[\w-]{5}\.[\w-]{27,}+", re.ASCII)),
    ("mailchimp_key", (0,), re.compile(r"[a-f0-9]{32}-us\d{1,2}(?!\d)[\w-]*+", re.ASCII)),
)


_JOINTS = (b".", b":", b"/")  # before the long run, these separate it from the token's start
_DISCORD = (b"M", b"N", b"O")  # the first letter of a token that has no other mark
_HEAD = 2  # patterns are chosen by this many first characters


def _by_head() -> dict[str, tuple[tuple[str, re.Pattern[str]], ...]]:
    rules: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {}
    for kind, prefixes, rest in _TOKENS:
        for prefix in prefixes.split():
            pattern = re.compile(rf"{re.escape(prefix)}{rest}[\w-]*+", re.ASCII)
            rules[prefix[:_HEAD]] = (*rules.get(prefix[:_HEAD], ()), (kind, pattern))
    return rules


_BY_HEAD = _by_head()
_HEADS = re.compile(rb"(?<![A-Za-z0-9])(?:" + "|".join(sorted(map(re.escape, _BY_HEAD))).encode() + rb")")


def _read_token(view: View, begin: int) -> SecretSpan | None:
    """Read a token with a known prefix from a run of letters, digits, _ and -."""
    if view.words[begin - 1 : begin] == b"a":
        return None  # inside a run that was read
    end = view.words.find(b" ", begin + _RUN)
    if end < 0:
        end = len(view.raw)
    run, joined = view.raw[begin:end], view.raw[max(0, begin - 1) : begin] in _JOINTS
    if not joined and run in view.dull:
        return None
    if joined or b"-us" in run or run[:1] in _DISCORD:
        for kind, distances, whole in _WITHOUT_PREFIX:
            for distance in distances:
                if begin >= distance and (match := whole.match(view.text, begin - distance)):
                    return SecretSpan(match.start(), match.end(), kind)
    # Only a dot or slash can separate a prefix from the run, as in "ya29." and "1//0".
    for head in _HEADS.finditer(view.raw, max(0, begin - _LOOK_BACK) if joined else begin, end):
        for kind, compiled in _BY_HEAD[head[0].decode()]:
            if (match := compiled.match(view.text, head.start())) and match.end() > begin:
                return SecretSpan(head.start(), match.end(), kind)
    if run[:1] not in _DISCORD:
        view.dull.add(run)
    return None


_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_REST = re.compile(r"(?:[A-Za-z0-9+/= \t\r\n:,-]|\\[nr]){0,20000}+")
_PEM_MAX = 20_000


def _read_private_key(view: View, position: int) -> SecretSpan | None:
    text = view.text
    if not (head := _PEM.match(text, position)):
        return None
    limit = head.end() + _PEM_MAX
    # A key ends with its text; the next text of the value is another one.
    if (border := text.find(SEPARATOR, head.end(), limit)) >= 0:
        limit = border
    close = text.find("-----END", head.end(), limit)
    if close < 0:  # truncated: anything that looks like base64 belongs to the key
        rest = _PEM_REST.match(text, head.end())
        return SecretSpan(position, rest.end() if rest else head.end(), "private_key")
    tail = text.find("-----", close + 8, min(close + 80, limit))
    blank = view.words.find(b" ", tail + 5 if tail >= 0 else close + 8)
    return SecretSpan(position, blank if blank >= 0 else len(text), "private_key")


_URL_PASSWORD = re.compile(r"://[^\s/:@?#\"'<>\\]{0,256}+:([^\s/@\"'<>\\]{1,512}+)@")
_WEBHOOK = re.compile(
    r"https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks"
    r"|[\w-]{1,64}\.webhook\.office\.com/webhookb2)/([\w/@.-]{20,400})"
)


def _read_address(view: View, position: int) -> SecretSpan | None:
    """Read the password in an address, or the secret part of the address of a webhook."""
    if match := _URL_PASSWORD.match(view.text, position):
        return SecretSpan(*match.span(1), "url_password")
    if position >= 5 and (match := _WEBHOOK.match(view.text, position - 5)):
        return SecretSpan(*match.span(1), "webhook_url")
    return None


RULES = (
    SecretRule("words", b"a" * _RUN, _read_token),
    SecretRule("raw", b"-----BEGIN ", _read_private_key),
    SecretRule("raw", b"://", _read_address),
    SecretRule("raw", b"~", pattern("azure_client_secret", r"(?a)(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,}+", before=5)),
)
