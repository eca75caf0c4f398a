"""The product's settings, over a data folder that lasts as long as the test run.

pytest-django reads the settings before any conftest is read, so the folder is chosen
here. Nothing of the environment or of a .env file reaches the tests, DATABASE_URL
apart: test_postgresql.py runs tests once more with it.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

for _name in list(os.environ):
    if _name.startswith("RENOR_") or _name == "REDIS_URL":
        del os.environ[_name]

_folder = tempfile.mkdtemp(prefix="renor-tests-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
# A .env file fills what is not set; an empty value counts as the default.
os.environ.update(
    dict.fromkeys(
        (
            "REDIS_URL",
            "RENOR_HOST",
            "RENOR_PORT",
            "RENOR_PUBLIC_URL",
            "RENOR_SIGNUP",
            "RENOR_SMTP_URL",
        ),
        "",
    )
)
os.environ.setdefault("DATABASE_URL", "")
os.environ["RENOR_DATA"] = _folder

from renor.settings import *  # noqa: E402, F403  only now: it reads the environment

# Argon2 is slow by design; no test looks at its strength.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# What `make run` collected in the checkout may be older than the sources.
STATIC_ROOT = Path(tempfile.mkdtemp(dir=_folder))
WHITENOISE_USE_FINDERS = True
