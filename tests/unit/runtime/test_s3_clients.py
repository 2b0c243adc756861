"""The class's role: assumed once with the namespace as tag, renewed before it ends, and named where it is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from tests.unit.runtime.runs import ATTEMPT, SWEEP
from trainsweep.api.workload import Depth, Require
from trainsweep.contract.layout import Location
from trainsweep.core.model import Proof
from trainsweep.runtime import s3_clients
from trainsweep.runtime.inventory import look
from trainsweep.runtime.s3_clients import NAMESPACE_TAG, Role, client_for, credentials_of
from trainsweep.runtime.store_s3 import open_store
from trainsweep.runtime.verify import Target, in_thread

ROLE = Role("arn:aws:iam::111122223333:role/trainsweep-read", "team-a")
ASKED: dict[str, Any] = {
    "RoleArn": ROLE.arn,
    "RoleSessionName": "trainsweep-team-a",
    "DurationSeconds": 3600,
    "Tags": [{"Key": NAMESPACE_TAG, "Value": "team-a"}],
}


def answer(number: int, seconds: float = 3600) -> dict[str, Any]:
    ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    return {
        "Credentials": {
            "AccessKeyId": f"ASIA{number:016d}",
            "SecretAccessKey": "secret",
            "SessionToken": f"token-{number}",
            "Expiration": ends,
        }
    }


@pytest.fixture
def sts() -> Any:
    return boto3.client(
        "sts", region_name="eu-west-1", aws_access_key_id="own", aws_secret_access_key="own", aws_session_token="own"
    )


def test_the_role_is_assumed_once_with_the_namespace_as_tag(sts: Any) -> None:
    with Stubber(sts) as stub:
        stub.add_response("assume_role", answer(1), ASKED)
        held = credentials_of(ROLE, lambda: sts)
        assert {held.get_frozen_credentials().token for _ in range(3)} == {"token-1"}
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(("left", "renewed"), [(3600, False), (16 * 60, False), (14 * 60, True), (5 * 60, True)])
def test_credentials_are_renewed_well_before_they_end(sts: Any, left: float, renewed: bool) -> None:
    with Stubber(sts) as stub:
        stub.add_response("assume_role", answer(1, left), ASKED)
        stub.add_response("assume_role", answer(2), ASKED)
        held = credentials_of(ROLE, lambda: sts)
        assert held.get_frozen_credentials().token == "token-1"
        assert held.get_frozen_credentials().token == ("token-2" if renewed else "token-1")


def test_a_renewal_that_fails_early_is_tried_again_and_harms_nobody(sts: Any) -> None:
    with Stubber(sts) as stub:
        stub.add_response("assume_role", answer(1, 14 * 60), ASKED)
        stub.add_client_error("assume_role", "Throttling", "later", 400)
        stub.add_response("assume_role", answer(2), ASKED)
        held = credentials_of(ROLE, lambda: sts)
        assert [held.get_frozen_credentials().token for _ in range(3)] == ["token-1", "token-1", "token-2"]


@pytest.mark.parametrize(
    ("code", "status", "denied", "cure"),
    [("AccessDenied", 403, True, "sts:TagSession"), ("InternalFailure", 500, False, "asked again")],
)
async def test_a_role_that_cannot_be_assumed_is_unknown_with_its_cure(
    sts: Any, monkeypatch: pytest.MonkeyPatch, code: str, status: int, denied: bool, cure: str
) -> None:
    monkeypatch.setattr(s3_clients, "_sts", lambda _: sts)
    s3_clients._make_client.cache_clear()
    with Stubber(sts) as stub:
        for _ in range(20):
            stub.add_client_error("assume_role", code, "not authorized to perform: sts:AssumeRole", status)
        store = open_store(Location("s3", "bucket", "p"), "eu-west-1", "http://127.0.0.1:9", ROLE)
        target = Target(SWEEP, ATTEMPT, "acc", "Maximize", Require.BEST_TRIAL, Depth.CHECKSUMS)
        found = await look(store, target, run=in_thread)
    assert (found.proof, found.denied, cure in found.message) == (Proof.UNKNOWN, denied, True)
    s3_clients._make_client.cache_clear()


def test_clients_are_shared_by_role_and_namespace_and_never_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_clients, "_sts", lambda _: None)
    other = Role(ROLE.arn, "team-b")
    made = [client_for("eu-west-1", "", role) for role in (ROLE, Role(ROLE.arn, "team-a"), other)]
    assert made[0] is made[1]
    assert made[0] is not made[2]


def test_a_long_namespace_gives_a_valid_session_name(sts: Any) -> None:
    role = Role(ROLE.arn, "n" * 63)
    wanted = {**ASKED, "RoleSessionName": f"trainsweep-{'n' * 53}", "Tags": [{"Key": NAMESPACE_TAG, "Value": "n" * 63}]}
    with Stubber(sts) as stub:
        stub.add_response("assume_role", answer(1), wanted)
        assert credentials_of(role, lambda: sts).get_frozen_credentials().token == "token-1"
