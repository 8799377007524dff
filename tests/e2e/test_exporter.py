"""What monitors read: `cricket metrics`, and cricket-exporter with its web page."""
import base64
import concurrent.futures
import contextlib
import html
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import HANG, PRODUCTS, ROOT, SERVER, SLOW, Server, clean_env, listens, run, wait_until, with_words
from ports import free_port
from test_command import HOLDER, Holder, cricket

EXPORTER = PRODUCTS / "cricket-exporter"
SAMPLE = re.compile(r'^(cricket_[a-z_]+)(?:\{([a-z]+="(?:[^"\\]|\\.)*"(?:,[a-z]+="(?:[^"\\]|\\.)*")*)\})? (\S+)$')


@pytest.fixture(name="home")
def fixture_home(tmp_path):
    return clean_env(XDG_CONFIG_HOME=str(tmp_path))


@pytest.fixture(name="holder")
def fixture_holder(own_server, home):
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    one = Holder(own_server, home)
    yield one
    one.end()


class Exporter:
    def __init__(self, home, address, *options):
        wait_until(lambda: listens(f"{address.removeprefix('unix:')}.status"), 10, "the status socket is there")
        self.port = free_port()
        self.process = subprocess.Popen([EXPORTER, "-s", address, "--listen", f"127.0.0.1:{self.port}", *map(str, options)],
                                        env=home, text=True, stderr=subprocess.PIPE)
        assert "listening on" in self.line()

    def line(self):
        """The next line of its log."""
        line = self.process.stderr.readline()
        assert line.startswith("cricket: ")
        return line

    def get(self, path, method="GET", authority=None, **headers):
        """Status, headers and text of a reply; over TLS with a certificate of AUTHORITY."""
        trust = ssl.create_default_context(cafile=authority) if authority else None
        request = urllib.request.Request(f"http{'s' if trust else ''}://localhost:{self.port}{path}", method=method,
                                         headers={name.replace("_", "-"): value for name, value in headers.items()})
        try:
            with urllib.request.urlopen(request, timeout=60 * SLOW, context=trust) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def end(self):
        self.process.terminate()
        _, err = self.process.communicate(timeout=HANG)
        assert self.process.returncode == 0 and "Sanitizer" not in err, err


@contextlib.contextmanager
def exporter(home, address, *options):
    one = Exporter(home, address, *options)
    try:
        yield one
        one.end()
    finally:
        one.process.kill()
        one.process.communicate()


def samples(text):
    """(name, labels) -> value; fails on a line of another form, and on a sample without HELP and TYPE."""
    found, known = {}, set()
    for line in text.splitlines():
        if line.startswith("#"):
            known.add(tuple(line.split()[1:3]))
            continue
        name, labels, value = SAMPLE.match(line).groups()
        family = re.sub("_(bucket|sum|count)$", "", name)
        assert any({("HELP", n), ("TYPE", n)} <= known for n in (name, family)) and (name, labels) not in found
        found[name, labels] = float(value)
    return found


def test_metrics_count_sessions_calls_and_refusals(tmp_path, home):
    server = Server(tmp_path / "server", "--max-sessions", "1")
    try:
        where = server.address("unix")
        one = Holder(server, home)
        refused = cricket(home, "run", "-s", where, sys.executable, "-c", HOLDER)
        assert refused.returncode != 0
        one.end()
        server.wait_idle()

        def now():
            done = cricket(home, "metrics", where)
            assert done.returncode == 0, done.stderr
            return samples(done.stdout)
        wait_until(lambda: now()["cricket_sessions", 'state="running"'] == 0, 10, "the session has ended")
        found = now()
        assert found["cricket_up", None] == 1 and found["cricket_sessions_max", None] == 1
        assert found["cricket_sessions_started_total", None] == 1
        assert found["cricket_refused_total", 'reason="full"'] == 1
        assert sum(v for (n, _), v in found.items() if n == "cricket_refused_total") == 1
    finally:
        server.end()


def test_calls_of_a_short_session_are_counted_to_the_last(own_server, home):
    """It ends before its worker has reported for the first time."""
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    where = own_server.address("unix")
    program = HOLDER.replace("for line in sys.stdin", "for line in range(50)")

    def total(name):
        return samples(cricket(home, "metrics", where).stdout)[name, None]
    for begun in (1, 2):
        before = total("cricket_calls_total")
        assert cricket(home, "run", "-s", where, sys.executable, "-c", program).returncode == 0
        own_server.wait_idle()
        wait_until(lambda b=before: total("cricket_calls_total") >= b + 50, 10, "its calls are counted")
        assert total("cricket_sessions_started_total") == begun


