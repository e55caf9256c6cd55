"""The metrics: their text, the file that nobody reads by halves, and the push to a gateway."""

import base64
import json
import re
import stat
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from spark_core.errors import LakegcError, SettingsError, TransientError
from spark_core.metrics.gauges import metrics_text, publish, push, write_metrics
from spark_core.metrics.open_metrics import Gauge, exposition
from spark_core.prices import Price
from spark_core.report.past_run import PastRun
from spark_core.report.status import RepositoryStatus
from spark_core.settings import Settings
from spark_core.stored_runs.overview import Past

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
# OpenMetrics 1.0: a sample line of a metric without timestamp.
SAMPLE = re.compile(
    r'[a-z_]+(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\})? -?[0-9][0-9.e+-]*'
)  # fmt: skip


class Gateway(ThreadingHTTPServer):
    """A push gateway that keeps what it gets, and answers as it is told."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got, self.status = [], 200

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.got.append((self.path, body, dict(self.headers)))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"no such user")

    def log_message(self, *_):
        pass


@pytest.fixture
def gateway():
    with Gateway() as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def settings(env=None, **metrics):
    made = Settings.model_validate(
        {"server": {"endpoint": "http://127.0.0.1:9"}, "metrics": metrics}
    )
    made._env = env or {}
    return made


def past(**more):
    run = PastRun(
        "2026-11-20T01-00-00Z",
        state="refused",
        refused={"expired_share_is_plausible": "too much"},
        concluded_at=NOW,
        mark_seconds=12.5,
        collects="all",
        fates={"committed": (3, 300), "expired": (2, 20)},
        listed_by_class={"STANDARD_IA": 310},
    )
    status = RepositoryStatus(
        "repo",
        last_marked_at=NOW,
        reclaimed=(7, 70),
        waiting=(2, 20),
        waits_for="confirmation of expired_share_is_plausible",
        refused=(("expired_share_is_plausible", "too much"),),
        overdue="too long ago",
        **more,
    )
    return Past("repo", [run], status)


def values(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_the_metrics_of_a_repository_say_what_its_runs_did():
    money = {"price": Price(0.02, "EUR", 1e7), "money_per_month": {"in_quarantine": 2.0}}
    found = values(metrics_text([past(**money, in_quarantine=(1, 200))], NOW))
    of = 'repository="repo"'
    all_of = f'{of},collects="all"'
    assert found.items() >= {
        (f"lakegc_readable{{{of}}}", "1"),
        (f"lakegc_overdue{{{of}}}", "1"),
        (
            f'lakegc_last_success_timestamp_seconds{{{all_of},step="mark"}}',
            str(int(NOW.timestamp())),
        ),
        (f'lakegc_last_duration_seconds{{{all_of},step="mark"}}', "12.5"),
        (f'lakegc_objects{{{all_of},fate="expired"}}', "2"),
        (f'lakegc_objects_bytes{{{all_of},fate="committed"}}', "300"),
        (f'lakegc_storage_class_bytes{{{of},storage_class="STANDARD_IA"}}', "310"),
        (f"lakegc_reclaimed_bytes{{{of}}}", "70"),
        (f'lakegc_waiting_objects{{{all_of},waits_for="confirmation"}}', "2"),
        (f'lakegc_waiting_objects{{{all_of},waits_for="sweep"}}', "0"),
        (f'lakegc_refused_runs{{{of},check="expired_share_is_plausible"}}', "1"),
        (f'lakegc_runs{{{of},state="refused"}}', "1"),
        (f'lakegc_runs{{{of},state="swept"}}', "0"),
        (f"lakegc_price_per_gb_month{{{of}}}", "0.02"),
        (f'lakegc_money_per_month{{{of},what="in_quarantine",currency="EUR"}}', "2"),
    }
    assert f'lakegc_last_duration_seconds{{{all_of},step="sweep"}}' not in found


def test_a_repository_that_cannot_be_read_has_only_that_to_say():
    lost = Past("repo", (), RepositoryStatus("repo", problem="gone"), LakegcError("gone"))
    assert values(metrics_text([lost], NOW)) == {
        'lakegc_readable{repository="repo"}': "0",
        "lakegc_metrics_written_timestamp_seconds": str(int(NOW.timestamp())),
    }


def test_the_text_is_open_metrics():
    lines = metrics_text([past(), past()], NOW).split("\n")
    assert lines[-2:] == ["# EOF", ""]
    families = []
    for line in lines[:-2]:
        if line.startswith("#"):
            word, name = re.fullmatch(r"# (TYPE|UNIT|HELP) ([a-z_]+) .+", line).groups()
            if word == "TYPE":
                families.append(name)
            assert name == families[-1], "the lines of a metric stand together"
            assert word != "UNIT" or name.endswith(line.rpartition(" ")[2])
        else:
            assert SAMPLE.fullmatch(line), line
            assert re.match(r"[a-z_]+", line)[0] == families[-1]
    assert len(families) == len(set(families))


def test_labels_are_escaped():
    gauge = Gauge("a", "b\nc")
    gauge.set(1, of='say "\\"\n')
    assert exposition([gauge]).splitlines()[1:3] == [
        "# HELP a b\\nc",
        'a{of="say \\"\\\\\\"\\n"} 1',
    ]


def test_a_gauge_without_values_is_left_out():
    gauge = Gauge("a", "b")
    gauge.set(None)
    assert exposition([gauge]) == "# EOF\n"


def test_the_file_is_replaced_in_one_step_and_everybody_may_read_it(tmp_path, monkeypatch):
    path = tmp_path / "metrics" / "lakegc.prom"
    write_metrics(path, "old\n")
    seen = []
    replace = type(path).replace

    def look(beside, target):
        seen.append((beside.read_text(), path.read_text(), beside.suffix))
        return replace(beside, target)

    monkeypatch.setattr(type(path), "replace", look)
    write_metrics(path, "new\n")
    assert [(new, old) for new, old, _ in seen] == [("new\n", "old\n")]
    assert seen[0][2] != ".prom"
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [each.name for each in path.parent.iterdir()] == ["lakegc.prom"]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"the metrics file .*x\.prom cannot be written"):
        write_metrics(tmp_path / "file" / "x.prom", "")


def test_the_gateway_gets_the_whole_text_under_the_job(gateway, tmp_path):
    made = settings(
        {"PUSH": "secret"},
        push_gateway=f"{gateway.url.replace('//', '//me@')}/metrics/job/night%2Fly",
        push_password_env="PUSH",
        file=str(tmp_path / "lakegc.prom"),
    )
    went = publish(made, [past()], NOW)
    ((path, body, headers),) = gateway.got
    assert went == [str(tmp_path / "lakegc.prom"), f"{gateway.url}{path}"]
    assert path == "/metrics/job/night%2Fly"
    assert body == metrics_text([past()], NOW) == (tmp_path / "lakegc.prom").read_text()
    assert base64.b64decode(headers["Authorization"].split()[1]) == b"me:secret"


def test_the_job_is_lakegc_where_the_url_names_none(gateway):
    push(settings(push_gateway=f"{gateway.url}/"), "")
    ((path, _, headers),) = gateway.got
    assert path == "/metrics/job/lakegc"
    assert "Authorization" not in headers


def test_without_a_place_nothing_is_read_or_written():
    assert publish(settings(), iter([]), NOW) == ()


def test_a_gateway_that_refuses_or_is_silent_is_named(gateway):
    gateway.status = 401
    with pytest.raises(LakegcError, match=r"refuses the metrics \(HTTP 401: no such user\)"):
        push(settings(push_gateway=gateway.url), "")
    with pytest.raises(TransientError, match="does not answer"):
        push(settings(push_gateway="http://127.0.0.1:9"), "")


def test_a_password_variable_that_is_not_set_is_named(gateway):
    made = settings(push_gateway=gateway.url.replace("//", "//me@"), push_password_env="PUSH")
    with pytest.raises(SettingsError, match=r"\[metrics\] push_password_env names PUSH"):
        push(made, "")
    assert not gateway.got


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are():
    run = PastRun(
        "2026-11-20T01-00-00Z",
        concluded_at=NOW,
        mark_seconds=1,
        sweep_seconds=1,
        collects="all",
        refused={"a": ""},
        fates={"committed": (1, 1)},
        listed_by_class={"STANDARD": 1},
    )  # fmt: skip
    status = RepositoryStatus(
        "repo",
        last_marked_at=NOW,
        last_swept_at=NOW,
        price=Price(0.02),
        money_per_month={"listed": 1.0},
    )
    labels = {}
    for sample in values(metrics_text([Past("repo", [run], status)], NOW)):
        name, _, named = sample.partition("{")
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', named))
    dashboard = json.loads((Path(__file__).parents[3] / "docs/grafana.json").read_text())
    asked = [
        (target["expr"], target["legendFormat"])
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    used = {name for expr, _ in asked for name in re.findall(r"lakegc_\w+", expr)}
    assert used <= labels.keys()
    for expr, legend in asked:
        for name, named in re.findall(r"(lakegc_\w+)\{([^}]*)\}", expr):
            assert set(re.findall(r'(\w+)=~?"', named)) <= labels[name]
        (first, *_) = re.findall(r"lakegc_\w+", expr)
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels[first]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
