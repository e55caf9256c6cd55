"""All repositories on one HTML page: what needs a person, what was reclaimed, what waits.

The page needs nothing beside itself, as that of a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from spark_core.plain_text import bytes_text, counted, escape
from spark_core.prices import amounts_text
from spark_core.report.drawings import bars, columns, sparkline
from spark_core.report.fate_counts import Amount, total
from spark_core.report.page_parts import document
from spark_core.report.past_run import PastRun
from spark_core.report.status import RepositoryStatus
from spark_core.report.status_of_runs import LATELY
from spark_core.report.values import Group

_NONE = "\N{EN DASH}"
# Runs of a repository that its line shows.
_RUNS_DRAWN = 30


@dataclass(frozen=True)
class FleetRow:
    """One repository.

    Attributes:
        status: How it stands.
        runs: Its runs, newest first; empty if they could not be read.
    """

    status: RepositoryStatus
    runs: Sequence[PastRun] = ()

    @property
    def state(self) -> str:
        """How it stands, in a word or two; empty words are for nobody."""
        if self.status.problem:
            return "not known"
        if self.status.overdue:
            return "overdue"
        if self.status.refused:
            return "refused"
        return "waits" if self.status.most_waiting[0] else "in order"


def needs_a_person(status: RepositoryStatus) -> bool:
    """Say whether somebody must look: it is not known, overdue, refused or to be confirmed."""
    return bool(status.problem or status.overdue or any(kind.refused for kind in status.kinds))


def money(found: Iterable[RepositoryStatus], what: str) -> str:
    """Return what the bytes of several repositories cost in a month, each by its own price.

    Args:
        found: The repositories.
        what: Which bytes, by a name of `RepositoryStatus.money_per_month`.

    Returns:
        Empty if none has a price.
    """
    return amounts_text(
        (each.price.currency, each.money_per_month.get(what, 0))
        for each in found
        if each.price is not None
    )


def fleet_page(fleet: Sequence[FleetRow], *, now: datetime, server: str = "") -> str:
    """Render all repositories as a page.

    Args:
        fleet: The repositories, in the order of the table.
        now: The time, in UTC.
        server: URL of the lakeFS server, for links; empty for none.

    Returns:
        A whole HTML document.
    """
    title = f"lakegc: {_repositories(len(fleet))}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="place soft">As of {now:%Y-%m-%d %H:%M} UTC'
        + (f" · {escape(server)}" if server else "")
        + "</p>",
        _headline(fleet),
        _tiles(fleet),
        _findings(fleet),
        _charts(fleet, now),
        _table(fleet, server),
    ]
    return document(title, "\n".join(section for section in sections if section))


def _headline(fleet: Sequence[FleetRow]) -> str:
    found = [row.status for row in fleet]
    needed = sum(map(needs_a_person, found))
    what = (
        f"{needed:,} of {_repositories(len(fleet))} need{'s' if needed == 1 else ''} a person"
        if needed
        else "No repository needs a person"
    )
    lately, ever, waits = (
        bytes_text(total(map(size, found))[1])
        for size in (_lately, lambda each: each.reclaimed, lambda each: each.most_waiting)
    )
    whole = "" if all(each.lately_is_whole for each in found) else "At least "
    words = f"{whole}{lately} reclaimed in {LATELY.days} days, {ever} in all; {waits} waiting"
    return f'<p class="headline">{what}</p><p class="soft">{words}.</p>'


def _lately(status: RepositoryStatus) -> Amount:
    return status.reclaimed_lately


def _tiles(fleet: Sequence[FleetRow]) -> str:
    found = [row.status for row in fleet]
    figures: list[tuple[str, str, Callable[[RepositoryStatus], Amount]]] = [
        (f"reclaimed in {LATELY.days} days", "reclaimed_lately", _lately),
        (
            f"reclaimed in the {LATELY.days} days before",
            "reclaimed_before",
            lambda each: each.reclaimed_before,
        ),
        ("reclaimed in all", "reclaimed", lambda each: each.reclaimed),
        ("waiting", "waiting", lambda each: each.most_waiting),
        ("in quarantine", "in_quarantine", lambda each: each.in_quarantine),
    ]
    tiles = []
    for name, what, size in figures:
        objects, size_bytes = total(map(size, found))
        if not objects:
            continue
        costs = money(found, what)
        saved = " saved" if what.startswith("reclaimed") else ""
        more = f" · {escape(costs)}{saved}" if costs else ""
        tiles.append(
            f'<div class="tile"><b>{bytes_text(size_bytes)}</b>{counted(objects, "object")} '
            f"{name}{more}</div>"
        )
    return f'<div class="tiles">{"".join(tiles)}</div>' if tiles else ""


def _findings(fleet: Sequence[FleetRow]) -> str:
    """Show each repository that needs a person, and the way on."""
    shown = [_finding(row) for row in fleet if needs_a_person(row.status)]
    return f"<h2>What needs a person</h2>{''.join(shown)}" if shown else ""


def _finding(row: FleetRow) -> str:
    status = row.status
    late = status.overdue and f"{status.overdue[0].upper()}{status.overdue[1:]}."
    said = [*filter(None, (status.problem, late))]
    steps = []
    for kind in status.kinds:
        said += [f"{name}: {why.rstrip('.')}." for name, why in kind.refused]
        if kind.waits_for:
            said.append(f"{_size(kind.waiting)} wait for {kind.waits_for}.")
            steps.append(kind.next_step)
    words = "".join(f"<p>{escape(each)}</p>" for each in said)
    next_steps = "".join(f"<p><code>{escape(step)}</code></p>" for step in steps if step)
    mood = "noticed" if row.state == "overdue" else "refused"
    return (
        f'<div class="finding {mood}"><p><b>{escape(status.repository)}</b>: {row.state}</p>'
        f"{words}{next_steps}</div>"
    )


def _charts(fleet: Sequence[FleetRow], now: datetime) -> str:
    drawn = [columns(f"Bytes reclaimed a day, in {LATELY.days} days", _by_day(fleet, now))]
    figures: list[tuple[str, Callable[[RepositoryStatus], Amount], str]] = [
        (f"Reclaimed in {LATELY.days} days", _lately, "keeps"),
        ("Waiting", lambda each: each.most_waiting, "goes"),
    ]
    for title, size, colour in figures:
        groups = [Group(row.status.repository, *size(row.status)) for row in fleet]
        most = sorted(
            (group for group in groups if group.objects), key=lambda group: -group.size_bytes
        )
        if most:
            drawn.append(bars(title, most, most[0].size_bytes, colour))
    return f'<h2>Objects and bytes</h2>{drawn[0]}<div class="charts">{"".join(drawn[1:])}</div>'


def _by_day(fleet: Sequence[FleetRow], now: datetime) -> list[tuple[str, int]]:
    """Return day -> bytes that sweeps of it took, the oldest first, days without any too."""
    taken = Counter[str]()
    for row in fleet:
        for run in row.runs:
            if run.swept_at is not None:
                taken[f"{run.swept_at:%Y-%m-%d}"] += run.reclaimed[1]
    days = [f"{now - timedelta(days=ago):%Y-%m-%d}" for ago in reversed(range(LATELY.days))]
    return [(day, taken[day]) for day in days]


def _table(fleet: Sequence[FleetRow], server: str) -> str:
    """Show all repositories in a table that the page's script searches, sorts and saves."""
    has_price = any(row.status.price is not None for row in fleet)
    names = ["repository", "state", "last good mark", "last sweep", *_FIGURES]
    if has_price:
        names.append("saved a month")
    head = "".join(
        f'<th class="n">{name}</th>' if name in {*_FIGURES, "saved a month"} else f"<th>{name}</th>"
        for name in names
    )
    rows = "".join(_row(row, server, has_price=has_price) for row in fleet)
    return (
        '<section class="named fleet" data-file="lakegc-repositories.csv">'
        "<h2>All repositories</h2>"
        '<div class="tools" hidden><input type="search" placeholder="Search" '
        'aria-label="Search the table"><button type="button">Download CSV</button>'
        '<output class="soft"></output></div>'
        f'<div class="scroll"><table><thead><tr>{head}<th>bytes by run</th></tr></thead><tbody>'
        f"{rows}</tbody></table></div></section>"
    )


