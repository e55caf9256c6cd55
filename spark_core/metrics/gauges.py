"""The collector's metrics: what they are, the file for a node exporter, the push to a gateway."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_core.errors import LakegcError, SettingsError, TransientError
from spark_core.metrics.open_metrics import CONTENT_TYPE, Gauge, exposition
from spark_core.report.past_run import STATES, PastRun
from spark_core.report.past_runs import refusals
from spark_core.settings import Settings
from spark_core.whole_file import write_file

if TYPE_CHECKING:
    from spark_core.report.status import KindStatus, RepositoryStatus
    from spark_core.stored_runs.overview import Past

# How long the gateway may take for a request.
_PUSH_SECONDS = 10

_MONEY = (
    "What bytes cost in a month: all listed ones, those that sweeps reclaimed and nobody pays for "
    "any more, in all and in 30 days, those that wait for a sweep, and those in quarantine."
)


def metrics_text(pasts: Iterable[Past], now: datetime) -> str:
    """Return the metrics of repositories as text.

    Args:
        pasts: What happened to each.
        now: The time.
    """
    gauges = _Gauges()
    for past in pasts:
        gauges.add(past)
    gauges.written.set(now.timestamp())
    return exposition(list(vars(gauges).values()))


class _Gauges:
    """Every metric, by the attribute that holds it, in the order in which they are written."""

    def __init__(self) -> None:
        self.readable = Gauge("lakegc_readable", "1 if the repository's runs could be read.")
        self.success = Gauge(
            "lakegc_last_success_timestamp_seconds",
            "When the newest mark that passed, or the newest sweep, ended.",
        )
        self.duration = Gauge(
            "lakegc_last_duration_seconds", "How long the newest mark or sweep that ended took."
        )
        self.overdue = Gauge("lakegc_overdue", "1 if the last good mark is too long ago.")
        self.objects = Gauge(
            "lakegc_objects", "Objects of the namespace at the newest mark that ended, by fate."
        )
        self.bytes = Gauge(
            "lakegc_objects_bytes", "Bytes of the objects at the newest mark that ended."
        )
        self.classes = Gauge(
            "lakegc_storage_class_bytes",
            "Bytes of the objects at the newest mark, by storage class, where the store says it.",
        )
        self.reclaimed_objects = Gauge(
            "lakegc_reclaimed_objects", "Objects that all sweeps deleted and nobody restored."
        )
        self.reclaimed_bytes = Gauge("lakegc_reclaimed_bytes", "Bytes of the reclaimed objects.")
        self.quarantine = Gauge(
            "lakegc_quarantine_bytes", "Bytes of the objects that lie in quarantine."
        )
        self.waiting_objects = Gauge(
            "lakegc_waiting_objects",
            "Objects that the newest mark lets go and no sweep took yet, by what they wait for.",
        )
        self.waiting_bytes = Gauge("lakegc_waiting_bytes", "Bytes of the waiting objects.")
        self.refused = Gauge("lakegc_refused_runs", "Runs that a check refuses, by check.")
        self.runs = Gauge("lakegc_runs", "Runs in the store, by state.")
        self.price = Gauge(
            "lakegc_price_per_gb_month", "Price of a GB per month, from the settings."
        )
        self.money = Gauge("lakegc_money_per_month", _MONEY)
        self.written = Gauge(
            "lakegc_metrics_written_timestamp_seconds", "When these metrics were written."
        )

    def add(self, past: Past) -> None:
        """Add the values of a repository."""
        of, status, runs = {"repository": past.repository}, past.status, past.runs
        self.readable.set(past.error is None, **of)
        if past.error is not None:
            return
        self.overdue.set(bool(status.overdue), **of)
        self._add_money(status, of)
        marked = _first(run for run in runs if run.fates)
        for name, size in ({} if marked is None else marked.listed_by_class).items():
            self.classes.set(size, **of, storage_class=name)
        for kind in status.kinds:
            self._add_kind(kind, [run for run in runs if run.collects == kind.collects], of)
        self.reclaimed_objects.set(status.reclaimed[0], **of)
        self.reclaimed_bytes.set(status.reclaimed[1], **of)
        self.quarantine.set(status.in_quarantine[1], **of)
        for check, count in sorted(refusals(runs).items()):
            self.refused.set(count, **of, check=check)
        for state in STATES:
            self.runs.set(sum(run.state == state for run in runs), **of, state=state)

    def _add_money(self, status: RepositoryStatus, repository: Mapping[str, str]) -> None:
        price = status.price
        self.price.set(None if price is None else price.per_gb_month, **repository)
        if price is None:
            return
        for what, amount in status.money_per_month.items():
            self.money.set(amount, **repository, what=what, currency=price.currency)

    def _add_kind(
        self, kind: KindStatus, runs: Sequence[PastRun], repository: Mapping[str, str]
    ) -> None:
        """Add the values of the runs of one kind, which are no runs of another."""
        of = {**repository, "collects": kind.collects}
        for step, ended in (("mark", kind.last_marked_at), ("sweep", kind.last_swept_at)):
            self.success.set(None if ended is None else ended.timestamp(), **of, step=step)
        marked = _first(run for run in runs if run.mark_seconds is not None)
        swept = _first(run for run in runs if run.sweep_seconds is not None)
        self.duration.set(None if marked is None else marked.mark_seconds, **of, step="mark")
        self.duration.set(None if swept is None else swept.sweep_seconds, **of, step="sweep")
        for fate, (objects, size) in ({} if marked is None else marked.fates).items():
            self.objects.set(objects, **of, fate=fate)
            self.bytes.set(size, **of, fate=fate)
        # Both are always there, so that an alert on one of them sees it fall to 0.
        waits = "confirmation" if kind.refused else "sweep"
        for what in ("sweep", "confirmation"):
            figures = kind.waiting if what == waits else (0, 0)
            self.waiting_objects.set(figures[0], **of, waits_for=what)
            self.waiting_bytes.set(figures[1], **of, waits_for=what)


def _first(runs: Iterable[PastRun]) -> PastRun | None:
    return next(iter(runs), None)


def write_metrics(path: Path, text: str) -> None:
    """Write a file of metrics, and its folder.

    Raises:
        SettingsError: If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
    except OSError as problem:
        raise SettingsError(
            f"the metrics file {path} cannot be written ({problem.strerror})",
            "Look at [metrics] file, and at the rights of its folder.",
        ) from None


