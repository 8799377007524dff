#!/usr/bin/env python3
"""bench/networks.py [--networks 'MS/MBITS ...'] [--rows '...'] - PyTorch programs and copies over several networks.

Needs root and what `make -C tests far` builds, which delays the packets between two network namespaces. For each network, "same host" and
loopback first: plain sockets with 4 and 32 connections, copies of 64 MiB, and rows of torch_models.py, in plain text and with TLS, with a
server of their own. All programs have run once against this server, so it has their modules. Prints a table for each network when it has
been measured, the rows where Cricket is slower first. OUT/networks.json has all of it. A run takes a minute for this host, two for each network.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAR = ROOT / "build" / "tests" / "far"
OUT = pathlib.Path(os.environ.get("OUT") or ROOT / "build" / "gpu")
LIBS = os.environ.get("LIBS") or str(ROOT / "build" / "lib")
DRIVER = os.environ.get("DRIVER") or "cuda"
ROWS = ("script_first script_steps item add resnet50_train resnet50_infer_b1 gpt2_generate_32 llama_decode_32 llama_decode_32_graphs "
        "pinned_loader")
NETWORKS = "1/10000 1/1000 20/1000 150/1000"
HOST = "10.77.0.2"
PORT = 19870
MIB = 64
NAMES = {
    "script_first": "PyTorch script, first number", "script_steps": "PyTorch script, 500 steps", "item": "`.item()`", "add": "an addition",
    "resnet50_train": "ResNet-50, a training step", "resnet50_infer_b1": "ResNet-50, inference", "gpt2_generate_32": "GPT-2, 32 tokens",
    "llama_decode_32": "Llama, 32 tokens", "llama_decode_32_graphs": "Llama, 32 tokens, CUDA graphs",
    "pinned_loader": "a step with a pinned `DataLoader`, 1 MB", "first_call": "first CUDA call",
    "h2d_pinned": "copy, pinned, to the device", "d2h_pinned": "copy, pinned, to the host",
    "h2d_pageable": "copy, pageable, to the device", "d2h_pageable": "copy, pageable, to the host"}


class Network:
    """A place of the server: this host, or the end of a link."""

    def __init__(self, kind, ms=0, mbits=0):
        self.kind, self.ms, self.mbits = kind, ms, mbits
        self.name = kind if kind != "far" else f"{ms} ms, {mbits / 1000:g} Gbit/s" if mbits else f"{ms} ms"
        self.ways = ("plain",) if kind == "shm" else ("plain", "tls")
        self.host = HOST if kind == "far" else "127.0.0.1"

    def run(self, server, client, seconds):
        """Runs the command CLIENT while SERVER accepts connections; what it prints."""
        if self.kind == "far":
            command = [FAR, self.ms, self.mbits, 0, PORT, *server, "--", *client]
            return text_of(subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False, timeout=seconds))
        with subprocess.Popen([str(word) for word in server], start_new_session=True) as process:
            await_port(self.host)
            try:
                return text_of(subprocess.run([str(word) for word in client], stdout=subprocess.PIPE, text=True, check=False, timeout=seconds))
            finally:
                process.send_signal(signal.SIGTERM)


def text_of(result):
    return result.stdout if result.returncode == 0 else f"status {result.returncode}\n"


def await_port(host):
    import socket
    for _ in range(600):
        try:
            socket.create_connection((host, PORT)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not accept connections")


def last_json(text):
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


class Bench:
    """The server's folders, and the commands."""

    def __init__(self, folder, rows):
        self.folder = pathlib.Path(folder)
        self.program = [sys.executable, ROOT / "bench" / "torch_models.py", *rows] if DRIVER != "emu" else [ROOT / "bench" / "steps.sh"]
        made = subprocess.run([ROOT / "cpu" / "cricket-rpc-server", "--new-cert", self.folder / "tls", HOST], check=True, text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "LD_LIBRARY_PATH": LIBS})
        self.pin = made.stdout.split("CRICKET_TLS_PIN=")[1].split()[0]

    def server(self, network, way):
        tls = ["--tls-cert", self.folder / "tls" / "cert.pem", "--tls-key", self.folder / "tls" / "key.pem"] if way == "tls" else []
        return ["env", f"CRICKET_CACHE_DIR={self.folder / 'cache'}", f"LD_LIBRARY_PATH={LIBS}:{os.environ.get('LD_LIBRARY_PATH', '')}",
                "CRICKET_LOG=error", ROOT / "cpu" / "cricket-rpc-server", "--driver", DRIVER, "--listen", f"{network.host}:{PORT}",
                "--unix", self.folder / "socket", "--insecure", *tls]

    def client(self, network, way, command):
        address = f"shm:{self.folder / 'socket'}" if network.kind == "shm" else f"tcp://{network.host}:{PORT}"
        hide = [ROOT / "bench" / "no-gpu.sh"] if DRIVER != "emu" else []
        return ["env", f"REMOTE_GPU_ADDRESS={address}", f"LD_PRELOAD={ROOT / 'cpu' / 'cricket-client.so'}",
                *([f"CRICKET_TLS_PIN={self.pin}"] if way == "tls" else ["CRICKET_TLS=off"]),
                f"XDG_CACHE_HOME={self.folder / 'client'}", "CRICKET_LOG=error",
                f"BENCH_STEPS={os.environ.get('BENCH_STEPS') or 0.3}", *hide, *command]

    def rows(self, network, way, command, seconds=240):
        return last_json(network.run(self.server(network, way), self.client(network, way, command), seconds))

    def native(self):
        env = {**os.environ, "BENCH_STEPS": os.environ.get("BENCH_STEPS") or "0.3"}
        if DRIVER == "emu":
            (self.folder / "libcuda.so.1").unlink(missing_ok=True)
            (self.folder / "libcuda.so.1").symlink_to(ROOT / "cpu" / "libcuda-emu.so")
            env["LD_LIBRARY_PATH"] = str(self.folder)
        return [last_json(subprocess.run([str(w) for w in command], stdout=subprocess.PIPE, text=True, check=False, env=env).stdout)
                for command in (self.program, self.copy())]

    def copy(self):
        return ["env", "CRICKET_DEBUG=no-compress", ROOT / "cpu" / "build" / "bench-load", "copy", str(MIB), "4"]

    def plain_sockets(self, network):
        """GB/s to and from the server, with 4 and 32 connections."""
        wire = ROOT / "cpu" / "build" / "bench-wire"
        if network.kind == "shm":
            return {}
        found = {}
        for count in (4, 32):
            # the link's other end accepts connections before the measurement begins
            said = last_json(network.run([wire, "serve", PORT], [wire, "run", network.host, PORT, count, MIB, 4], 120))
            found[str(count)] = {key: said.get(key) for key in ("up", "down")}
        return found


