"""tests/e2e/bend.py - runs a command, and disturbs the connection to it; for test_move.py and test_move_memory.py.

    bend.py COMMAND [--cut BYTES] [--until WORD] [--last WORD] [--flip BYTES] [--wait BYTES FILE]... [--old]
    bend.py COMMAND --lanes [--key] [--closed] [--strangers] [--lane-cut BYTES] [--lane-flip BYTES] [--lane-wait BYTES FILE]

cuts it after BYTES towards the command, when the command says WORD, or before a WORD towards it; changes the byte there; waits there until FILE exists (it makes
FILE.reached); makes the command one of an older release, which knows only the first format. All goes over this one connection, unless --lanes lets
others pass too: with a wrong key; all refused; behind connections of strangers; the first cut after BYTES towards the command; with a changed byte there; or waiting there.
"""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("command")
parser.add_argument("--cut", type=int, default=-1)
parser.add_argument("--until", default="")
parser.add_argument("--last", default="")
parser.add_argument("--flip", type=int, default=-1)
parser.add_argument("--wait", nargs=2, action="append", default=[])
parser.add_argument("--old", action="store_true")
parser.add_argument("--lanes", action="store_true")
parser.add_argument("--key", action="store_true")
parser.add_argument("--closed", action="store_true")
parser.add_argument("--strangers", action="store_true")
parser.add_argument("--lane-cut", type=int, default=-1)
parser.add_argument("--lane-flip", type=int, default=-1)
parser.add_argument("--lane-wait", nargs=2, default=None)
options = parser.parse_args()
process = subprocess.Popen(["sh", "-c", options.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def cut():
    os._exit(1)


def wait(file):
    pathlib.Path(f"{file}.reached").touch()
    while not os.path.exists(file):
        time.sleep(0.02)


def forward():
    at = 0
    waits = {int(place): file for place, file in options.wait}
    places = sorted(place for place in (options.cut, options.flip, *waits) if place >= 0)
    while True:
        while places and places[0] <= at:
            places.pop(0)
        try:
            data = bytearray(os.read(0, min([65536, *[place - at for place in places]])))
        except ConnectionResetError:    # the other end has closed it, and has not read all
            break
        if not data:
            break
        if at - 1 < options.flip <= at + len(data) - 1:
            data[options.flip - at] ^= 1
        if options.last and options.last.encode() in data:
            cut()
        process.stdin.write(data)
        process.stdin.flush()
        at += len(data)
        if at == options.cut:
            cut()
        if at in waits:
            wait(waits[at])
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def carry(source, target, places):
    """Bytes of one connection, with what is to happen at each place."""
    at = 0
    with contextlib.suppress(OSError):
        while data := bytearray(source.recv(min([65536, *[place - at for place in places if place > at]]))):
            at += len(data)
            if at == options.lane_flip and places:
                data[-1] ^= 1
            target.sendall(data)
            if at == options.lane_cut and places:
                break
            if places and options.lane_wait and at == int(options.lane_wait[0]):
                wait(options.lane_wait[1])
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def serve_lanes(listener, port):
    places = [options.lane_cut, options.lane_flip, int(options.lane_wait[0]) if options.lane_wait else -1]
    while True:
        here, there = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=carry, args=(here, there, [place for place in places if place >= 0]), daemon=True).start()
        threading.Thread(target=carry, args=(there, here, []), daemon=True).start()
        places = []


strangers = []


def read_all(size):
    data = b""
    while len(data) < size and (more := os.read(process.stdout.fileno(), size - len(data))):
        data += more
    return data


def pass_lanes():
    """The command's first object, with a port of this process."""
    ready = json.loads(read_all(int.from_bytes(read_all(4), "big")))
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)     # what waits here is not sent
    if options.strangers:
        strangers.extend(socket.create_connection(("127.0.0.1", ready["lanes"]["port"])) for i in range(3))
        strangers[1].sendall(b"GET / HTTP/1.0\r\n\r\n")
        strangers[2].close()
    threading.Thread(target=serve_lanes, args=(listener, ready["lanes"]["port"]), daemon=True).start()
    ready["lanes"]["port"] = listener.getsockname()[1]
    if options.key:
        ready["lanes"]["secret"] = "0" * 64
    if options.closed:
        listener.close()
    text = json.dumps(ready).encode()
    os.write(1, len(text).to_bytes(4, "big") + text)


threading.Thread(target=forward, daemon=True).start()
if options.lanes:
    pass_lanes()
while True:
    said = os.read(process.stdout.fileno(), 65536)
    if options.until and options.until.encode() in said:
        cut()
    if not said:
        break
    said = said.replace(b'"newest"', b'"ignore"') if options.old else said
    os.write(1, said if options.lanes else said.replace(b'"lanes"', b'"other"'))
process.wait()
