"""Tenancy: a workspace per account, and the agents its owner let in.

Rows only; who may pass is decided in access.py. No memory text ever stands here.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class Workspace(models.Model):
    """One owner's memory; the folder of the same id holds it."""

    id = models.UUIDField(
        _("identifier"), primary_key=True, default=uuid.uuid4, editable=False
    )
    owner = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        # The folder must go first: accounts/deletion.py tells that story.
        on_delete=models.PROTECT,
        related_name="workspace",
        verbose_name=_("owner"),
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")

    def __str__(self) -> str:
        return str(self.id)


class Connection(models.Model):
    """A named, authenticated agent of one workspace.

    `name_key` is the folded name, by which names are unique among the live ones.
    Of the token only its SHA-256 is kept; `scopes` empty means all.
    """

    id = models.UUIDField(
        _("identifier"), primary_key=True, default=uuid.uuid4, editable=False
    )
    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.CASCADE,
        related_name="connections",
        verbose_name=_("workspace"),
    )
    name = models.CharField(_("name"), max_length=100)
    name_key = models.CharField(max_length=400, editable=False)
    token_sha256 = models.CharField(max_length=64, unique=True, editable=False)
    can_write = models.BooleanField(_("may write"), default=True)
    scopes = models.JSONField(_("scopes"), default=list, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    last_used_at = models.DateTimeField(
        _("last used"), null=True, blank=True, editable=False
    )
    revoked_at = models.DateTimeField(
        _("revoked"), null=True, blank=True, editable=False
    )

    class Meta:
        verbose_name = _("connection")
        verbose_name_plural = _("connections")
        constraints = (
            models.UniqueConstraint(
                fields=["workspace", "name_key"],
                condition=models.Q(revoked_at__isnull=True),
                name="one_live_connection_per_name",
            ),
        )

    def __str__(self) -> str:
        return self.name
