"""The tables of `lakegc.toml`: their keys, defaults and limits."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    field_validator,
)

from spark_core.prices import Price
from spark_core.run.options_and_defaults import OPTIONS, RunOptions

# How the address of a Spark Connect server begins.
_CONNECT = "sc://"
_HOST = re.compile(r"[0-9A-Za-z._-]+")
RepositoryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{2,62}$")]
# A name, or a pattern with `*` for any letters and `?` for one.
RepositoryPattern = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9][a-z0-9-]{2,62}|[a-z0-9*?-]{0,62}[*?][a-z0-9*?-]{0,62})$"
    ),
]


class Section(BaseModel):
    """A table of the file: no unknown keys, no guessing at types, unchanged once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def plain_url(url: str | None) -> str | None:
    """Refuse what is no plain URL, and one with a password in it."""
    # pydantic shows a ValueError's text. It shows no input in our messages, because the URL may
    # carry a password.
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is what validates it
    except ValueError:
        raise ValueError("a URL like https://lakefs.example.com") from None
    if parts.username or parts.password:
        raise ValueError("a URL without user name and password: URLs end up in messages and logs")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("a URL like https://lakefs.example.com")
    return url


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


class SparkSettings(Section):
    """The `[spark]` table.

    Attributes:
        master: Spark master, or the address of a Spark Connect server (`sc://host:15002`); left
            out, the server that the variable `SPARK_REMOTE` names, else `local[*]`, and under
            `spark-submit` what that was given. An address with a token belongs into the environment
            (`LAKEGC__SPARK__MASTER`).
        ship_package: Send lakegc's own code to the executors; else they must have this very version
            installed.
        always: Let Spark do all the work, however little there is; else lakegc's own process does
            what is done before Spark would have started. Where `master` names other machines, Spark
            does it all anyway.
        config: Spark properties; they win over lakegc's own.
    """

    master: str | None = None
    ship_package: bool = True
    always: bool = False
    config: dict[str, str] = Field(default_factory=dict)

    @field_validator("master")
    @classmethod
    def _hides_no_token(cls, master: str | None) -> str | None:
        # Spark's own refusal would quote it.
        if master and ("?" in master or (";" in master and not master.startswith(_CONNECT))):
            raise ValueError(f"a Spark master, or a Spark Connect server like {_CONNECT}host:15002")
        return master

    @property
    def remote(self) -> str | None:
        """The address of a Spark Connect server, if `master` is one; it may hold a token."""
        return self.master if self.master and self.master.startswith(_CONNECT) else None


class DagsterSettings(Section):
    """The `[dagster]` table.

    Attributes:
        home: Dagster's home; left out, `DAGSTER_HOME`, else `.lakegc/dagster_home` beside the
            settings.
    """

    home: str | None = None


# Its first setting is a word of Python, which a class body cannot name.
class LaunchSettings(
    create_model(  # type: ignore[misc]
        "_Launch", __base__=Section, **{"with": (Literal["here", "python", "spark-submit"], "here")}
    )
):
    """The `[launch]` table: where the runs of Dagster work.

    Attributes:
        with: `here` is Dagster's own process; `python` another process of this machine;
            `spark-submit` the cluster that `arguments` name. Runs of the command line work in their
            own process.
        arguments: Options of `spark-submit`, each word by itself, such as `--master` and `yarn`.
        repositories_at_once: On how many repositories a command works side by side, in one process
            with one Spark session; each takes the memory of a run.
    """

    arguments: list[str] = Field(default_factory=list)
    repositories_at_once: int = Field(default=2, ge=1, le=64)

    @property
    def tool(self) -> str:
        """What starts a run."""
        return str(getattr(self, "with"))


class UiSettings(Section):
    """The `[ui]` table: Dagster's pages, as `lakegc ui` serves them.

    Attributes:
        hosts: Names or addresses, without scheme and port, by which people reach the UI past
            loopback and the address of `--host`: those of an ingress or a proxy. Requests for any
            other host are refused.
    """

    hosts: list[str] = Field(default_factory=list)

    @field_validator("hosts")
    @classmethod
    def _plain(cls, hosts: list[str]) -> list[str]:
        if not all(_HOST.fullmatch(host) or _is_address(host) for host in hosts):
            raise ValueError("names or addresses like lakegc.example.com, without scheme and port")
        return hosts


class ScheduleSettings(Section):
    """The `[schedule]` table: the nightly run.

    Attributes:
        cron: When.
        timezone: Time zone of the hours in `cron`.
        run: Whether the schedule is on without anybody switching it on in the UI.
    """

    cron: str = "0 2 * * *"
    timezone: str = "UTC"
    run: bool = False

    @field_validator("timezone")
    @classmethod
    def _known(cls, timezone: str) -> str:
        try:
            ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("a time zone like Europe/Berlin or UTC") from None
        return timezone


def _run_fields() -> dict[str, Any]:
    """Return a field for each option of a run."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        kind = Literal[option.words] if option.words else float if option.unit else option.type
        default = option.write(option.default)
        found[option.setting] = (
            kind,
            Field(default=default, ge=option.ge, gt=option.gt, le=option.le),
        )
    return found


# mypy does not look into a class that is made at run time. Code that needs types uses
# `run_options`.
class RepositorySettings(create_model("_Run", __base__=Section, **_run_fields())):  # type: ignore[misc]
    """The `[defaults]` table and each `[repositories.NAME]`: options of a run, see `RunOptions`."""

    @field_validator("price_per_gb_month", mode="before", check_fields=False)
    @classmethod
    def _is_a_price(cls, price: Any) -> Any:
        try:
            if price is not None:
                Price.parse(price)
        except (ValueError, AttributeError):
            raise ValueError('a price of at least 0 in quotes, like "0.023 EUR"') from None
        return price

    @field_validator("price_by_class", check_fields=False)
    @classmethod
    def _no_negative_price(cls, prices: dict[str, float] | None) -> dict[str, float] | None:
        if any(each < 0 for each in (prices or {}).values()):
            raise ValueError("prices of at least 0")
        return prices

    def run_options(self) -> RunOptions:
        """Return what a run may do."""
        return RunOptions(
            **{option.name: option.read(getattr(self, option.setting)) for option in OPTIONS}
        )
