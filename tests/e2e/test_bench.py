"""tests/e2e/test_bench.py - the bench's scripts, on the emulated GPU: each stage has its rows, and they are reported."""
import importlib
import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree

import pytest

from conftest import DRIVER, KIND, OUT, ROOT, clean_env, run
from criu import criu, obstacle

pytestmark = [pytest.mark.skipif(DRIVER != "emu", reason="on a GPU the bench itself is run"),
              pytest.mark.skipif(bool(KIND), reason="it takes the products without sanitizers")]
BENCH = ROOT / "bench"
SMALL = {"DRIVER": "emu", "QUICK": "1", "MANY": "1,2", "MANY_SECONDS": "0.2", "WORK": "10", "CONNECTS": "8",
         "IDLE": "2", "TOGETHER": "--at-a-time 2 matmul vector_add", "SPARE_S": "0.1", "SWEEP": "steps", "STEP_SECONDS": "0.1", "RTTS": "0 1ms 20ms"}


def text(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_small_run_is_measured_and_reported(tmp_path, app):
    app("matmul")
    app("vector_add")
    logs, docs = tmp_path / "logs", tmp_path / "docs"
    result = run([BENCH / "gpu.sh", "start", "wire", "many", "together", "sweep", "trips"], clean_env(OUT=str(logs), **SMALL), 120)
    assert result.status == 0, result.out + result.err
    assert "missing" not in result.out and "error" not in result.out, result.out
    assert re.search(r"modules sent by the first run: 1 of \d{4,} bytes", result.out), result.out
    assert "modules sent by the second run: 0 of 0 bytes" in result.out
    assert len(re.findall(r"ratios: median [\d.]+, 90 % [\d.]+", result.out)) == 4    # once more in the table
    counts = [int(n) for n in re.findall(r"^first_kernel, \w+ run: (\d+) round trips", result.out, re.MULTILINE)]
    assert len(counts) >= 2 and counts[0] > counts[1] > 2, result.out
    for name, row in (("start.warm", "start_first_call"), ("many.shm", "many_2_fair"), ("many.shm", "left_processes")):
        assert row in json.loads(text(logs / name).splitlines()[-1]), name
    docs.mkdir()
    shutil.copy(ROOT / "docs" / "performance.md", docs)
    result = run([sys.executable, BENCH / "report.py", logs / "logs.tar.gz", "--name", "small", "--results", docs,
                  "--docs", docs], clean_env())
    assert result.status == 0, result.err
    page = text(next(docs.glob("*-small.md")))
    assert re.search(r"\| first CUDA call in a new process \(.*\) \| ms \| [\d.]+ \| [\d.]+ ", page), page
    slowdowns = re.search(r"\| 1 kernel a step \| [\d.]+ \| ([\d.]+)x \| ([\d.]+)x \| ([\d.]+)x \|", page).groups()
    assert float(slowdowns[1]) < float(slowdowns[2])
    assert len(re.findall(r"^\| [1248] \| [\d.]+ \|", page, re.M)) == 4
    assert f"(../bench/results/{next(docs.glob('*-small.md')).name})" in text(docs / "performance.md")
    picture = xml.etree.ElementTree.parse(docs / "performance.svg")
    assert len(picture.findall(".//{*}polyline")) == 2


def test_a_report_has_values_and_ratios_and_no_others(tmp_path):
    """The main table: what was not measured leaves a gap, and a row without a native value is left out."""
    rows = {"native": {"launch_total": 3.0, "h2d_pinned_256M": 50.0}, "shm": {"launch_total": 3.3, "h2d_pinned_256M": 25.0},
            "tcp": {"launch_total": 6.0, "d2h_pinned_256M": 10.0}}
    for side, values in rows.items():
        lines = {name: {"value": v, "unit": "us" if "launch" in name else "GB/s"} for name, v in values.items()}
        (tmp_path / f"micro.{side}").write_text(json.dumps(lines) + "\n", encoding="utf-8")
    (tmp_path / "machine").write_text("2026-01-02\nNVIDIA Test\nLinux 6\n", encoding="utf-8")
    result = run([sys.executable, BENCH / "report.py", tmp_path, "--name", "t", "--results", tmp_path, "--docs", tmp_path],
                 clean_env())
    assert result.status == 0, result.err
    table = [line for line in text(tmp_path / "2026-01-02-t.md").split("##")[1].splitlines() if line.startswith("|")]
    assert table[0] == "| what | unit | native | same host (shm) | ratio | over tcp | ratio |"
    assert table[2:] == ["| launch, 20,000 back to back | us | 3 | 3.3 | 1.10 | 6 | 2.00 |",
                         "| copy pinned 256 MiB to the device | GB/s | 50 | 25 | 0.50 |  |  |"]


def test_the_readmes_recording_has_commands_and_output_and_no_failure(tmp_path, app):
    """A cast of asciinema: a head, then [seconds, "o", text]."""
    command = f"cricket run -s gpuhost {app('vector_add')}"
    result = run([BENCH / "record_readme.sh", command], clean_env(OUT=str(tmp_path), **SMALL), 60)
    assert result.status == 0, result.out + result.err
    head, *rows = (json.loads(line) for line in text(tmp_path / "first-run.cast").splitlines())
    assert head["version"] == 2 and [row[1] for row in rows] == ["o"] * len(rows)
    said = "".join(row[2] for row in rows)
    assert said.startswith(f"$ {command}\r\n") and "vector_add: 50000 elements, 0 wrong" in said
    result = run([BENCH / "record_readme.sh", "cricket run -s gpuhost false"], clean_env(OUT=str(tmp_path), **SMALL), 60)
    assert result.status != 0 and "failed: cricket run -s gpuhost false" in result.out


def test_compressed_uploads_are_measured(tmp_path):
    result = run([BENCH / "gpu.sh", "compress"], clean_env(OUT=str(tmp_path), BWS="1G", COMPRESS_MIB="4", **SMALL), 60)
    rows = re.findall(r"^\| 1G \| (\w+) \| 4 \| [\d.]+ \| [\d.]+ \|$", text(tmp_path / "compress"), re.M)
    assert rows == ["random", "float", "bfloat16", "text", "zeros"], result.out + result.err


def test_suspending_is_measured(tmp_path):
    result = run([BENCH / "gpu.sh", "suspend"],
                 clean_env(OUT=str(tmp_path), SUSPEND_GB="0.25", SUSPEND_USER_GB="0.25", SUSPEND_TURNS="2", **SMALL), 60)
    rows = [json.loads(line) for line in text(tmp_path / "suspend.table").splitlines() if line.startswith("{")]
    runs = 2 if os.geteuid() == 0 else 1        # as an ordinary user too
    assert [r["name"] for r in rows] == ["memory", "memory", "suspend", "resume", "result"] * runs, result.out + result.err
    assert all(r["is_"] == "the same memory" for r in rows if r["name"] == "result")


def test_parking_is_measured(tmp_path):
    result = run([BENCH / "gpu.sh", "park"], clean_env(OUT=str(tmp_path), PARK_GB="0.25", SUSPEND_TURNS="2", **SMALL), 60)
    rows = [json.loads(line) for line in text(tmp_path / "park.table").splitlines() if line.startswith("{")]
    assert [r["name"] for r in rows if r["name"] != "memory"] == ["suspend", "resume", "park", "return", "result"], \
        result.out + result.err
    assert rows[-1]["is_"] == "the same memory"


def test_scripts_that_measure_need_no_pytest():
    """They share modules with the tests, and run where only Python is."""
    script = "import sys; sys.modules['pytest'] = None; import move, survive, tls_flood"
    result = run([sys.executable, "-c", script], clean_env(PYTHONPATH=str(BENCH)))
    assert result.status == 0, result.err


def test_checkpoints_are_measured(tmp_path):
    criu()
    result = run([BENCH / "gpu.sh", "checkpoint"],
                 clean_env(OUT=str(tmp_path), CHECKPOINT_GB="0.125", CHECKPOINT_CHANGES_GB="0.125",
                           CHECKPOINT_DIR=str(tmp_path), CHECKPOINT_TURNS="1", **SMALL), 240)
    rows = [json.loads(line) for line in text(tmp_path / "checkpoint.table").splitlines() if line.startswith("{")]
    assert [r["name"] for r in rows] == ["checkpoint", "restore", "result"] * 2 + ["first", "later", "result"], result.out + result.err
    first, later = rows[6:8]    # one piece of 64 has changed
    assert first["memory_mib"] == 128 and later["memory_mib"] == 2 and later["pause_ms"] > 0 and later["program_ms"] > 0
    assert [r["memory_mib"] for r in rows if r["name"] == "checkpoint"] == [128, 64]
    assert all(r["is_"] == "the same memory" for r in rows if r["name"] == "result")


def test_the_cost_of_surviving_cuts_is_measured(tmp_path):
    result = run([BENCH / "gpu.sh", "resume"], clean_env(OUT=str(tmp_path), **SMALL), 300)
    for row in ("h2d_pageable", "d2h_pinned"):
        assert len(re.findall(rf"^{row} +[\d.]+ +[\d.]+ +[\d.]+  GB/s$", text(tmp_path / "resume.table"), re.M)) == 2, result.err


def test_the_answers_of_a_gpu_are_kept_and_compared(tmp_path):
    result = run([BENCH / "gpu.sh", "conformance"], clean_env(OUT=str(tmp_path), FORMS="mad24", **SMALL), 300)
    assert re.search(r"(\d+) forms, 0 refused.*\n.*: \1 forms the same bit for bit.* 0 wrong", result.out), result.out
    assert (tmp_path / "conformance").stat().st_size > 1000


@pytest.mark.parametrize("ranks", [1, 2])
def test_nccl_is_measured(tmp_path, ranks):
    double = OUT / "nccl" / "libnccl-double.so"
    result = run([BENCH / "gpu.sh", "ddp"],
                 clean_env(OUT=str(tmp_path), NCCL_LIBRARY=str(double), DDP_RANKS=str(ranks), BENCH_SIZES="4096 2097152", **SMALL), 60)
    table = text(tmp_path / "ddp.table")
    for row, unit in (("4K", "us"), ("2M", "GB/s")):
        assert re.search(rf"^all_reduce_{row} +[\d.]+ +[\d.]+ +[\d.]+  {unit}, same$", table, re.M), result.out + result.err
    assert "no PyTorch" in table


SANITIZER = r"""#!/bin/sh
# As compute-sanitizer 2026 prints it; the lines are those of the source.
case "$2 $*" in
--version*) echo 'Version 2026.4.0.0 (build 1) (public-release)' ;;
*--version*) echo 'Version 2026.4.0.0 (build 1) (public-release)' ;;
*--help*) echo '  --OPTION arg (=global)' ;;
racecheck*race_warp)
	echo '========= Error: Race reported between Write access at race_warp(int *, int)+0x90 in kernel_errors.cu:WRITE'
	echo '=========     and Read access at race_warp(int *, int)+0xd0 in kernel_errors.cu:READ [64 hazards]'
	echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)' ;;
memcheck*bounds_far)
	echo '========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.'
	echo '========= ERROR SUMMARY: 2 errors' ;;
memcheck*race_warp) exit 1 ;;
racecheck*) echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;;
*) echo '========= ERROR SUMMARY: 0 errors' ;;
esac
"""


@pytest.mark.parametrize("option, total", [
    ("initcheck-address-space", "2 of 4 kernels with the same kinds of errors, 1 with the same lines; only the emulated GPU reports 1"),
    ("show-backtrace", "3 of 4 kernels with the same kinds of errors, 2 with the same lines; only the emulated GPU reports 0"),
], ids=["of 2026", "of CUDA 13.0"])
def test_findings_stand_beside_those_of_compute_sanitizer(tmp_path, app, option, total):
    app("kernel_errors")
    lines = text(ROOT / "tests" / "test_apps" / "kernel_errors.cu").splitlines()
    start = next(i for i, line in enumerate(lines) if "void race_warp(" in line)
    write, read = [i + 1 for i in range(start, start + 6) if "finds race here" in lines[i]]
    far = next(i + 1 for i, line in enumerate(lines) if "(size_t)1 << 40" in line)
    fake = tmp_path / "compute-sanitizer"
    fake.write_text(SANITIZER.replace("WRITE", str(write)).replace("READ", str(read)).replace("OPTION", option), encoding="utf-8")
    fake.chmod(0o755)
    done = run([BENCH / "gpu.sh", "findings"], clean_env(DRIVER="emu", OUT=tmp_path, SANITIZER=fake, FINDINGS="race_warp bounds_far "
               "uninitialised_all right_warp"), timeout=120)
    assert done.status == 0 and "compute-sanitizer 2026.4.0.0" in done.out, done.out + done.err
    rows = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:5]] for line in done.out.splitlines() if line.startswith("| ")}
    races = f"race {write} {read}"
    assert rows["race_warp"] == [races, races, f"memcheck failed: no output ?, {races}"], done.out + done.err
    assert rows["bounds_far"] == [f"fault {far}", f"fault {far}", "fault ?"]
    assert rows["uninitialised_all"][1:] == [rows["uninitialised_all"][0], "-"] and rows["right_warp"] == ["-", "-", "-"]
    assert f"{total}, only compute-sanitizer 1" in done.out and ("has no initcheck" in done.out) == (option == "show-backtrace"), done.out


