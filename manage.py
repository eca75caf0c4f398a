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
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