def push(settings: Settings, text: str) -> None:
    """Send metrics to the push gateway of the settings; they replace those of the last push.

    Raises:
        SettingsError: If a variable that the settings name is not set.
        TransientError: If the gateway does not answer.
        LakegcError: If it refuses.
    """
    import urllib3

    gateway = settings.metrics.gateway
    if gateway is None:
        raise SettingsError("[metrics] push_gateway is not set", "Set it to the gateway's URL.")
    headers = {"Content-Type": CONTENT_TYPE}
    if (password := settings.secret("[metrics] push_password_env")) is not None:
        pair = f"{gateway.user}:{password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    pool = urllib3.PoolManager(timeout=_PUSH_SECONDS, retries=2)
    try:
        answer = pool.request("PUT", gateway.url, body=text.encode(), headers=headers)
    except urllib3.exceptions.HTTPError as problem:
        raise TransientError(
            f"the push gateway {gateway.url} does not answer ({type(problem).__name__})",
            "Look at [metrics] push_gateway.",
        ) from None
    if answer.status >= 300:
        words = answer.data[:200].decode(errors="replace").strip()
        raise LakegcError(
            f"the push gateway {gateway.url} refuses the metrics (HTTP {answer.status}: {words})",
            "Look at [metrics] push_gateway and push_password_env.",
        )


def publish(settings: Settings, pasts: Iterable[Past], now: datetime) -> Sequence[str]:
    """Write and push the metrics to where the settings say.

    Args:
        settings: The settings.
        pasts: What happened to each repository.
        now: The time.

    Returns:
        Where they went; empty if the settings name no place.

    Raises:
        LakegcError: If they cannot be written or pushed.
    """
    places, gateway = settings.metrics, settings.metrics.gateway
    if places.file is None and gateway is None:
        return ()
    text, went = metrics_text(pasts, now), []
    if (path := settings.metrics_file) is not None:
        write_metrics(path, text)
        went.append(str(path))
    if gateway is not None:
        push(settings, text)
        went.append(gateway.url)
    return went
