"""Configuration, read once from the environment. Each variable: docs/operations.md."""

from __future__ import annotations

import ipaddress
import operator
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dj_database_url
from django.contrib.messages import constants as message_levels

from .env import Environment, load_file, make_private_folder, secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
load_file(BASE_DIR / ".env", os.environ)
environment = Environment(os.environ)

# Whatever a process of Renor writes is its owner's alone.
os.umask(0o077)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# --- Where things are, and under which address --------------------------------------
RENOR_DATA = environment.path("RENOR_DATA", BASE_DIR / "data")
RENOR_RUN = RENOR_DATA / "run"
RENOR_HOST = environment.text("RENOR_HOST", "127.0.0.1")
RENOR_PORT = environment.number("RENOR_PORT", 8000, at_least=1, at_most=65535)
_reachable = "127.0.0.1" if RENOR_HOST in {"0.0.0.0", "::"} else RENOR_HOST  # noqa: S104  compared, not bound
_bracketed = f"[{_reachable}]" if ":" in _reachable else _reachable
RENOR_PUBLIC_URL = environment.origin(
    "RENOR_PUBLIC_URL", f"http://{_bracketed}:{RENOR_PORT}"
)
IS_HTTPS = RENOR_PUBLIC_URL.startswith("https://")
PUBLIC_HOST = urlsplit(RENOR_PUBLIC_URL).hostname or "127.0.0.1"
IS_LOOPBACK = _is_loopback(PUBLIC_HOST) and _is_loopback(RENOR_HOST)
RENOR_TRUSTED_PROXIES = environment.number(
    "RENOR_TRUSTED_PROXIES", 0, at_least=0, at_most=10
)

# --- Behaviour -----------------------------------------------------------------------
RENOR_IDLE_SECONDS = environment.number(
    "RENOR_IDLE_SECONDS", 300, at_least=1, at_most=86_400
)
RENOR_MAX_AWAKE = environment.number("RENOR_MAX_AWAKE", 64, at_least=1, at_most=10_000)
RENOR_ALLOW_NETWORK_DISK = environment.flag("RENOR_ALLOW_NETWORK_DISK")
RENOR_SIGNUP = environment.choice("RENOR_SIGNUP", "closed", ("closed", "open"), "")
RENOR_ALLOWED_ORIGINS = environment.origins("RENOR_ALLOWED_ORIGINS")
RENOR_EMBEDDINGS = environment.choice(
    "RENOR_EMBEDDINGS",
    "none",
    ("none",),
    "Search by meaning, with other providers, comes in a later version.",
)
RENOR_EMBEDDINGS_URL = environment.url("RENOR_EMBEDDINGS_URL", "", ("http", "https"))
RENOR_EMBEDDINGS_MODEL = environment.text("RENOR_EMBEDDINGS_MODEL")
RENOR_EMBEDDINGS_DIMENSIONS = environment.number(
    "RENOR_EMBEDDINGS_DIMENSIONS", 768, at_least=8, at_most=4096
)
RENOR_EMBEDDINGS_API_KEY = environment.text("RENOR_EMBEDDINGS_API_KEY")

# --- Services ------------------------------------------------------------------------
REDIS_URL = environment.url("REDIS_URL", "", ("redis", "rediss", "unix"))
_database_url = environment.url(
    "DATABASE_URL",
    f"sqlite:///{RENOR_DATA / 'accounts.sqlite3'}",
    ("sqlite", "postgres", "postgresql"),
)
RENOR_SMTP_URL = environment.url("RENOR_SMTP_URL", "", ("smtp", "smtps"))
RENOR_SUPPORT_EMAIL = environment.text("RENOR_SUPPORT_EMAIL")
if RENOR_SUPPORT_EMAIL and "@" not in RENOR_SUPPORT_EMAIL:
    environment.refuse("RENOR_SUPPORT_EMAIL", "an e-mail address")
RENOR_MAIL_FROM = environment.text("RENOR_MAIL_FROM", RENOR_SUPPORT_EMAIL)

# --- Django --------------------------------------------------------------------------
DEBUG = environment.flag("RENOR_DEBUG")
for _folder in (RENOR_DATA, RENOR_RUN):
    make_private_folder(_folder)
SECRET_KEY = secret_key(environment, RENOR_DATA / "secret_key")
environment.finish()

ALLOWED_HOSTS = list(
    dict.fromkeys([PUBLIC_HOST, "127.0.0.1", "localhost", "[::1]", _bracketed])
)
CSRF_TRUSTED_ORIGINS = [RENOR_PUBLIC_URL]
ROOT_URLCONF = "renor.urls"
ASGI_APPLICATION = "renor.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "allauth",
    "allauth.account",
    # After those whose administration they take out.
    "accounts.apps.AccountsConfig",
    "memories.apps.MemoriesConfig",
    "workspaces.apps.WorkspacesConfig",
    "renor.apps.RenorConfig",
]

MIDDLEWARE = [
    "renor.middleware.SecurityHeaders",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "renor.middleware.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "renor.middleware.OwnLanguage",
    "django.contrib.messages.middleware.MessageMiddleware",
    "renor.middleware.MemoryUnavailable",
    "allauth.account.middleware.AccountMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "accounts.context.signup",
            ],
        },
    }
]
MESSAGE_TAGS = {message_levels.ERROR: "error"}

