"""tests/e2e/test_descriptors.py - programs that close descriptors that they did not open (../test_apps/closes.c), and
that have few."""
import subprocess

import pytest

from conftest import CLIENT, KIND, TRANSPORTS, Server, client_env, ended, run
from tls import Authority


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    """The environment of clients of a server that accepts only TLS."""
    folder = tmp_path_factory.mktemp("encrypted")
    authority = Authority(folder / "trust")
    cert, key = authority.sign("server")
    server = Server(folder / "server", "--tls-cert", cert, "--tls-key", key)
    yield client_env(f"localhost:{server.port}", CRICKET_TLS="require", CRICKET_TLS_CA=str(authority.ca))
    server.stop()


@pytest.fixture(params=[*TRANSPORTS, "tls"])
def env(request, server):
    if request.param == "tls":
        return request.getfixturevalue("encrypted")
    return client_env(server.address(request.param))


@pytest.mark.parametrize("what", ["loop", "range", "taken", "idle", "events"])
def test_a_program_that_closes_everything_loses_the_session_and_no_file(env, app, what):
    """A thread waits at that moment, except where the client is idle. What the program opens in the places of the client's
    descriptors stays as it is."""
    result = run([app("closes"), what], env)
    assert (result.status, result.err.count("is lost"), len(result.err.splitlines())) == (0, 1, 1), result
    assert "the program has closed" in result.err, result
    lines = result.out.splitlines()
    assert lines[0] == "afterwards: fails" and lines[1].startswith("damaged: 0") and len(lines) == 2, result


@pytest.mark.parametrize("what, transport, more", [
    ("query", "shm", {}),
    ("upload", "tcp", {"CRICKET_WEIGHTS": "on"}),
])
def test_files_that_a_call_has_open_are_not_missed(tmp_path, own_server, app, what, transport, more):
    """The call waits for the worker at that moment, and gives up its files afterwards."""
    env = client_env(own_server.address(transport), XDG_CACHE_HOME=str(tmp_path), **more)
    process = subprocess.Popen([app("closes"), what], env=env, text=True, start_new_session=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    worker, = own_server.workers()
    process.stdin.write(f"{worker}\n")
    process.stdin.flush()
    result = ended(process, 60)
    assert (result.status, len(result.err.splitlines())) == (0, 1) and "the program has closed" in result.err, result
    assert result.out.splitlines()[-1].startswith("damaged: 0"), result


def test_a_child_closes_no_file_of_the_program(env, app):
    result = run([app("closes"), "child"], env)
    lines = result.out.splitlines()
    assert result.status == 0 and len(lines) == 2 and all(line.startswith("damaged: 0") for line in lines), result


@pytest.mark.parametrize("how", ["closed", "replaced"])
def test_a_single_descriptor_is_not_missed(env, app, how):
    """Each of the client's descriptors in turn, as a program closes one by mistake."""
    for which in range(64):
        result = run([app("closes"), how, which], env)
        assert (result.status, result.err) == (0, ""), (which, result)
        if "no more" in result.out:
            break
        assert result.out.startswith("damaged: 0"), (which, result)
    assert 5 < which < 63


# --- little of something (../test_apps/cramped.c)

RIGHT = "kernel: 1\npageable: right\npinned: right\nmanaged: right\n"


@pytest.mark.skipif(KIND != "", reason="a sanitizer needs more stack")
def test_a_small_stack_is_enough(env, app):
    """A thread with the smallest stack that there is begins, launches a kernel with parameters of 3 KB, and copies."""
    result = run([app("cramped"), "stack", 16384], env)
    assert (result.status, result.out, result.err) == (0, RIGHT, "")


@pytest.mark.parametrize("size", [1 << 20, 4096, 0])
def test_a_limit_of_the_size_of_files_ends_no_program(env, app, size):
    """Files in memory count too, and SIGXFSZ would end the program."""
    result = run([app("cramped"), "files", size], env)
    if "shm:" in env["REMOTE_GPU_ADDRESS"] and result.out != RIGHT:     # the user demands it
        assert (result.status, result.out) == (0, "cuInit: 100\n"), result
        assert "ulimit -f" in result.err and len(result.err.splitlines()) == 1, result
    else:
        assert (result.status, result.out, result.err) == (0, RIGHT, ""), result


@pytest.mark.skipif(KIND != "", reason="a sanitizer has files of its own")
def test_a_limit_of_the_size_of_files_ends_no_program_on_the_emulated_gpu(direct_env, app):
    result = run([app("cramped"), "files", 1 << 20], direct_env)
    assert result.status == 0 and result.out.startswith("kernel: 1\n"), result


@pytest.mark.skipif(KIND != "", reason="a sanitizer has descriptors of its own")
def test_few_descriptors_suffice_or_one_line_says_so(env, app):
    worked = []
    for left in range(16):
        result = run([app("cramped"), "descriptors", left], env)
        assert result.status == 0, (left, result)
        worked.append(result.out == "kernel: 1\n" and not result.err)
        if not worked[-1]:
            assert len(result.err.splitlines()) == 1 and result.out.count(": 2\n") == 0, (left, result)
            assert "Too many open files" in result.err or "ca.pem" in result.err, (left, result)
    assert worked == sorted(worked) and worked[-1], worked


@pytest.mark.skipif(KIND != "", reason="a sanitizer's own calls fail")
@pytest.mark.parametrize("call", ["eventfd2", "epoll_create1", "memfd_create", "clone3", "socketpair"])
def test_calls_that_a_container_denies_are_done_without_or_named(env, app, call):
    result = run([app("cramped"), call], env)
    assert result.status == 0, result
    if result.out != RIGHT:
        lines = result.err.splitlines()
        assert len(lines) == 1 and "Operation not permitted" in lines[0] and "seccomp" in lines[0], result
        failed = result.out.removeprefix(RIGHT[:RIGHT.index("managed")])    # all but that may work
        assert failed in ("cuInit: 100\n", "cuInit: 304\n", "cuInit: 46\n", "cuMemAllocManaged: 304\n"), result
    else:
        assert result.err == "", result


@pytest.mark.skipif(KIND != "", reason="a sanitizer must be there first")
def test_the_client_can_be_opened_late(tmp_path, server):
    """Other libraries have left only some bytes of the reserve of static TLS."""
    (tmp_path / "a.c").write_text('__thread char x[1400] __attribute__((tls_model("initial-exec"))); char *f(void) { return x; }')
    (tmp_path / "m.c").write_text("""#include <dlfcn.h>
#include <stdio.h>
int main(int n, char **v)
{
	if (!dlopen(v[1], RTLD_NOW) || !dlopen(v[2], RTLD_NOW))
		return printf("%s\\n", dlerror()), 1;
	return n < 0;
}""")
    for command in (["cc", "-shared", "-fPIC", "-o", "a.so", "a.c"], ["cc", "-o", "m", "m.c", "-ldl"]):
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    env = client_env(server.address("tcp"))
    del env["LD_PRELOAD"]
    result = run([tmp_path / "m", tmp_path / "a.so", CLIENT], env)
    assert (result.status, result.out, result.err) == (0, "", "")