def test_times_are_counted_in_histograms(own_server, home):
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    program = HOLDER.replace("for line in sys.stdin", "for line in range(50)")
    for transport in ("tcp", "unix"):
        assert cricket(home, "run", "-s", own_server.address(transport), sys.executable, "-c", program).returncode == 0
    own_server.wait_idle()

    def found():
        return samples(cricket(home, "metrics", own_server.address("unix")).stdout)
    wait_until(lambda: found()["cricket_call_seconds_count", None] >= 100, 10, "its calls are counted")
    now = found()
    assert now["cricket_session_start_seconds_count", None] == 2
    assert 1 <= now["cricket_round_trip_seconds_count", None] <= now["cricket_call_seconds_count", None] / 2    # over TCP alone
    for name in ("call", "session_start", "round_trip"):
        buckets = [v for (n, _), v in now.items() if n == f"cricket_{name}_seconds_bucket"]
        assert len(buckets) == 14 and buckets == sorted(buckets)
        assert now[f"cricket_{name}_seconds_bucket", 'le="+Inf"'] == now[f"cricket_{name}_seconds_count", None] == buckets[-1]
        assert 0 < now[f"cricket_{name}_seconds_sum", None] < 60


def test_bytes_of_copies_are_counted_in_both_directions(own_server, home):
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    program = HOLDER.split('print("ready"')[0] + """
size = 16 << 20
host = ctypes.create_string_buffer(size)
assert c.cuMemcpyHtoD_v2(memory, host, ctypes.c_size_t(size)) == 0 and c.cuCtxSynchronize() == 0
assert c.cuMemcpyDtoH_v2(host, memory, ctypes.c_size_t(size)) == 0
"""
    assert cricket(home, "run", "-s", own_server.address("tcp"), sys.executable, "-c", program).returncode == 0
    own_server.wait_idle()

    def total(direction):
        text = cricket(home, "metrics", own_server.address("unix")).stdout
        return samples(text)["cricket_bytes_total", f'direction="{direction}"']
    wait_until(lambda: 16 << 20 <= total("received") < 17 << 20, 10, "the upload is counted")
    wait_until(lambda: 16 << 20 <= total("sent") < 17 << 20, 10, "the download is counted")


def test_refused_tokens_are_counted(tmp_path, home):
    (tmp_path / "token").write_text("secret\n")
    server = Server(tmp_path / "server", "--token-file", tmp_path / "token")
    try:
        wrong = dict(home, CRICKET_TOKEN="wrong")
        assert cricket(wrong, "run", "-s", server.address("tcp"), sys.executable, "-c", HOLDER).returncode != 0
        found = samples(cricket(home, "metrics", server.address("unix")).stdout)
        assert found["cricket_refused_total", 'reason="token"'] in (1, 2)   # the command may have asked first
    finally:
        server.end()


def test_metrics_show_gpus_and_bounded_labels(own_server, home, holder):
    where = own_server.address("unix")
    found = samples(cricket(home, "metrics", where).stdout)
    assert found["cricket_gpu_sessions", 'gpu="0"'] == 1
    assert 64 << 20 <= found["cricket_gpu_sessions_memory_bytes", 'gpu="0"'] <= found["cricket_gpu_memory_bytes", 'gpu="0"']
    assert {labels.split("=")[0] for _, labels in found if labels} == {
        "release", "state", "place", "direction", "reason", "gpu", "le"}
    more = samples(cricket(home, "metrics", "--identities", where).stdout)
    assert [value for (name, _), value in more.items() if name == "cricket_identity_sessions"] == [1]


