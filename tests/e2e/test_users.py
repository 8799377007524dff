"""tests/e2e/test_users.py - one server, 50 programs of 10 users at once, and beside them clients that mean harm: the programs get
what is theirs, the others are refused, and the server is afterwards what it was before.
"""
import collections
import contextlib
import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import DRIVER, SERVER, SLOW, Server, clean_env, client_env, ended, wait_until
from stranger import JOIN, Refused, Session, call, u32
from test_many import at_rest, unchanged

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="50 contexts and their memory are more than a GPU may have")

USERS = [f"user{i}" for i in range(10)]
EACH = 5
DENIED, BUSY = 2, 4     # ck_hello_status

# Forks clients that hold memory with a pattern of their own. They say when they have it; after a line on stdin they
# look at it again and again.
PROGRAM = """
import ctypes, os, sys
cuda = ctypes.CDLL(None)
SIZE = 1 << 20

def check(result, what):
    if result:
        sys.stderr.write(f"{what}: error {result}\\n")
        os._exit(1)

def client(number, ready, go):
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuInit(0), "init")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "context")
    check(cuda.cuCtxSetCurrent(context), "current")
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(SIZE)), "alloc")
    back = (ctypes.c_ubyte * SIZE)()
    check(cuda.cuMemsetD8_v2(memory, number, ctypes.c_size_t(SIZE)), "set")
    check(cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(SIZE)), "copy")
    os.write(ready, b"r")
    os.read(go, 1)
    for step in range(10):
        if bytes(back) != bytes([(number + step) % 256]) * SIZE:
            sys.stderr.write(f"wrong bytes in step {step}\\n")
            os._exit(1)
        check(cuda.cuMemsetD8_v2(memory, (number + step + 1) % 256, ctypes.c_size_t(SIZE)), "set")
        check(cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(SIZE)), "copy")
    sys.exit(0)

first, count = map(int, sys.argv[1:])
ready, go = os.pipe(), os.pipe()
children = []
for i in range(count):
    children.append(os.fork())
    if children[-1] == 0:
        client(first + i, ready[1], go[0])
os.close(ready[1])
got = b""
while len(got) < count:
    piece = os.read(ready[0], 64)
    if not piece:
        sys.exit("a client has ended early")
    got += piece
print("ready", flush=True)
sys.stdin.readline()
os.write(go[1], b"g" * count)
statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
sys.exit(f"statuses {statuses}" if any(statuses) else 0)
"""


class Abuse(threading.Thread):
    """Does something to the server again and again, until `stop` is set. TRY returns whether the server has refused."""

    def __init__(self, name, attempt, stop):
        super().__init__(name=name, daemon=True)
        self.attempt, self.stopping = attempt, stop
        self.tries, self.refused, self.error = 0, 0, None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.refused += bool(self.attempt())
                self.tries += 1
                time.sleep(0.01)
        except Exception as error:      # pylint: disable=broad-except
            self.error = error


def closed(connection):
    """Whether the server closes a connection without a word of a session."""
    connection.settimeout(60 * SLOW)
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        while connection.recv(4096):
            pass
    connection.close()
    return True


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), 60 * SLOW)


def garbage(server):
    connection = connect(server)
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n" + os.urandom(5000))
    return closed(connection)


def false_token(server):
    try:
        Session(server, token=os.urandom(16), commands=False).end()
    except Refused as refused:
        return refused.args[0] == DENIED
    return False


def false_session(server):
    """Joins a session that there is not."""
    connection = connect(server)
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        connection.sendall(call(JOIN, os.urandom(32) + u32(2)))
    return closed(connection)


def one_more(server, token):
    """Of a user whose limit of sessions is used up."""
    try:
        Session(server, token=token, commands=False).end()
    except Refused as refused:
        return refused.args[0] == BUSY and "--sessions-per-identity" in refused.args[1]
    return False


