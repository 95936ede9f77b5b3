"""Accounts that belong to one user each: which is the caller's, what is missing, and its password."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Protocol, TypeVar

from shared.errors import ModelError


class Account(Protocol):
    """A user's account of some service."""

    @property
    def password_env(self) -> str:
        """The variable that holds the password, empty if there is none."""
        ...

    @property
    def secret_envs(self) -> tuple[str, ...]:
        """The variables that must be set for it."""
        ...


AnyAccount = TypeVar("AnyAccount", bound=Account)


def lacking(section: str, accounts: Mapping[str, Account], packages: tuple[str, ...]) -> str | None:
    """Why the tools of a section cannot work for anybody: a package, an account or a password; None if they can."""
    if not all(importlib.util.find_spec(name) for name in packages):
        return f"a package is not installed: pip install 'capataz[{section}]'"
    if not accounts:
        return f"no account is configured; set {section}.accounts.owner"
    unset = [f"{name} ({section}.accounts.{who})" for who, one in accounts.items() if (name := _unset(one))]
    if len(unset) == len(accounts):
        return f"a password or token is missing: set the environment variable {unset[0]} for the worker"
    return None


def _unset(account: Account) -> str:
    """The first variable of the account that is not set; empty if all are."""
    return next((name for name in account.secret_envs if not os.environ.get(name)), "")


def account_of(section: str, accounts: Mapping[str, AnyAccount], principal: str) -> tuple[AnyAccount, str]:
    """The account of this principal and its password. Raises ModelError that says what the operator must set."""
    account = accounts.get(principal)
    if account is None:
        raise ModelError(
            f"this user has no {section} account; nothing was done",
            hint=f"tell the user: the operator adds one as [{section}.accounts.{principal}]",
            code="not_configured",
        )
    if unset := _unset(account):
        raise ModelError(
            f"the password or token of this user's {section} account is not set; nothing was done",
            hint=f"tell the user: the operator sets the environment variable {unset} for the worker",
            code="not_configured",
        )
    return account, os.environ.get(account.password_env, "")