def test_a_part_that_fails_is_a_row(tmp_path):
    script = tmp_path / "part.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(BENCH)!r}); import ranks\n"
                      "def fails(rank, count, folder):\n    sys.exit('Error: at once' if rank else __import__('time').sleep(60))\n"
                      "ranks.main(__file__, {'fails': fails, 'works': lambda r, c, f: {'x': {'ms': 1}} if not r else None}, lambda: 2)\n")
    result = run([sys.executable, script], clean_env(), 30)
    rows = json.loads(result.out)
    assert rows["x"] == {"ms": 1} and rows["fails"]["error"] == "status [None, 1]: Error: at once", result.out


def test_a_stage_that_there_is_no_time_for_is_said_to_be_left_out(tmp_path):
    result = run([BENCH / "gpu.sh", "sweep"], clean_env(OUT=str(tmp_path), LIMIT="5", **SMALL), 60)
    assert "sweep: left out" in result.out


def survive(tmp_path, cut, **env):
    """A run of the demonstration; its temporary folders are the test's."""
    return run([BENCH / "survive.sh"],
               clean_env(DRIVER="emu", CUT_S=str(cut), TMPDIR=str(tmp_path), **env), 120)


def test_a_training_survives_all_that_is_shown(tmp_path, app):
    app("training")
    result = survive(tmp_path, 2)
    assert result.status == 0, result.out + result.err
    meanwhile = re.search(r"^cut +2 s, .*; (\d+) losses meanwhile; the next one [\d.]+ s after", result.out, re.M)
    assert int(meanwhile[1]) < 100, result.out      # bytes that were on their way
    assert re.search(r"^suspend +\d+ ms out, from [1-9]\d* to 0 MiB .* took 256 of 256 MiB; \d+ ms back", result.out, re.M)
    assert re.search(r"^upgrade +\d+ ms", result.out, re.M)
    saved = r"left out: \S+" if obstacle()[1] else r"[\d.]+ s, .* restored by another one in [\d.]+ s"
    assert re.search(rf"^checkpoint +{saved}", result.out, re.M), result.out
    count = int(re.search(r"^the same (\d+) losses as without a server, bit for bit$", result.out, re.M)[1])
    assert count >= 800


