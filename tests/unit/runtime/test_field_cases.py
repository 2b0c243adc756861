"""Cases from the field on verification and storage, as the operator meets them; the driver's part is beside the driver."""

from __future__ import annotations

import random
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.unit.runtime.faults import answer
from tests.unit.runtime.runs import HASH, Run, target
from tests.unit.runtime.stub_s3 import PREFIX, StubS3, refusal
from trainsweep.api.workload import Require
from trainsweep.contract.layout import StorageURIError, parse_uri, within
from trainsweep.core.model import Proof, Settlement
from trainsweep.runtime.documents_reader import receipt_key
from trainsweep.runtime.inventory import look
from trainsweep.runtime.verify import in_thread

BEST = f"train/t2-{HASH}/checkpoint_1"


async def no_sleep(_: float) -> None:
    return None


def stub_run(client: StubS3) -> Run:
    run = Run(client.store(), client.put, lambda key: client.objects.pop(f"{PREFIX}/{key}"))
    run.trial(1, [0.5, 0.7])
    run.trial(2, [0.9, 0.8])
    return run


async def see(run: Run, digest: str = "", **options: Any) -> Settlement:
    wanted = options.pop("target", target())
    return await look(run.store, wanted, digest=digest, run=in_thread, sleep=no_sleep, apart=0, **options)


async def test_a5_refused_connections_are_transient_and_nothing_is_called_missing() -> None:
    client = StubS3()
    run = stub_run(client)
    digest = run.settle(run.receipt())
    client.refuse = EndpointConnectionError(endpoint_url="https://s3")  # type: ignore[assignment]  # a fault is put in
    found = await see(run, digest, inventory=True)
    assert (found.proof, found.denied, found.missing) == (Proof.UNKNOWN, False, ())
    client.refuse = None
    assert (await see(run, digest)).proof is Proof.PERSISTED


async def test_b1_the_shards_of_the_size_that_wrote_them_are_counted() -> None:
    client = StubS3()
    run = stub_run(client)
    key = f"{BEST}/trainsweep-manifest.json"
    text = client.objects[f"{PREFIX}/{key}"].replace(b'"step"', b'"worldSize": 4, "step"')
    client.put(key, text)
    for rank in (1, 2):
        client.put(f"{BEST}/trainsweep-manifest-rank{rank}.json", text)
    found = await see(run, inventory=True)
    assert found.proof is Proof.MISSING
    assert [(m.file, m.problem) for m in found.missing] == [("trainsweep-manifest-rank3.json", "Absent")]


async def test_b1_a_receipt_that_forgets_a_rank_is_no_receipt() -> None:
    client = StubS3()
    run = stub_run(client)
    manifest = run.files[BEST]["trainsweep-manifest.json"].replace(b'"step"', b'"worldSize": 2, "step"')
    run.files[BEST]["trainsweep-manifest.json"] = manifest
    client.put(f"{BEST}/trainsweep-manifest.json", manifest)
    found = await see(run, run.settle(run.receipt()))
    assert (found.proof, "rank1" in found.message) == (Proof.INVALID, True)


async def test_b3_a_file_that_was_never_uploaded_is_missing_by_its_name() -> None:
    client = StubS3()
    run = stub_run(client)
    digest = run.settle(run.receipt())
    run.delete(f"{BEST}/state/rank0.pt")
    found = await see(run, digest)
    assert (found.proof, [m.file for m in found.missing]) == (Proof.MISSING, ["state/rank0.pt"])


async def test_b3_a_checkpoint_outside_of_the_run_is_never_verified() -> None:
    client = StubS3()
    run = stub_run(client)
    snapshot = f"{PREFIX}/train/t2-{HASH}/checkpoint_manager_snapshot.json"
    client.objects[snapshot] = client.objects[snapshot].replace(b'"checkpoint_1"', b'"../../../other/checkpoint_1"')
    found = await see(run, inventory=True)
    assert found.proof is not Proof.PERSISTED or BEST not in (found.best.checkpoint if found.best else "")
    assert all(key.startswith(PREFIX) for _, key in client.requests)


async def test_b4_credentials_that_were_renewed_meanwhile_end_the_trouble() -> None:
    client = StubS3()
    run = stub_run(client)
    digest = run.settle(run.receipt())
    client.refuse = refusal("ExpiredToken", 400)
    found = await see(run, digest)
    assert (found.proof, found.denied, "expired" in found.message) == (Proof.UNKNOWN, False, True)
    client.refuse = None
    assert (await see(run, digest)).proof is Proof.PERSISTED


@pytest.mark.parametrize("uri", ["s3://b", "s3://b/", "s3://b/p", "s3://b/p/", "S3://b/p", "s3://b//p", "s3://b/p//"])
def test_f1_an_uri_has_one_normal_form(uri: str) -> None:
    found = parse_uri(uri)
    assert found.uri in ("s3://b", "s3://b/p")
    assert parse_uri(found.uri) == found
    assert "//" not in found.key("train/x")


@pytest.mark.parametrize("uri", ["s3a://b/p", "s3://b/p?x=1", "s3://b/../p", "s3://b/p//q", "s3://"])
def test_f1_what_has_none_is_refused(uri: str) -> None:
    with pytest.raises(StorageURIError):
        parse_uri(uri)