# --- Databases and queues ------------------------------------------------------------
_database: dict[str, Any] = dict(dj_database_url.parse(_database_url))
if _database["ENGINE"] == "django.db.backends.sqlite3":
    _database["OPTIONS"] = {
        "timeout": 5,  # seconds a writer waits for another one
        # A deferred transaction that reads and then writes fails at once when another
        # process wrote in between, whatever the time-out; this one waits its turn.
        "transaction_mode": "IMMEDIATE",
        # secure_delete: what an account leaves is overwritten. synchronous FULL: a
        # revoked token stays revoked after a power cut.
        "init_command": (
            "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;"
            "PRAGMA secure_delete=ON;PRAGMA foreign_keys=ON"
        ),
    }
else:
    # The ASGI server uses many short-lived threads: connections are pooled per process.
    _database["CONN_HEALTH_CHECKS"] = True
    _database["OPTIONS"] = {
        **_database.get("OPTIONS", {}),
        "connect_timeout": 5,
        "pool": {"min_size": 1, "max_size": 16, "timeout": 5},
    }
DATABASES = {"default": _database}

if REDIS_URL:
    # Celery's name for the same; the clients of caches and counters say unix://.
    CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
elif (RENOR_RUN / "redis.sock").exists():
    CELERY_BROKER_URL = f"redis+socket://{RENOR_RUN / 'redis.sock'}"
else:
    CELERY_BROKER_URL = "filesystem://localhost"  # a host, or kombu warns

# Holds the counts of rate limits. Without the operator's Redis they are per process.
if REDIS_URL:
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": "renor",
        }
    }
else:
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# --- People --------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
_validation = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {
        "NAME": f"{_validation}.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ("email",)},
    },
    {"NAME": f"{_validation}.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": f"{_validation}.CommonPasswordValidator"},
    {"NAME": f"{_validation}.NumericPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "accounts.adapter.Adapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_SIGNUP_ENABLED = RENOR_SIGNUP == "open"
ACCOUNT_EMAIL_VERIFICATION = (
    "mandatory" if RENOR_SMTP_URL and not IS_LOOPBACK else "none"
)
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # strangers get no mail because of a guess
ACCOUNT_USER_DISPLAY = operator.attrgetter("email")
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_REDIRECT_URL = LOGIN_URL
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if IS_HTTPS else "http"
ALLAUTH_TRUSTED_PROXY_COUNT = RENOR_TRUSTED_PROXIES

# --- Mail ----------------------------------------------------------------------------
DEFAULT_FROM_EMAIL = RENOR_MAIL_FROM or f"renor@{PUBLIC_HOST}"
EMAIL_TIMEOUT = 10
if RENOR_SMTP_URL:
    _smtp = urlsplit(RENOR_SMTP_URL)
    EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    EMAIL_HOST = _smtp.hostname or ""
    EMAIL_USE_SSL = _smtp.scheme == "smtps"
    # smtp:// to another machine is always raised to TLS before anything is said.
    EMAIL_USE_TLS = not EMAIL_USE_SSL and not _is_loopback(EMAIL_HOST)
    EMAIL_PORT = _smtp.port or (465 if EMAIL_USE_SSL else 587)
    EMAIL_HOST_USER = unquote(_smtp.username or "")
    EMAIL_HOST_PASSWORD = unquote(_smtp.password or "")
else:
    EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
# Nobody: Django's reports of errors would carry what was sent in a request.
ADMINS: list[tuple[str, str]] = []

# --- Language ------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("pt-br", "Português (Brasil)")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_TZ = True
TIME_ZONE = "UTC"

# --- Static files --------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "renor.static_files.StaticFiles"},
}
WHITENOISE_USE_FINDERS = not (STATIC_ROOT / "staticfiles.json").exists()
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_ALLOW_ALL_ORIGINS = False

# --- Browsers ------------------------------------------------------------------------
# Cookies do not know ports: another Django on localhost must not share these names.
SESSION_COOKIE_NAME = "renor_session"
CSRF_COOKIE_NAME = "renor_csrf"
LANGUAGE_COOKIE_NAME = "renor_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_HTTPONLY = True
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = IS_HTTPS
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    # The domain's other names and the browsers' preload lists are the operator's.
    "security.W005",
    "security.W021",
]
if IS_HTTPS:
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$"]
    # TLS ends at the operator's proxy, which must set (not pass on) this header.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
else:
    # All four ask for TLS; renor.W001 speaks up where that is more than a formality.
    SILENCED_SYSTEM_CHECKS += [
        "security.W004",
        "security.W008",
        "security.W012",
        "security.W016",
    ]

# --- Logs ----------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "renor.logs.Line"}},
    "filters": {"news": {"()": "renor.logs.IsNews"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "stream": "ext://sys.stderr",
            "formatter": "line",
        }
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        # Django's own handlers (mails, request lines) are taken off: all goes above.
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
        # A guessed Host or a missing page is not news, and names what was asked.
        "django.security.DisallowedHost": {"handlers": [], "propagate": False},
        "django.request": {"level": "ERROR", "filters": ["news"]},
        # How the server starts and ends is said by whoever starts it.
        "daphne": {"level": "WARNING"},
        # The MCP SDK notes the end of every old-era request.
        "mcp": {"level": "WARNING"},
    },
}