def measured(row):
    return row.get("ms", row.get("value"))


def table(network, native, result):
    """Lines of Markdown; slower rows first."""
    lines = []
    for name, here in native.items():
        cells, worst = [], 0.0
        rate = here.get("unit") == "GB/s"
        for way in network.ways:
            there = result[way].get(name, {})
            if measured(there) is None or not measured(here):
                cells.append(there.get("error", "-")[:40])
                continue
            ratio = measured(there) / measured(here)
            worst = max(worst, 1 / ratio if rate and ratio else ratio)
            same = "" if there.get("check") == here.get("check") else " differs"
            cells.append(f"{measured(there):.3g} ({ratio:.2f}){same}")
        lines.append((worst, f"| {NAMES.get(name, name)} | {here.get('unit', 'ms')} | {measured(here):.3g} | {' | '.join(cells)} |"))
    head = f"| row | unit | native | {' | '.join(network.ways)} |"
    sockets = "; ".join(f"{n} plain sockets: {v['up']} GB/s there, {v['down']} back" for n, v in result.get("sockets", {}).items())
    return "\n".join([f"### {network.name}", "", sockets, "", head, "|---" * (3 + len(network.ways)) + "|",
                      *(line for _, line in sorted(lines, reverse=True)), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=NETWORKS, help="round trip in ms and Mbit/s of each")
    parser.add_argument("--rows", default=ROWS)
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    networks = [Network("shm"), Network("tcp")]
    networks += [Network("far", *(int(n) for n in word.split("/"))) for word in options.networks.split()]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, options.rows.split())
        native, results = {key: row for rows in bench.native() for key, row in rows.items()}, {}
        bench.rows(networks[1], "plain", bench.program)     # the server's cache has all modules afterwards
        for network in networks:
            begin, found = time.monotonic(), {}
            for way in network.ways:
                found[way] = {**bench.rows(network, way, bench.program), **bench.rows(network, way, bench.copy())}
            found["sockets"] = bench.plain_sockets(network)
            results[network.name] = found
            print(table(network, native, found), f"({time.monotonic() - begin:.0f} s)\n", sep="\n", flush=True)
            (OUT / "networks.json").write_text(json.dumps({"native": native, "networks": results}), encoding="utf-8")


if __name__ == "__main__":
    main()
