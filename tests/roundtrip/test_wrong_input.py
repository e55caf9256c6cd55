"""What wrong input gets: the thing, what was found and wanted, and what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from spark_core import lakegc_keys, sweep
from spark_core.checks import verdict
from spark_core.doctor import Examination, examine
from spark_core.errors import (
    LakegcError,
    PermissionDeniedError,
    SettingsError,
    TransientError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.model import RunKey
from spark_core.run import Environment, RunOptions, Storage, open_run, preflight
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock
from tests.support.passing_mark import passing_mark
from tests.support.scripted_s3 import Answer, error, scripted_s3
from tests.support.scripted_server import Reply, ScriptedServer
from tests.support.self_signed import self_signed
from tests.support.small_lakefs import ACCESS_KEY_ID, SECRET_ACCESS_KEY, SmallLakeFS
from tests.support.small_s3 import Bucket, small_s3
from tests.support.written_run import written_run

SECRETS = (SECRET_ACCESS_KEY, "wrong-SECRET-of-somebody", "small/secret+ACCESS")
ELSEWHERE = {"x-amz-bucket-region": "eu-west-1"}


def no_spark():
    raise AssertionError("Spark was started")


class Place:
    """A lakeFS server and an S3 store, both in order but for what a test makes otherwise."""

    def __init__(self, lakefs, s3):
        self.lakefs = lakefs
        self.s3 = s3

    def store_options(self, **changes):
        chosen = {
            "s3_endpoint": self.s3.endpoint,
            "s3_region": "us-east-1",
            "s3_access_key_id": "AKIASMALLSTOREKEY000",
            "s3_secret_access_key": "small/secret+ACCESS/key0000000000000000000",
            "allow_http": True,
            "max_retries": 0,
            "connect_timeout": timedelta(seconds=1),
            "read_timeout": timedelta(seconds=5),
        }
        return StoreOptions(**{**chosen, **changes})

    def open(self, name, *, server=None, store=None, **options):
        clock = FakeClock(datetime.now(UTC))
        environment = Environment(
            LakeFSServer(server or self.lakefs.options(tries=1), clock=clock),
            store or self.store_options(),
            spark=no_spark,
            clock=clock,
        )
        chosen = {"repository_cache": timedelta(0), **options}
        return open_run(environment, name, RunKey.at(clock.now()), RunOptions(**chosen))

    def mark(self, name, **changes):
        """What a mark says before it reads anything."""
        with pytest.raises(LakegcError) as refusal:
            preflight(self.open(name, **changes))
        return refusal.value

    def doctor(self, name, *, server=None, store=None, **options):
        """What the doctor found, by what it looked at."""
        examination = Examination(
            name,
            (lambda: server or self.lakefs.options()) if not callable(server) else server,
            Storage(store or self.store_options()),
            RunOptions(**options),
            clock=FakeClock(datetime.now(UTC)),
        )
        found = {f"{probe.about}: {probe.name}": probe for probe in examine(examination)}
        shown = " ".join(f"{probe.found} {probe.next_step}" for probe in found.values())
        assert not [secret for secret in SECRETS if secret in shown]
        for probe in found.values():
            if probe.passed is False:
                assert "nothing was" not in f"{probe.found} {probe.next_step}".lower()
                assert re.match(r"[A-Z`s].{10}", probe.next_step), probe
        return found


def failed(probes):
    return [name for name, probe in probes.items() if probe.passed is False]


def says(refusal, *, found, next_step):
    """An error has every part that a reader needs."""
    assert re.search(found, refusal.found), refusal
    assert re.search(next_step, refusal.next_step), refusal
    assert not [secret for secret in SECRETS if secret in str(refusal)]


REPOSITORIES = (
    "fine",
    "absent",
    "elsewhere",
    "signed-elsewhere",
    "expired",
    "unknown-key",
    "denied",
    "kept",
    "late",
)


@pytest.fixture(scope="module")
def place():
    malformed = error(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>")
    buckets = {
        "fine": Bucket(),
        "elsewhere": Bucket(Answer(301, error(301, "PermanentRedirect").body, ELSEWHERE)),
        "signed_elsewhere": Bucket(Answer(400, malformed.body, ELSEWHERE)),
        "expired": Bucket(error(400, "ExpiredToken")),
        "unknown_key": Bucket(
            error(403, "InvalidAccessKeyId", "<AWSAccessKeyId>AKIA</AWSAccessKeyId>")
        ),
        "denied": Bucket(error(403, "AccessDenied")),
        "kept": Bucket(keeps_data=True),
        "late": Bucket(clock=timedelta(minutes=-6)),
    }
    with small_s3(**buckets) as s3:
        for bucket in s3.buckets.values():
            bucket.objects["ns/_lakefs/dummy"] = (b"", datetime.now(UTC))
        with SmallLakeFS({name: f"s3://{name}/ns" for name in REPOSITORIES}) as lakefs:
            yield Place(lakefs, s3)


def test_where_all_is_in_order_nothing_fails_and_nothing_of_the_repository_is_touched(place):
    before = dict(place.s3.buckets["fine"].objects)
    probes = place.doctor("fine")
    assert failed(probes) == []
    assert [name for name, probe in probes.items() if probe.passed is None] == [
        "repository: imports elsewhere"
    ]
    left = {key for key in place.s3.buckets["fine"].objects if key not in before}
    assert left == {"ns/_lakefs/retention/gc/probe/clock"}
    assert preflight(place.open("fine")).clock_skew_seconds == {"server": 0.0, "store": 0.0}


class TestTheServer:
    def test_a_port_where_nobody_listens(self, place):
        server = ServerOptions("http://127.0.0.1:1", ACCESS_KEY_ID, SECRET_ACCESS_KEY)
        refusal = place.mark("fine", server=server)
        assert isinstance(refusal, TransientError)
        says(
            refusal,
            found=r"no server answers at http://127\.0\.0\.1:1",
            next_step="correct endpoint",
        )
        probes = place.doctor("fine", server=server)
        assert failed(probes) == ["server: answers"]
        assert "no server answers at http://127.0.0.1:1" in probes["server: answers"].found
        assert "correct endpoint" in probes["server: answers"].next_step

    def test_a_name_that_does_not_resolve(self, place):
        server = ServerOptions("http://no-such-host.invalid:8000", ACCESS_KEY_ID, SECRET_ACCESS_KEY)
        says(
            place.mark("fine", server=server),
            found=r"no server answers at http://no-such-host\.invalid:8000",
            next_step="correct endpoint",
        )
        assert failed(place.doctor("fine", server=server)) == ["server: answers"]

    @pytest.mark.parametrize("status", [200, 302, 401, 404])
    def test_something_that_is_no_lakefs(self, place, status):
        with ScriptedServer(
            lambda _: Reply(status, b"<html>welcome</html>", {"Location": "/login"})
        ) as site:
            server = ServerOptions(site.endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY)
            refusal = place.mark("fine", server=server)
            says(
                refusal,
                found=re.escape(site.endpoint) if status != 200 else "no JSON",
                next_step=r"\w",
            )
            probes = place.doctor("fine", server=server)
        assert failed(probes) == ["server: answers"]
        assert (
            f"answers {status} where a lakeFS server answers 204" in probes["server: answers"].found
        )
        assert "Set endpoint to the server's own URL" in probes["server: answers"].next_step

    def test_a_certificate_that_nobody_here_signed(self, place, tmp_path):
        chain = self_signed(tmp_path / "server.pem")
        with scripted_s3(lambda _request: Answer(204), certificate=chain) as endpoint:
            server = ServerOptions(endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY)
            refusal = place.mark("fine", server=server)
            assert isinstance(refusal, SettingsError)
            says(
                refusal,
                found=rf"no TLS connection to {endpoint}: .*self.signed certificate",
                next_step="ca_certificate",
            )
            probes = place.doctor("fine", server=server)
            assert failed(probes) == ["server: answers"]
            assert "ca_certificate" in probes["server: answers"].next_step
            trusted = place.doctor("fine", server=replace(server, ca_certificate=str(chain)))
            assert trusted["server: answers"].passed

    def test_https_where_the_server_speaks_http(self, place):
        endpoint = place.lakefs.endpoint.replace("http:", "https:")
        server = ServerOptions(endpoint, ACCESS_KEY_ID, SECRET_ACCESS_KEY)
        says(
            place.mark("fine", server=server),
            found=f"no TLS connection to {endpoint}",
            next_step=r"http or https",
        )
        assert failed(place.doctor("fine", server=server)) == ["server: answers"]

    def test_keys_that_are_missing(self, place):
        def none():
            return ServerOptions(place.lakefs.endpoint, "", "")

        with pytest.raises(SettingsError, match=r"no keys for .* Set them in the environment"):
            none()
        probes = place.doctor("fine", server=none)
        assert failed(probes) == ["server: keys"]
        assert "no keys for" in probes["server: keys"].found
        assert "Set them in the environment" in probes["server: keys"].next_step

    def test_keys_that_the_server_does_not_know_any_more(self, place):
        place.lakefs.users = False
        try:
            says(
                place.mark("fine"),
                found="answered 401 .error authenticating request.",
                next_step="access_key_id and secret_access_key",
            )
            probes = place.doctor("fine")
        finally:
            place.lakefs.users = True
        assert failed(probes) == ["server: takes the keys"]
        assert (
            "This call needs no permission, so it is the keys"
            in probes["server: takes the keys"].next_step
        )

    @pytest.mark.parametrize(
        "off", [timedelta(minutes=6), timedelta(minutes=-6), timedelta(days=1)]
    )
    def test_a_clock_that_is_more_than_five_minutes_off(self, place, off):
        with SmallLakeFS(place.lakefs.namespaces) as lakefs:
            answer = lakefs.reply

            def dated(asked):
                told = answer(asked)
                date = format_datetime(datetime.now(UTC) + off, usegmt=True)
                return replace(told, headers={**told.headers, "Date": date})

            lakefs.reply = dated
            refusal = place.mark("fine", server=lakefs.options())
            probes = place.doctor("fine", server=lakefs.options())
        assert isinstance(refusal, UnsafePlanError)
        side = "ahead of" if off > timedelta(0) else "behind"
        says(
            refusal,
            found=(
                rf"the clock of the lakeFS server is 0:0[56]:\d\d {side} this machine's, at most "
                r"0:05:00 is accepted"
            )
            if abs(off) < timedelta(hours=1)
            else rf"the clock of the lakeFS server is .* {side} this machine's",
            next_step="Set the clocks of both",
        )
        assert failed(probes) == ["server: clock"]
        assert "Set the clocks of both" in probes["server: clock"].next_step


class TestTheStore:
    """Each repository of the server lies in a bucket with a trouble of its own."""

    def test_credentials_that_are_missing(self, place, monkeypatch):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.setenv(name, "/nonexistent")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        store = place.store_options(s3_access_key_id=None, s3_secret_access_key=None)
        refusal = place.mark("fine", store=store)
        assert isinstance(refusal, SettingsError)
        says(refusal, found="no credentials for S3 were found", next_step="AWS_ACCESS_KEY_ID")
        probes = place.doctor("fine", store=store)
        assert failed(probes)[0] == "store: credentials"
        assert "AWS_ACCESS_KEY_ID" in probes["store: credentials"].next_step

    @pytest.mark.parametrize(
        ("name", "kind", "found", "next_step"),
        [
            (
                "absent",
                SettingsError,
                "there is no such bucket",
                "storage namespace and the endpoint",
            ),
            (
                "elsewhere",
                SettingsError,
                "the bucket lies in another region, eu-west-1",
                's3_region = "eu-west-1"',
            ),
            (
                "signed-elsewhere",
                SettingsError,
                "the bucket lies in another region, eu-west-1",
                's3_region = "eu-west-1"',
            ),
            (
                "expired",
                PermissionDeniedError,
                r"the store refuses .*ExpiredToken",
                "whether they have expired",
            ),
            (
                "unknown-key",
                PermissionDeniedError,
                r"the store refuses .*InvalidAccessKeyId",
                "look at the key",
            ),
            (
                "denied",
                PermissionDeniedError,
                r"the store refuses \(HTTP 403 AccessDenied\)",
                r"Allow s3:\w+",
            ),
        ],
    )
    def test_a_bucket_that_cannot_be_used(self, place, name, kind, found, next_step):
        refusal = place.mark(name)
        assert isinstance(refusal, kind), refusal
        says(refusal, found=found, next_step=next_step)
        assert f"s3://{name}/ns/" in str(refusal)
        probes = place.doctor(name)
        assert failed(probes)[0] == "store: list"
        assert re.search(found, probes["store: list"].found)
        assert re.search(next_step, probes["store: list"].next_step)
        assert probes["repository: branches"].passed, (
            "what belongs to the server was looked at all the same"
        )
        assert probes["machine: Java"].passed is not None

    def test_a_clock_that_is_more_than_five_minutes_off(self, place):
        refusal = place.mark("late")
        assert isinstance(refusal, UnsafePlanError)
        says(
            refusal,
            found=r"the clock of the store of s3://late/ns/ is 0:0[56]:\d\d behind this machine's, "
            r"at most 0:05:00",
            next_step="Set the clocks of both",
        )
        assert failed(place.doctor("late")) == ["store: clock"]

    def test_a_namespace_that_may_be_listed_but_not_deleted_in_is_found_out_before_the_sweep(
        self, place
    ):
        bucket = place.s3.buckets["kept"]
        bucket.objects["ns/data/s/x"] = (b"1234", datetime.now(UTC) - timedelta(days=9))
        run = place.open("kept", may_sweep=True, quarantine=False)
        passing_mark(run)
        verdict.conclude(run)
        unasked = replace(run, options=replace(run.options, quarantine=None))
        with pytest.raises(UnsafePlanError, match=r"first sweep of kept.*versioning of bucket"):
            sweep.sweep(unasked)
        with pytest.raises(PermissionDeniedError) as refusal:
            sweep.sweep(run)
        says(
            refusal.value,
            found=r"s3://kept/ns/: deleting under data/ was tried on a name that no object has, "
            r"and the store refuses \(AccessDenied\)",
            next_step=r"Allow s3:DeleteObject for them on s3://kept/ns/data/",
        )
        assert "ns/data/s/x" in bucket.objects
        assert not [key for key in bucket.deleted if "/data/" in key]
        probes = place.doctor("kept", may_sweep=True)
        assert failed(probes) == ["store: delete"]
        assert "Allow s3:DeleteObject" in probes["store: delete"].next_step
        only_marking = place.doctor("kept")
        assert failed(only_marking) == []
        assert only_marking["store: delete"].passed is None
        assert "A mark does without it" in only_marking["store: delete"].found


class TestTheMark:
    """What `lakegc sweep REPOSITORY --run KEY` says of a key that cannot be swept."""

    @pytest.fixture
    def marked(self, tmp_path):
        made = written_run(tmp_path, spark=None)
        made.run = replace(made.run, options=replace(made.run.options, may_sweep=True))
        return made

    def test_a_run_key_without_a_mark(self, marked):
        with pytest.raises(VerdictError) as refusal:
            sweep.sweep(marked.run)
        says(
            refusal.value,
            found=rf"run {marked.run.key} of repo has no verdict \(_lakefs/.*does not exist\)",
            next_step=r"Mark first \(`lakegc mark`\), then sweep",
        )

    def test_a_mark_whose_checks_failed(self, marked):
        passing_mark(marked.run)
        marked.conclude(
            live_objects_are_listed="3 objects that branches reach are not in the store."
        )
        with pytest.raises(VerdictError) as refusal:
            sweep.sweep(marked.run)
        text = str(refusal.value)
        assert f"the mark of run {marked.run.key} of repo did not pass its checks" in text
        assert "live_objects_are_listed: 3 objects that branches reach are not in the store" in text
        says(
            refusal.value,
            found="of repo did not pass",
            next_step=rf"lakegc report repo --run {marked.run.key}.*mark again under",
        )

    def test_a_mark_that_broke_off_before_its_verdict(self, marked):
        passing_mark(marked.run)
        assert not marked.run.store.exists(lakegc_keys.verdict_key(marked.run.key))
        with pytest.raises(VerdictError, match=r"its mark did not end, or its checks were not run"):
            sweep.sweep(marked.run)
