"""tests/e2e/test_policy.py - the policy file: what each identity may have, and quotas of GPU memory."""
import os
import pwd
import signal
import subprocess

import pytest

from conftest import DRIVER, HANG, PRODUCTS, ROOT, SERVER, TRANSPORTS, Server, clean_env, client_env, listens, run, wait_until, with_words
from ports import free_port
from stranger import Refused, Session
from test_arena import begin, python
from test_control import Asker, ctl
from test_refusals import new_token
from tls import Authority

MIB = 1 << 20
USER = pwd.getpwuid(os.getuid()).pw_name
BUSY = 4
M3 = PRODUCTS / "libm3.so"

# Two ways to fill what there is, by chunks of 2 MiB; the second without the client's arena.
MORE = """
def total():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return total.value
def line():
    return sys.stdin.readline().strip()
MIB = 1 << 20
"""

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="needs a GPU of known size")


@pytest.fixture
def serve(tmp_path):
    """Starts a server with a policy, on a GPU of 256 MiB that all sessions share."""
    servers = []

    def go(policy, *options, **env):
        path = tmp_path / "policy"
        path.write_text(policy)
        servers.append(Server(tmp_path / "server", "--policy", path, *options,
                              **with_words(env, "CRICKET_EMU", f"memory={256 * MIB},shared,usage={tmp_path}/table")))
        return servers[-1]
    yield go
    for s in servers:
        s.end()


def program(server, code, transport="unix", **env):
    return python(MORE + code, client_env(server.address(transport), **env))


def talk(server, code, transport="unix", **env):
    return begin(MORE + code, client_env(server.address(transport), **env))


FILLED = """
current()
assert total() == 64 * MIB, total()
bytes = ctypes.c_size_t()
check(cuda.cuDeviceTotalMem_v2(ctypes.byref(bytes), 0))
assert bytes.value == 64 * MIB
assert left() == 64 * MIB, left()
for _ in range(3):
    got = fill()
    assert len(got) == 32 and left() == 0, (len(got), left())
    for p in got:
        free(p)
assert alloc(65 * MIB) is None
p = alloc(64 * MIB)
assert p and alloc(1) is None
free(p)
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("memory, arena, warm", [("64M", "1", "0"), ("25%", "1", "0"), ("64M", "0", "0"), ("64M", "1", "1")])
def test_an_identity_gets_exactly_its_quota(serve, transport, memory, arena, warm):
    server = serve(f'default: {{ memory = "{memory}"; }};', "--warm", warm)
    if warm == "1":
        wait_until(server.spares, 20, "a spare worker")
    result = program(server, FILLED, transport, CRICKET_DEBUG=f"arena={arena}")
    assert result.status == 0, result.err


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("policy, arena, warm", [("", "1", "0"), ("", "0", "0"), ("", "1", "1"), ('default: { memory = "100M"; };', "1", "0")])
def test_a_program_can_ask_for_less(serve, transport, policy, arena, warm):
    server = serve(policy, "--warm", warm)
    if warm == "1":
        wait_until(server.spares, 20, "a spare worker")
    result = program(server, FILLED, transport, CRICKET_DEBUG=f"arena={arena}", CRICKET_MEMORY="64M")
    assert result.status == 0, result.err


def test_a_program_can_ask_for_less_of_a_server_without_a_policy(tmp_path):
    server = Server(tmp_path / "server", CRICKET_EMU=f"memory={256 * MIB}")
    try:
        result = program(server, FILLED, CRICKET_MEMORY="64M")
        assert result.status == 0, result.err
    finally:
        server.end()


def test_what_a_program_asks_for_is_its_own_and_no_more_than_its_identity_has(serve):
    server = serve('default: { memory = "64M"; };')
    first = talk(server, """