async def test_f1_nothing_of_a_sibling_is_counted() -> None:
    client = StubS3()
    run = stub_run(client)
    for key in (f"{BEST}x/model.pt", f"train/t2-{HASH}x/checkpoint_1/model.pt", f"../digits-2/{BEST}/model.pt"):
        client.objects[f"{PREFIX}/{key}"] = b"a stranger's"
    found = await see(run, inventory=True)
    assert (found.proof, found.verified, found.files) == (Proof.PERSISTED, 1, 2)
    run.delete(f"{BEST}/model.pt")
    assert (await see(run, inventory=True)).proof is Proof.MISSING


async def test_f2_a_bare_403_is_unknown_and_names_requester_pays(s3_run: Run) -> None:
    s3_run.trial(1, [0.5])
    digest = s3_run.settle(s3_run.receipt())
    answer(s3_run.store, 403)
    found = await see(s3_run, digest, inventory=True)
    assert (found.proof, found.denied, found.missing) == (Proof.UNKNOWN, True, ())
    assert "Requester Pays" in found.message


def test_f4_an_alias_is_a_bucket_like_any_other_and_an_arn_is_refused_with_advice() -> None:
    alias = parse_uri("s3://my-ap-abc123-s3alias/x")
    assert (alias.bucket, alias.uri) == ("my-ap-abc123-s3alias", "s3://my-ap-abc123-s3alias/x")
    assert within("s3://my-ap-abc123-s3alias/x/y", "s3://my-ap-abc123-s3alias/x")
    with pytest.raises(StorageURIError, match="alias"):
        parse_uri("s3://arn:aws:s3:eu-west-1:111122223333:accesspoint/my-ap/x")


async def test_f6_what_retention_deleted_is_not_missing_and_a_marker_is_explained() -> None:
    client = StubS3()
    run = stub_run(client)
    digest = run.settle(run.receipt())
    for name in ("model.pt", "state/rank0.pt", "trainsweep-manifest.json"):
        run.delete(f"train/t1-{HASH}/checkpoint_1/{name}")
    assert (await see(run, digest)).proof is Proof.PERSISTED
    run.delete(f"{BEST}/model.pt")
    key = f"{PREFIX}/{BEST}/model.pt"
    client.list_object_versions = lambda **_: {  # type: ignore[method-assign]  # a fault is put in
        "DeleteMarkers": [{"Key": key, "IsLatest": True, "VersionId": "m1"}],
        "Versions": [{"Key": f"{key}-other", "VersionId": "v0"}, {"Key": key, "VersionId": "v1"}],
    }
    found = await see(run, digest)
    assert (found.proof, "version v1" in found.advice) == (Proof.MISSING, True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("inventory", [False, True])
async def test_f8_no_order_of_keys_matters(seed: int, inventory: bool) -> None:
    client = StubS3(shuffle=random.Random(seed), page=50)  # noqa: S311  # an order, no secret
    run = stub_run(client)
    for number in range(300):
        run.put(f"{BEST}/stray/{number:04}", b"x")
    for number in range(2, 60):
        run.put(f"attempts/1-0b0e6c1e/receipt-{number}.json", b"{}")
    assert receipt_key(run.store, "1-0b0e6c1e").endswith("receipt-59.json")
    for number in range(2, 60):
        run.delete(f"attempts/1-0b0e6c1e/receipt-{number}.json")
    digest = "" if inventory else run.settle(run.receipt(Require.ALL_SUCCEEDED))
    found = await see(run, digest, inventory=inventory, target=target(Require.ALL_SUCCEEDED))
    assert (found.proof, found.verified, found.message) == (Proof.PERSISTED, 2, "")


async def test_f9_a_bucket_elsewhere_is_named_with_its_region() -> None:
    client = StubS3()
    run = stub_run(client)
    client.refuse = refusal("PermanentRedirect", 301, **{"x-amz-bucket-region": "eu-west-1"})
    found = await see(run, "0" * 64)
    assert (found.proof, found.denied) == (Proof.UNKNOWN, True)
    assert "eu-west-1" in found.message
    assert "storage.region" in found.message


async def test_an_archived_checkpoint_is_unknown_with_its_cure_at_every_depth() -> None:
    from trainsweep.api.workload import Depth

    client = StubS3()
    run = stub_run(client)
    digest = run.settle(run.receipt())
    client.told[f"{PREFIX}/{BEST}/model.pt"] = {"StorageClass": "DEEP_ARCHIVE"}
    for depth in Depth:
        found = await see(run, digest, target=target(depth=depth))
        assert (found.proof, found.denied, "restore it" in found.message) == (Proof.UNKNOWN, True, True), depth
    client.told[f"{PREFIX}/{BEST}/model.pt"]["Restore"] = 'ongoing-request="false"'
    for depth in Depth:
        assert (await see(run, digest, target=target(depth=depth))).proof is Proof.PERSISTED


async def test_a_file_that_a_rule_removed_is_missing_with_the_rules_name() -> None:
    client = StubS3(
        rules=[{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "team/"}, "Expiration": {"Days": 7}}]
    )
    run = stub_run(client)
    digest = run.settle(run.receipt())
    run.delete(f"{BEST}/model.pt")
    found = await see(run, digest)
    assert (found.proof, "'old'" in found.advice) == (Proof.MISSING, True)


async def test_a_proof_that_a_rule_will_undo_says_so() -> None:
    client = StubS3()
    run = stub_run(client)
    digest = run.settle(run.receipt())
    client.told[f"{PREFIX}/{BEST}/model.pt"] = {"Expiration": 'expiry-date="x", rule-id="old"'}
    found = await see(run, digest)
    assert (found.proof, 'rule-id="old"' in found.advice) == (Proof.PERSISTED, True)
