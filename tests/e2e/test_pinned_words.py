"""tests/e2e/test_pinned_words.py - pinned memory that kernels use, with the server on another host: what a step of a
serving loop costs. That the bytes are right is in test_apps.py, with the same program."""
import re

import pytest

from conftest import client_env, run


def round_trips(server, app, steps, way, transport="tcp", size=65536):
    """The round trips of a run of the loop with 6 buffers, and the bytes that it received."""
    result = run([app("pinned_words"), str(steps), "6", str(size), way],
                 client_env(server.address(transport), CRICKET_STATS="1"))
    assert (result.status, result.out) == (0, f"{way}, 6 buffers: 0 wrong\n"), result.err
    trips, = re.findall(r"(\d+) round trips", result.err)
    received, = re.findall(r"(\d+) received", result.err)
    return int(trips), int(received)


@pytest.mark.parametrize("way", ["read", "write", "copy"])
def test_a_step_takes_one_round_trip_and_few_bytes(server, app, way):
    few, many = (round_trips(server, app, steps, way) for steps in (100, 400))
    assert many[0] - few[0] <= 300 + 10
    assert many[1] - few[1] <= 300 * 600  # the reply, 128 bytes of the program, a word of each buffer


def test_more_than_a_session_may_shadow_works_too(server, app):
    assert round_trips(server, app, 10, "write", size=1 << 20)[0] > 0


def test_a_shared_buffer_takes_no_more_than_before(server, app):
    few, many = (round_trips(server, app, steps, "write", "shm") for steps in (100, 400))
    assert many[0] - few[0] <= 300 + 10
