"""Tenancy for whoever runs the server: no memory text, no token, nothing to erase."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from . import access
from .models import Connection, Workspace


class ReadOnly:
    """Rows are made and ended by the product's own acts, never by a form."""

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


class ConnectionInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]  # not subscriptable at run time
    model = Connection
    fields = readonly_fields = (
        "name",
        "can_write",
        "scopes",
        "last_used_at",
        "revoked_at",
    )
    extra = 0


@admin.register(Workspace)
class WorkspaceAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # as above
    list_display = ("id", "owner_email", "created_at")
    search_fields = ("=id", "owner__email")
    list_select_related = ("owner",)
    fields = readonly_fields = ("id", "owner_email", "created_at")
    inlines = (ConnectionInline,)

    @admin.display(description=_("owner"), ordering="owner__email")
    def owner_email(self, workspace: Workspace) -> str:
        return str(workspace.owner.get_username())


@admin.register(Connection)
class ConnectionAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]  # as above
    list_display = (
        "name",
        "owner_email",
        "can_write",
        "created_at",
        "last_used_at",
        "revoked_at",
    )
    list_filter = ("can_write", ("revoked_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "workspace__owner__email")
    list_select_related = ("workspace__owner",)
    fields = readonly_fields = (
        "id",
        "name",
        "owner_email",
        "can_write",
        "scopes",
        "created_at",
        "last_used_at",
        "revoked_at",
    )
    actions = ("revoke",)

    @admin.display(description=_("owner"), ordering="workspace__owner__email")
    def owner_email(self, connection: Connection) -> str:
        return str(connection.workspace.owner.get_username())

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("workspaces.change_connection")

    @admin.action(
        description=_("Revoke: refuse these agents from now on"),
        permissions=["revoke"],
    )
    def revoke(self, request: HttpRequest, chosen: QuerySet[Connection]) -> None:
        live = list(chosen.filter(revoked_at=None))
        for connection in live:
            access.revoke_connection(connection)
            self.log_change(request, connection, "Revoked.")
        text = ngettext(
            "%(count)d agent is refused from now on.",
            "%(count)d agents are refused from now on.",
            len(live),
        )
        self.message_user(request, text % {"count": len(live)})
