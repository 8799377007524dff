"""tests/e2e/test_m3.py - memory shared by name: the server's broker and the command m3."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from breaker import Breaker
from conftest import (DRIVER, EMULATED, HANG, KIND, PRODUCTS, SLOW, Server, clean_env, client_env, is_alive, listens, run, runtime,
                      wait_until, with_words)

HERE = pathlib.Path(__file__).parent

M3 = PRODUCTS / "bin" / "m3" if KIND else PRODUCTS / "m3"


@pytest.fixture(name="server")
def fixture_server(tmp_path):
    server = Server(tmp_path, CRICKET_EMU="dirty")
    wait_until(lambda: listens(f"{server.unix}.m3"), 10, "its socket for M3 is there")
    yield server
    server.kill()


def m3(server, *words):
    """What the command says when it works."""
    result = run([M3, "--socket", f"{server.unix}.m3", *words], clean_env())
    assert result.status == 0, result.err
    return result.out


def refused(server, *words):
    """What it says when it does not."""
    result = run([M3, "--socket", f"{server.unix}.m3", *words], clean_env())
    assert result.status == 1, result.out
    return result.err


def test_regions_from_the_command_line(server):
    assert not server.broker()  # nobody has asked for it yet
    assert "weights: 20971520 bytes" in m3(server, "alloc", "weights", "20M")
    assert "20971520" in m3(server, "ls")
    m3(server, "write", "weights", "5", "hello")
    assert m3(server, "read", "weights", "4", "7") == "\0hello\0"
    m3(server, "memset", "weights", "5", "2", "0x7a")
    assert m3(server, "read", "weights", "4", "7") == "\0zzllo\0"
    assert "another size" in refused(server, "alloc", "weights", "30M")
    m3(server, "chmod", "weights", "0604")
    stat = m3(server, "stat", "weights")
    assert "mode    0604" in stat and "state   live" in stat
    m3(server, "seal", "weights")
    assert "not permitted" in refused(server, "write", "weights", "0", "x")
    m3(server, "rm", "weights")
    assert "no such region" in refused(server, "stat", "weights")
    assert "regions 0 of 1024" in m3(server, "quota")
    assert m3(server, "echo", "there?") == "there?\n"


def test_what_it_lists_is_json_too(server):
    assert json.loads(m3(server, "ls", "--json")) == []
    m3(server, "alloc", 'a "b"', "2M")
    listed, = json.loads(m3(server, "ls", "--json"))
    assert (listed["name"], listed["bytes"], listed["mode"], listed["state"]) == ('a "b"', 2 << 20, "0600", "live")
    assert json.loads(m3(server, "ls", "b", "--json")) == []
    one = json.loads(m3(server, "stat", "--json", listed["region"]))
    assert one.keys() == listed.keys() and one["region"] == listed["region"]
    assert json.loads(m3(server, "quota", "--json"))["used"] == 2 << 20
    devices = json.loads(m3(server, "topo", "--json"))
    assert [d["device"] for d in devices] == list(range(len(devices))) and devices[0]["used"] >= 2 << 20
    m3(server, "write", listed["region"], "0", "--json")
    assert m3(server, "read", listed["region"], "0", "6") == "--json"


def test_the_command_says_what_is_missing(tmp_path):
    nothing = tmp_path / "nothing"
    for options, env in (["--socket", nothing], {}), ([], {"CRICKET_M3": str(nothing)}):
        result = run([M3, *options, "ls"], clean_env(**env))
        assert (result.status, result.out) == (1, "")
        assert result.err == f"m3: {nothing}: no broker answers: is cricket-rpc-server or m3-server running?\n"
    result = run([M3, "frob"], clean_env())
    assert (result.status, result.err) == (2, "m3: there is no command frob; `m3 --help` lists all\n")
    result = run([M3, "ls", "--jsno"], clean_env())
    assert (result.status, result.err) == (2, "m3 ls: there is no option --jsno\n")
    result = run([M3, "read", "weights"], clean_env())
    assert (result.status, result.err) == (2, "Usage: m3 read NAME OFFSET LENGTH\n")
    version = run([PRODUCTS / "m3-server", "--version"], clean_env()).out
    assert run([M3, "--version"], clean_env()).out == version.replace("m3-server", "m3")


@pytest.mark.parametrize("words, reason", [
    (["chmod", "kept", "bogus"], "octal mode"), (["chmod", "kept", "0"], "octal mode"), (["chmod", "kept", "0999"], "octal mode"),
    (["alloc", "other", "2M", "0", "rw"], "octal mode"), (["grant", "kept", "bob", "rw"], "not a user"),
    (["grant", "kept", "uid:5", "RW"], "r, rw or none"), (["memset", "kept", "0", "2", "999"], "not a byte")])
def test_a_wrong_argument_changes_nothing(server, words, reason):
    m3(server, "alloc", "kept", "2M")
    result = run([M3, "--socket", f"{server.unix}.m3", *words], clean_env())
    assert result.status == 2 and reason in result.err, result.err
    assert "mode    0600" in m3(server, "stat", "kept") and "other" not in m3(server, "ls")
    m3(server, "rm", "kept")


def test_a_quota_is_of_a_user_that_can_exist(server):
    assert "not a user, as in uid:1000: bob" in refused(server, "quota", "bob", "1G")
    assert "bytes 0 of 1073741824" in m3(server, "quota", "uid:5", "1G")


def test_what_is_beyond_the_end_of_a_region_is_said(server):
    m3(server, "alloc", "short", "2M")
    for words in (["read", "short", "0", "3M"], ["write", "short", "2M", "x"], ["memset", "short", "2097151", "2", "0"]):
        result = run([M3, "--socket", f"{server.unix}.m3", *words], clean_env())
        assert (result.status, result.out) == (1, "") and "m3: short: it has 2097152 bytes, and ends before" in result.err, result
    m3(server, "write", "short", "0", "")
    m3(server, "rm", "short")


def test_an_empty_socket_is_not_the_usual_one():
    result = run([M3, "--socket", "", "ls"], clean_env())
    assert (result.status, result.err) == (2, "m3: --socket names no socket: it is empty\n")


@pytest.mark.parametrize("words, reason", [
    (["extra"], "extra: unexpected argument"), (["--socket", ""], "--socket : not an absolute path"),
    (["--quota", "1X"], "--quota 1X: not valid"), (["--mode", "0"], "--mode 0: not valid")])
def test_the_broker_refuses_wrong_words(tmp_path, words, reason):
    usual = {} if "--socket" in words else {"CRICKET_M3": str(tmp_path / "m3")}
    result = run([PRODUCTS / "m3-server", *words], clean_env(**usual), timeout=10)
    assert result.status == 2 and result.err == f"m3-server: {reason}\nTry 'm3-server --help'.\n", result.err


def test_a_lost_broker_is_started_again_and_knows_nothing(server):
    m3(server, "alloc", "gone", "2M")
    broker = server.broker()
    os.kill(broker, signal.SIGKILL)
    wait_until(lambda: server.broker() != broker, 10, "the broker is reaped")
    assert "no such region" in refused(server, "stat", "gone")
    assert server.broker() not in (None, broker)
    assert "killed by signal 9" in server.log()


FAULTY = r'''
#include <unistd.h>
static int broken;
int cuMemsetD8_v2(unsigned long long to, unsigned char value, unsigned long size)
{
	(void)to, (void)value, (void)size;
	broken |= access(FAULT, F_OK) == 0;
	return broken ? 719 : 0;
}
int cuCtxSynchronize(void)
{
	return broken ? 719 : 0;
}
'''


def test_a_copier_whose_context_has_failed_is_replaced(tmp_path):
    fault, library, address = tmp_path / "fault", tmp_path / "faulty.so", tmp_path / "m3"
    (tmp_path / "faulty.c").write_text(FAULTY, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", f'-DFAULT="{fault}"', "-o", library, tmp_path / "faulty.c",
                    "-Wl,--no-as-needed", EMULATED, f"-Wl,-rpath,{PRODUCTS}/emu"], check=True, timeout=60)
    broker = subprocess.Popen([PRODUCTS / "m3-server", "--driver", library, "--socket", address],
                              env=clean_env())
    try:
        wait_until(lambda: listens(address), 10, "its socket is there")
        fault.touch()
        result = run([M3, "--socket", address, "alloc", "one", "2M"], clean_env())
        assert result.status == 1 and "the device is lost" in result.err
        fault.unlink()
        result = run([M3, "--socket", address, "alloc", "two", "2M"], clean_env())
        assert result.status == 0, result.err
    finally:
        broker.kill()
        broker.wait()


def test_the_broker_goes_with_the_server(server):
    m3(server, "echo", "hello")
    broker = server.broker()
    server.process.terminate()
    server.process.wait(timeout=HANG)
    wait_until(lambda: not is_alive(broker), 10, "the broker has gone")
    assert not os.path.exists(f"{server.unix}.m3")


def test_the_shell_of_the_first_m3(server):
    script = ("echo 5\nalloc A 1.5 m\nlsmem\nwrite 0x700000000000 abc\nread 0x700000000000 5\n"
              "memset 0x700000000000 2 z\nread 0x700000000000 5\nread 0x10 5\nhelp\nexit\n")
    path = server.unix.parent / "script"
    path.write_text(script, encoding="utf-8")
    result = run(["sh", "-c", f"{M3} --socket {server.unix}.m3 shell < {path}"], clean_env())
    assert result.status == 0
    assert result.out.splitlines()[:7] == [
        "5", "A: 0x700000000000", "0x700000000000 2097152 A", "abc..", "zzc..",
        "0x10: no memory there",
        "help, halt, echo N, alloc ID F g|m|k, lsmem, read ADDR LEN, write ADDR STR, "
        "memset ADDR LEN C, exit"]


def m3_program(role, place="remote"):
    """The command of m3_program.py in a role; place: local, or a transport."""
    return [sys.executable, str(HERE / "m3_program.py"), str(PRODUCTS / "libm3.so"), role,
            "local" if place == "local" else "remote"]


def program_env(server, place, tmp_path):
    """The environment of a program: a client of the server, or on its host with its own driver."""
    if place in ("tcp", "unix"):
        return client_env(server.address(place))
    folder = tmp_path / "driver"
    folder.mkdir(exist_ok=True)
    if not (folder / "libcuda.so.1").exists():
        (folder / "libcuda.so.1").symlink_to(EMULATED)
    return clean_env(LD_LIBRARY_PATH=str(folder), LD_PRELOAD=runtime(),
                     CRICKET_M3=f"{server.unix}.m3")


@pytest.mark.skipif(DRIVER != "emu", reason="a local program takes the emulated driver")
@pytest.mark.parametrize("one, other", [("tcp", "unix"), ("unix", "local"), ("local", "tcp")])
def test_programs_near_and_far_see_the_same_bytes(server, tmp_path, one, other):
    first = subprocess.Popen(m3_program("writer", one), text=True,
                             env=program_env(server, one, tmp_path), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert first.stdout.readline() == "written\n", first.communicate()
        result = run(m3_program("reader", other), program_env(server, other, tmp_path))
        assert result.status == 0, result.err
        first.stdin.write("\n")
        first.stdin.flush()
        assert first.stdout.readline() == "sealed\n", first.communicate()
        result = run(m3_program("sealed", other), program_env(server, other, tmp_path))
        assert result.status == 0, result.err
        assert m3(server, "read", "weights", "100", "5") == "world"
        out, err = first.communicate("\n", timeout=HANG)
        assert first.returncode == 0, out + err
    finally:
        first.kill()
        first.wait()
    wait_until(lambda: "bytes 0 of" in m3(server, "quota"), 10, "nothing is left")


@pytest.mark.skipif(DRIVER != "emu", reason="a local program takes the emulated driver")
@pytest.mark.parametrize("place", ["tcp", "unix", "local"])
def test_the_example(server, tmp_path, app, place):
    result = run([app("m3_weights")], program_env(server, place, tmp_path))
    assert result.status == 0, result.err
    assert result.out == ("first: a region of 4194304 bytes\n"
                          "second: 1000000 floats, their sum is 49500000\n")
    wait_until(lambda: "bytes 0 of" in m3(server, "quota"), 10, "nothing is left")


@pytest.mark.skipif(DRIVER != "emu", reason="a local program takes the emulated driver")
@pytest.mark.parametrize("place", ["tcp", "local"])
def test_a_region_may_be_on_two_devices(tmp_path, place):
    server = Server(tmp_path, CRICKET_EMU="dirty,devices=2")
    try:
        wait_until(lambda: listens(f"{server.unix}.m3"), 10, "its socket for M3 is there")
        env = with_words(program_env(server, place, tmp_path), "CRICKET_EMU", "devices=2")
        result = run(m3_program("striped", place), env)
        assert result.status == 0, result.err
        m3(server, "alloc", "S", "6M", "striped:2")
        assert "bytes   8388608\ndevice  0\nstripes 2\n" in m3(server, "stat", "S")
        assert "cannot reach" in refused(server, "alloc", "T", "6M", "striped:3")
    finally:
        server.kill()


@pytest.mark.skipif(DRIVER != "emu", reason="a local program takes the emulated driver")
@pytest.mark.parametrize("place", ["tcp", "unix", "local"])
def test_a_program_hears_what_is_lost_and_goes_on_with_a_new_broker(server, tmp_path, place):
    program = subprocess.Popen(m3_program("news", place), text=True,
                               env=program_env(server, place, tmp_path), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "subscribed\n", program.communicate()
        m3(server, "alloc", "short", "2M")
        m3(server, "rm", "short")
        assert program.stdout.readline() == "heard 1\n"     # a region is lost
        broker = server.broker()
        os.kill(broker, signal.SIGKILL)
        assert program.stdout.readline() == "heard 8\n"     # the broker is
        wait_until(lambda: server.broker() != broker, 10, "the broker is reaped")
        out, err = program.communicate("\n", timeout=60 * SLOW)
        assert program.returncode == 0, out + err
    finally:
        program.kill()
        program.wait()


def test_what_is_lost_during_a_cut_is_heard_after_it(server):
    proxy = Breaker(server.port)
    program = subprocess.Popen(m3_program("news"), text=True, env=client_env(proxy.address), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "subscribed\n", program.communicate()
        proxy.dark()
        m3(server, "alloc", "short", "2M")
        m3(server, "rm", "short")
        proxy.light()
        assert program.stdout.readline() == "heard 1\n"
        proxy.dark()
        broker = server.broker()
        os.kill(broker, signal.SIGKILL)
        wait_until(lambda: server.broker() != broker, 10, "the broker is reaped")
        proxy.light()
        assert program.stdout.readline() == "heard 8\n"
        out, err = program.communicate("\n", timeout=60 * SLOW)
        assert program.returncode == 0, out + err
    finally:
        program.kill()
        program.wait()
        proxy.stop()


@pytest.mark.parametrize("role, place", [("stranger", "tcp"), ("owner", "unix"), ("listeners", "tcp")])
def test_what_a_session_may_ask_of_the_broker(server, role, place):
    result = run(m3_program(role), client_env(server.address(place)))
    assert result.status == 0, result.err


def test_a_lease_does_not_hold_up_a_session(server, tmp_path):
    env = program_env(server, "tcp", tmp_path)
    holder = subprocess.Popen(m3_program("news"), text=True, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == "subscribed\n"
        result = run(m3_program("impatient"), env)
        assert result.status == 0, result.err
    finally:
        holder.kill()
        holder.wait()


def test_a_pool_is_left_with_the_broker_once_until_it_is_destroyed(server, tmp_path):
    def descriptors():
        return len(os.listdir(f"/proc/{server.broker()}/fd"))

    program = subprocess.Popen(m3_program("pools"), text=True, env=program_env(server, "unix", tmp_path),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        counts = []
        for words in "exported", "exported", "destroyed":
            assert program.stdout.readline() == f"{words}\n"
            counts.append(descriptors())
            program.stdin.write("\n")
            program.stdin.flush()
        assert counts[0] == counts[1] == counts[2] + 1
        assert program.wait(timeout=HANG) == 0
    finally:
        program.kill()
        program.wait()


@pytest.mark.skipif(DRIVER != "emu", reason="the driver's own errors differ")
def test_a_forged_handle_opens_nothing(server):
    result = run(m3_program("forger"), client_env(server.address("tcp")))
    assert result.status == 0, result.err


@pytest.mark.skipif(DRIVER != "emu", reason="the driver's own errors differ")
def test_without_a_broker_a_session_shares_nothing_and_goes_on(server):
    os.unlink(f"{server.unix}.m3")
    result = run(m3_program("forger"), client_env(server.address("tcp")))
    assert result.status == 1 and "AssertionError: -16" in result.err   # M3_EIO, of m3_connect
