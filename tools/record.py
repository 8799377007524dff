#!/usr/bin/env python3
"""tools/record.py - records commands in a terminal, and draws their screens.

    tools/record.py play FILE.cast [--within WORDS] COMMAND...    asciicast v2, a text file for asciinema
    tools/record.py draw FILE.cast FILE.svg                       each command with its screen, one below the other

bench/record_readme.sh makes the recording in README.md with it. WORDS begin the line that executes a COMMAND, and are not
shown. `play` needs nothing but the standard library, and fails if a command fails; `draw` needs pyte, a terminal's screen:

    python3 -m pip install --target build/pyte pyte && PYTHONPATH=build/pyte tools/record.py draw ...
"""
import argparse
import fcntl
import html
import json
import os
import pty
import shlex
import struct
import sys
import termios
import time

COLUMNS, ROWS, PROMPT = 100, 40, "$ "
STYLE = """text { font: 13.3px ui-monospace, monospace; fill: #1f2328 } .screen { fill: #f6f8fa } .typed { fill: #0550ae }
@media (prefers-color-scheme: dark) { text { fill: #d8d8d8 } .screen { fill: #1d1f21 }
.typed { fill: #79c0ff } }"""


def run(words, emit):
    """Runs a command in a terminal of its own; emit(data) gets what it writes. Its exit status."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execvp(words[0], words)
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:         # the last process has closed the terminal
            break
        if not data:
            break
        emit(data.decode(errors="replace"))
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def play(options):
    begin, failed = time.monotonic(), []
    with open(options.cast, "w", encoding="utf-8") as cast:
        def write(row):
            cast.write(json.dumps(row) + "\n")

        def emit(data):
            write([round(time.monotonic() - begin, 3), "o", data])
        write({"version": 2, "width": COLUMNS, "height": ROWS, "idle_time_limit": 1, "title": "; ".join(options.commands)})
        for command in options.commands:
            emit(f"{PROMPT}{command}\r\n")
            status = run([*shlex.split(options.within), "sh", "-c", f"exec {command}"], emit)
            failed += [f"record.py: error: status {status}: {command}"] * (status != 0)
    print(*failed, sep="\n", end="\n" if failed else "", file=sys.stderr)
    return 1 if failed else 0


def screens(rows, head):
    """The lines of each command's screen when it was fullest."""
    import pyte                 # pylint: disable=import-outside-toplevel
    shown = []
    for _, _, data in rows:
        if data.startswith(PROMPT):
            screen = pyte.Screen(head["width"], head["height"])
            stream = pyte.Stream(screen)
            shown.append([data.rstrip()])
        stream.feed(data)
        lines = [line.rstrip() for line in screen.display]
        while lines and not lines[-1]:
            lines.pop()
        if lines[:1] != shown[-1][:1]:      # a program with a screen of its own, like top
            lines = [shown[-1][0], *(line for line in lines if line)]
        if len(lines) >= len(shown[-1]):
            shown[-1] = lines
    return shown


def draw(options):
    with open(options.cast, encoding="utf-8") as cast:
        head, *rows = (json.loads(line) for line in cast)
    lines = [line for screen in screens(rows, head) for line in [*screen, ""]][:-1]
    size = f"0 0 {head['width'] * 8 + 24} {18 * len(lines) + 24}"
    text = "\n".join(f'<text class="{"typed" if line.startswith(PROMPT) else "said"}" x="12" y="{26 + 18 * i}">'
                     f'{html.escape(line).replace(" ", "&#160;")}</text>' for i, line in enumerate(lines) if line)
    with open(options.svg, "w", encoding="utf-8") as svg:
        svg.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img" aria-label="{html.escape(head["title"])}">\n'
                  f'<style>{STYLE}</style>\n<rect class="screen" width="100%" height="100%" rx="6"/>\n{text}\n</svg>\n')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ways = parser.add_subparsers(required=True)
    one = ways.add_parser("play")
    one.add_argument("cast")
    one.add_argument("--within", default="", metavar="WORDS")
    one.add_argument("commands", nargs="+")
    one.set_defaults(act=play)
    other = ways.add_parser("draw")
    other.add_argument("cast")
    other.add_argument("svg")
    other.set_defaults(act=draw)
    options = parser.parse_args()
    return options.act(options)


if __name__ == "__main__":
    sys.exit(main())
