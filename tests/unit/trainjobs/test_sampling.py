"""The sampler's position: disjoint parts, an interrupted epoch that goes on, also at another number of workers."""

import pytest

torch = pytest.importorskip("torch")  # an extra; CI has it and fails on a skip
from torch.utils.data import DataLoader  # noqa: E402  # the path is set above

from trainjobs.sampling import ResumableSampler  # noqa: E402  # the path is set above

DATA = list(range(97))


def sampler(rank=0, world_size=2, **options):
    return ResumableSampler(DATA, rank=rank, world_size=world_size, **options)


def taken(world_size, batch, batches, start=None):
    """What all ranks together take in some batches, in rounds, and the position after them."""
    samplers = [sampler(rank, world_size, seed=3) for rank in range(world_size)]
    for one in samplers:
        if start is not None:
            one.load_state_dict(start)
        one.set_epoch(5)
    loaders = [one.track(DataLoader(DATA, batch_size=batch, sampler=one)) for one in samplers]
    seen = []
    for _ in range(batches):
        for loader in loaders:
            seen += next(loader).tolist()
    for one in samplers:
        one.finish_batch()
    positions = [one.state_dict() for one in samplers]
    assert all(p == positions[0] for p in positions)
    return seen, positions[0]


def test_the_parts_of_an_epoch_are_disjoint_and_equally_long():
    parts = [list(sampler(rank, 4, seed=1)) for rank in range(4)]
    assert {len(p) for p in parts} == {24}
    assert len({i for p in parts for i in p}) == 96
    assert list(sampler(0, 1, shuffle=False)) == DATA


def test_another_epoch_is_another_order_and_the_same_epoch_the_same():
    one = sampler(seed=1)
    one.set_epoch(1)
    first = list(one)
    one.set_epoch(2)
    assert list(one) != first
    one.set_epoch(1)
    assert list(one) == first


@pytest.mark.parametrize("workers_after", [1, 2, 3])
def test_b1_an_interrupted_epoch_goes_on_without_a_sample_twice(workers_after):
    seen, position = taken(2, 8, 3)
    assert (position["epoch"], position["done"]) == (5, 48)
    rest = (97 - 48) // workers_after
    more, _ = taken(workers_after, rest, 1, start=position)
    assert not set(seen) & set(more)
    assert len(set(seen) | set(more)) == 48 + rest * workers_after


def test_the_batch_at_hand_counts_once_it_is_done():
    one = sampler(seed=1)
    one.set_epoch(1)
    for number, _ in enumerate(one.track(DataLoader(DATA, batch_size=8, sampler=one))):
        assert one.done == number * 16
        one.finish_batch()
        assert one.done == min(97, number * 16 + 16)
    one.set_epoch(2)
    assert one.done == 0


def test_going_on_in_mid_epoch_draws_no_random_numbers():
    one = sampler(seed=1)
    one.load_state_dict({"epoch": 1, "done": 16, "size": 97, "seed": 1})
    one.set_epoch(1)
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    next(one.track(DataLoader(DATA, batch_size=8, sampler=one)))
    assert torch.equal(torch.rand(1), expected)


def test_a_position_in_other_data_is_refused():
    with pytest.raises(ValueError, match="belongs to 50 samples with seed 0"):
        sampler().load_state_dict({"epoch": 1, "done": 4, "size": 50, "seed": 0})
    sampler().load_state_dict({"epoch": 1, "done": 0, "size": 50, "seed": 0})


def test_track_needs_its_own_loader():
    with pytest.raises(ValueError, match="made with this sampler"):
        next(sampler().track(DataLoader(DATA, batch_size=8)))
