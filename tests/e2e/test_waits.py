"""tests/e2e/test_waits.py - no wait succeeds, and no function runs, over bytes that have not come.

A program (test_apps/waits.c) learns in one of many ways that bytes are there, and looks at them, until a connection
is cut or its worker is killed at a random point. CRICKET_TEST_TRIALS says how often, CRICKET_TEST_SEED with which numbers.
"""
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import pytest

from conftest import HANG, KIND, Server, client_env, ended, name_of, start
from cutter import Cutter

TRIALS = int(os.environ.get("CRICKET_TEST_TRIALS", "500"))
SEED = os.environ.get("CRICKET_TEST_SEED", "1")
AT_A_TIME = 4
SECONDS = 3     # of a program to which nothing happens
LIE, ERROR = 3, 4
SIGBUS = 128 + signal.SIGBUS
TOUCHES = ("managed", "mapped")     # what has no return code: the touch is the wait


class Trial:
    """What is to happen, all of it out of the seed and the number."""

    def __init__(self, number, ways):
        r = random.Random(f"{SEED}-{number}")
        self.way = ways[number % len(ways)]
        self.words = 64 << r.randrange(14)
        self.how = r.choice(("rst", "fin", "rst", "fin", "kill"))
        self.transport = "tcp" if self.how != "kill" else r.choice(("tcp", "unix", "shm"))
        self.after = int(10 ** r.uniform(3.7, 6.5))     # bytes
        self.delay = r.uniform(0.02, 0.25)              # seconds
        self.name = (f"CRICKET_TEST_SEED={SEED}, trial {number}: {self.way} of {self.words} words over {self.transport}, "
                     + (f"killed after {self.delay:.3f} s" if self.how == "kill" else f"{self.how} after {self.after} bytes"))

    def run(self, server, app):
        """How the program ended, with what it said."""
        cutter = None if self.how == "kill" else Cutter(server.port, self.how, self.after)
        address = cutter.address if cutter else server.address(self.transport)
        old, new = workers_of(server), []
        client = start([app, self.way, self.words, SECONDS], client_env(address, CRICKET_CONNECTIONS="2", CRICKET_RESUME="0"))
        if self.how == "kill":
            while client.poll() is None and not new:
                time.sleep(0.001)
                new = [pid for pid in workers_of(server) if pid not in old]
            time.sleep(self.delay)
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            out, err = client.communicate(timeout=HANG)
        except subprocess.TimeoutExpired:
            client.kill()
            out, err = client.communicate()
            return "hang", out + err
        finally:
            if cutter:
                cutter.stop()
        status = client.returncode if client.returncode >= 0 else 128 - client.returncode
        return status, out + err

    def judge(self, status, said):
        """Why this must not be; None: it is as it should be."""
        if status in (0, ERROR) or (status == SIGBUS and self.way in TOUCHES):
            return None
        return f"{self.name}: {'LIE' if status == LIE else status}\n{said}"


def workers_of(server):
    """The one that has a client; fast, since it is done often."""
    children = (int(pid) for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
                for pid in (task / "children").read_text().split())
    return [pid for pid in children if name_of(pid) == "cricket-worker"]


@pytest.mark.slow
@pytest.mark.skipif(KIND != "", reason="time is what it needs most")
def test_no_wait_succeeds_over_bytes_that_have_not_come(app, tmp_path):
    program = app("waits")
    ways = ended(start([program, "--list"], client_env(None)), 10).out.split()
    numbers = iter(range(TRIALS))
    wrong, codes, lock = [], [], threading.Lock()

    def work(server):
        for number in iter(lambda: next(numbers, None), None):
            trial = Trial(number, ways)
            status, said = trial.run(server, program)
            with lock:
                codes.append(status)
                wrong.extend(filter(None, [trial.judge(status, said)]))

    servers = [Server(tmp_path / str(i)) for i in range(AT_A_TIME)]
    try:
        threads = [threading.Thread(target=work, args=(s,)) for s in servers]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong, f"{len(wrong)} of {TRIALS}\n" + "\n".join(wrong[:20])
        assert len(codes) == TRIALS
        # it is no test unless something happens to nearly all of them
        assert codes.count(ERROR) + codes.count(SIGBUS) > 0.8 * TRIALS, {c: codes.count(c) for c in set(codes)}
    finally:
        for s in servers:
            s.kill()
