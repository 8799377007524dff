"""tests/e2e/test_bench.py - the bench's scripts, on the emulated GPU: each stage has its rows, and they are reported."""
import json
import re
import shutil
import sys
import xml.etree.ElementTree

import pytest

from conftest import DRIVER, KIND, ROOT, clean_env, run

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
    assert "first CUDA call" in text(docs / "performance.md")
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
    (tmp_path / "performance.md").write_text("a\n<!-- made by bench/report.py -->\nold\n<!-- until here -->\nz\n", encoding="utf-8")
    result = run([sys.executable, BENCH / "report.py", tmp_path, "--name", "t", "--results", tmp_path, "--docs", tmp_path],
                 clean_env())
    assert result.status == 0, result.err
    table = [line for line in text(tmp_path / "performance.md").splitlines() if line.startswith("|")]
    assert table[0] == "| what | unit | native | same host (shm) | ratio | over tcp | ratio |"
    assert table[2:] == ["| launch, 20,000 back to back | us | 3 | 3.3 | 1.10 | 6 | 2.00 |",
                         "| copy pinned 256 MiB to the device | GB/s | 50 | 25 | 0.50 |  |  |"]
    assert "\n".join(table) in text(tmp_path / "2026-01-02-t.md")


def test_compressed_uploads_are_measured(tmp_path):
    result = run([BENCH / "gpu.sh", "compress"], clean_env(OUT=str(tmp_path), BWS="1G", COMPRESS_MIB="4", **SMALL), 60)
    rows = re.findall(r"^\| 1G \| (\w+) \| 4 \| [\d.]+ \| [\d.]+ \|$", text(tmp_path / "compress"), re.M)
    assert rows == ["random", "float", "bfloat16", "text", "zeros"], result.out + result.err


def test_the_answers_of_a_gpu_are_kept_and_compared(tmp_path):
    result = run([BENCH / "gpu.sh", "conformance"], clean_env(OUT=str(tmp_path), FORMS="mad24", **SMALL), 60)
    assert re.search(r"(\d+) forms, 0 refused.*\n.*: \1 forms the same bit for bit.* 0 wrong", result.out), result.out
    assert (tmp_path / "conformance").stat().st_size > 1000


def test_a_stage_that_there_is_no_time_for_is_said_to_be_left_out(tmp_path):
    result = run([BENCH / "gpu.sh", "sweep"], clean_env(OUT=str(tmp_path), LIMIT="5", **SMALL), 60)
    assert "sweep: left out" in result.out
