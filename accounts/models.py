"""People. The e-mail is the login; memories never stand in this database."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from workspaces import access


class UserManager(BaseUserManager["User"]):
    def create_user(
        self, email: str, password: str | None = None, **fields: Any
    ) -> User:
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(
        self, email: str, password: str | None = None, **fields: Any
    ) -> User:
        return self.create_user(
            email, password, **{**fields, "is_staff": True, "is_superuser": True}
        )

    @classmethod
    def normalize_email(cls, email: str | None) -> str:
        # Wholly lower-case, as allauth keeps its own rows: one person, one address.
        return super().normalize_email(email).lower()

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__iexact=username)


class User(AbstractBaseUser, PermissionsMixin):
    email = models.EmailField(
        _("e-mail"),
        unique=True,
        error_messages={"unique": _("This e-mail already has an account.")},
    )
    language = models.CharField(
        _("language"),
        max_length=16,
        blank=True,
        choices=[("en", "English"), ("pt-br", "Português (Brasil)")],
        help_text=_("Of the pages; empty follows the browser."),
    )
    is_active = models.BooleanField(
        _("active"),
        default=True,
        help_text=_("Without it neither the person nor their agents come in."),
    )
    is_staff = models.BooleanField(_("sees the administration"), default=False)
    date_joined = models.DateTimeField(_("joined"), default=timezone.now)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        verbose_name = _("account")
        verbose_name_plural = _("accounts")
        constraints = (
            models.UniqueConstraint(Lower("email"), name="one_account_per_email"),
        )

    def __str__(self) -> str:
        # Not the e-mail: this text ends up in logs and in the admin's history.
        return f"{self._meta.verbose_name} {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        super().save(*args, **kwargs)
        if not self.is_active:
            access.announce_change()  # their agents' tokens stop working now
