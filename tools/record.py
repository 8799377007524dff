#!/usr/bin/env python3
"""tools/record.py - the recording that README.md shows: docs/first-run.cast (asciicast v2, a text file for asciinema) and
docs/first-run.svg, the screens of its two commands. It runs them on the emulated GPU, in a terminal of its own.

    python3 -m pip install --target build/pyte pyte        # a terminal's screen
    PYTHONPATH=build/pyte tools/record.py

Needs `make cpu test-apps`.
"""
import fcntl
import html
import json
import os
import pathlib
import pty
import select
import struct
import subprocess
import tempfile
import termios
import time

import pyte

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS, ROWS = 100, 12
PROMPT = "$ "
# What is typed, what is done, seconds until it is ended by a key (None: it ends by itself).
SCENES = (("cricket run -s gpuhost -- ./vector_add", ["cricket", "run", "-s", "ADDRESS", "--", "tests/test_apps/bin/vector_add"], None),
          ("cricket top", ["cricket", "top", "unix:SOCKET"], 5))


def play(command, env, seconds, emit):
    """Runs a command in a terminal; emit(data) gets what it writes."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execvpe(command[0], command, env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    end = time.monotonic() + (seconds or 60)
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            emit(data.decode(errors="replace"))
    if seconds:
        os.write(fd, b"q")
    os.waitpid(pid, 0)
    os.close(fd)


def draw(screens):
    """An SVG with the text of screens, one below the other."""
    lines = [line for screen in screens for line in [*screen, ""]][:-1]
    height = 18 * len(lines) + 24
    text = "\n".join(f'<text x="12" y="{26 + 18 * i}">{html.escape(line).replace(" ", "&#160;")}</text>' for i, line in enumerate(lines) if line)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * 8 + 24} {height}" role="img" '
            'aria-label="cricket run, then cricket top">\n'
            '<rect width="100%" height="100%" rx="6" fill="#1d1f21"/>\n'
            '<g font-family="ui-monospace,monospace" font-size="13.3" fill="#d8d8d8">\n'
            f"{text}\n</g>\n</svg>\n")


def main():
    events, screens, begin = [], [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/s"
        env = dict(os.environ, PATH=f"{ROOT}/cpu:{os.environ['PATH']}", TERM="xterm", CRICKET_CACHE_DIR=f"{folder}/cache",
                   CRICKET_EMU_THREADS="1")
        server = subprocess.Popen([ROOT / "cpu/cricket-rpc-server", "--driver", "emu", "--unix", socket, "--listen", "127.0.0.1:0"],
                                  env=env, stderr=subprocess.DEVNULL)
        while not os.path.exists(f"{socket}.ctl"):
            time.sleep(0.1)
        load = subprocess.Popen(["cricket", "run", "-s", f"unix:{socket}", "--", "tests/test_apps/bin/endless"], env=env, cwd=ROOT,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        for typed, command, seconds in SCENES:
            screen = pyte.Screen(COLUMNS, ROWS)
            stream = pyte.Stream(screen)
            last = []

            def emit(data, stream=stream, screen=screen, last=last):
                events.append([round(time.monotonic() - begin, 3), "o", data])
                stream.feed(data)
                shown = [line.rstrip() for line in screen.display if line.strip()]
                last[:] = shown if len(shown) >= len(last) else last
            emit(f"{PROMPT}{typed}\r\n")
            words = [w.replace("ADDRESS", f"unix:{socket}").replace("SOCKET", socket) for w in command]
            play(words, env, seconds, emit)
            screens.append(last if last[0].startswith(PROMPT) else [f"{PROMPT}{typed}", *last])
        load.kill()
        load.wait()
        server.terminate()
        server.wait()
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "cricket run, then cricket top"}
    with open(ROOT / "docs/first-run.cast", "w", encoding="utf-8") as cast:
        cast.writelines(json.dumps(row) + "\n" for row in [head, *events])
    (ROOT / "docs/first-run.svg").write_text(draw(screens), encoding="utf-8")


if __name__ == "__main__":
    main()
