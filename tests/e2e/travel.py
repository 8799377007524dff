"""tests/e2e/travel.py - programs whose sessions leave their server, and servers that can take them; fixtures for tests of both.

Each program's result depends on every step that it made, so one that was lost, or made twice, would change it.
"""
import pathlib
import subprocess
import sys
import threading

import pytest

from conftest import HANG, SERVER, SLOW, Server, clean_env, client_env, listens, run, wait_until
from criu import criu

PROGRAM = [sys.executable, pathlib.Path(__file__).parent / "checkpoint_program.py"]
STEPS = 400


class Program:
    """A running checkpoint_program.py, and how far it has come."""

    def __init__(self, address, steps=STEPS, **env):
        self.process = subprocess.Popen([*map(str, PROGRAM), str(steps)], env=client_env(address, **env), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.steps, self.most, self.result, self.errors = 0, steps - 10, None, ""      # most: before it waits for end()
        self.readers = [threading.Thread(target=self.read, daemon=True),
                        threading.Thread(target=self.read_errors, daemon=True)]
        for reader in self.readers:
            reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("step "):
                self.steps = int(line.split()[1]) + 1
            elif line.startswith("result "):
                self.result = line

    def read_errors(self):
        self.errors = self.process.stderr.read()

    def go_on(self, steps=10):
        """Waits until it has made so many more steps, or all that it makes before end()."""
        goal = min(self.steps + steps, self.most)
        wait_until(lambda: self.steps >= goal or self.process.poll() is not None, 60, f"step {goal}")

    def end(self):
        """Lets it make its last steps."""
        self.process.stdin.close()
        status = self.process.wait(120 * SLOW)
        for reader in self.readers:
            reader.join(HANG)
        return status

    def kill(self):
        self.process.kill()
        self.end()


@pytest.fixture(name="start_program")
def programs_that_end_with_the_test():
    programs = []

    def start(*arguments, **env):
        programs.append(Program(*arguments, **env))
        return programs[-1]
    yield start
    for program in programs:
        program.kill()


@pytest.fixture(name="servers")
def servers_with_criu(tmp_path):
    """servers(NAME, OPTION...): a server that can write checkpoints."""
    started = []

    def start(name, *options, program=None, **env):
        started.append(Server(tmp_path / name, "--criu", program or criu(), *options, **env))
        return started[-1]
    yield start
    for server in started:
        server.end()


@pytest.fixture(name="expected", scope="module")
def result_without_a_checkpoint(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("plain"))
    try:
        done = run([*PROGRAM, STEPS], client_env(server.address("tcp")))
        assert done.status == 0, done.err
        return done.out.splitlines()[-1] + "\n"
    finally:
        server.stop()


def ctl(server, *words):
    """A command at the server's control socket, which is there a moment after the server answers."""
    wait_until(lambda: listens(f"{server.unix}.ctl"), 10, "the control socket is there")
    return subprocess.run([SERVER, "--unix", server.unix, "--ctl", *map(str, words)], env=clean_env(),
                          capture_output=True, text=True, timeout=120 * SLOW)


def session_of(server):
    lines = ctl(server, "sessions").stdout.splitlines()[1:]
    return lines[0].split()[0] if lines else None
