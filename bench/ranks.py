"""bench/ranks.py - what the benches of several ranks share: a process for each rank, and the rows that rank 0 has found.

A part that fails, or takes too long, is a row with an error; the other parts go on.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = float(os.environ.get("RANKS_SECONDS", "150"))     # that a part may take


def on_sigterm(_number, _frame):
    sys.exit(143)       # so that the ranks are ended


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait(processes, seconds):
    """Their statuses; None of those that did not end. When one fails, the others get some seconds: they may wait for it."""
    deadline = time.monotonic() + seconds
    while any(p.poll() is None for p in processes) and time.monotonic() < deadline:
        if any(p.poll() for p in processes):
            deadline = min(deadline, time.monotonic() + 10)
        time.sleep(0.05)
    return [p.poll() for p in processes]


def last_lines(folder, ranks):
    """What the ranks said last, for the row of an error and for stderr."""
    words = ""
    for rank in range(ranks):
        lines = (folder / f"log.{rank}").read_text(errors="replace").splitlines()
        for line in lines[-15:]:
            print(f"rank {rank}: {line}", file=sys.stderr)
        words = words or next((line for line in reversed(lines) if "rror" in line), "")
    return words[:150]


def run_part(script, part, ranks):
    """Rows of one part."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        folder = pathlib.Path(name)
        processes = []
        try:
            for rank in range(ranks):
                with open(folder / f"log.{rank}", "wb") as log:
                    processes.append(subprocess.Popen(
                        [sys.executable, script, "--part", part, "--rank", str(rank), "--ranks", str(ranks), "--folder", name],
                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True))
            statuses = wait(processes, SECONDS)
        finally:
            for p in processes:
                end(p)
        if any(statuses) or None in statuses:
            said = last_lines(folder, ranks)
            return {part: {"error": f"status {statuses}: {said}"}}
        return json.loads((folder / "rows").read_text())


def main(script, parts, devices):
    """PARTS: name to function(rank, ranks, folder), which returns rows on rank 0. DEVICES: how many GPUs there are."""
    words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    if "--part" in words:
        folder = pathlib.Path(words["--folder"])
        rows = parts[words["--part"]](int(words["--rank"]), int(words["--ranks"]), folder)
        if rows is not None:
            (folder / "rows").write_text(json.dumps(rows))
        return
    signal.signal(signal.SIGTERM, on_sigterm)
    ranks, rows = int(words.get("--ranks", "0")) or devices(), {}
    for part in words.get("--parts", ",".join(parts)).split(","):
        rows.update(run_part(script, part, ranks))
    print(json.dumps(rows))
