"""Checks of the place: whose namespace it is, and whether its clocks can be believed."""

from __future__ import annotations

from spark_core.checks.result import CheckResult, Manifests
from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.records.figures import ListedFigures
from spark_core.run import Run

_TABLE = "namespace_slices"


def namespace_is_its_own(run: Run, manifests: Manifests) -> CheckResult:
    """No other repository that the server shows lies in, around or inside this one (safety 11).

    The mark refuses such a namespace before it reads anything. The check shows with how many
    repositories the namespace was compared.
    """
    figures = ListedFigures.of(manifests[_TABLE])
    overlapping, compared = list(figures.overlapping_repositories), figures.repositories
    return CheckResult(
        "namespace_is_its_own",
        _TABLE,
        not overlapping and compared >= 1,
        f"{run.repository.storage_namespace} is shared with none of the server's {compared} "
        "repositories"
        if not overlapping and compared >= 1
        else f"{run.repository.storage_namespace} is shared with "
        f"{', '.join(overlapping) or 'nobody knows whom'} ({compared} repositories were compared). "
        "Move one of them to a namespace of its own.",
        {"repositories": compared, "overlapping_repositories": overlapping},
        limit="no other repository shares the namespace, lies inside it or around it",
    )


def listing_lies_in_one_repository(run: Run, manifests: Manifests) -> CheckResult:
    """No other repository's tables lie below `data/` (safety 31)."""
    nested = ListedFigures.of(manifests[_TABLE]).nested_objects
    return CheckResult(
        "listing_lies_in_one_repository",
        _TABLE,
        nested == 0,
        "no repository was made inside data/"
        if nested == 0
        else f"{nested} objects below data/ belong to a repository made inside "
        f"{run.repository.storage_namespace}. Move that repository out of data/ before this one is "
        "collected.",
        {"nested_objects": nested},
        limit="no object of another repository below data/",
    )


def clocks_agree(_run: Run, manifests: Manifests) -> CheckResult:
    """The clocks of server and store are close to this machine's (safety 16).

    Only then do ages and days mean what they say.

    The mark refuses a clock that is too far off before it reads anything. The check shows how far
    off each clock was.
    """
    skews = ListedFigures.of(manifests[_TABLE]).clock_skew_seconds
    limit = MAX_CLOCK_SKEW.total_seconds()
    far = {whose: skew for whose, skew in skews.items() if skew is not None and abs(skew) > limit}
    silent = sorted(whose for whose, skew in skews.items() if skew is None)
    words = ", ".join(
        f"{whose} {skew:+.0f} s" if skew else f"{whose} agrees"
        for whose, skew in skews.items()
        if skew is not None
    )
    return CheckResult(
        "clocks_agree",
        _TABLE,
        not far,
        f"clocks compared with this machine's: {words or 'none'}"
        + (f"; {', '.join(silent)} gave no reading" if silent else "")
        if not far
        else f"clocks compared with this machine's: {words}, at most {limit:.0f} s are accepted: "
        "it is unknown how old an object is. Set the clocks (NTP), and mark again under a new run "
        "key.",
        {"skew_seconds": dict(skews), "max_clock_skew_seconds": limit},
        limit=f"{limit:.0f} s",
    )
