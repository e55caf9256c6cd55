"""The limit of the pool that lakegc's runs wait in: one Spark at a time, unless somebody says more.

Dagster limits a pool only where the instance has a number for it, and lets every waiting run begin
the first time that it meets one without.
"""

from __future__ import annotations

import dagster as dg

_ONE = 1
MISSING = (
    "Pool {pool} has no limit, and runs may begin side by side, each with a Spark of its own. In "
    "dagster.yaml say `concurrency: {{pools: {{granularity: run}}}}`, or give it a number: "
    "`dagster instance concurrency set {pool} 1`."
)


def limit_pool(instance: dg.DagsterInstance, pool: str) -> str | None:
    """Give a pool its limit where whole runs wait and nobody gave it one.

    With another granularity every step waits, and a killed one keeps its place: there a person
    decides.

    Args:
        instance: Dagster's instance.
        pool: Name of the pool.

    Returns:
        What is new or missing, as a sentence; None if the pool has a limit already.
    """
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits or pool in {
        each.name for each in storage.get_pool_limits() if not each.from_default
    }:
        return None
    pools = (instance.get_settings("concurrency") or {}).get("pools") or {}
    if pools.get("granularity") != "run":
        return MISSING.format(pool=pool)
    number = int(pools.get("default_limit") or _ONE)
    storage.set_concurrency_slots(pool, number)
    return f"Pool {pool} has the limit {number}: `dagster instance concurrency set` changes it."