_FIGURES = (f"reclaimed in {LATELY.days} days", "in all", "waiting")


def _row(row: FleetRow, server: str, *, has_price: bool) -> str:
    status = row.status
    name = escape(status.repository)
    if server:
        url = f"{server}/repositories/{quote(status.repository, safe='')}/objects"
        name = f'<a href="{escape(url)}" rel="noreferrer noopener">{name}</a>'
    cells = [
        f'<td data-name="" data-v="{escape(status.repository)}"><b>{name}</b></td>',
        f'<td data-name="state" class="state {_MOODS.get(row.state, "")}">{row.state}</td>',
        f'<td data-name="last good mark">{_when(status.last_marked_at)}</td>',
        f'<td data-name="last sweep">{_when(status.last_swept_at)}</td>',
    ]
    sizes = (status.reclaimed_lately, status.reclaimed, status.most_waiting)
    cells += [
        f'<td class="n" data-name="{name}" data-v="{size[1]}">'
        f"{bytes_text(size[1]) if size[0] else _NONE}</td>"
        for name, size in zip(_FIGURES, sizes, strict=True)
    ]
    if has_price:
        saved = status.money_per_month.get("reclaimed", 0)
        costs = money([status], "reclaimed").removesuffix(" a month") or _NONE
        cells.append(f'<td class="n" data-name="saved a month" data-v="{saved}">{costs}</td>')
    return f'<tr>{"".join(cells)}<td data-name="bytes by run">{_line(row.runs)}</td></tr>'


_MOODS = {"not known": "bad", "refused": "bad", "overdue": "warn", "in order": "good"}


def _line(runs: Sequence[PastRun]) -> str:
    """Draw what the namespace had at each of its last marks, the newest at the right."""
    listed = [total(run.fates.values())[1] for run in runs[:_RUNS_DRAWN] if run.fates]
    return sparkline(listed[::-1])


def _when(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant:%Y-%m-%d %H:%M}"


def _size(amount: Amount) -> str:
    return f"{counted(amount[0], 'object')}, {bytes_text(amount[1])},"


def _repositories(number: int) -> str:
    return "1 repository" if number == 1 else f"{number:,} repositories"
