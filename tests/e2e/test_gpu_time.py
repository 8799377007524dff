"""tests/e2e/test_gpu_time.py - the GPU time of sessions and identities, with --gpu-time."""
import json
import os
import pwd
import signal
import subprocess

import pytest

from conftest import DRIVER, PRODUCTS, Server, children_of, clean_env, name_of, wait_until
from test_control import Asker
from test_exporter import exporter
from test_shares import batches, end, start

USER = f"user {pwd.getpwuid(os.getuid()).pw_name}"

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="needs a server of its own")


@pytest.fixture(name="server")
def measuring_server(tmp_path):
    server = Server(tmp_path / "server", "--gpu-time", "--audit", tmp_path / "audit", CRICKET_EMU=f"usage={tmp_path}/table")
    yield server
    server.end()


def status(server):
    return Asker(server).ask("status")


def gpu_times(server):
    """Of sessions, by their transport's identity."""
    return {s["identity"]: s["gpu_time"] for s in status(server)["sessions"]}


def cricket(server, *words):
    return subprocess.run([PRODUCTS / "cricket", *words, "-s", f"unix:{server.unix}"], env=clean_env(), capture_output=True,
                          text=True, timeout=60, check=True).stdout


def test_sessions_and_identities_have_their_gpu_time(server, tmp_path):
    busy, idle = start(server, "unix", 10), start(server, "tcp", 1, "say('ready')\nsys.stdin.readline()\n")
    wait_until(lambda: gpu_times(server).get(USER, 0) > 0.5, 60, "the busy session has GPU time")
    assert gpu_times(server)["address 127.0.0.1"] == 0
    end(busy, idle)
    server.wait_idle()
    (row,) = [r for r in status(server)["identities"] if r["identity"] == USER]
    assert row["gpu_time"] > 0.5 and row["sessions"] == 1       # although the session has gone
    metrics = cricket(server, "metrics", "--identities")
    assert f'cricket_identity_gpu_seconds_total{{identity="{USER}"}} ' in metrics
    assert 'cricket_identity_sessions_total{identity="address 127.0.0.1"} 1\n' in metrics
    ends = [e for e in map(json.loads, (tmp_path / "audit").read_text().splitlines()) if e["event"] == "session-end"]
    assert [e["identity"] for e in ends if e.get("gpu_seconds", 0) > 0.5] == [USER]


@pytest.mark.parametrize("terms", ["weight = 3", "priority = 10", "memory_overcommit = true"])
def test_audit_status_and_metrics_agree_however_sessions_share(tmp_path, terms):
    """Two sessions that work at the same time. A busy session that leaves the GPU in between keeps its time."""
    (tmp_path / "policy").write_text(f'identities: ( {{ user = "{USER[5:]}"; {terms}; }}, {{ address = "127.0.0.1"; }} );')
    server = Server(tmp_path / "server", "--gpu-time", "--audit", tmp_path / "audit", "--policy", tmp_path / "policy",
                    CRICKET_EMU=f"threads=1,shared,usage={tmp_path}/table")
    try:
        busy = start(server, "unix", 10), start(server, "tcp", 10)
        wait_until(lambda: min(gpu_times(server).values()) > 0.3, 120, "both have GPU time")
        before = gpu_times(server)
        assert Asker(server).ask("park", session="s1", until="use")["ok"]
        wait_until(lambda: all(now > before[who] for who, now in gpu_times(server).items()), 120, "both go on")
        end(*busy)

        def ends():
            return [e for e in map(json.loads, (tmp_path / "audit").read_text().splitlines()) if e["event"] == "session-end"]
        wait_until(lambda: len(ends()) == 2, 30, "both have ended")
        rows = {r["identity"]: r["gpu_time"] for r in status(server)["identities"]}
        metrics = cricket(server, "metrics", "--identities")
        for e in ends():
            (line,) = [x for x in metrics.splitlines() if x.startswith(f'cricket_identity_gpu_seconds_total{{identity="{e["identity"]}"}}')]
            assert before[e["identity"]] <= e["gpu_seconds"] <= e["seconds"], e
            assert abs(rows[e["identity"]] - e["gpu_seconds"]) < 0.01 and abs(float(line.split()[-1]) - e["gpu_seconds"]) < 0.01
    finally:
        server.end()


def test_nvml_tells_the_share_of_each_session(server, tmp_path):
    """As for the exporter, which asks again and again."""
    busy = start(server, "unix", 10)
    home = clean_env(XDG_CONFIG_HOME=str(tmp_path), CRICKET_EMU=f"usage={tmp_path}/table")

    def has_share():
        sessions = json.loads(one.get("/status.json")[2])["sessions"]
        return any(0.05 < g.get("share", 0) <= 1 for s in sessions for g in s.get("gpus", []))
    with exporter(home, f"unix:{server.unix}") as one:
        wait_until(has_share, 30, "the session has a share")
    end(busy)


def test_the_server_goes_on_without_the_process_that_measures(server):
    def gauges():
        return [p for p in children_of(server.process.pid) if name_of(p) == "cricket-gauge"]
    wait_until(gauges, 10, "it is there")
    (gauge,) = gauges()
    os.kill(gauge, signal.SIGKILL)
    wait_until(lambda: gauge not in children_of(server.process.pid), 10, "it has gone")
    busy = start(server, "unix", 1)
    before = batches(busy)
    wait_until(lambda: batches(busy) > before, 30, "the session goes on")
    assert gpu_times(server) == {USER: 0}
    end(busy)


def test_nothing_is_measured_without_the_option(own_server):
    busy = start(own_server, "unix", 1)
    assert "cricket-gauge" not in map(name_of, children_of(own_server.process.pid))
    (session,) = status(own_server)["sessions"]
    assert "gpu_time" not in session
    assert all("gpu_time" not in r for r in status(own_server)["identities"])
    end(busy)
