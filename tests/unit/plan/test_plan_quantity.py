"""Quantities as Kubernetes reads them."""

from decimal import Decimal

import pytest

from trainsweep.plan.quantity import QuantityError, cpus, gpus, is_gpu, parse, text


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        (8, 8),
        ("8", 8),
        ("8000m", 8),
        ("0.5", Decimal("0.5")),
        (".5", Decimal("0.5")),
        ("5.", 5),
        ("64Gi", 64 * 2**30),
        ("64G", 64 * 10**9),
        ("1e9", 10**9),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1k", 1000),
        ("+2", 2),
        ("-1", -1),
        ("65536Mi", 64 * 2**30),
    ],
)
def test_amounts(written, amount):
    assert parse(written) == amount


@pytest.mark.parametrize(
    "written", ["", "x", "1K", "1ki", "1 Gi", "1GB", "1e", "0x10", "1ni", "NaN", "1.2.3", "9" * 50 + "x"]
)
def test_no_quantities(written):
    with pytest.raises(QuantityError, match="no quantity"):
        parse(written)


def test_gpus_as_kuberay_counts_them():
    assert is_gpu("nvidia.com/gpu")
    assert is_gpu("nvidia.com/mig-2g.32gb")
    assert not is_gpu("nvidia.com/gpu.shared")
    assert gpus({"cpu": 4, "amd.com/gpu": 0, "nvidia.com/gpu": 2}) == 2
    assert gpus({"nvidia.com/mig-1g.5gb": "3"}) == 3
    assert gpus({"cpu": 4}) == 0


def test_cpus_are_rounded_up_as_ray_does():
    assert cpus({"cpu": "1500m"}) == 2
    assert cpus({}) == 0


def test_byte_counts_are_written_in_mebibytes_where_exact():
    assert text(2**31) == "2048Mi"
    assert text(10**9) == "1000000000"