def test_promtool_finds_nothing_wrong(own_server, home, holder):
    if not shutil.which("promtool"):
        pytest.skip("no promtool (Debian: prometheus)")
    text = cricket(home, "metrics", "-i", own_server.address("unix")).stdout
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_prometheus_scrapes_it(own_server, home, holder, tmp_path, secure):
    if not shutil.which("prometheus"):
        pytest.skip("no Prometheus (Debian: prometheus)")
    port = free_port()
    options = []
    if secure:
        cert, key = new_cert(tmp_path / "tls")
        (tmp_path / "password").write_text("open sesame")
        options = ["--tls-cert", cert, "--tls-key", key, "-p", tmp_path / "password"]
    with exporter(home, own_server.address("unix"), *options) as e:
        examples = re.findall(r"^    (scrape_configs:\n(?:     .*\n)+)", (ROOT / "docs" / "metrics.md").read_text(), re.M)
        config = re.sub("^    ", "", examples[secure], flags=re.M).replace(":9400", f":{e.port}").replace("gpuhost", "localhost")
        config = config.replace("/etc/prometheus", str(tmp_path)).replace("cert.pem", "tls/cert.pem")
        (tmp_path / "prometheus.yml").write_text("global: {scrape_interval: 1s}\n" + config)
        process = subprocess.Popen(["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                                    f"--web.listen-address=127.0.0.1:{port}"], env=home, stderr=subprocess.DEVNULL)

        def value(query):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}", timeout=60) as reply:
                    return [r["value"][1] for r in json.load(reply)["data"]["result"]]
            except OSError:
                return None     # it has not started yet
        try:
            wait_until(lambda: value("up") == ["1"] and value("sum(cricket_sessions)") == ["1"], 60, "it is scraped")
            for query in dashboard():
                assert value(urllib.parse.quote(query)) is not None, query
        finally:
            process.kill()
            process.wait()


# Without a panel: a label of others.
NO_PANEL = {"cricket_build_info"}


def dashboard():
    """Its queries."""
    panels = json.loads((ROOT / "docs" / "examples" / "grafana.json").read_text(encoding="utf-8"))["panels"]
    assert len({p["id"] for p in panels}) == len({tuple(p["gridPos"].values()) for p in panels}) == len(panels)
    return [target["expr"] for p in panels for target in p["targets"]]


def test_each_metric_is_documented_and_has_a_panel(own_server, home, holder):
    text = cricket(home, "metrics", "--identities", own_server.address("unix")).stdout
    known = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    documented = {name: kind for names, kind in re.findall(r"^\| (`cricket_.*?`) \| (\w+) \|",
                                                           (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), re.M)
                  for name in re.findall(r"cricket_[a-z_]+", names)}
    assert documented.items() >= known.items()
    assert set(documented) - set(known) <= {"cricket_gpu_utilization_ratio"}     # the emulated GPU has none
    used = {name.removesuffix("_bucket") for query in dashboard() for name in re.findall(r"cricket_[a-z_]+", query)}
    assert used == set(documented) - NO_PANEL


# --- cricket-exporter

def test_the_exporter_serves_metrics_status_history_and_health(own_server, home, holder):
    with exporter(home, own_server.address("unix")) as e:
        status, headers, text = e.get("/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert samples(text)["cricket_sessions", 'state="running"'] + samples(text)["cricket_sessions", 'state="idle"'] == 1
        report = json.loads(e.get("/status.json")[2])
        assert report["sessions"][0]["client_pid"] == holder.process.pid and "ok" not in report
        assert report["gpus"][0]["used"] >= 64 << 20 and report["sessions"][0]["gpus"][0]["index"] == 0
        wait_until(lambda: json.loads(e.get("/history.json")[2])["points"], 30, "the first point of the history")
        points = json.loads(e.get("/history.json")[2])["points"]
        assert points[0]["gpus"][0]["used"] >= 64 << 20
        assert e.get("/healthz")[::2] == (200, "ok\n")
        assert e.get("/nothing")[0] == 404 and e.get("/metrics", "HEAD")[::2] == (200, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(own_server, home, method):
    with exporter(home, own_server.address("unix")) as e:
        status, headers, _ = e.get("/status.json", method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_the_exporter_outlives_the_server(tmp_path, home):
    server = Server(tmp_path / "server")
    with exporter(home, server.address("unix")) as e:
        assert samples(e.get("/metrics")[2])["cricket_up", None] == 1
        server.stop()
        wait_until(lambda: samples(e.get("/metrics")[2]) == {("cricket_up", None): 0}, 10, "the server is down")
        assert e.get("/healthz")[0] == 503 and "error" in json.loads(e.get("/status.json")[2])
        assert "does not answer" in e.line()
        again = Server(tmp_path / "server")
        try:
            wait_until(lambda: e.get("/healthz")[0] == 200, 20, "the next server is found")
            assert "answers again" in e.line()
        finally:
            again.end()


def test_a_password_is_wanted(own_server, home, tmp_path):
    (tmp_path / "password").write_text("open sesame\n")
    os.chmod(tmp_path / "password", 0o600)

    def basic(password):
        return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()
    with exporter(home, own_server.address("unix"), "--password-file", tmp_path / "password") as e:
        for path in ("/", "/metrics", "/status.json", "/nothing"):
            status, headers, text = e.get(path)
            assert status == 401 and "Basic" in headers["WWW-Authenticate"] and "cricket_" not in text
        for wrong in ("", "open", "open sesame ", "open sesame" * 2):
            assert e.get("/metrics", Authorization=basic(wrong))[0] == 401
        assert e.get("/metrics", Authorization=basic("open sesame"))[0] == 200


def test_other_hosts_need_a_password_and_tls_or_the_word_insecure(home, tmp_path):
    done = run([EXPORTER, "--listen", f"0.0.0.0:{free_port()}"], home)
    assert done.status == 1 and "--password-file" in done.err
    (tmp_path / "password").write_text("open sesame\n")
    done = run([EXPORTER, "--listen", f"0.0.0.0:{free_port()}", "-p", tmp_path / "password"], home)
    assert done.status == 1 and "--tls-cert" in done.err
    for missing in (["--tls-cert", "a"], ["--tls-key", "a"]):
        assert run([EXPORTER, *missing], home).status == 2
    for wrong, why in (("nohost.invalid:80", "no name server knows this name, or none answers"), ("127.0.0.1:x", "not HOST:PORT")):
        done = run([EXPORTER, "--listen", wrong], home)
        assert done.status == 1 and f"--listen {wrong}: {why}" in done.err and done.err.count("\n") == 1
    done = run([EXPORTER, "--no-such-option"], home)
    assert done.status == 2 and "usage: cricket-exporter [OPTION]... [SERVER]; see `cricket-exporter --help`" in done.err
    done = run([EXPORTER, "--password-file", "/nonexistent"], home)
    assert done.status == 1 and done.err.startswith("cricket: ")
    assert run([EXPORTER, "--nothing"], home).status == 2 and run([EXPORTER, "--help"], home).status == 0


def test_a_web_site_cannot_reach_it_by_a_name_of_its_own(own_server, home):
    with exporter(home, own_server.address("unix")) as e:
        assert e.get("/status.json", Host="attacker.example")[0] == 403
        assert e.get("/status.json", Host=f"attacker.example:{e.port}")[0] == 403
        for good in ("localhost", f"localhost:{e.port}", "127.0.0.1", "[::1]:80"):
            assert e.get("/status.json", Host=good)[0] == 200


def test_garbage_does_not_stop_it(own_server, home):
    with exporter(home, own_server.address("unix")) as e:
        for bytes_ in (b"\0" * 5000, b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
                       b"GET /%00%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000):
            with socket.create_connection(("127.0.0.1", e.port)) as s, contextlib.suppress(OSError):
                s.sendall(bytes_)
                s.shutdown(socket.SHUT_WR)
                s.recv(1000)
        assert e.get("/healthz")[0] == 200


def test_one_host_cannot_take_all_connections(own_server, home):
    with exporter(home, own_server.address("unix")) as e, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", e.port), HANG, ("127.0.0.2", 0))) for _ in range(100)]
        for s in silent:
            with contextlib.suppress(OSError):      # most are closed at once
                s.sendall(b"G")
        with socket.create_connection(("127.0.0.1", e.port), HANG) as s:   # before the others time out
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 OK" in s.recv(1000)


def is_closed(s):
    s.setblocking(False)
    try:
        while s.recv(1 << 16):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_slow_clients_of_several_addresses_do_not_keep_out_others(own_server, home):
    """A line now and then keeps a connection in use, but the oldest one is closed for a new one, and no request takes for longer than 10 s."""
    with exporter(home, own_server.address("unix")) as e, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", e.port), HANG, (f"127.0.0.{2 + i // 16}", 0)))
                for i in range(96)]

        def go_on(line):
            for s in slow:
                with contextlib.suppress(OSError):      # those that have been closed
                    s.sendall(line)
        go_on(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(3):
            assert e.get("/healthz")[0] == 200
            go_on(b"X-More: 1\r\n")

        def closed():
            time.sleep(0.5)     # slow, but never idle
            go_on(b"X-More: 1\r\n")
            return all(map(is_closed, slow))
        wait_until(closed, 20, "all slow requests are given up")
        assert e.get("/healthz")[0] == 200


def test_wrong_passwords_are_answered_after_a_pause_that_stops_no_other_request(own_server, home, tmp_path):
    (tmp_path / "password").write_text("open sesame\n")
    os.chmod(tmp_path / "password", 0o600)
    with exporter(home, own_server.address("unix"), "-p", tmp_path / "password") as e:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            began = time.monotonic()
            wrong = [pool.submit(e.get, "/status.json", Authorization=password("guess")) for _ in range(4)]
            for _ in range(10):
                assert e.get("/status.json", Authorization=password("open sesame"))[0] == 200
                assert e.get("/status.json")[0] == 401      # a browser that asks for it
            assert not any(future.done() for future in wrong) or time.monotonic() - began > 1
            assert [future.result()[0] for future in wrong] == [401] * 4
            assert time.monotonic() - began >= 1


def test_it_serves_at_a_unix_socket_too(own_server, home, tmp_path):
    path = tmp_path / "http"
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    process = subprocess.Popen([EXPORTER, "-s", own_server.address("unix"), "-l", f"unix:{path}"], env=home)
    try:
        wait_until(lambda: listens(path), 10, "it listens")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(path))
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: gpuhost\r\nConnection: close\r\n\r\n")
            with s.makefile("rb") as reply:
                assert reply.readline().startswith(b"HTTP/1.1 200")
        process.terminate()
        assert process.wait(HANG) == 0 and not path.exists()
    finally:
        process.kill()
        process.wait()


def password(word):
    return "Basic " + base64.b64encode(f"any:{word}".encode()).decode()


def test_the_end_of_the_log_is_for_those_with_the_password(own_server, home, tmp_path):
    log, secret = tmp_path / "log", tmp_path / "secret"
    secret.write_text("sesame\n")
    done = subprocess.run([EXPORTER, "-s", own_server.address("unix"), "-L", log], env=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--log-file shows what all users do" in done.stderr
    with exporter(home, own_server.address("unix"), "-L", log, "-p", secret) as e:
        assert e.get("/log.txt")[0] == 401
        assert e.get("/log.txt", Authorization=password("sesame"))[0] == 503       # not there yet
        log.write_text("first\x1b[31m line\n")
        status, headers, text = e.get("/log.txt", Authorization=password("sesame"))
        assert (status, text) == (200, "first?[31m line\n") and headers["Content-Type"].startswith("text/plain")
        log.write_text("".join(f"line {i}\n" for i in range(100000)))
        lines = e.get("/log.txt", Authorization=password("sesame"))[2].splitlines()
        assert lines == [f"line {i}" for i in range(100000 - len(lines), 100000)] and 2000 < len(lines) < 4000
        log.rename(tmp_path / "log.1")
        log.write_text("rotated\n")
        assert e.get("/log.txt", Authorization=password("sesame"))[2] == "rotated\n"
    with exporter(home, own_server.address("unix")) as e:
        assert e.get("/log.txt")[0] == 404


# --- TLS, and users

def new_cert(folder, name="localhost"):
    """A certificate of its own authority, and its key."""
    done = subprocess.run([SERVER, "--new-cert", folder, name], env=clean_env(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return folder / "cert.pem", folder / "key.pem"


def bearer(secret):
    return f"Bearer {secret}"


@pytest.fixture(name="certificate")
def fixture_certificate(tmp_path):
    return new_cert(tmp_path / "tls")


def test_the_exporter_speaks_tls(own_server, home, certificate):
    cert, key = certificate
    with exporter(home, own_server.address("unix"), "--tls-cert", cert, "--tls-key", key) as e:
        assert e.get("/healthz", authority=cert)[::2] == (200, "ok\n")
        with pytest.raises(ssl.SSLError):
            trust = ssl.create_default_context(cafile=cert)
            trust.maximum_version = ssl.TLSVersion.TLSv1_2
            with socket.create_connection(("localhost", e.port)) as s, trust.wrap_socket(s, server_hostname="localhost"):
                pass
        with socket.create_connection(("localhost", e.port)) as s:      # no plain text
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert b"200" not in s.recv(1000)


def test_curl_and_a_new_certificate(own_server, home, certificate, tmp_path):
    if not shutil.which("curl"):
        pytest.skip("no curl")
    cert, key = certificate

    def trusts(authority):
        return run(["curl", "-sS", "--cacert", authority, f"https://localhost:{e.port}/healthz"], home)
    with exporter(home, own_server.address("unix"), "--tls-cert", cert, "--tls-key", key) as e:
        assert trusts(cert).out == "ok\n"
        old = tmp_path / "old.pem"
        old.write_text(cert.read_text())
        other, other_key = new_cert(tmp_path / "other")
        cert.write_text(other.read_text())          # not the key yet
        e.process.send_signal(signal.SIGHUP)
        assert "do not match" in e.line() and trusts(old).out == "ok\n"
        key.write_text(other_key.read_text())
        e.process.send_signal(signal.SIGHUP)
        assert "read again" in e.line()
        assert trusts(other).out == "ok\n" and trusts(old).status != 0
        key.unlink()
        e.process.send_signal(signal.SIGHUP)
        assert "key.pem: " in e.line() and trusts(other).out == "ok\n"


def test_a_key_that_all_can_read_is_refused(home, certificate):
    cert, key = certificate
    key.chmod(0o644)
    done = run([EXPORTER, "--listen", f"127.0.0.1:{free_port()}", "--tls-cert", cert, "--tls-key", key], home)
    assert done.status == 1 and "all users can read the key" in done.err
    done = run([EXPORTER, "--listen", f"127.0.0.1:{free_port()}", "--tls-cert", cert, "--tls-key", cert], home)
    assert done.status == 1


def test_users_see_what_is_theirs_and_the_administrator_all(tmp_path, home):
    tokens, lines = {}, []
    for name in ("alice", "bob"):
        made = subprocess.run([SERVER, "--new-token", name], env=clean_env(), capture_output=True, text=True, timeout=60, check=True)
        tokens[name], line = re.search(r"token: (\S+)\nline:  (\S+)", made.stdout).groups()
        lines.append(line)
    (tmp_path / "tokens").write_text("\n".join(lines) + "\n")
    (tmp_path / "password").write_text("open sesame\n")
    server = Server(tmp_path / "server", "--token-file", tmp_path / "tokens")
    holder = None
    try:
        wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
        holder = Holder(server, dict(home, CRICKET_TOKEN=tokens["alice"]), "tcp")
        with exporter(home, server.address("unix"), "-i", "-t", tmp_path / "tokens", "-p", tmp_path / "password",
                      "-L", server.log_file) as e:
            wait_until(lambda: json.loads(e.get("/history.json", Authorization=bearer("open sesame"))[2])["points"], 30, "history")
            wrong = [{}, *({"Authorization": text} for text in (bearer("wrong"), bearer(""), "Bearer", password("wrong"), lines[0]))]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:      # each is answered after a pause
                asked = [pool.submit(e.get, path, **headers) for path in ("/", "/metrics", "/status.json") for headers in wrong]
                assert [future.result()[0] for future in asked] == [401] * len(asked)

            def seen(secret, of=bearer):
                return json.loads(e.get("/status.json", Authorization=of(secret))[2])
            everything = seen("open sesame")
            assert everything["all"] and everything["totals"] and everything["sessions"][0]["identity"] == "alice"
            assert seen("open sesame", password).keys() == everything.keys()
            for way in (bearer, password):      # a browser asks for a password
                mine = seen(tokens["alice"], way)
                assert [s["client_pid"] for s in mine["sessions"]] == [holder.process.pid] and not mine["all"]
                assert mine["gpus"] and mine["session_count"] == 1
                theirs = seen(tokens["bob"], way)
                assert theirs["sessions"] == [] and theirs["session_count"] == 1
                assert not {"totals", "identities"} & (set(mine) | set(theirs))
            text = e.get("/metrics", Authorization=bearer(tokens["bob"]))[2]
            assert "alice" not in text and ("cricket_calls_total", None) not in samples(text)
            assert "alice" in e.get("/metrics", Authorization=bearer("open sesame"))[2]
            points = json.loads(e.get("/history.json", Authorization=bearer(tokens["bob"]))[2])["points"]
            assert points and not {"calls", "bytes"} & set(points[-1])
            assert e.get("/log.txt", Authorization=bearer(tokens["alice"]))[0] == 404
            assert e.get("/log.txt", Authorization=bearer("open sesame"))[0] == 200
            (tmp_path / "tokens").write_text(lines[0] + "\n")       # bob's is revoked
            assert e.get("/status.json", Authorization=bearer(tokens["bob"]))[0] == 401
            assert e.get("/status.json", Authorization=bearer(tokens["alice"]))[0] == 200
            for damaged in (f"{lines[0][:9]}\n{lines[1]}\n", f"\ufeff{lines[0]}\n", lines[0][:9]):
                (tmp_path / "tokens").write_text(damaged, encoding="utf-8")
                for secret in (tokens["alice"], *damaged.splitlines()[:1]):
                    assert e.get("/status.json", Authorization=bearer(secret.encode().decode("latin-1")))[0] == 401
        done = run([EXPORTER, "-t", tmp_path / "none"], home)
        assert done.status == 1 and done.err.startswith("cricket: ")
        done = run([EXPORTER, "-t", tmp_path / "tokens"], home)
        assert done.status == 1 and f"{tmp_path / 'tokens'}:1: not NAME:HASH" in done.err
    finally:
        if holder:
            holder.end()
        server.end()


# --- the web page

@contextlib.contextmanager
def forwarder(path):
    """A port that leads to the socket PATH, as a web server in front of the exporter would."""
    def pump(source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                near = listener.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(path))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_a_browser_shows_the_queue_and_the_log(tmp_path, home):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no Chromium")
    server = Server(tmp_path / "server", "--max-sessions", "1")
    holder = waiter = process = None
    try:
        wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
        holder = Holder(server, home)
        waiter = subprocess.Popen([PRODUCTS / "cricket", "run", "-s", server.address("unix"), "--wait", "10m", sys.executable, "-c",
                                   HOLDER], env=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        wait_until(lambda: json.loads(cricket(home, "status", "--json", server.address("unix")).stdout)["waiting"], 30, "it waits")
        process = subprocess.Popen([EXPORTER, "-s", server.address("unix"), "-l", f"unix:{tmp_path}/http", "-L", server.log_file], env=home)
        wait_until(lambda: listens(tmp_path / "http"), 10, "it listens")
        with forwarder(tmp_path / "http") as port:
            done = run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
                        "--virtual-time-budget=5000", "--dump-dom", f"http://127.0.0.1:{port}/"], home, timeout=120)
        queue = done.out.split('id="queue"')[1].split("</tbody>")[0]
        assert f"<title>{socket.gethostname()}: 1/1, 1 waiting</title>" in done.out
        assert f":{waiter.pid}<" in queue and '<section aria-labelledby="queue-title" id="queue-box">' in done.out, done.out
        assert "listening on 127.0.0.1" in done.out.split('id="log"')[1], done.out
    finally:
        for one in (waiter, process):
            if one:
                one.kill()
                one.communicate()
        if holder:
            holder.end()
        server.end()


def test_the_page_loads_nothing_from_elsewhere(own_server, home):
    with exporter(home, own_server.address("unix")) as e:
        _, headers, page = e.get("/")
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
        names = re.findall(r'(?:src|href)="([^"]*)"', page)
        assert set(names) == {"page.css", "page.js", "page_gpus.js", "metrics"}
        assert not re.search(r"<script>|<style|style=|\son\w+=", page)      # the policy would block it
        script = e.get("/page.js")[2] + e.get("/page_gpus.js")[2]
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
        assert "//" not in re.sub(r"^\s*//.*|http://www.w3.org/2000/svg", "", script, flags=re.M)
        assert "http" not in e.get("/page.css")[2] and "url(" not in e.get("/page.css")[2]


def test_a_browser_shows_sessions_and_escapes_their_names(own_server, home, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no Chromium")
    wait_until(lambda: listens(f"{own_server.unix}.status"), 10, "the status socket is there")
    evil = "<img src=x onerror=alert(1)>"
    # a program is called as its file, up to the last slash
    os.symlink(sys.executable, tmp_path / evil)
    process = subprocess.Popen([PRODUCTS / "cricket", "run", "-s", own_server.address("unix"), tmp_path / evil, "-c", HOLDER],
                               env=dict(home, PYTHONHOME=sys.base_prefix), text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "ready\n"
        with exporter(home, own_server.address("unix")) as e:
            done = run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
                        "--virtual-time-budget=5000", "--dump-dom", f"http://127.0.0.1:{e.port}/"], home, timeout=120)
        assert html.escape(evil, quote=False) in done.out and evil not in done.out, done.out
        assert "1 of 256" in done.out and "0: Cricket Emulated GPU" in done.out and "<svg" in done.out
        assert f'<h1 id="host">{socket.gethostname()}</h1>' in done.out and f"<title>{socket.gethostname()}: 1/256</title>" in done.out
        assert re.search(r'id="age">data: \d+ s ago<', done.out) and "100 %" in done.out and "1 h ago" in done.out
        # the session's part of the bar of memory, with its name in the legend; its state with a sign
        assert re.search(r'class="part colour-\d" title="s\d+ ', done.out) and re.search(r'class="swatch colour-\d"></span>', done.out)
        assert re.search(r'class="state (running|idle)"><span aria-hidden="true">.</span>', done.out)
        assert done.out.count('aria-sort="none"') == 11 and "more about s" in done.out
        assert 'id="problem" role="status" hidden=""' in done.out
    finally:
        process.kill()
        process.communicate()


def test_a_page_without_sessions_has_a_command_and_the_gpus_of_the_server(tmp_path, home):
    """The exporter's own environment has another number of emulated GPUs."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no Chromium")
    # a spare worker would take memory of the first GPU at some time
    server = Server(tmp_path / "server", "--warm", "0", CRICKET_EMU=f"devices=2,memory=64M,usage={tmp_path}/table")
    try:
        with exporter(with_words(home, "CRICKET_EMU", "devices=3"), server.address("unix")) as e:
            wait_until(lambda: [gpu["used"] for gpu in json.loads(e.get("/status.json")[2])["gpus"]] == [0, 0], 30, "no process uses the two GPUs")
            done = run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
                        "--virtual-time-budget=5000", "--dump-dom", f"http://127.0.0.1:{e.port}/"], home, timeout=120)
        assert f"<code>cricket run -s {socket.gethostname()} -- python3 train.py</code>" in done.out, done.out
        assert "0 of 256" in done.out and done.out.count("Cricket Emulated GPU") == 2 and done.out.count("0 B of 64.0 MiB") == 2
        assert 'id="table" hidden=""' in done.out and 'id="tools" hidden=""' in done.out
    finally:
        server.end()


class Actor(http.server.BaseHTTPRequestHandler):
    """The exporter's pages, and in the first one also a script that acts as a user would."""
    port, script = 0, ""

    def do_GET(self):
        if self.path == "/act.js":
            kind, body = "text/javascript", self.script.encode()
        else:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.path}", timeout=60 * SLOW) as reply:
                kind, body = reply.headers["Content-Type"], reply.read()
        if self.path == "/":
            body = body.replace(b"</body>", b'<script src="act.js"></script></body>')
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ACT = """
const shown = () => [...document.querySelectorAll("#sessions tr")].map((row) => row.dataset.session).join(",");
const results = [];
function act() {
	if (document.querySelectorAll("#sessions tr").length < 2)
		return setTimeout(act, 100);
	const head = document.querySelector('th[data-key="session"] button'), filter = document.getElementById("filter");
	head.click();
	results.push(shown());
	head.click();
	results.push(shown(), head.parentNode.getAttribute("aria-sort"));
	document.querySelector("#gpu-1 .legend button").click();
	results.push(filter.value, shown());
	filter.value = "NO-SUCH";
	filter.dispatchEvent(new Event("input"));
	results.push(shown(), document.getElementById("none").textContent);
	filter.value = "s1";
	filter.dispatchEvent(new Event("input"));
	document.querySelector("#sessions .more").click();
	results.push(document.querySelector("#sessions tr").className, document.querySelector("#sessions .more").getAttribute("aria-expanded"));
	document.body.append(Object.assign(document.createElement("pre"), { id: "results", textContent: results.join("|") }));
}
act();
"""


def test_a_user_sorts_filters_and_opens_rows_of_the_page(tmp_path, home):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no Chromium")
    server = Server(tmp_path / "server", CRICKET_EMU="devices=2")
    holders = []
    try:
        wait_until(lambda: listens(f"{server.unix}.status"), 10, "the status socket is there")
        holders = [Holder(server, dict(home, CUDA_VISIBLE_DEVICES=gpu)) for gpu in "01"]
        with exporter(home, server.address("unix")) as e:
            names = sorted(s["session"] for s in json.loads(e.get("/status.json")[2])["sessions"])
            on_second, = [s["session"] for s in json.loads(e.get("/status.json")[2])["sessions"]
                          if any(g["index"] == 1 and g["memory"] >= 64 << 20 for g in s["gpus"])]
            handler = type("Handler", (Actor,), {"port": e.port, "script": ACT})
            with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
                threading.Thread(target=web.serve_forever, daemon=True).start()
                done = run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
                            "--virtual-time-budget=8000", "--dump-dom", f"http://127.0.0.1:{web.server_port}/"], home, timeout=120)
                web.shutdown()
        found = html.unescape(re.search(r'<pre id="results">(.*?)</pre>', done.out).group(1)).split("|")
        assert found[:3] == [",".join(names), ",".join(reversed(names)), "descending"], found
        assert found[3] == "GPU 1" and on_second in found[4].split(",")
        assert found[5:7] == ["", "No session contains the text of the filter."] and found[7:] == ["open", "true"]
    finally:
        for holder in holders:
            holder.end()
        server.end()


@pytest.mark.parametrize("options, reason", [(["-s", ""], "an option has an empty value"), (["--tls-cert", "x"], "must be given together"),
                                             (["--token-file", "/usr"], "/usr: Is a directory")])
def test_the_exporter_says_what_is_wrong_with_its_options(options, reason):
    done = run([PRODUCTS / "cricket-exporter", "--listen", "127.0.0.1:0", *options], clean_env(), timeout=20)
    assert done.status != 0 and reason in done.err and "listening" not in done.err, done


@pytest.mark.parametrize("listen, shown", [("127.0.0.1:0", r"127\.0\.0\.1:[1-9]\d+"), ("[::1]:0", r"\[::1\]:[1-9]\d+"), ("127.0.0.9", r"127\.0\.0\.9:9400"),
                                           ("tcp://127.0.0.9", r"tcp://127\.0\.0\.9:9400")])
def test_the_exporter_says_its_port_which_is_not_the_servers(own_server, home, listen, shown):
    process = subprocess.Popen([PRODUCTS / "cricket-exporter", "--listen", listen, own_server.address("unix")], env=home, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert re.fullmatch(f"cricket: listening on {shown}\n", line) or "Address already in use" in line, line
    finally:
        process.kill()
        process.wait()
