"""Runs whose log-in ends on the way: they go on with a new one, or say what is wrong."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.populate import populate
from spark_core.doctor import Examination, examine
from spark_core.errors import PermissionDeniedError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.lakefs.aws_role import TokenOfAwsRole
from spark_core.lakefs.tokens import Token, TokenInFile
from spark_core.run import RunOptions, Storage
from spark_core.storage import StoreOptions
from tests.support import sandbox_users
from tests.support.clock import FakeClock
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_runs import open_sandbox_run
from tests.support.sandbox_users import attach_aws_identity

NOW = datetime(2026, 11, 20, 2, tzinfo=UTC)
AWS_KEY = "AKIAMARKSANDSWEEPS00"
HOUR = timedelta(hours=1)


class GivenTokens:
    """A token of the sandbox, of one hour, each time that one is asked for."""

    called = "the token of this test"
    is_cheap = False

    def __init__(self, sandbox):
        self.sandbox, self.given = sandbox, []

    def read(self, _log_in):
        self.given.append(sandbox_users.token(self.sandbox, HOUR))
        # Without its end: that it has ended shows only in the server's answer.
        return Token(self.given[-1])


@pytest.fixture
def run(sandbox, spark):
    """A run over a repository with garbage; `source` says where its tokens come from."""

    def opened(source):
        populate(sandbox, "repo", now=NOW, objects=60, commits=6, branches=3, garbage=20, staged=5)
        sandbox.clock.set(NOW + timedelta(seconds=1))
        found = open_sandbox_run(sandbox, "repo", spark, NOW, max_expired_share=1)
        options = ServerOptions(sandbox.endpoint, token=source)
        server = LakeFSServer(options, clock=found.environment.clock)
        return replace(found, environment=replace(found.environment, server=server))

    return opened


def end_tokens_after_each(sandbox, calls):
    """Let an hour pass by the server's clock after so many calls."""
    seen = []

    def observe(name):
        seen.append(name)
        if name != "external_principal_login" and len(seen) % calls == 0:
            sandbox.clock.advance(HOUR)

    sandbox.observe(observe)
    return seen


@pytest.mark.spark
def test_a_mark_and_a_sweep_go_on_when_their_token_ends_in_the_middle(sandbox, run):
    source = GivenTokens(sandbox)
    opened = run(source)
    seen = end_tokens_after_each(sandbox, 4)
    marked, verdict, _ = mark_and_conclude(opened)
    assert verdict.passed
    of_mark = len(source.given)
    assert of_mark > 2, f"the token did not end within {len(seen)} calls"
    outcomes = sweep_only(opened)
    assert len(source.given) > of_mark
    assert set(outcomes.values()) == {"deleted"}
    assert sorted(outcomes) == marked.addresses(opened)
    assert len(outcomes) >= 20


@pytest.mark.slow
@pytest.mark.spark
def test_a_mark_logs_in_again_as_its_aws_identity_when_the_log_in_has_ended(
    sandbox, run, monkeypatch, tmp_path
):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", AWS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws secret of the role")
    attach_aws_identity(sandbox, AWS_KEY)
    opened = run(TokenOfAwsRole.at(sandbox.endpoint, life=timedelta(minutes=30)))
    end_tokens_after_each(sandbox, 7)
    _, verdict, _ = mark_and_conclude(opened)
    assert verdict.passed
    assert sandbox.requests["external_principal_login"] > 2


def _damaged(sandbox):
    return f"{sandbox_users.token(sandbox, HOUR)[:-6]}AAAAAA"


def _ended(sandbox):
    with sandbox.clock.at(NOW - 2 * HOUR):
        return sandbox_users.token(sandbox, HOUR)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("token", "said"), [(_damaged, ""), (_ended, "which says that it ended at 2026-11-20 01:00:00")]
)
def test_a_wrong_token_is_refused_with_what_to_do_and_without_the_token(
    sandbox, run, tmp_path, token, said
):
    file = tmp_path / "token"
    opened = run(TokenInFile(str(file)))
    file.write_text(token(sandbox))
    with pytest.raises(PermissionDeniedError, match="error authenticating request") as refused:
        mark_and_conclude(opened)
    text = str(refused.value)
    assert f"Check the token in {file}" in text
    assert said in text
    assert file.read_text() not in text

    server = ServerOptions(sandbox.endpoint, token=TokenInFile(str(file)))
    storage = Storage(StoreOptions(local_path=str(sandbox.blockstore)))
    examination = Examination("repo", lambda: server, storage, RunOptions(), clock=FakeClock(NOW))
    found = {(each.about, each.name): each for each in examine(examination)}
    assert f"found: the token in {file}, for http" in found["server", "keys"].found
    told = found["server", "takes the keys"].next_step
    assert f"so it is the token in {file}: it has to be one of this server" in told


def test_no_token_of_the_sandbox_says_more_than_it_must(sandbox):
    claims = sandbox_users.token(sandbox, HOUR).split(".")[1]
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert decoded.keys() == {"aud", "exp", "iat", "jti", "sub"}
