"""tests/e2e/test_shares.py - the policy's weights and priorities: sessions that share a GPU take turns on it."""
import os
import pwd
import signal

import pytest

from conftest import DRIVER, HANG, Server, client_env, wait_until
from test_arena import begin
from test_control import Asker

USER = pwd.getpwuid(os.getuid()).pw_name
POLICY = f'identities: ( {{ user = "{USER}"; weight = %d; }}, {{ address = "127.0.0.1"; weight = %d; }} );'

# Launches kernels, BATCH of them before each wait, until stdin ends; answers each line with the number of batches so far.
WORK = r'''
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry work(.param .u32 n)
{
	.reg .pred %q;
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [n];
AGAIN:
	sub.u32 %r1, %r1, 1;
	setp.ne.u32 %q, %r1, 0;
	@%q bra AGAIN;
	ret;
}
"""
current()
module, work = ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
check(cuda.cuModuleGetFunction(ctypes.byref(work), module, b"work"))
n = ctypes.c_uint(20000)
args = (ctypes.c_void_p * 1)(ctypes.addressof(n))
batches, stop = 0, False
def answer():
    global stop
    for _ in sys.stdin:
        say(batches)
    stop = True
say("ready")
asked = threading.Thread(target=answer)
asked.start()
while not stop:
    for _ in range(BATCH):
        check(cuda.cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, None, args, None))
    check(cuda.cuCtxSynchronize())
    batches += 1
asked.join()
'''

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="needs a server of its own")


@pytest.fixture(name="server")
def weighted_server(tmp_path):
    def policy(heavy, light):
        (tmp_path / "policy").write_text(POLICY % (heavy, light))
    policy(3, 1)
    server = Server(tmp_path / "server", "--policy", tmp_path / "policy", CRICKET_EMU="threads=1")
    server.policy = policy
    yield server
    server.end()


def start(server, transport, batch, code=WORK):
    process = begin(f"BATCH = {batch}\n{code}", client_env(server.address(transport)))
    assert process.stdout.readline() == "ready\n"
    return process


def batches(process):
    print(file=process.stdin, flush=True)
    return int(process.stdout.readline())


def end(*processes):
    for process in processes:
        process.stdin.close()
    for process in processes:
        assert process.wait(HANG) == 0


def sessions(server):
    return Asker(server).ask("status")["sessions"]


def all_held(server, held=True):
    return all(s["held"] == held for s in sessions(server))


def window(high, low, batch):
    """The ratio of their kernels, until the light one has done 1500."""
    before = batches(high), batches(low)
    wait_until(lambda: (batches(low) - before[1]) * batch >= 1500, 120, "the light session gets on")
    return (batches(high) - before[0]) / (batches(low) - before[1])


@pytest.mark.alone
@pytest.mark.parametrize("batch", [1, 50])
def test_gpu_time_follows_weights(server, batch):
    """Whether programs wait for each kernel or have many in the queue. On a busy host kernels are no even measure of time: one
    of some windows shows the ratio."""
    high, low = start(server, "unix", batch), start(server, "tcp", batch)
    wait_until(lambda: all_held(server), 20, "the sessions take turns")
    assert sorted(s["weight"] for s in sessions(server)) == [1, 3]
    ratios = []
    while not ratios or (len(ratios) < 6 and not 2 <= ratios[-1] <= 4.5):
        ratios.append(window(high, low, batch))
    assert 2 <= ratios[-1] <= 4.5, ratios
    end(high, low)


RANKS = f'identities: ( {{ user = "{USER}"; priority = 5; }}, {{ address = "127.0.0.1"; }} );'