current()
assert total() == left() == 48 * MIB
got = fill()
say(len(got), left() // MIB)
line()
""", CRICKET_MEMORY="48M")
    assert first.stdout.readline() == "24 0\n"
    result = program(server, """
current()
assert total() == 40 * MIB and left() == 16 * MIB, (total(), left())
assert len(fill()) == 8 and left() == 0
""", CRICKET_MEMORY="40M")
    assert result.status == 0, result.err
    result = program(server, "current()\nassert total() == 64 * MIB and left() == 16 * MIB", CRICKET_MEMORY="4G")
    assert result.status == 0, result.err
    print(file=first.stdin, flush=True)
    assert first.wait(HANG) == 0


KINDS = """
current()
def pooled():
    p = ctypes.c_uint64()
    err = cuda.cuMemAllocAsync(ctypes.byref(p), ctypes.c_size_t(40 * MIB), None)
    return err, lambda: check(cuda.cuMemFreeAsync(p, None))
class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int * 2),
                ("meta", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]
def physical():
    prop, h = Prop(1, 0, (1, 0)), ctypes.c_uint64()
    err = cuda.cuMemCreate(ctypes.byref(h), ctypes.c_size_t(40 * MIB), ctypes.byref(prop), ctypes.c_uint64(0))
    return err, lambda: check(cuda.cuMemRelease(h))
def mapped():
    prop, h, at = Prop(1, 0, (1, 0)), ctypes.c_uint64(), ctypes.c_uint64()
    size = ctypes.c_size_t(40 * MIB)
    err = cuda.cuMemCreate(ctypes.byref(h), size, ctypes.byref(prop), ctypes.c_uint64(0))
    if not err:
        check(cuda.cuMemAddressReserve(ctypes.byref(at), size, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)))
        check(cuda.cuMemMap(at, size, ctypes.c_size_t(0), h, ctypes.c_uint64(0)))
        check(cuda.cuMemRelease(h))         # the mapping keeps it
    return err, lambda: check(cuda.cuMemUnmap(at, size)) or check(cuda.cuMemAddressFree(at, size))
def plain():
    p = alloc(40 * MIB)
    return (0, lambda: free(p)) if p else (2, None)
class Array(ctypes.Structure):
    _fields_ = [("w", ctypes.c_size_t), ("h", ctypes.c_size_t), ("format", ctypes.c_int), ("n", ctypes.c_uint)]
def array():
    a, desc = ctypes.c_void_p(), Array(4096, 2560, 0x20, 1)
    err = cuda.cuArrayCreate_v2(ctypes.byref(a), ctypes.byref(desc))
    return err, lambda: check(cuda.cuArrayDestroy(a))
kinds = [plain, pooled, physical, mapped]
if os.environ["CRICKET_DEBUG"] == "arena=0":
    kinds.append(array)         # free memory of the arena is not given back for these
for one in kinds:
    for other in kinds * 2:
        err, end = one()
        assert err == 0, (one, err)
        assert other()[0] == 2, (one, other)
        end()
        check(cuda.cuCtxSynchronize())
"""


@pytest.mark.parametrize("arena", ["1", "0"])
def test_memory_of_every_kind_counts_until_it_is_freed(serve, arena):
    result = program(serve('default: { memory = "64M"; };'), KINDS, CRICKET_DEBUG=f"arena={arena}")
    assert result.status == 0, result.err


def test_memory_ends_with_its_context(serve):
    result = program(serve('default: { memory = "64M"; };'), """
for _ in range(4):
    c = ctypes.c_void_p()
    check(cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0))
    assert alloc(40 * MIB), _
    check(cuda.cuCtxDestroy_v2(c))
""", CRICKET_DEBUG="no-arena")
    assert result.status == 0, result.err


LIMITS = """
STACK, FIFO, HEAP = 0, 1, 2
def limit(which, value=None):
    if value is not None:
        return cuda.cuCtxSetLimit(which, ctypes.c_size_t(value))
    now = ctypes.c_size_t()
    check(cuda.cuCtxGetLimit(ctypes.byref(now), which))
    return now.value
def attribute(n):
    value = ctypes.c_int()
    check(cuda.cuDeviceGetAttribute(ctypes.byref(value), n, 0))
    return value.value
