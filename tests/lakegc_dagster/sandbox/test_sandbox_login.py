"""The log-ins of the sandbox besides a key pair: bearer tokens, and an AWS identity."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from botocore.credentials import ReadOnlyCredentials

from spark_core.lakefs.aws_role import identity_of, signed_question
from tests.support import sandbox_users
from tests.support.sandbox_users import add_user, attach_aws_identity

AWS_KEY = "AKIASANDBOXLOGIN0000"
HOUR = timedelta(hours=1)


def question(**changes):
    """An identity as a client signs it; changed parts are not signed."""
    credentials = ReadOnlyCredentials(AWS_KEY, "aws secret", "aws session token")
    signed = signed_question(
        credentials,
        "eu-central-1",
        "https://sts.eu-central-1.amazonaws.com",
        {"X-LakeFS-Server-ID": "127.0.0.1"},
        timedelta(minutes=1),
    )
    parts = {**json.loads(base64.b64decode(identity_of(signed))), **changes}
    return base64.b64encode(json.dumps(parts).encode()).decode()


def log_in(sdk, token, **body):
    asked = {"identityRequest": {"identity_token": token}, **body}
    return sdk.raw(
        "POST",
        "/auth/external/principal/login",
        body=json.dumps(asked),
        headers={"Authorization": "", "Content-Type": "application/json"},
    )


def version(sdk, token):
    return sdk.raw("GET", "/config/version", headers={"Authorization": f"Bearer {token}"}).status


def test_a_token_is_good_until_it_ends(sandbox, sdk):
    token = sandbox_users.token(sandbox, HOUR)
    sandbox.clock.set(sandbox.clock.now())
    assert version(sdk, token) == 200
    sandbox.clock.advance(HOUR - timedelta(seconds=1))
    assert version(sdk, token) == 200
    sandbox.clock.advance(timedelta(seconds=2))
    assert version(sdk, token) == 401


@pytest.mark.parametrize("damage", [lambda text: f"{text[:-4]}AAAA", lambda text: f"x{text}"])
def test_a_token_that_the_sandbox_did_not_give_is_refused(sandbox, sdk, damage):
    assert version(sdk, damage(sandbox_users.token(sandbox, HOUR))) == 401


def test_the_policy_of_a_user_holds_for_his_token(sandbox, sdk):
    user = add_user(sandbox, "reader", {"statement": []})
    token = sandbox_users.token(sandbox, HOUR, user)
    answer = sdk.raw("GET", "/repositories", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status, "insufficient permissions" in answer.json()["message"]) == (401, True)


def test_an_attached_aws_identity_gets_a_token_with_an_end(sandbox, sdk):
    assert log_in(sdk, question()).status == 404
    attach_aws_identity(sandbox, AWS_KEY)
    sandbox.behaviour.longest_login = 2 * HOUR
    for asked, given in ((1800, 1800), (9_000_000, 7200)):
        answer = log_in(sdk, question(), token_expiration_duration=asked)
        assert answer.status == 200
        left = answer.json()["token_expiration"] - sandbox.clock.now().timestamp()
        assert given - 5 < left <= given
        assert version(sdk, answer.json()["token"]) == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"host": "sts.evil.example"}, 400),
        ({"method": "GET"}, 400),
        ({"action": "AssumeRole"}, 400),
        ({"version": "2010-01-01"}, 400),
        ({"algorithm": "none"}, 400),
        ({"signature": "abc"}, 400),
        ({"signed_headers": ["host"]}, 400),
        ({"security_token": 7}, 400),
        ({"expiration_duration": "soon"}, 400),
        ({"date": "20200101T000000Z"}, 401),
    ],
)
def test_what_is_no_signed_question_to_aws_gets_no_token(sandbox, sdk, changes, status):
    attach_aws_identity(sandbox, AWS_KEY)
    assert log_in(sdk, question(**changes)).status == status
    assert log_in(sdk, "no base64").status == 400
