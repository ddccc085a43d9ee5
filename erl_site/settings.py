"""Django settings. This is the only module that reads the environment."""

import json
import os
import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import django_stubs_ext
import environ
from celery.schedules import crontab
from csp.constants import NONE, SELF

from erl_site.embedded import roles, valkey
from erl_site.embedded.home import EmbeddedServerError, check_secret_key, erl_home, secret_key
from erl_site.monitoring.logs import logging_config
from erl_site.web.static_files import hash_static_files
from memory.limits import MAX_REQUEST_BYTES

django_stubs_ext.monkeypatch()
# Before numpy is imported: requests and jobs run in parallel anyway, and a process with one thread can be forked
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class SettingReader(environ.Env):  # type: ignore[misc]
    """The environment. A value that cannot be read ends the process with a sentence; an empty one is not set.

    `names` are those it was asked for: `manage.py check` warns of others that begin with ERL_.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get_value(self, var: str, cast: Any = None, default: Any = environ.Env.NOTSET, **options: Any) -> Any:
        self.names.add(var)
        if cast in (int, float, json.loads) and not str(self.ENVIRON.get(var, "")).strip():
            return default
        try:
            return super().get_value(var, cast, default, **options)
        except ValueError as error:
            raise SystemExit(f"{var} cannot be read: {error}.") from None

    def object(self, var: str) -> dict[str, Any]:
        """Return a JSON object."""
        value = self.json(var, default={})
        if not isinstance(value, dict):
            raise SystemExit(f'{var} is not a JSON object, such as {{"name": …}}.')
        return value


BASE_DIR = Path(__file__).resolve().parent.parent
# An installed package lies where no one looks for files and often no one may write; it uses the folder it is started in
FOLDER = Path.cwd() if BASE_DIR.name in ("site-packages", "dist-packages") else BASE_DIR
env = SettingReader()
env.read_env(env.str("ERL_ENV_FILE", str(FOLDER / ".env")))  # /dev/null in tests

# ── Security ──────────────────────────────────────────────────────────────────────────────────────────────────────
SECRET_KEY = env.str("ERL_SECRET_KEY", "")
SECRET_KEY_FALLBACKS = env.list("ERL_SECRET_KEY_FALLBACKS", default=[])
try:
    # Data of the embedded servers; each checkout has its own
    ERL_HOME = erl_home(env.str("ERL_HOME", ""), FOLDER)
    SECRET_KEY = check_secret_key(SECRET_KEY, name="ERL_SECRET_KEY") if SECRET_KEY else secret_key(ERL_HOME)
    for former_key in SECRET_KEY_FALLBACKS:
        check_secret_key(former_key, name="ERL_SECRET_KEY_FALLBACKS")
except EmbeddedServerError as error:
    raise SystemExit(str(error)) from None  # whichever process reads the settings ends with this sentence
ERL_LISTEN = env.str("ERL_LISTEN", "127.0.0.1:8000")
ERL_API_HOST = ERL_LISTEN.rpartition(":")[0]
ALLOWED_HOSTS = env.list("ERL_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]", ERL_API_HOST])
CSRF_FAILURE_VIEW = "erl_site.web.views.csrf_failure"
ERL_HTTPS = env.bool("ERL_HTTPS", False)
# The names of the site itself: a proxy may ask for it by another name
CSRF_TRUSTED_ORIGINS = [
    f"https://{'*' * host.startswith('.')}{host}"
    for host in ALLOWED_HOSTS
    if ERL_HTTPS and host not in ("*", "localhost")
]

ERL_PROXY_COUNT = env.int("ERL_PROXY_COUNT", 0)
# The part of the site's address before ERL's own paths, such as /erl. Not read from a header, which clients can send
ERL_PATH_PREFIX = f"/{_path}" if (_path := env.str("ERL_PATH_PREFIX", "").strip("/")) else ""
FORCE_SCRIPT_NAME = ERL_PATH_PREFIX or None

# Admin sign-in (reliability D14): sessions expire, guessing is throttled, one-time codes can be required
ERL_ADMIN_OTP = env.bool("ERL_ADMIN_OTP", False)
SESSION_COOKIE_AGE = 8 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = f"{ERL_PATH_PREFIX}/"  # other sites of the host get neither
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
LOGIN_URL, LOGIN_REDIRECT_URL = "admin:login", "admin:index"
AXES_HANDLER = "erl_site.sign_in.throttle.Handler"
AXES_LOCKOUT_PARAMETERS = ["ip_address", "username"]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # the announced time stays correct, and no rows are added
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # its table would only grow
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_CLIENT_IP_CALLABLE = "erl_site.sign_in.throttle.client_address"
AXES_LOCKOUT_CALLABLE = "erl_site.sign_in.throttle.answer_locked_out"
OTP_TOTP_ISSUER = "ERL"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = ERL_HTTPS
SECURE_REDIRECT_EXEMPT = [rf"^{re.escape(f'{ERL_PATH_PREFIX}/'[1:])}(health|ready|waiting)$"]
SECURE_HSTS_SECONDS = 31_536_000 if ERL_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = ERL_HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ERL_HTTPS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

# ── Application ───────────────────────────────────────────────────────────────────────────────────────────────────
INSTALLED_APPS = [
    # Its pages are loaded with the URLs, not in workers and commands
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "csp",
    "axes",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "django_htmx",
    "erl_site",
    "memory",
    "reflection",
    "runtime",
    "evaluation",
    "desk",
]
MIDDLEWARE = [
    "erl_site.web.middleware.RequestIdMiddleware",
    "erl_site.web.middleware.OverloadMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "erl_site.web.middleware.PolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "erl_site.sign_in.middleware.SignInMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
ERL_OTEL_ENDPOINT = env.str("ERL_OTEL_ENDPOINT", "")  # OTLP collector; empty disables tracing
if ERL_OTEL_ENDPOINT:
    MIDDLEWARE.insert(1, "erl_site.monitoring.tracing.TracingMiddleware")
ROOT_URLCONF = "erl_site.urls"
APPEND_SLASH = True
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LANGUAGE_CODE = "en-us"
FORMAT_MODULE_PATH = "erl_site.formats"
TIME_ZONE = "UTC"
USE_TZ = True
STATICFILES_DIRS = [BASE_DIR / "templates" / "static"]
# Browsers keep the files until one of them changes
STATIC_URL = f"{ERL_PATH_PREFIX}/static/{hash_static_files(STATICFILES_DIRS[0])}/"
WHITENOISE_USE_FINDERS = True  # no collectstatic needed
WHITENOISE_IMMUTABLE_FILE_TEST = "^/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING = logging_config(level=env.str("ERL_LOG_LEVEL", "INFO"))
ERL_FAILPOINTS: list[str] = []  # of tests (memory/failpoints.py)

# ── Database: DATABASE_URL, or the embedded PostgreSQL under ERL_HOME ─────────────────────────────────────────────
DATABASE_URL = env.str("DATABASE_URL", "")
ERL_EMBEDDED_DURABLE = True  # not the servers of tests, which they throw away
DATABASE_OWNER_URL = env.str("DATABASE_OWNER_URL", "")  # who owns the tables; needed only where they are changed
if DATABASE_URL:
    DATABASES = {"default": env.db_url_config(DATABASE_URL)}
    DATABASES["default"]["ENGINE"] = "django.db.backends.postgresql"
    _owner = env.db_url_config(DATABASE_OWNER_URL) if DATABASE_OWNER_URL else {}
    ERL_DATABASE_OWNER = {name: _owner[name] for name in ("USER", "PASSWORD", "HOST", "PORT") if _owner}
else:
    DATABASES = {"default": {"ENGINE": "erl_site.embedded.database", "NAME": "erl", "USER": roles.APPLICATION}}
    ERL_DATABASE_OWNER = {"USER": roles.OWNER}
DATABASES["default"].setdefault("CONN_MAX_AGE", 600)  # seconds; `?conn_max_age=0` in DATABASE_URL changes it
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"].setdefault("OPTIONS", {}).setdefault("connect_timeout", 2)
# Behind a pooler in transaction mode there is no session state, and timeouts are set on the role
ERL_DATABASE_POOLER = env.bool("ERL_DATABASE_POOLER", False)
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = ERL_DATABASE_POOLER
ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS = env.float("ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS", 0.0)
# Time limits for statements, locks and idle transactions; queries stop when their client is gone (reliability C4)
if not ERL_DATABASE_POOLER:
    DATABASES["default"]["OPTIONS"].setdefault(
        "options",
        f"-c statement_timeout={round(ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS * 1000)}ms"
        " -c lock_timeout=2s -c idle_in_transaction_session_timeout=60s -c client_connection_check_interval=250ms"
        " -c hnsw.ef_search=60 -c hnsw.iterative_scan=relaxed_order -c hnsw.max_scan_tuples=40000"
        # Plan prepared statements, also those in database functions, once rather than per request
        " -c plan_cache_mode=force_generic_plan",
    )

# ── Queue: CELERY_BROKER_URL, or the embedded Valkey under ERL_HOME ───────────────────────────────────────────────
# Rows in PostgreSQL hold the work. A message that is lost costs seconds, until the scheduler sends it again
CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", "")
ERL_EMBEDDED_BROKER = not CELERY_BROKER_URL
if ERL_EMBEDDED_BROKER:
    CELERY_BROKER_URL = valkey.broker_url(ERL_HOME / "valkey")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # workers wait for the broker indefinitely
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True  # no endless loop: the row limits the attempts
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_PROC_ALIVE_TIMEOUT = 600.0  # after the default of 4 s a busy machine kills processes that are starting
# Keep this order: soft limit < hard limit < redelivery. A 30 s lease is renewed up to the hard limit.
CELERY_TASK_SOFT_TIME_LIMIT = 120
CELERY_TASK_TIME_LIMIT = 150
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 900,
    "unacked_restore_throttle": 1,  # look for lost messages at every check, not every tenth
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    # Half a minute after the broker's machine is gone without a word, a worker connects again. macOS lacks the first
    "socket_keepalive_options": {
        number: value
        for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
        if (number := getattr(socket, name, None)) is not None
    },
    "health_check_interval": 10,
    "max_retries": 0,  # senders do not wait for a broker that is away
}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0}  # over a new connection: it was restarted
CELERY_TASK_IGNORE_RESULT = True
# Evaluations take minutes, so they have a lane of their own, and neither they nor reflections wait for the other. A
# worker started without -Q serves both lanes
CELERY_TASK_DEFAULT_QUEUE = "erl"
ERL_EVALUATION_QUEUE = "erl-evaluation"
# What the scheduler sends does not wait behind the jobs: workers take from their queues in turn
ERL_PERIODIC_QUEUE = "erl-periodic"
CELERY_TASK_QUEUES: dict[str, dict[str, str]] = {
    CELERY_TASK_DEFAULT_QUEUE: {},
    ERL_EVALUATION_QUEUE: {},
    ERL_PERIODIC_QUEUE: {},
}
CELERY_ACCEPT_CONTENT = ["json"]
# Tasks continue without the broker: a redelivered message finds its row taken, and paid model calls are kept
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 30.0
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_DB_REUSE_MAX = 10**9  # tasks on one connection, which Celery else closes after each; erl_site.celery checks it
# Messages that no worker takes expire, so that they do not pile up while none runs. The clocks of scheduler and workers
# may differ by as much
CELERY_BEAT_SCHEDULE = {
    "resend": {"task": "reflection.tasks.resend", "schedule": 2.0, "options": {"expires": 600.0}},
    "often": {"task": "erl_site.tasks.often", "schedule": 5.0, "options": {"expires": 600.0}},
    "every_minute": {"task": "erl_site.tasks.every_minute", "schedule": 60.0, "options": {"expires": 600.0}},
    # By the clock: a scheduler that is restarted now and then would never come to the end of an hour
    "every_hour": {"task": "erl_site.tasks.every_hour", "schedule": crontab(minute=23), "options": {"expires": 3600.0}},
    "tune": {"task": "memory.tasks.tune_retrieval", "schedule": crontab(minute=53), "options": {"expires": 3600.0}},
}
CELERY_TASK_ROUTES = {entry["task"]: {"queue": ERL_PERIODIC_QUEUE} for entry in CELERY_BEAT_SCHEDULE.values()}

# ── API ───────────────────────────────────────────────────────────────────────────────────────────────────────────
ERL_API_MAX_REQUEST_BYTES = env.int("ERL_API_MAX_REQUEST_BYTES", MAX_REQUEST_BYTES)
DATA_UPLOAD_MAX_MEMORY_SIZE = ERL_API_MAX_REQUEST_BYTES
ERL_IDEMPOTENCY_HOURS = 72
ERL_IDEMPOTENCY_REQUIRED = env.bool("ERL_IDEMPOTENCY_REQUIRED", False)
ERL_API_MAX_WAIT_SECONDS = 0.25  # requests that waited longer for a thread are refused; 0: no limit
ERL_API_MAX_IN_FLIGHT = env.int("ERL_API_MAX_IN_FLIGHT", 32)  # of one key, in each web process; 0: no limit
# Per key and scope: "reflect=600/60" allows 600 requests in 60 seconds; "failed=…" counts refused keys by address
ERL_RATE_LIMITS = env.list(
    "ERL_RATE_LIMITS",
    default=["retrieve=6000/60", "trajectories:write=3000/60", "reflect=600/60", "evaluate=60/60", "failed=1000/60"],
)
# Of answers without a run, by whole months; 0: for ever
ERL_RETENTION_DAYS = env.int("ERL_RETENTION_DAYS", 180)

# ── Retrieval ─────────────────────────────────────────────────────────────────────────────────────────────────────
ERL_EMBEDDER = env.str("ERL_EMBEDDER", "minilm")  # minilm, minilm-floats, none or the URL of a service
ERL_EMBEDDER_API_KEY = env.str("ERL_EMBEDDER_API_KEY", "")
ERL_RETRIEVE_MODE = env.str("ERL_RETRIEVE_MODE", "hybrid")  # erl asks the language model at every answer
ERL_RETRIEVE_MAX_PER_SOURCE = env.int("ERL_RETRIEVE_MAX_PER_SOURCE", 0)  # 0: no limit
ERL_RERANK_URL = env.str("ERL_RERANK_URL", "")
ERL_RERANK_API_KEY = env.str("ERL_RERANK_API_KEY", "")
ERL_RETRIEVE_MEMORY_MB = env.int("ERL_RETRIEVE_MEMORY_MB", 64)  # cache of approved lessons in each web process
ERL_TENANT_ROLE = env.str("ERL_TENANT_ROLE", "")  # erl_tenant: requests see only rows of their project
ERL_SERVING_ROLE = env.str("ERL_SERVING_ROLE", "auto")  # role of searches; auto: erl_serving if it exists

# ── Review ────────────────────────────────────────────────────────────────────────────────────────────────────────
ERL_PENDING_PROPOSALS_PER_CLIENT = env.int("ERL_PENDING_PROPOSALS_PER_CLIENT", 200)  # 0: no limit
EMAIL_HOST = ""  # no e-mail unless there is a server
if ERL_MAIL_URL := env.str("ERL_MAIL_URL", ""):
    globals().update(env.email_url_config(ERL_MAIL_URL))
EMAIL_TIMEOUT = 5
DEFAULT_FROM_EMAIL = env.str("ERL_MAIL_FROM", "erl@localhost")

# ── Reflection ────────────────────────────────────────────────────────────────────────────────────────────────────
ERL_REFLECTOR = env.str("ERL_REFLECTOR", "auto")  # auto: llm with a provider, otherwise rules
ERL_LLM_PROVIDER = env.str("ERL_LLM_PROVIDER", "")  # see reflection/llm/registry.py; empty for none
ERL_LLM_API_KEY = env.str("ERL_LLM_API_KEY", "")
ERL_LLM_BASE_URL = env.str("ERL_LLM_BASE_URL", "")
ERL_LLM_MODEL = env.str("ERL_LLM_MODEL", "")
ERL_LLM_PROVIDERS = env.object("ERL_LLM_PROVIDERS")  # more of them, each with its key, address and budget
ERL_LLM_MODELS = env.object("ERL_LLM_MODELS")  # by use: reflect, rank, consolidate, agents
ERL_LLM_SCRIPT = env.str("ERL_LLM_SCRIPT", "")  # see reflection/llm/scripted.py
ERL_LLM_MAX_OUTPUT_TOKENS = env.int("ERL_LLM_MAX_OUTPUT_TOKENS", 2000)
ERL_LLM_MAX_INPUT_TOKENS = env.int("ERL_LLM_MAX_INPUT_TOKENS", 24_000)
ERL_LLM_TIMEOUT_SECONDS = env.float("ERL_LLM_TIMEOUT_SECONDS", 90.0)
ERL_HTTP_HOSTS = [host.strip().lower() for host in env.list("ERL_HTTP_HOSTS", default=[])]  # see memory/egress.py
ERL_HTTP_PROXY = env.str("ERL_HTTP_PROXY", "")  # for all others but this machine
ERL_TOOL_SECRETS = env.object("ERL_TOOL_SECRETS")
ERL_LLM_INPUT_USD_PER_MTOK = env.float("ERL_LLM_INPUT_USD_PER_MTOK", 0.0)
ERL_LLM_OUTPUT_USD_PER_MTOK = env.float("ERL_LLM_OUTPUT_USD_PER_MTOK", 0.0)
ERL_LESSONS_PER_TRAJECTORY = env.int("ERL_LESSONS_PER_TRAJECTORY", 1)
ERL_REFLECTION_LEASE_SECONDS = 30.0  # without a sign of life, before another worker may take a job over
ERL_REFLECTION_MAX_ATTEMPTS = 5  # of a job, before it is shown as dead

# ── Memory across episodes ────────────────────────────────────────────────────────────────────────────────────────
ERL_CONSOLIDATE_EVERY = env.int("ERL_CONSOLIDATE_EVERY", 20)

ERL_NAMES = env.names  # of all settings

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["memory.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["memory.api.authentication.HasScope"],
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "memory.api.pagination.LimitOffset",
    "DEFAULT_SCHEMA_CLASS": "memory.api.schema.ApiSchema",
    "URL_FORMAT_OVERRIDE": None,
    "EXCEPTION_HANDLER": "memory.api.exception_handler.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "ERL API",
    "DESCRIPTION": "Reviewed, measured lesson memory for AI agents.",
    "VERSION": "1",
    "SERVERS": [{"url": ERL_PATH_PREFIX}] if ERL_PATH_PREFIX else [],
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "memory.api.schema.add_shared_parts",
    ],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "ErrorCode": "memory.api.errors.ErrorCode",
        "HeuristicStatus": "memory.heuristics.models.HeuristicStatus",
        "HeuristicScope": "memory.heuristics.models.HeuristicRevisionScope",
        "Polarity": "memory.heuristics.models.HeuristicRevisionPolarity",
        "Outcome": "memory.runs.models.TrajectoryOutcome",
        "OutcomeSource": "memory.runs.models.TrajectoryOutcomeSource",
        "RetrievalMode": "memory.retrieval.models.RetrievalMode",
        "ModeEnum": ["none", "random", "embedding", "lexical", "hybrid", "erl"],
        "Verdict": "memory.effects.models.HeuristicFeedbackVerdict",
        "ReflectionStatus": "reflection.jobs.models.JobStatus",
        "EvaluationStatus": "evaluation.models.EvaluationRunStatus",
        "DeploymentMode": "memory.retrieval.assignment.DeploymentMode",
        "DeploymentUnit": "memory.retrieval.assignment.DeploymentUnit",
        "CutPolicy": "memory.releases.models.DeploymentCutPolicy",
        "DeploymentEventKind": "memory.releases.models.DeploymentEventKind",
        "ReleaseHow": "memory.releases.models.ReleaseHow",
        "ExperimentStatus": "evaluation.experiments.models.ExperimentStatus",
        "Compared": "evaluation.experiments.models.ComparedArms",
        "Promotes": "evaluation.experiments.models.Promotes",
        "ExperimentMetric": "evaluation.experiments.plan.Metric",
        "ExperimentMethod": "evaluation.experiments.plan.Method",
        "ExperimentRule": "evaluation.experiments.plan.DecisionRule",
        "UnitRule": "evaluation.experiments.plan.UnitRule",
        "Guarded": "evaluation.experiments.plan.Guarded",
        "ExperimentVerdict": "evaluation.experiments.analysis.ArmVerdict",
        "ProposalEffect": "reflection.reflectors.models.ProposalEffect",
        "ToolKind": "runtime.models.tools.ToolKind",
        "ToolRuntime": "runtime.models.tools.ToolRuntime",
        "ToolStatus": "runtime.models.tools.ToolStatus",
    },
}
