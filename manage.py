#!/usr/bin/env python
"""Runs the commands of Renor and of Django: `manage.py help` lists them."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renor.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        message = (
            "Django is not importable here. Run `make setup`, then "
            "`.venv/bin/python manage.py`."
        )
        raise SystemExit(message) from error
    from django.core.exceptions import ImproperlyConfigured

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # A setting to mend is no fault of the program: its message says all.
        sys.exit(str(error))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
