#!/usr/bin/env python3
"""bench/model.py - how many clients of each kind a server carries, from measured bytes and calls a second.

    cricket status --json > before; sleep 60; cricket status --json > after
    bench/model.py --link 100 --cores 16 before after          each program of the server, as measured
    bench/model.py --link 100 --rates rates.json               kinds of work that bench/rates.py has measured
    bench/model.py --link 100 --client train:40:0.1:100:9000   a kind of client: MB/s to the server, MB/s from it, calls
                                                               and one-way commands a second

A model, not a measurement: it divides what a server has by what a client uses, and names the resource that runs out first. It
counts the network in each direction, and the server's processors. GPUs are not counted: how much of a GPU a program
needs is not known to the network. Clients that idle in turn (notebooks) use less than while they work: --busy.
"""
import argparse
import json
import sys

# Processor time on the server over tcp, by bench/call_cost.py: bench/results/2026-11-25-emulated-scale.md.
CALL_US = 10.0
COMMAND_US = 0.5
BYTES_A_SECOND_OF_A_CORE = 2.1e9
MB = 1e6


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("status", nargs="*", help="two replies of the status socket, the earlier one first")
    parser.add_argument("--client", action="append", default=[], metavar="NAME:UP:DOWN:CALLS:COMMANDS", help="a kind of client, in place of the two files")
    parser.add_argument("--rates", help="a file of bench/rates.py, in place of the two files")
    parser.add_argument("--link", type=float, default=100, help="the server's network, Gbit/s in each direction (100)")
    parser.add_argument("--usable", type=float, default=0.9, help="the part of it that carries payload (0.9)")
    parser.add_argument("--cores", type=float, default=16, help="processors of the server (16)")
    parser.add_argument("--busy", type=float, default=1.0, help="the part of the time in which a client works (1)")
    options = parser.parse_args(words)
    if bool(options.client) + bool(options.status) + bool(options.rates) != 1 or len(options.status) not in (0, 2):
        parser.error("give two status files, or --rates, or --client")
    if not 0 < options.busy <= 1 or not 0 < options.usable <= 1 or options.link <= 0 or options.cores <= 0:
        parser.error("--busy and --usable are more than 0 and at most 1; --link and --cores are more than 0")
    return options


def given(text):
    """(name, bytes up, bytes down, calls, commands), each a second."""
    name, *numbers = text.split(":")
    try:
        up, down, calls, commands = map(float, numbers)
    except ValueError:
        sys.exit(f"model.py: error: --client {text}: give NAME:UP:DOWN:CALLS:COMMANDS, with numbers")
    if min(up, down, calls, commands) < 0:
        sys.exit(f"model.py: error: --client {text}: a rate is negative")
    return name, up * MB, down * MB, calls, commands


def measured(before, after):
    """The same for each session that is in both replies."""
    seconds = after["time"] - before["time"]
    if seconds <= 0:
        sys.exit("model.py: error: the second file is not later than the first")
    old = {s["session"]: s for s in before["sessions"]}
    kinds = []
    for session in after["sessions"]:
        if session["session"] in old:
            was = old[session["session"]]
            rates = [(session[field] - was[field]) / seconds for field in ("received", "sent", "calls", "commands")]
            kinds.append((f"{session['program']} ({session['session']})", *rates))
    return kinds


def recorded(path):
    """The same of each row of a file of bench/rates.py."""
    try:
        with open(path, encoding="utf-8") as f:
            return [(r["name"], *(float(r[field]) for field in ("received", "sent", "calls", "commands"))) for r in json.load(f)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"model.py: error: {path}: {error!r}")


def capacity(kind, options):
    """What a server has, divided by what a client uses: resource -> clients."""
    _, up, down, calls, commands = kind
    link = options.link * 1e9 / 8 * options.usable
    cores = (calls * CALL_US + commands * COMMAND_US) * 1e-6 + (up + down) / BYTES_A_SECOND_OF_A_CORE
    uses = {"network to the server": (link, up), "network from the server": (link, down), "processors": (options.cores, cores)}
    return {name: has / (used * options.busy) for name, (has, used) in uses.items() if used > 0}


def load(path):
    try:
        with open(path, encoding="utf-8") as f:
            reply = json.load(f)
    except (OSError, ValueError) as error:
        sys.exit(f"model.py: error: {path}: {error}")
    if "sessions" not in reply or "time" not in reply:
        sys.exit(f"model.py: error: {path} is not a reply of cricket status --json")
    return reply


def main(words=None):
    options = arguments(words)
    if options.rates:
        kinds = recorded(options.rates)
    else:
        kinds = [given(c) for c in options.client] or measured(*map(load, options.status))
    if not kinds:
        sys.exit("model.py: error: no session is in both files")
    print(f"{'client':28} {'MB/s up':>9} {'MB/s down':>9} {'calls/s':>9} {'comm./s':>9} {'clients':>9}  used up first")
    for kind in kinds:
        found = capacity(kind, options)
        first = min(found, key=found.get) if found else "nothing"
        clients = f"{int(found[first]):9}" if found else f"{'any':>9}"
        print(f"{kind[0]:28} {kind[1] / MB:9.2f} {kind[2] / MB:9.2f} {kind[3]:9.0f} {kind[4]:9.0f} {clients}  {first}")


if __name__ == "__main__":
    sys.exit(main())