@pytest.mark.skipif(os.geteuid() != 0, reason="CRIU is not even asked")
@pytest.mark.parametrize("fails, line, status", [("check", "left out: criu check: none of this", 0), ("dump", "FAILED: checkpoint", 1)])
def test_without_a_checkpoint_the_rest_is_shown(tmp_path, app, fails, line, status):
    app("training")
    program = tmp_path / "criu"
    program.write_text("#!/bin/sh\n[ $1 = --version ] && echo 'Version: 4.1'\n"
                       f"[ $1 != {fails} ] || {{ echo none of this >&2; exit 1; }}\n")
    program.chmod(0o755)
    result = survive(tmp_path, 0.1, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert result.status == status, result.out + result.err
    assert re.search(rf"^checkpoint +{line}$", result.out, re.M), result.out
    assert re.search(r"^the same \d+ losses as", result.out, re.M), result.out


def test_a_training_alternates_between_two_gpus(tmp_path, app):
    app("training")
    result = run([BENCH / "other_gpu.py", "--driver", "emu", "--moves", "4"],
                 clean_env(TMPDIR=str(tmp_path)), 120)
    assert result.status == 0, result.out + result.err
    rows = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
    before, after = (r for r in rows if r["name"] == "facts")
    assert before["uuid"] != after["uuid"] and before["pci"] == after["pci"]
    assert (before["mib"], after["mib"]) == ([64, 0], [0, 64])
    moves = [r for r in rows if r["name"] == "move"]
    assert [m["to"] for m in moves] == [1, 0, 1, 0]
    for m in moves:
        assert m["suspended"] == [0, 0] and m["after"][1 - m["to"]] == m["before"][m["to"]] == 0
        assert 0 < m["after"][m["to"]] <= m["before"][1 - m["to"]]      # free leased memory does not move along
    assert re.search(r"^the same \d+ losses as", result.out, re.M), result.out


def test_other_losses_are_found(capsys, monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    compare = importlib.import_module("survive").compare
    losses = ["0x1.8p-3", "0x1.4p-3", "0x1.2p-3"]
    assert compare(losses, list(losses)) == 0
    assert compare(losses, [*losses[:2], "0x1.200002p-3"]) == 1
    assert compare(losses, losses[:2]) == 1
    assert "OTHER LOSSES, from 2 on: 3 here, 3 natively" in capsys.readouterr().out


def test_idle_sessions_and_connects_are_measured():
    result = run([sys.executable, BENCH / "scale.py", "--sessions", "6", "--connects", "4", "--idle-seconds", "0.1"], clean_env(), 120)
    assert result.status == 0, result.out + result.err
    rows = json.loads(result.out.splitlines()[-1])
    assert rows["sessions"]["value"] == 6 and rows["left_sessions"]["value"] == 0
    assert rows["session_server"]["value"] > 0.1 and rows["alone_connects"]["value"] > 0
    assert rows["supervisor_descriptors"]["value"] > 6


def test_the_cost_of_calls_is_measured():
    result = run([sys.executable, BENCH / "call_cost.py"], clean_env(), 300)
    assert result.status == 0, result.out + result.err
    costs = json.loads(result.out.splitlines()[-1])
    assert set(costs) == {"call", "command", "up", "down"} and costs["call"] > costs["command"] > 0


def model(*words):
    return run([sys.executable, BENCH / "model.py", *words], clean_env())


@pytest.mark.parametrize("client, count, first", [
    ("up:1125:0:0:0", 10, "network to the server"), ("down:0:1125:0:0", 10, "network from the server"),
    ("calls:0:0:100000:0", 16, "processors"), ("commands:0:0:0:2000000", 16, "processors"), ("none:0:0:0:0", "any", "nothing")])
def test_the_model_divides_what_a_server_has(client, count, first):
    result = model("--link", "100", "--usable", "0.9", "--cores", "16", "--client", client)
    row = result.out.splitlines()[-1]
    assert result.status == 0 and row.split()[5] == str(count) and row.endswith(first)


def test_the_rates_of_a_client_are_measured(tmp_path):
    result = run([sys.executable, BENCH / "rates.py", "--driver", "emu", "--seconds", "2", "--out", tmp_path / "rates", "copies"],
                 clean_env(), 120)
    assert result.status == 0, result.err
    row, = json.loads((tmp_path / "rates").read_text())
    assert row["name"] == "copies" and row["steps"] > 0
    # of a step: 1 MiB, ten commands or a few more, and at least one wait
    assert row["received"] / row["commands"] > (1 << 20) / 16 and row["commands"] > 5 * row["calls"] > 0
    result = model("--rates", tmp_path / "rates")
    assert result.status == 0 and "copies" in result.out and "network to the server" in result.out, result.err
    assert model("--rates", tmp_path / "none").status == 1 and model("--rates", tmp_path / "rates", "--client", "x:1:1:1:1").status == 2


def test_the_model_takes_the_rates_of_two_replies(tmp_path):
    sessions = [{"session": "s1", "program": "train", "received": n * 1125e6, "sent": 0, "calls": 5 * n, "commands": 0} for n in (2, 12)]
    for name, time, session in (("before", 100, sessions[0]), ("after", 110, sessions[1])):
        (tmp_path / name).write_text(json.dumps({"time": time, "sessions": [session]}), encoding="utf-8")
    result = model("--busy", "0.5", tmp_path / "before", tmp_path / "after")
    assert re.search(r"^train \(s1\) +1125\.00 +0\.00 +5 +0 +20  network to the server$", result.out, re.M), result.out + result.err
    assert model(tmp_path / "after", tmp_path / "before").status == 1
    assert model("--client", "x:1:2").status == 1 and model().status == 2


def test_a_picture_has_the_kernels_of_two_traces(tmp_path):
    for name, times in (("native", (10, 14)), ("remote", (700, 705))):
        events = [{"ph": "X", "cat": "kernel", "ts": at, "dur": 3, "pid": 1, "tid": 1, "name": f"k<{i}>"} for i, at in enumerate(times)]
        (tmp_path / name).write_text(json.dumps({"traceEvents": [*events, {"ph": "X", "ts": 1, "dur": 9, "pid": 1, "name": "call"}]}))
    result = run([BENCH / "trace_picture.py", tmp_path / "native", tmp_path / "remote", "-o", tmp_path / "out.svg"], clean_env())
    assert result.status == 0, result.err
    picture = (tmp_path / "out.svg").read_text()
    assert picture.count("<title>k&lt;0&gt;: 3.00 us</title>") == picture.count("<title>k&lt;1&gt;") == 2 and "call" not in picture


def test_sharing_in_space_is_measured_and_tried(tmp_path):
    shutil.copy(ROOT / "tests" / "e2e" / "mps_daemon.py", tmp_path / "nvidia-cuda-mps-control")
    result = run([sys.executable, BENCH / "mps.py", "--driver", "emu", "--clients", "2", "--seconds", "0.2", "--work", "10"],
                 clean_env(PATH=f"{tmp_path}:{os.environ['PATH']}"), 120)
    assert result.status == 0 and "failed" not in result.out, result.out + result.err
    assert "suspend: s" in result.out and "the same memory" in result.out
    assert "its session 700 - another of its identity 810 - another identity 0" in result.out, result.out
    assert len(re.findall(r"x +[\d.]+$", result.out, re.MULTILINE)) == 5