current()
threads = attribute(16) * attribute(39)
for which, unit in ((HEAP, 1), (FIFO, 1), (STACK, threads)):
    first, more = limit(which), 40 * MIB // unit
    for value in (first + 80 * MIB // unit, 1 << 60):
        err = limit(which, value)
        assert err == 2 or (which == STACK and err == 1), (which, value, err)
    assert limit(which) == first and left() == 64 * MIB
    check(limit(which, first + more))
    assert left() == 64 * MIB - more * unit, (which, left())
    assert alloc(30 * MIB) is None
    p = alloc(20 * MIB)
    assert p and limit(which, first + 45 * MIB // unit) == 2 and limit(which) == first + more
    free(p)
    check(limit(which, first // 2))
    assert left() == 64 * MIB, (which, left())
check(limit(HEAP, 2 * limit(HEAP) + 32 * MIB))
assert left() == 32 * MIB, left()
check(cuda.cuDevicePrimaryCtxReset_v2(0))
current()
assert left() == 64 * MIB, left()
for _ in range(3):
    c = ctypes.c_void_p()
    check(cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0))
    check(limit(HEAP, 48 * MIB))
    assert alloc(40 * MIB) is None
    check(cuda.cuCtxDestroy_v2(c))
assert left() == 64 * MIB, left()
"""


@pytest.mark.parametrize("arena", ["1", "0"])
def test_what_limits_of_a_context_take_counts_until_it_ends(serve, arena):
    result = program(serve('default: { memory = "64M"; };'), LIMITS, CRICKET_DEBUG=f"arena={arena}")
    assert result.status == 0, result.err


def test_a_limit_gets_memory_that_the_program_has_freed(serve):
    result = program(serve('default: { memory = "64M"; };'), """
current()
for p in fill():
    free(p)
check(cuda.cuCtxSetLimit(2, ctypes.c_size_t(56 * MIB)))
""")
    assert result.status == 0, result.err


HOLDER = """
current()
kept = [alloc(40 * MIB)]
say("holds" if kept[0] else "none")
line()
"""


def test_sessions_of_an_identity_share_its_quota(serve):
    """And what a killed worker has had is there for the others at once."""
    server = serve(f'identities: ( {{ user = "{USER}"; memory = "64M"; }} );')
    first = talk(server, HOLDER)
    assert first.stdout.readline() == "holds\n"
    (worker,) = server.workers()
    second = talk(server, """
current()
got = fill()
say(len(got))
line()
p = soon()
got += [p] + fill() if p else []
say(len(got), left())
""")
    assert second.stdout.readline() == "12\n"
    other = program(server, "current()\nassert left() >= 128 * MIB, left()\nassert alloc(100 * MIB)", "tcp")
    assert other.status == 0, other.err         # an identity without a quota
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: worker not in server.workers(), 10, "the worker is gone")
    print(file=second.stdin, flush=True)
    assert second.stdout.readline() == "32 0\n"
    assert second.wait(HANG) == 0
    first.kill()
    first.wait()


def test_free_memory_of_one_session_is_there_for_another_of_its_identity(serve):
    """It has it leased, and returns it when asked."""
    server = serve('default: { memory = "64M"; };')
    first = talk(server, """
current()
got = fill()
for p in got:
    free(p)
check(cuda.cuCtxSynchronize())
say(len(got))
line()
""")
    assert first.stdout.readline() == "32\n"
    result = program(server, "current()\nimport time\ntime.sleep(1.2)\nassert soon() and len(fill()) > 20")
    assert result.status == 0, result.err
    print(file=first.stdin, flush=True)
    assert first.wait(HANG) == 0


def test_many_sessions_race_for_one_quota(serve):
    """Together they never have more, and each gets out of memory, not another error."""
    server = serve('default: { memory = "64M"; };')
    racers = [talk(server, """
current()
say("ready")
line()
got = []
for _ in range(50):
    p = alloc(CHUNK)
    if p:
        got.append(p)
    elif got:
        free(got.pop())
say(len(got))
line()
""", CRICKET_DEBUG="no-arena") for _ in range(6)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        print(file=racer.stdin, flush=True)
    assert sum(int(racer.stdout.readline()) for racer in racers) <= 32
    for racer in racers:
        print(file=racer.stdin, flush=True)
        assert racer.wait(HANG) == 0
    result = program(server, FILLED)
    assert result.status == 0, result.err


def test_sighup_reads_the_policy_again_and_a_wrong_one_changes_nothing(serve, tmp_path):
    server = serve('default: { memory = "64M"; };')
    session = talk(server, """
current()
got = fill()
while (word := line()):
    got += fill()
    say(len(got), total() // MIB)
""")

    def reload(text, words):
        (tmp_path / "policy").write_text(text)
        before = server.log().count(words)
        os.kill(server.process.pid, signal.SIGHUP)
        wait_until(lambda: server.log().count(words) > before, 10, words)
        print("go", file=session.stdin, flush=True)
        return session.stdout.readline()
    assert reload('default: {\n memory = "100Q"; };', "the policy stays as it was") == "32 64\n"
    assert f"{tmp_path}/policy:2: memory: not a size" in server.log()
    assert reload('default: { memory = "100M"; };', "the policy is in force") == "50 100\n"
    assert reload('default: { memory = "10M"; };', "the policy is in force") == "50 10\n"
    session.stdin.close()
    assert session.wait(HANG) == 0


def test_a_quota_outlives_an_upgrade_of_the_server(serve):
    server = serve('default: { memory = "64M"; };')
    first = talk(server, HOLDER)
    assert first.stdout.readline() == "holds\n"
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: "continuing with 1 running" in server.log(), 20, "the server is upgraded")
    result = program(server, "current()\nassert left() == 24 * MIB, left()\nassert len(fill()) == 12")
    assert result.status == 0, result.err
    print(file=first.stdin, flush=True)
    assert first.wait(HANG) == 0


def test_the_number_of_sessions_of_each_identity_is_its_own(serve, tmp_path):
    (alice, hers), (bob, his) = new_token("alice"), new_token("bob")
    (tmp_path / "tokens").write_text(f"{hers}\n{his}\n")
    server = serve('default: { sessions = 1; };\nidentities: ( { token = "alice"; sessions = 2; } );',
                   "--token-file", tmp_path / "tokens", "--sessions-per-identity", "1")
    held = [Session(server, token=alice), Session(server, token=alice), Session(server, token=bob)]
    for token, name, count in ((alice, "alice", 2), (bob, "bob", 1)):
        with pytest.raises(Refused) as refused:
            Session(server, token=token)
        assert refused.value.args == (BUSY, f"{name} has {count} session{'s' if count > 1 else ''}, the maximum of the policy")
    for session in held:
        session.end()


def test_an_identity_sees_only_its_gpus(serve):
    server = serve(f'default: {{ gpus = "2,0"; }};\nidentities: ( {{ user = "{USER}"; gpus = "1"; }} );', "--warm", "1",
                   CRICKET_EMU="devices=3")
    code = """
count = ctypes.c_int()
check(cuda.cuDeviceGetCount(ctypes.byref(count)))
for i in range(count.value):
    uuid = (ctypes.c_ubyte * 16)()
    check(cuda.cuDeviceGetUuid_v2(uuid, i))
    say(bytes(uuid).hex())
"""
    one, two = (program(server, code, transport) for transport in ("unix", "tcp"))
    assert one.status == two.status == 0, one.err + two.err
    assert len(one.out.split()) == 1 and len(two.out.split()) == 2
    assert len(set(one.out.split() + two.out.split())) == 3


CONTEXTS = """
def make():
    c = ctypes.c_void_p()
    err = cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0)
    assert err in (0, OUT_OF_MEMORY), err
    return None if err else c
"""


@pytest.mark.parametrize("warm", ["0", "1"])
def test_contexts_have_a_quota(serve, warm):
    """The primary one counts once, and a context that has ended no more."""
    server = serve("default: { contexts = 3; };", "--warm", warm)
    if warm == "1":
        wait_until(server.spares, 20, "a spare worker")
    result = program(server, CONTEXTS + """
for _ in range(4):
    current()
got = [make(), make()]
assert all(got) and make() is None
check(cuda.cuCtxDestroy_v2(got.pop()))
assert make() and make() is None
for _ in range(4):
    check(cuda.cuDevicePrimaryCtxRelease_v2(0))
assert make() and make() is None
""")
    assert result.status == 0, result.err


def test_sessions_share_the_quota_of_contexts(serve, tmp_path):
    """Also after the policy has changed, and after a session has ended."""
    server = serve("default: { contexts = 2; };")
    first = talk(server, CONTEXTS + """
current()
check(cuda.cuCtxSynchronize())      # to retain a primary context sends no reply: it is there now
say("ready")
line()
assert make()
say("made")
line()
""")
    assert first.stdout.readline() == "ready\n"
    second = talk(server, CONTEXTS + """
say(bool(make()), bool(make()))
line()
say(bool(make()), bool(make()))
line()
say(bool(make()), bool(make()))
""")
    assert second.stdout.readline() == "True False\n"
    (tmp_path / "policy").write_text("default: { contexts = 4; };")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: "the policy is in force" in server.log(), 10, "the new policy")
    print(file=first.stdin, flush=True)
    assert first.stdout.readline() == "made\n"
    print(file=second.stdin, flush=True)
    assert second.stdout.readline() == "True False\n"
    first.kill()
    first.wait()
    wait_until(lambda: len(Asker(server).ask("sessions")["sessions"]) == 1, 10, "the server knows that its worker has gone")
    print(file=second.stdin, flush=True)
    assert second.stdout.readline() == "True True\n"
    assert second.wait(HANG) == 0


REGIONS = f"""
m3 = ctypes.CDLL({str(M3)!r})
class Request(ctypes.Structure):
    _fields_ = [("mem_id", ctypes.c_char_p), ("bytes", ctypes.c_uint64),
                ("alignment", ctypes.c_uint64), ("device", ctypes.c_int),
                ("policy", ctypes.c_int), ("access", ctypes.c_int), ("mode", ctypes.c_uint),
                ("flags", ctypes.c_uint), ("stripes", ctypes.c_uint)]
current()
client = ctypes.c_void_p()
check(m3.m3_connect(None, ctypes.byref(client)))
def region(name, mib):
    r = ctypes.c_void_p()
    err = m3.m3_alloc(client, ctypes.byref(Request(name, mib * MIB, 0, -1, 0, 3, 0, 0, 0)), ctypes.byref(r))
    assert err in (0, -9), err          # M3_EQUOTA
    return None if err else r
"""


def test_m3_regions_have_a_quota(serve):
    """All sessions of the identity together; other identities of the same user have theirs."""
    server = serve(f'default: {{ m3_memory = "64M"; }};\nidentities: ( {{ user = "{USER}"; m3_memory = "16M"; }} );')
    first = talk(server, REGIONS + """
mine = region(b"one", 12)
say(bool(mine), bool(region(b"two", 6)))
line()
check(m3.m3_release(mine))
say(bool(region(b"three", 12)))
line()
""")
    assert first.stdout.readline() == "True False\n"
    for transport, mib, got in (("unix", 6, False), ("unix", 4, True), ("tcp", 60, True), ("tcp", 66, False)):
        result = program(server, REGIONS + f"assert bool(region(b'{transport}{mib}', {mib})) == {got}", transport)
        assert result.status == 0, (transport, mib, result.err)
    print(file=first.stdin, flush=True)
    assert first.stdout.readline() == "True\n"
    first.stdin.close()
    assert first.wait(HANG) == 0


def test_features_can_be_withheld(serve):
    server = serve('default: { features = [ ]; };')
    session = talk(server, HOLDER, "tcp")
    assert session.stdout.readline() == "holds\n"
    name = Asker(server).ask("sessions")["sessions"][0]["session"]
    result = ctl(server, "checkpoint", name, "/tmp/not-there")
    assert result.returncode == 1 and "the policy does not allow checkpoints of address 127.0.0.1" in result.stderr
    session.kill()
    session.wait()


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("spelling", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_an_ipv4_host_has_one_entry_at_all_sockets(serve, tmp_path, secure, spelling):
    """A socket for IPv6 and IPv4 reports it as ::ffff:127.0.0.1. It is one identity, and one peer, at both sockets."""
    port, options, env = free_port(), [], {}
    if secure:
        authority = Authority(tmp_path / "authority")
        cert, key = authority.sign("server")
        options, env = ["--tls-cert", cert, "--tls-key", key], {"CRICKET_TLS_CA": str(authority.ca)}
    server = serve(f'default: {{ sessions = 8; }}; identities: ( {{ address = "{spelling}"; sessions = 2; memory = "8M"; features = [ ]; }} );',
                   "--listen", f"[::]:{port}", "--insecure", *options)
    for address in (server.address("tcp"), f"127.0.0.1:{port}"):
        programs = [begin(MORE + "current()\nsay(total() // MIB)\nline()", client_env(a, **env)) for a in (address, server.address("tcp"))]
        assert [p.stdout.readline() for p in programs] == ["8\n", "8\n"]
        assert {s["identity"] for s in Asker(server).ask("sessions")["sessions"]} == {"address 127.0.0.1"}
        result = python("current()", client_env(address, **env))
        assert result.status and "address 127.0.0.1 has 2 sessions, the maximum of the policy" in result.err
        for p in programs:
            p.kill()
            p.communicate()
        wait_until(lambda: not server.workers(), 20, "the sessions have ended")
    assert "::ffff:" not in server.log().replace(spelling, "")


@pytest.mark.parametrize("text, line, words", [
    ("default: { sessions = 4;\n memori = \"1G\"; };", 2, "unknown key: memori"),
    ("\n\ndefault: { sessions = 4;", 3, "syntax error"),
    ("sessions = 4;", 1, "unknown key: sessions"),
    ("default: {\n sessions = 0; };", 2, "sessions: not a number from 1 to 100000"),
    ("default: { sessions = \"many\"; };", 1, "sessions: not a number"),
    ("default: { priority = 2000; };", 1, "priority: not a number from -1000 to 1000"),
    ('default: { share = "space"; };', 1, 'share: neither "mps" nor "time"'),
    ('default: { share = "mps"; sm = "101%"; };', 1, 'sm: not a part as in "25%"'),
    ('default: { share = "mps"; sm = "0%"; };', 1, 'sm: not a part as in "25%"'),
    ('default: { sm = "25%"; };', 1, 'sm: it needs share = "mps"'),
    ('default: { memory_overcommit = "2"; };', 1, 'memory_overcommit: neither true nor false'),
    ("default: { weight = 0; };", 1, "weight: not a number from 1 to 1000"),
    ("default: { contexts = 0; };", 1, "contexts: not a number from 1 to 100000"),
    ("default: { m3_memory = \"25%\"; };", 1, "m3_memory: not a size"),
    ("default: { m3_memory = \"0\"; };", 1, "m3_memory: not a size"),
    ("default: { memory = 4; };", 1, "memory: not a text in quotes"),
    ("default: { memory = \"101%\"; };", 1, "memory: not a size"),
    ("default: { memory = \"0\"; };", 1, "memory: not a size"),
    ("default: { memory = \"25\"; };", 1, "memory: less than 1M; is a unit missing"),
    ("default: { memory_total = \"64\"; };", 1, "memory_total: not from 1048576 to"),
    ("default: { m3_memory = \"8\"; };", 1, "m3_memory: not from 1048576 to"),
    ("default: { memory = \"\"; };", 1, "memory: not a size"),
    ("default: { memory_total = \"50%\"; };", 1, "memory_total: not a size"),
    ("default: { time = \"8d\"; };", 1, "time: not a time"),
    ("default: { idle = 5; };", 1, "idle: not a text in quotes"),
    ("default: { lanes = 0; };", 1, "lanes: not a number from 1 to 65536"),
    ("default: { host_memory = \"1\"; };", 1, "host_memory: not from 4096 to "),
    ("default: { output = \"0\"; };", 1, "output: not a size"),
    ("default: { cache = \"1K\"; };", 1, "cache: not from 4096 to "),
    ("default: { bandwidth = \"4K\"; };", 1, "bandwidth: not from 65536 to"),
    ("default: { nvml_processes = \"none\"; };", 1, "nvml_processes: neither \"own\" nor \"all\""),
    ("default: { m3_names = true; };", 1, "m3_names: not a text in quotes"),
    ("default: { resume = \"8d\"; };", 1, "resume: not a time"),
    ("default: { suspend_idle = \"9999h\"; };", 1, "suspend_idle: not a time of at most 7 days"),
    *((f'default: {{ gpus = "{text}"; }};', 1, "gpus: not a list") for text in (
        "0;1", "0-3", "x", "all", "none", "-1", "", ",", "0,", "0,,1", "0,0", "1,GPU-", "GPU-xyz", "gpu-12", "MIG-", "64", "0001", "0x1", "0 1")),
    ("identities: ( { token = \"\"; } );", 1, "token: not a name of"),
    ("identities: ( { token = \"al ice\"; } );", 1, "token: not a name of"),
    ("default: { features = \"m3\"; };", 1, "features: not a list"),
    ("default: { features = [ \"m3\", \"m4\" ]; };", 1, "features: unknown: m4"),
    ("default: 4;", 1, "default: not a group"),
    ("default: { token = \"x\"; };", 1, "unknown key: token"),
    ("identities: ( { sessions = 4; } );", 1, "has one of token, user and address"),
    ("identities: (\n { token = \"a\"; user = \"0\"; } );", 2, "has one of token, user and address"),
    ("identities: (\n { token = \"a\"; },\n { token = \"a\"; } );", 3, "has an entry already"),
    ("identities: ( { user = \"nobody at all\"; } );", 1, "there is no user nobody at all"),
    ("identities: ( { address = \"10.0.0\"; } );", 1, "address: not a numeric IPv4 or IPv6 address"),
    *(("identities: ( { address = \"%s\"; } );" % text, 1, "address: not a numeric IPv4 or IPv6 address") for text in (
        "", "localhost", "gpuhost", "10.0.0.7/24", "10.0.0.7:9909", "fe80::7", "::1%lo", "[::1")),
    *(("identities: (\n { address = \"10.0.0.7\"; },\n { address = \"%s\"; } );" % text, 3, "has an entry already") for text in (
        "::ffff:10.0.0.7", "[::ffff:a00:7]")),
    ("identities: ( 4 );", 1, "identities: not a group"),
    ("identities: { token = \"a\"; };", 1, "identities: not a list"),
    ("prefixes: { name = \"a\"; };", 1, "prefixes: not a list"),
    ("prefixes: ( { name = \"a\"; } );", 1, "a prefix has a name and a command"),
    ("prefixes: ( { name = \"a b\"; command = [\"/a\"]; } );", 1, "name: letters"),
    ("prefixes: ( { name = \"a\";\n command = \"/a\"; } );", 2, "command: not a list"),
    ("prefixes: ( { name = \"a\"; command = [\"a\"]; } );", 1, "command: not an absolute path: a"),
    ("prefixes: ( { name = \"a\"; path = \"/a\"; } );", 1, "unknown key: path"),
    ("prefixes: ( { name = \"a\"; command = [\"/a\"]; },\n { name = \"a\"; command = [\"/b\"]; } );", 2, "there is a prefix a already"),
    ("default: { prefixes = [ \"nsys\" ]; };", 1, "prefixes: there is none of the name nsys"),
    ("default: { prefixes = \"nsys\"; };", 1, "prefixes: not a list of names"),
])
def test_a_wrong_policy_is_refused_with_its_line(tmp_path, text, line, words):
    path = tmp_path / "policy"
    path.write_text(text)
    for options in (["--check-policy", path], ["--driver", "emu", "--no-unix", "--policy", path]):
        result = run([SERVER, *options], client_env(None, LD_PRELOAD=""))
        assert result.status == 2 and result.err.count("\n") == 1
        assert f"{path}:{line}: " in result.err and words in result.err


def test_entries_for_tokens_that_do_not_exist_are_named(tmp_path):
    """--check-policy refuses them; a server that has lost a token goes on."""
    policy, tokens = tmp_path / "policy", tmp_path / "tokens"
    policy.write_text('identities: (\n { token = "alice"; sessions = 1; },\n { token = "alcie"; sessions = 2; } );')
    tokens.write_text(f"alice:{'0' * 64}\n")
    check = [SERVER, "--check-policy", policy]
    assert run(check, clean_env()).status == 0
    result = run([*check, "--token-file", tokens], clean_env())
    assert result.status == 2 and f"{policy}:3: token: {tokens} has no token of alcie" in result.err
    server = Server(tmp_path / "server", "--policy", policy, "--token-file", tokens)
    try:
        wait_until(lambda: "the entry applies to no one" in server.log(), 10, "the warning")
    finally:
        server.stop()
    tokens.write_text("a secret\n")
    assert run([*check, "--token-file", tokens], clean_env()).status == 2
    policy.write_text('identities: ( { user = "0"; sessions = 1; } );')
    assert run([*check, "--token-file", tokens], clean_env()).status == 0


def test_reload_reports_what_is_wrong_to_its_caller(serve, tmp_path):
    """And keeps what was right."""
    server = serve('default: { sessions = 1; };')
    ctl = [SERVER, "--unix", server.unix, "--ctl", "reload"]
    wait_until(lambda: listens(f"{server.unix}.ctl"), 10, "the control socket is there")
    assert run(ctl, clean_env()).status == 0
    (tmp_path / "policy").write_text('default: { sessions = "one"; };')
    result = run(ctl, clean_env())
    assert result.status == 1 and f"the policy stays as it was: {tmp_path}/policy:1: sessions: not a number" in result.err
    (tmp_path / "policy").write_text('default: { sessions = 2; };')
    assert run(ctl, clean_env()).status == 0


def test_a_right_policy_is_accepted(tmp_path):
    path = tmp_path / "policy"
    path.write_text('''# all keys
prefixes: ( { name = "nsys"; command = [ "/usr/bin/nsys", "profile", "-o", "/tmp/%q{CRICKET_SESSION}" ]; } );
default: { sessions = 4; memory = "25%"; priority = -5; weight = 3; contexts = 8; m3_memory = "1G"; resume = "90s"; suspend_idle = "30m";
    memory_total = "64G"; time = "8h"; idle = "0"; lanes = 64; host_memory = "16G"; output = "1M"; cache = "256M"; bandwidth = "100M"; store = "1G";
    nvml_processes = "own"; m3_names = "all"; share = "mps"; sm = "50%";
    memory_overcommit = true; };
identities: (
    { token = "alice"; memory = "8G"; gpus = "0,1"; features = [ "m3", "checkpoint" ]; prefixes = [ "nsys" ]; },
    { user = "0"; gpus = "GPU-01234567-89ab-cdef-0123-456789abcdef"; },
    { address = "2001:DB8::1"; }, { address = "[::1]"; }, { address = "10.0.0.7"; }
);
''')
    control = tmp_path / "nvidia-cuda-mps-control"
    control.touch(0o755)
    env = clean_env(PATH=f"{tmp_path}:{os.environ['PATH']}")
    for content in (path.read_text(), "", (ROOT / "docs" / "examples" / "policy").read_text()):
        path.write_text(content)
        result = subprocess.run([SERVER, "--check-policy", path], env=env, capture_output=True, text=True, timeout=HANG)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
