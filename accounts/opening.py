"""Beginning an account: person, verified address, workspace and folder in one step."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from django.db import transaction

from memories import gateway
from workspaces.models import Workspace

from .models import User


def open_account(email: str, password: str | None = None) -> User:
    """Make a person with their memory; all of it or nothing.

    The address counts as verified: whoever calls this vouches for it. Without a
    password the person signs in by resetting it.
    Raises: ValidationError when the e-mail is none, or has an account.
    """
    with transaction.atomic():
        user = User(email=User.objects.normalize_email(email))
        user.set_password(password)
        user.full_clean()
        user.save()
        verify_email(user)
        open_workspace(user)
    return user


def verify_email(user: User) -> None:
    EmailAddress.objects.update_or_create(
        user=user, email=user.email, defaults={"verified": True, "primary": True}
    )


def open_workspace(user: User) -> Workspace:
    """Make the person's one workspace, row and folder."""
    with transaction.atomic():
        workspace = Workspace.objects.create(owner=user)
        # Last: a folder without a row is found by nobody, a row without a folder
        # would be an account whose memory never opens.
        gateway.create_workspace(str(workspace.id))
    return workspace


def find_account(email: str) -> User | None:
    return User.objects.filter(email=User.objects.normalize_email(email)).first()
