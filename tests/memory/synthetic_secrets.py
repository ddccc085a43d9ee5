"""Made-up secrets of every kind the redactor promises to find, in the surroundings they leak in.

Written from the vendors' formats, not from the rules, so that a wrong rule shows.
"""

import base64
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass

_ALNUM = string.ascii_letters + string.digits
_URLSAFE = _ALNUM + "_-"
_HEX = "0123456789abcdef"
_BASE32 = string.ascii_uppercase + "234567"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A text with a secret in it; `needle` is what may not survive."""

    kind: str
    needle: str
    text: str


class Maker:
    """Draws secrets from a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def run(self, alphabet: str, length: int) -> str:
        return "".join(self.random.choices(alphabet, k=length))

    def mixed(self, alphabet: str, length: int) -> str:
        """A run that holds at least one letter and two digits, as a real one of this length practically always does."""
        text = [*self.run(alphabet, length - 3), *self.run("0123456789", 2), *self.run("abcdef", 1)]
        self.random.shuffle(text)
        return "".join(text)

    def jwt(self) -> str:
        def part(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        claims = {"sub": self.run(_ALNUM, 12), "iat": self.random.randint(10**9, 2 * 10**9)}
        return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.{self.run(_URLSAFE, 43)}"

    def pem(self) -> str:
        kind = self.random.choice(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
        body = "\n".join(self.run(_ALNUM + "+/", 64) for _ in range(self.random.randint(3, 20)))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"

    def card(self) -> str:
        prefix, length = self.random.choice([("4", 16), ("51", 16), ("2221", 16), ("37", 15), ("6011", 16)])
        digits = [int(c) for c in prefix + self.run("0123456789", length - 1 - len(prefix))]
        total = sum(sum(divmod(2 * d, 10)) for d in digits[::-2]) + sum(digits[-2::-2])
        number = "".join(map(str, digits)) + str(-total % 10)
        if self.random.random() < 0.5:
            return number
        separator = self.random.choice(" -")
        groups = (4, 6, 5) if length == 15 else (4, 4, 4, 4)
        ends = [sum(groups[: n + 1]) for n in range(len(groups))]
        return separator.join(number[end - size : end] for end, size in zip(ends, groups, strict=True))

    def iban(self) -> str:
        country, length = self.random.choice([("DE", 22), ("FR", 27), ("NL", 18), ("ES", 24), ("GB", 22), ("PL", 28)])
        head = self.run(string.ascii_uppercase, 4) if country in {"NL", "GB"} else ""
        rest = head + self.run("0123456789", length - 4 - len(head))
        check = 98 - int("".join(str(int(c, 36)) for c in rest + country + "00")) % 97
        iban = f"{country}{check:02}{rest}"
        if self.random.random() < 0.5:
            return iban
        return " ".join(iban[i : i + 4] for i in range(0, len(iban), 4))

    def phone(self) -> str:
        d = self.random.randint
        return self.random.choice(
            [
                f"+1 {d(200, 999)}-{d(200, 999)}-{d(1000, 9999)}",
                f"({d(200, 999)}) {d(200, 999)}-{d(1000, 9999)}",
                f"{d(200, 999)}-{d(200, 999)}-{d(1000, 9999)}",
                f"{d(200, 999)}.{d(200, 999)}.{d(1000, 9999)}",
                f"+49 {d(30, 999)} {d(100000, 9999999)}",
                f"+33 {d(1, 7)} {d(10, 99)} {d(10, 99)} {d(10, 99)} {d(10, 99)}",
                f"+44 20 {d(1000, 9999)} {d(1000, 9999)}",
                f"+{d(10**10, 10**12)}",
            ]
        )

    def email(self) -> str:
        name = self.run(string.ascii_lowercase, self.random.randint(1, 10))
        tag = self.random.choice(["", ".", "+", "_", "-"])
        rest = self.run(_ALNUM, 4) if tag else ""
        host = self.run(string.ascii_lowercase + string.digits, self.random.randint(2, 12))
        domain = self.random.choice(["com", "org", "co.uk", "de", "museum", "internal.example.net"])
        return f"{name}{tag}{rest}@{host}.{domain}"

    def password(self) -> str:
        return self.mixed(_ALNUM + "!#%+-_.~^*", self.random.randint(8, 24)).strip("!#%+-_.~^*") + "7"


def _tokens(m: Maker) -> dict[str, Callable[[], str]]:
    run = m.run
    return {
        "erl_api_key": lambda: f"erl_live_{run(_ALNUM, 8)}_{run(_URLSAFE, 43)}_{run(_ALNUM, 6)}",
        "aws_access_key": lambda: m.random.choice(["AKIA", "ASIA"]) + run(_BASE32, 16),
        "gcp_api_key": lambda: "AIza" + run(_URLSAFE, 35),
        "gcp_oauth_secret": lambda: "GOCSPX-" + run(_URLSAFE, 28),
        "gcp_access_token": lambda: "ya29.a0" + run(_URLSAFE, 160),
        "azure_client_secret": lambda: run(_ALNUM, 3) + "8Q~" + run(_ALNUM + "~._-", 34),
        "alibaba_access_key": lambda: "LTAI5t" + run(_ALNUM, 18),
        "digitalocean_token": lambda: "dop_v1_" + run(_HEX, 64),
        "databricks_token": lambda: "dapi" + run(_HEX, 32),
        "vault_token": lambda: "hvs." + run(_URLSAFE, 90),
        "terraform_token": lambda: f"{run(_ALNUM, 14)}.atlasv1.{run(_URLSAFE, 67)}",
        "tailscale_key": lambda: f"tskey-auth-{run(_ALNUM, 12)}CNTRL-{run(_ALNUM, 32)}",
        "doppler_token": lambda: "dp.pt." + run(_ALNUM, 43),
        "supabase_token": lambda: "sbp_" + run(_HEX, 40),
        "planetscale_token": lambda: "pscale_tkn_" + run(_URLSAFE, 43),
        "netlify_token": lambda: "nfp_" + run(_ALNUM, 36),
        "github_token": lambda: f"gh{m.random.choice('pousr')}_" + run(_ALNUM, 36),
        "github_fine_grained": lambda: f"github_pat_{run(_ALNUM, 22)}_{run(_ALNUM, 59)}",
        "gitlab_token": lambda: m.random.choice(["glpat-", "gldt-", "glrt-"]) + run(_URLSAFE, 20),
        "gitlab_routable": lambda: f"glpat-{run(_URLSAFE, 27)}.01.{run(_HEX, 9)}",
        "atlassian_token": lambda: f"ATATT3xFfGF0{run(_URLSAFE, 170)}={run('0123456789ABCDEF', 8)}",
        "npm_token": lambda: "npm_" + run(_ALNUM, 36),
        "pypi_token": lambda: "pypi-AgEIcHlwaS5vcmc" + run(_URLSAFE, 150),
        "rubygems_token": lambda: "rubygems_" + run(_HEX, 48),
        "docker_token": lambda: "dckr_pat_" + run(_URLSAFE, 27),
        "sonar_token": lambda: "sqp_" + run(_HEX, 40),
        "postman_key": lambda: f"PMAK-{run(_HEX, 24)}-{run(_HEX, 34)}",
        "anthropic_key": lambda: f"sk-ant-api03-{run(_URLSAFE, 93)}AA",
        "openai_key": lambda: f"sk-{m.mixed(_ALNUM, 20)}T3BlbkFJ{run(_ALNUM, 20)}",
        "openai_project_key": lambda: f"sk-proj-{run(_URLSAFE, 74)}T3BlbkFJ{run(_URLSAFE, 74)}",
        "openrouter_key": lambda: "sk-or-v1-" + run(_HEX, 64),
        "groq_key": lambda: "gsk_" + run(_ALNUM, 52),
        "xai_key": lambda: "xai-" + run(_ALNUM, 80),
        "perplexity_key": lambda: "pplx-" + run(_ALNUM, 48),
        "huggingface_token": lambda: "hf_" + run(string.ascii_letters, 34),
        "replicate_token": lambda: "r8_" + run(_ALNUM, 37),
        "nvidia_key": lambda: "nvapi-" + run(_URLSAFE, 64),
        "pinecone_key": lambda: f"pcsk_{run(_ALNUM, 6)}_{run(_ALNUM, 63)}",
        "tavily_key": lambda: "tvly-dev-" + run(_ALNUM, 32),
        "langsmith_key": lambda: f"lsv2_pt_{run(_HEX, 32)}_{run(_HEX, 10)}",
        "slack_bot_token": lambda: f"xoxb-{run('0123456789', 12)}-{run('0123456789', 13)}-{run(_ALNUM, 24)}",
        "slack_app_token": lambda: f"xapp-1-A{run(_BASE32, 10)}-{run('0123456789', 13)}-{run(_HEX, 64)}",
        "slack_webhook": lambda: (
            f"https://hooks.slack.com/services/T{run(_BASE32, 8)}/B{run(_BASE32, 10)}/{run(_ALNUM, 24)}"
        ),
        "telegram_token": lambda: f"{run('123456789', 10)}:AA{run(_URLSAFE, 32)}x",
        "discord_token": lambda: f"M{run(_ALNUM, 25)}.G{run(_URLSAFE, 5)}.{run(_URLSAFE, 38)}",
        "sendgrid_key": lambda: f"SG.{run(_URLSAFE, 22)}.{run(_URLSAFE, 43)}",
        "twilio_key": lambda: "SK" + run(_HEX, 32),
        "mailgun_key": lambda: "key-" + run(_HEX, 32),
        "mailchimp_key": lambda: f"{run(_HEX, 32)}-us{m.random.randint(1, 21)}",
        "stripe_key": lambda: m.random.choice(["sk", "rk"]) + "_live_" + run(_ALNUM, m.random.choice([24, 99])),
        "stripe_webhook_secret": lambda: "whsec_" + run(_ALNUM, 32),
        "shopify_token": lambda: "shpat_" + run(_HEX, 32),
        "square_token": lambda: "sq0atp-" + run(_URLSAFE, 22),
        "grafana_token": lambda: f"glsa_{run(_ALNUM, 32)}_{run(_HEX, 8)}",
        "newrelic_key": lambda: "NRAK-" + run(string.ascii_uppercase + string.digits, 27),
        "sentry_token": lambda: "sntrys_eyJ" + run(_ALNUM, 120),
        "dynatrace_token": lambda: f"dt0c01.{run(_BASE32, 24)}.{run(_BASE32, 64)}",
        "linear_key": lambda: "lin_api_" + run(_ALNUM, 40),
        "notion_token": lambda: "ntn_" + run(_ALNUM, 46),
        "figma_token": lambda: "figd_" + run(_URLSAFE, 40),
        "airtable_token": lambda: f"pat{run(_ALNUM, 14)}.{run(_HEX, 64)}",
        "age_secret_key": lambda: "AGE-SECRET-KEY-1" + run(_BASE32, 58),
        "jwt": m.jwt,
        "private_key": m.pem,
        "email": m.email,
        "phone": m.phone,
        "iban": m.iban,
        "card": m.card,
    }


_PLAIN = (
    "{}",
    "Use {} for this.",
    "the value is {}, keep it safe",
    "ERROR 401: key {} was refused\nretrying",
    "curl -H 'X-Key: {}' https://api.example.com/v1",
    'tool said: {{"result": "{}"}}',
    "https://example.com/callback?next=/home&v={}&x=1",
    "<td>{}</td>",
    "({})",
    "naïve café → {} ✓",
)
_BY_NAME = (
    "password={}",
    "DB_PASSWORD={}",
    'password: "{}"',
    '{{"user": "ana", "password": "{}"}}',
    '{{\\"user\\": \\"ana\\", \\"password\\": \\"{}\\"}}',
    "passwd = '{}'",
    "login --password={} --verbose",
    "the password is {} by the way",
    "export API_KEY={}",
    "api_key: '{}'",
    "aws_secret_access_key = {}",
    '"client_secret":"{}"',
    "https://example.com/?access_token={}&page=2",
    "AccountName=x;AccountKey={};EndpointSuffix=core",
    "postgres://ana:{}@db.example.com:5432/app",
    "redis://:{}@cache:6379/0",
    "Authorization: Bearer {}",
    "-H 'Authorization: token {}'",
    "{{'Authorization': 'Bearer {}'}}",
    "Cookie: sessionid={}; theme=dark",
)


def plant_secrets(*, seed: int, per_kind: int) -> list[Planted]:
    """Make `per_kind` texts for every kind of token and every way of naming a secret."""
    m = Maker(seed)
    planted = []
    for kind, make in _tokens(m).items():
        for _ in range(per_kind):
            secret = make()
            planted.append(Planted(kind=kind, needle=secret, text=m.random.choice(_PLAIN).format(secret)))
    for template in _BY_NAME:
        for _ in range(per_kind):
            secret = m.password() if "assw" in template or "@" in template else m.mixed(_ALNUM, 40)
            planted.append(Planted(kind="named secret", needle=secret, text=template.format(secret)))
    return planted