@pytest.mark.parametrize("batch", [1, 50])
def test_a_higher_priority_goes_first(server, batch):
    """While it has work, the other one has little of the GPU. In its pauses the other one has the GPU."""
    (server.log_file.parent / "ranks").write_text(RANKS)
    os.replace(server.log_file.parent / "ranks", server.log_file.parents[1] / "policy")
    os.kill(server.process.pid, signal.SIGHUP)
    high, low = start(server, "unix", batch), start(server, "tcp", batch)
    wait_until(lambda: all_held(server), 20, "the sessions take turns")
    before = batches(high), batches(low)
    wait_until(lambda: (batches(high) - before[0]) * batch >= 1500, 120, "the high session gets on")
    assert batches(low) - before[1] < (batches(high) - before[0]) / 2
    os.kill(high.pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            before = batches(low)
            wait_until(lambda b=before: batches(low) > b, 20, "the low session gets on")
    finally:
        os.kill(high.pid, signal.SIGCONT)
    end(high, low)


def test_turns_end_with_the_competition(server):
    """When the other one stops, and when the weights are equal."""
    high, low = start(server, "unix", 1), start(server, "tcp", 1)
    wait_until(lambda: all_held(server), 20, "the sessions take turns")
    server.policy(2, 2)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: all_held(server, False), 20, "the sessions are free")
    server.policy(2, 1)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: all_held(server), 20, "the sessions take turns again")
    end(low)
    wait_until(lambda: all_held(server, False), 20, "the session is free")
    before = batches(high)
    wait_until(lambda: batches(high) > before, 20, "it goes on")
    end(high)


def test_an_upgrade_frees_sessions_and_holds_them_again(server):
    high, low = start(server, "unix", 1), start(server, "tcp", 1)
    wait_until(lambda: all_held(server), 20, "the sessions take turns")
    os.kill(server.process.pid, signal.SIGUSR2)
    wait_until(lambda: "continuing with 2 running" in server.log(), 20, "the server is upgraded")
    wait_until(lambda: all_held(server), 20, "the sessions take turns")
    for process in (high, low):
        before = batches(process)
        wait_until(lambda b=before, p=process: batches(p) > b, 30, "both go on")
    end(high, low)


def test_a_session_that_takes_turns_can_be_suspended(server):
    high, low = start(server, "unix", 1), start(server, "tcp", 1)
    wait_until(lambda: all_held(server), 20, "the sessions take turns")
    name = next(s["session"] for s in sessions(server) if s["weight"] == 3)
    assert Asker(server).ask("suspend", session=name)["ok"]
    wait_until(lambda: not any(s["held"] for s in sessions(server)), 20, "the other one is free")
    before = batches(low)
    wait_until(lambda: batches(low) > before, 30, "the other one goes on")
    assert Asker(server).ask("resume", session=name)["ok"]
    before = batches(high)
    wait_until(lambda: batches(high) > before, 30, "it goes on")
    end(high, low)


# Work that waits for what the program does later; for each line of input, so many times.
LATER = WORK.split("say(\"ready\")")[0] + r'''
word, stream, other = alloc(4), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
check(cuda.cuStreamCreate(ctypes.byref(other), 1))
say("ready")
i = 0
def wait_for_later_work():
    global i
    i += 1
    check(cuda.cuStreamWaitValue32_v2(stream, ctypes.c_uint64(word), i, 0))
    check(cuda.cuStreamQuery(stream) - 600)
    time.sleep(0.2)             # the turn is over, the work is not
    check(cuda.cuStreamWriteValue32_v2(other, ctypes.c_uint64(word), i, 0))
    check(cuda.cuStreamSynchronize(stream))
for line in sys.stdin:
    for _ in range(int(line)):
        wait_for_later_work()
    say("done")
'''


def wait_for_later_work(process, times):
    print(times, file=process.stdin, flush=True)
    assert process.stdout.readline() == "done\n"


def test_work_that_waits_for_later_work_stops_nobody(server):
    high, later = start(server, "unix", 1), start(server, "tcp", 1, LATER)
    while not all_held(server):
        wait_for_later_work(later, 1)
    before = batches(high)
    wait_for_later_work(later, 4)
    assert batches(high) > before
    end(high, later)
