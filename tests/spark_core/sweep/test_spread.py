"""How a plan is dealt out to tasks."""

from types import SimpleNamespace

from spark_core.sweep.spread import spread_of


def test_a_limit_is_dealt_out_to_the_tasks_that_can_run_at_once():
    lots = []

    def dealt(limit, *, parallelism, rows, speculation="false", quarantine=False):
        spark = SimpleNamespace(
            sparkContext=SimpleNamespace(defaultParallelism=parallelism),
            conf=SimpleNamespace(get=lambda _name, _default: speculation),
        )
        spread = spread_of(
            SimpleNamespace(
                spark=spark,
                options=SimpleNamespace(max_deletes_per_second=limit, quarantine=quarantine),
            ),
            rows,
            is_here=False,
        )
        lots.append((spread.lot_rows, spread.requests_at_once))
        return spread.tasks, spread.deletes_per_second

    assert dealt(None, parallelism=4, rows=1) == (1, None)
    assert dealt(None, parallelism=4, rows=3_001) == (4, None)
    assert dealt(None, parallelism=4, rows=1_000_001) == (11, None)
    assert dealt(100, parallelism=4, rows=8_000) == (4, 25)
    assert dealt(100, parallelism=40, rows=8_000) == (8, 12.5)
    assert dealt(100, parallelism=4, rows=1) == (1, 100)
    assert dealt(100, parallelism=4, rows=8_000, speculation="true") == (4, 12.5)
    assert dealt(None, parallelism=4, rows=8_000, quarantine=True) == (4, None)
    assert lots == [(25_000, 4)] * 3 + [(1_000, 1)] * 5, "what is sent slowly is seen in small lots"
