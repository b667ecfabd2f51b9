"""The address of MLflow and the credentials for it, which are kept apart from the address."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from gpu_core.decisions.model.redaction import basic_credentials

CREDENTIAL_VARIABLES = (
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
)
"""MLflow reads what it logs in with from these variables, and from nowhere else."""

_WEB_SCHEMES = ("http", "https")
# The databases on servers that MLflow uses (mlflow.store.db.db_types, MLflow 3).
_DATABASES = ("mssql", "mysql", "postgresql")

# RFC 3986, but a password may hold `/`, which SQLAlchemy allows; `host:5000/path` is a port.
_USERINFO = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^:/?#@]*)"
    r"(:(?!\d{1,5}([/?#]|$))(?P<password>[^/?#]*|.*))?@(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowAccess:
    """A tracking server, or a database that MLflow uses without one."""

    tracking_uri: str
    """Without user and password."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        address: str,
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
    ) -> Self:
        """The access at this address. User and password in it count where no others are given."""
        bare, in_address = split_credentials(address)
        if username is None and token is None and in_address is not None:
            username, password = in_address
        return cls(tracking_uri=bare, username=username, password=password, token=token)

    @property
    def has_credentials(self) -> bool:
        """Does it log in?"""
        return self.username is not None or self.token is not None

    @property
    def client_uri(self) -> str:
        """The address for MLflow's client: a database's address needs the password in it."""
        if not _is_database(self.tracking_uri) or self.username is None:
            return self.tracking_uri
        return with_credentials(self.tracking_uri, self.username, self.password)

    @property
    def pages_uri(self) -> str | None:
        """The address at which people open MLflow's pages.

        None: it is a database, or named in a cluster only.

        Names of Services end in `.svc` or `.svc.cluster.local`, which a browser does not resolve.
        """
        if not _is_web(self.tracking_uri):
            return None
        host = urlsplit(self.tracking_uri).hostname or ""
        is_in_cluster = ".svc" in host and host.partition(".svc")[2] in ("", ".cluster.local")
        return None if is_in_cluster else self.tracking_uri.rstrip("/")

    def credentials(self) -> Mapping[str, str]:
        """The variables by which MLflow's client logs in at a server; none for a database."""
        if _is_database(self.tracking_uri):
            return {}
        values = (self.username, self.password, self.token)
        return {
            name: value
            for name, value in zip(CREDENTIAL_VARIABLES, values, strict=True)
            if value is not None
        }

    def environment(self) -> Mapping[str, str]:
        """The variables of a process that uses MLflow, secrets among them."""
        return {"MLFLOW_TRACKING_URI": self.client_uri, **self.credentials()}

    def public_environment(self) -> Mapping[str, str]:
        """The variables without secrets."""
        return {"MLFLOW_TRACKING_URI": self.tracking_uri}

    def secrets(self) -> tuple[str, ...]:
        """The values that no text may show."""
        known = [value for value in (self.password, self.token) if value]
        if self.username is not None and self.password:
            known.append(basic_credentials(self.username, self.password))
        return tuple(known)


def _is_database(address: str) -> bool:
    return address.partition("://")[0].partition("+")[0].lower() in _DATABASES


def _is_web(address: str) -> bool:
    return address.partition("://")[0].lower() in _WEB_SCHEMES


def missing_secrets(access: MlflowAccess, in_secrets: Collection[str]) -> tuple[str, ...]:
    """The variables that pods need from Secrets, and for which no Secret is named.

    Args:
        access: What is known of MLflow.
        in_secrets: The variables that come from Secrets.
    """
    if access.client_uri != access.tracking_uri:
        needed = ["MLFLOW_TRACKING_URI"]
    else:
        needed = list(access.credentials())
    return tuple(name for name in needed if name not in in_secrets)


def split_credentials(address: str) -> tuple[str, tuple[str, str] | None]:
    """An address without its user and password, and these; None: it has neither.

    A lone user of a web address is a token, and taken for a user without a password. A lone user of
    a database's address is no secret and stays in it.
    """
    match = _USERINFO.fullmatch(address)
    if match is not None and (match["password"] is not None or _is_web(address)):
        found = unquote(match["user"]), unquote(match["password"] or "")
        return f"{match['scheme']}{match['rest']}", found
    return _split_query(address)


def _split_query(address: str) -> tuple[str, tuple[str, str] | None]:
    bare, _, query = address.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    if _is_web(address) or "password" not in parameters:
        return address, None
    found = parameters.pop("user", ""), parameters.pop("password")
    return f"{bare}?{urlencode(parameters)}" if parameters else bare, found


def with_credentials(address: str, username: str, password: str | None) -> str:
    """The address with user and password in it."""
    scheme, _, rest = address.partition("://")
    secret = "" if password is None else f":{quote(password, safe='')}"
    return f"{scheme}://{quote(username, safe='')}{secret}@{rest}"