def silent(server, held):
    """Half a record, and then nothing; in the end 300 of them."""
    for _ in range(15):
        held.append(connect(server))
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            held[-1].sendall(call(JOIN, bytes(36))[:20])
        if len(held) > 300:
            held.popleft().close()
    return True


@pytest.fixture(name="tokens")
def fixture_tokens():
    return {user: f"the secret of {user}" for user in USERS}


@pytest.fixture(name="server")
def fixture_server(tmp_path, tokens):
    file = tmp_path / "tokens"
    file.write_text("".join(f"{user}:{hashlib.blake2b(token.encode(), digest_size=32).hexdigest()}\n"
                            for user, token in tokens.items()), encoding="utf-8")
    server = Server(tmp_path / "server", "--token-file", file, "--sessions-per-identity", str(EACH),
                    CRICKET_LOG_DROP="0")
    yield server
    server.end()


@pytest.fixture(name="begin")
def fixture_begin(server, tokens):
    """begin(): the programs of each user."""
    started = {}

    def begin():
        for i, (user, token) in enumerate(tokens.items()):
            env = client_env(server.address("tcp"), CRICKET_TOKEN=token)
            started[user] = subprocess.Popen([sys.executable, "-c", PROGRAM, str(i * EACH), str(EACH)], env=env, text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             start_new_session=True)
        return started
    yield begin
    for process in started.values():
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.communicate()


def sessions_by_user(server):
    listed = subprocess.run([SERVER, "--unix", server.unix, "--ctl", "sessions"], env=clean_env(), capture_output=True,
                            text=True, timeout=60 * SLOW, check=True)
    return collections.Counter(re.findall(r"\b(user\d)\b", listed.stdout))


@pytest.fixture(name="abuses")
def fixture_abuses(server):
    """What goes on beside the programs, and a function that ends it."""
    stop, held = threading.Event(), collections.deque()
    attempts = {"garbage": lambda: garbage(server), "false tokens": lambda: false_token(server),
                "false sessions": lambda: false_session(server), "silence": lambda: silent(server, held)}
    running = [Abuse(name, attempt, stop) for name, attempt in attempts.items()]

    def end():
        stop.set()
        for abuse in running:
            if abuse.ident:
                abuse.join(60 * SLOW)
        while held:
            held.popleft().close()
    yield running, end
    end()


def test_fifty_programs_of_ten_users_beside_clients_that_mean_harm(server, tokens, abuses, begin):
    Session(server, token=tokens["user0"].encode()).end()   # allocations that happen once have happened after this
    server.wait_idle(20)
    before = at_rest(server)
    running, end = abuses
    for abuse in running:
        abuse.start()
    programs = begin()
    for user, program in programs.items():
        assert program.stdout.readline() == "ready\n", (user, program.stderr.read(), server.log())
    # all at once, each counted for its user, and no more than may be
    server.has_workers(len(USERS) * EACH)
    assert sessions_by_user(server) == {user: EACH for user in USERS}
    assert all(one_more(server, token.encode()) for token in tokens.values())
    for program in programs.values():
        program.stdin.write("go\n")
        program.stdin.flush()
    for user, program in programs.items():
        result = ended(program, 120)
        # A busy machine may take 5 s for an answer.
        err = re.sub(r".*(has not responded for 5 s|responds again).*\n", "", result.err)
        assert (result.status, err) == (0, ""), (user, server.log())
    wait_until(lambda: all(abuse.tries >= 20 or abuse.error for abuse in running), 60 * SLOW, "20 tries of each kind")
    end()
    for abuse in running:
        assert abuse.error is None and abuse.refused == abuse.tries, (abuse.name, abuse.refused, abuse.tries, abuse.error)
    server.wait_idle(20)
    unchanged(before, at_rest(server))
    # the log adds up: one line for the beginning of each session, and of the first one above
    began = collections.Counter(re.findall(r"session of .* for (user\d)$", server.log(), re.M))
    assert began == {user: EACH + (user == "user0") for user in USERS}
    server.stop()
