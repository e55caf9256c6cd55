"""The options of a run: each with its default, its bounds and its name in settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from spark_core.prices import Price
from spark_core.run.option import Option

# A century. A longer time is a typing error, and datetime cannot subtract it.
_LONGEST_DAYS = 36_500

_SECONDS = "_seconds"


@dataclass(frozen=True)
class RunOptions:
    """What a run may do and how far it goes; in doubt the default is the one that keeps.

    The settings file takes names, types, bounds and defaults from here, and docs/settings.md these
    sentences.

    Attributes:
        may_sweep: `mark` shows what would go, `sweep` also deletes it.
        min_age: An object younger than this is never considered, nor one that is older by no more
            than clocks may differ; at least the server's grace period.
        allow_unsafe_min_age: Accept less than that; only for repositories that the list
            `throwaway_repositories` names.
        flat: Also consider the flat 32-hex names of old lakeFS versions at the namespace's root.
        inventory: Place of an S3 Inventory that marks read instead of listing the store, where that
            is what a run costs: its `manifest.json`, or the folder of the dated folders, of which
            the newest counts; `s3://BUCKET/...`, or the absolute path of a copy. Or the ARN of S3's
            table bucket, for the live inventory table of S3 Metadata.
        tags_protect: Every tag keeps the commit it names.
        keep_last: How many commits of each branch stay whatever their age and the rules: its head,
            and back from there along what the branch itself showed. It can only keep more, and
            binds lakegc alone.
        clock_margin: How much more generous than the rules our own retention is, for time zones and
            clocks.
        twin_calls: Calls to the server that looking for hidden entries may take; left out, 1000,
            ten for each branch, or one for 100 objects, whichever is most. What they do not reach
            is kept.
        twin_time: How long looking for hidden entries may ask the server; what it does not reach
            is kept.
        hidden_entries: `by_time` asks a branch only about objects that can have been staged since
            its head was made; `ask_all` asks every branch about all, whenever they were uploaded.
        compacted: What becomes of objects that metaranges name which no retained commit names. Such
            are what lakeFS Enterprise compacts staged entries into: `keep` keeps them, where the
            server may compact; `ignore` does not look for them, if yours does not.
        longest_upload: How long an upload through the server may take: its object's name and date
            are of its beginning.
        branches_at_once: Branches that the server is asked about side by side.
        strangers: What becomes of objects below `data/` whose names lakeFS did not give. An entry
            that names one by another name of the store, such as an access point, does not keep it;
            put a hold on those.
        inherited: What becomes of objects that are older than the repository.
        policies: What the repository's retention policy does: `mark` shows in each mark what it
            names; `sweep` also lets that go, once its document was confirmed, and `lakegc retention
            remove` removes what its `remove` rules name; `only` does the same, and leaves what
            nothing reaches to another run; `off` does not look at it.
        max_policy_share: What a rule of the policy names waits when it is more than this share of
            the objects or bytes, from `share_from_objects` on.
        explain: What a report says of an object that only expired commits had: `full` its path, its
            last commit and the rule that let it go; `short` that such a commit had it; `off`
            nothing. What such commits say spares questions to branches, too.
        max_expired_share: Refuse when more than this share of the objects or bytes would go ...
        max_missing_share: ... or when more than this share of what heads and staged entries reach
            is not in the store ...
        share_from_objects: ... but only from this many objects on.
        max_sudden_drop: Refuse when objects, live objects or retained commits are fewer by more
            than this share than at the last run that passed ...
        max_expired_rise: ... or when this much more of the objects would go than then (0.25 means
            25 points of a hundred).
        max_mark_age: A mark whose reading began longer ago than this is not swept.
        max_deletes_per_second: Objects that a sweep deletes in a second at most, all tasks
            together; left out, as fast as the store takes it.
        quarantine: Move objects to lakegc's own folder instead of deleting them; `lakegc restore`
            brings them back. Left out: yes on local files, where it copies nothing; elsewhere no,
            but a first sweep whose deletions could not come back is refused until this is set.
        quarantine_days: How long they stay there, counted from the end of the sweep; then they are
            deleted for good.
        repository_cache: How long the server may go on answering for a repository that was just
            deleted.
        read_threads: Reads that one Spark task keeps under way.
        write_reference_mark: Also write a mark whose verdict passed in the form of lakeFS's own
            job; that job sweeps it without looking again.
        exclusive: Nobody else ever collects this namespace, so sweep even on a store that does not
            honour create-if-absent.
        lease_ttl: How long the lease of a sweep is good for without a sign of life of its holder;
            it is renewed three times in that time.
        price_per_gb_month: What a GB (1,000,000,000 bytes) costs in a month, with the word behind
            each amount, such as `0.023 EUR`; `report`, `runs`, `status` and `what-if` then also
            show costs. A repository in another store has a price of its own.
        price_by_class: The same of storage classes with another price, by the store's names, such
            as `{STANDARD_IA = 0.0125}`.
        optimized: Keep an index of what never changes, and take from it what it has; the first
            mark, and each `full_every`-th, reads everything.
        full_every: One of so many marks reads everything, and compares itself with the others.
        keep_runs: Runs whose tables are kept; of older ones only verdicts, manifests and reports
            stay.

    Examples:
        >>> options = RunOptions(keep_last=3)
        >>> options.keep_last, options.may_sweep, options.min_age.days
        (3, False, 1)
    """

    may_sweep: Annotated[bool, Option(setting="mode", words=("mark", "sweep"))] = False
    min_age: Annotated[
        timedelta,
        Option(
            unit="hours",
            ge=0,
            le=_LONGEST_DAYS * 24,
            decides=True,
            lifts=("only_old_objects_expire",),
        ),
    ] = timedelta(hours=24)
    allow_unsafe_min_age: Annotated[
        bool, Option(decides=True, lifts=("a `min_age_hours` below the grace period",))
    ] = False
    flat: Annotated[bool, Option(decides=True)] = False
    inventory: str | None = None
    tags_protect: Annotated[bool, Option(decides=True)] = True
    keep_last: Annotated[int, Option(ge=0, le=1_000_000, decides=True)] = 0
    clock_margin: Annotated[
        timedelta, Option(unit="minutes", ge=0, le=7 * 24 * 60, decides=True)
    ] = timedelta(hours=1)
    twin_calls: Annotated[int | None, Option(ge=0, lifts=("hidden_entries_were_asked",))] = None
    twin_time: Annotated[
        timedelta, Option(unit="minutes", ge=0, le=24 * 60, lifts=("hidden_entries_were_asked",))
    ] = timedelta(minutes=30)
    hidden_entries: Annotated[Literal["by_time", "ask_all"], Option(decides=True)] = "by_time"
    compacted: Annotated[Literal["keep", "ignore"], Option(decides=True)] = "keep"
    longest_upload: Annotated[
        timedelta, Option(unit="days", ge=0, le=_LONGEST_DAYS, decides=True)
    ] = timedelta(days=7)
    branches_at_once: Annotated[int, Option(ge=1, le=256)] = 16
    strangers: Annotated[Literal["keep", "collect"], Option(decides=True)] = "keep"
    inherited: Annotated[Literal["keep", "collect"], Option(decides=True)] = "keep"
    policies: Literal["off", "mark", "sweep", "only"] = "off"
    max_policy_share: Annotated[float, Option(ge=0, le=1)] = 0.25
    explain: Literal["full", "short", "off"] = "full"
    max_expired_share: Annotated[
        float, Option(ge=0, le=1, lifts=("expired_share_is_plausible",))
    ] = 0.5
    max_missing_share: Annotated[float, Option(ge=0, le=1, lifts=("live_objects_are_listed",))] = (
        0.01
    )
    share_from_objects: Annotated[
        int,
        Option(
            ge=0,
            lifts=(
                "live_objects_are_listed",
                "expired_share_is_plausible",
                "nothing_changed_suddenly",
            ),
        ),
    ] = 1_000
    max_sudden_drop: Annotated[float, Option(ge=0, le=1, lifts=("nothing_changed_suddenly",))] = 0.5
    max_expired_rise: Annotated[float, Option(ge=0, le=1, lifts=("nothing_changed_suddenly",))] = (
        0.25
    )
    max_mark_age: Annotated[
        timedelta, Option(unit="days", gt=0, le=_LONGEST_DAYS, lifts=("mark_is_recent",))
    ] = timedelta(days=7)
    max_deletes_per_second: Annotated[float | None, Option(gt=0)] = None
    quarantine: bool | None = None
    quarantine_days: Annotated[float, Option(ge=1, le=_LONGEST_DAYS)] = 30
    repository_cache: Annotated[timedelta, Option(unit="seconds", ge=0, le=3600)] = timedelta(
        seconds=8
    )
    read_threads: Annotated[int, Option(ge=1, le=256)] = 8
    write_reference_mark: bool = False
    exclusive: Annotated[
        bool, Option(lifts=("a store that does not keep the condition of a put",))
    ] = False
    lease_ttl: Annotated[timedelta, Option(unit="seconds", ge=30, le=3600)] = timedelta(minutes=5)
    price_per_gb_month: str | None = None
    price_by_class: dict[str, float] | None = None
    optimized: bool = True
    full_every: Annotated[int, Option(ge=1, le=1000)] = 7
    keep_runs: Annotated[int, Option(ge=1, le=100_000)] = 14

    @property
    def price(self) -> Price | None:
        """What bytes cost; None if the settings do not say."""
        if self.price_per_gb_month is None:
            return None
        return Price.parse(self.price_per_gb_month, self.price_by_class)

    @property
    def policies_let_go(self) -> bool:
        """Whether a confirmed policy lets go what it names."""
        return self.policies in ("sweep", "only")

    @property
    def collects_unreachable(self) -> bool:
        """Whether what nothing reaches may go; else it is left to another run."""
        return self.policies != "only"

    @property
    def deciding(self) -> dict[str, Any]:
        """The options that decide what may go, as JSON: durations in `..._seconds`."""
        found: dict[str, Any] = {}
        for option in OPTIONS:
            value = getattr(self, option.name)
            if option.decides and option.unit:
                found[f"{option.name}{_SECONDS}"] = value.total_seconds()
            elif option.decides:
                found[option.name] = value
        return found

    def as_decided(self, asked: Mapping[str, Any]) -> RunOptions:
        """Return these options with the values that `deciding` kept, without former options."""
        known = {option.name for option in OPTIONS}
        decided: dict[str, Any] = {
            name.removesuffix(_SECONDS): timedelta(seconds=value)
            if name.endswith(_SECONDS)
            else value
            for name, value in asked.items()
        }
        return replace(self, **{name: value for name, value in decided.items() if name in known})


def _declared() -> tuple[Option, ...]:
    hints = get_type_hints(RunOptions, include_extras=True)
    found = []
    for each in fields(RunOptions):
        kind, option = hints[each.name], Option()
        if get_origin(kind) is Annotated:
            kind, option = get_args(kind)
        setting = option.setting or (f"{each.name}_{option.unit}" if option.unit else each.name)
        found.append(
            replace(option, name=each.name, type=kind, default=each.default, setting=setting)
        )
    return tuple(found)


OPTIONS = _declared()
"""Every option, in the order of `RunOptions`."""
