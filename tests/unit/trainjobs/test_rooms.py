"""Room that Ray would keep for ended trials is given back, once their controllers are really gone."""

from types import SimpleNamespace

import pytest

pytest.importorskip("ray")  # an extra; CI has it and fails on a skip

import ray

from trainjobs.rooms import DYING_SECONDS, Rooms


@pytest.fixture
def given(monkeypatch):
    found = []
    coordinator = SimpleNamespace(cancel_request=SimpleNamespace(remote=found.append))
    monkeypatch.setattr(ray, "get_actor", lambda name, namespace: coordinator)
    return found


def test_an_ended_trial_s_room_is_given_back_once_its_controller_is_gone(given):
    now = [100.0]
    rooms = Rooms(clock=lambda: now[0])
    rooms.ended("one")
    rooms.ended("")  # a try that never came as far
    now[0] += DYING_SECONDS - 0.1
    rooms.ended("two")
    rooms.ended("one")  # told twice, it is no younger
    rooms.tick()
    assert given == []
    now[0] += 0.1
    rooms.tick()
    assert given == ["train-one"]
    rooms.give_back()
    rooms.give_back()
    assert given == ["train-one", "train-two"]


def test_a_ray_without_the_coordinator_keeps_nobody(monkeypatch):
    def none(name, namespace):
        raise ValueError("no such actor")

    monkeypatch.setattr(ray, "get_actor", none)
    rooms = Rooms()
    rooms.ended("one")
    rooms.give_back()
