"""Accounts for whoever runs the server. Leaving is a story of its own, not a button."""

from __future__ import annotations

from typing import ClassVar

from allauth.account.models import EmailAddress
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.contrib.auth.models import Group
from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from .models import User
from .opening import open_workspace, verify_email

# Rights come with being staff; addresses are proven by their owners themselves.
admin.site.unregister([Group, EmailAddress])


class CreationForm(AdminUserCreationForm):
    class Meta:
        model = User
        fields = ("email",)


class ChangeForm(UserChangeForm):  # type: ignore[type-arg]  # not subscriptable at run time
    class Meta:
        model = User
        fields = "__all__"
        field_classes: ClassVar[dict[str, type]] = {}


@admin.register(User)
class AccountAdmin(UserAdmin):  # type: ignore[type-arg]  # as above
    form = ChangeForm
    add_form = CreationForm
    ordering = ("-date_joined",)
    list_display = ("email", "is_active", "is_staff", "date_joined", "last_login")
    list_filter = ("is_active", "is_staff")
    search_fields = ("email",)
    filter_horizontal = ()
    readonly_fields = ("date_joined", "last_login")
    fieldsets = (
        (None, {"fields": ("email", "password", "language")}),
        (_("Rights"), {"fields": ("is_active", "is_staff", "is_superuser")}),
        (_("Times"), {"fields": ("date_joined", "last_login")}),
    )
    add_fieldsets = (
        (None, {"fields": ("email", "usable_password", "password1", "password2")}),
    )

    def get_readonly_fields(
        self, request: HttpRequest, obj: User | None = None
    ) -> tuple[str, ...]:
        # Its proven address stands in a row of its own: people change both themselves.
        return ("email", *self.readonly_fields) if obj else self.readonly_fields

    def has_delete_permission(
        self, request: HttpRequest, obj: User | None = None
    ) -> bool:
        return False

    def save_model(
        self, request: HttpRequest, obj: User, form: ModelForm[User], change: bool
    ) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        with transaction.atomic():
            obj.email = User.objects.normalize_email(obj.email)
            super().save_model(request, obj, form, change)
            verify_email(obj)
            open_workspace(obj)
