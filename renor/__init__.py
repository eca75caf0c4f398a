"""Wiring of the product. The Celery app is loaded with it, so that a shared task
called from any Django process finds this app and its broker, never a default one.
"""

from .celery import app as celery_app

__all__ = ["celery_app"]
