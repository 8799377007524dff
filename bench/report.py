#!/usr/bin/env python3
"""bench/report.py LOGS [--name NAME] - what bench/gpu.sh measured, as the project shows it.

LOGS is gpu.sh's folder, or its logs.tar.gz. Written are bench/results/DATE-NAME.md and, if it has a sweep, docs/performance.svg and
its link in docs/performance.md between two marks; --results and --docs choose other folders. --stage wire|sweep
prints that stage's rows and writes nothing.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import plot
from compare import load

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- made by bench/report.py -->", "<!-- until here -->"

# The rows that the documents show: title; stage and row; unit. Rates (GB/s) are better when large.
ROWS = [
    ("launch, 20,000 back to back", "micro", "launch_total", "us"),
    ("launch: until enqueued", "micro", "launch_enqueue", "us"),
    ("launch + synchronise", "micro", "launch_sync", "us"),
    (".item() of PyTorch", "torch", "item", "us"),
    ("copy pinned 256 MiB to the device", "micro", "h2d_pinned_256M", "GB/s"),
    ("copy pinned 256 MiB to the host", "micro", "d2h_pinned_256M", "GB/s"),
    ("copy pageable 256 MiB to the device", "micro", "h2d_pageable_256M", "GB/s"),
    ("copy pageable 256 MiB to the host", "micro", "d2h_pageable_256M", "GB/s"),
    ("first CUDA call in a new process (remote: with a spare worker)", "start", "start_first_call", "ms"),
    ("ResNet-50 train, batch 32", "torch", "resnet50_train", "ms"),
    ("ResNet-50 inference, batch 1", "torch", "resnet50_infer_b1", "ms"),
    ("GPT-2 generate, 32 tokens", "torch", "gpt2_generate_32", "ms"),
    ("GPT-2 train 8x512", "torch", "gpt2_train_8x512", "ms"),
    ("Llama-shaped decode, 32 tokens", "torch", "llama_decode_32", "ms"),
    ("the same with CUDA graphs", "torch", "llama_decode_32_graphs", "ms"),
    ("bf16 matmul 1024", "torch", "matmul_bf16", "us"),
]
SWEEP = {"script_first": "PyTorch script, first result", "script_steps": "PyTorch script, 500 steps",
         "resnet50_train": "ResNet-50 training", "gpt2_generate_32": "GPT-2 generate",
         "llama_decode_32": "Llama-shaped decode", "llama_decode_32_graphs": "Llama, CUDA graphs",
         "steps_of_1": "1 kernel a step", "steps_of_16": "16 kernels a step"}
US = {"us": 1, "ms": 1000, "s": 1000000}


def value_of(rows, name, unit):
    """A row's number in UNIT, or None."""
    row = rows.get(name, {})
    number = row.get("value", row.get("ms"))
    if number is None:
        return None
    return number * 1000 if unit == "us" and row.get("unit", "ms") == "ms" else number


def number(value):
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def main_table(logs):
    """The main rows, as Markdown; cells that were not measured are empty."""
    lines = ["| what | unit | native | same host (shm) | ratio | over tcp | ratio |", "|---|---|---|---|---|---|---|"]
    for title, stage, name, unit in ROWS:
        shm = "warm" if stage == "start" else "shm"
        native, ours, tcp = (value_of(load(logs / f"{stage}.{side}"), name, unit)
                             for side in ("native", shm, "tcp"))
        if native is None:
            continue
        ratios = [f"{v / native:.2f}" if v is not None else "" for v in (ours, tcp)]
        lines.append(f"| {title} | {unit} | {number(native)} | {number(ours)} | {ratios[0]} | {number(tcp)} | {ratios[1]} |")
    return lines if len(lines) > 2 else []


def rows_of(page):
    """The JSON lines of a page; other lines, such as messages of a program that failed, are passed over."""
    rows = []
    for line in text_of(page).splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def wire_table(page, key, title):
    """Our copies over tcp against plain sockets with as many connections, a row for each KEY."""
    rows = rows_of(page)
    if not rows:
        return []
    lines = [f"| {title} | sockets there, GB/s | from memory | pageable | ratio | pinned | ratio | sockets back, GB/s | "
             "to memory | pageable | ratio | pinned | ratio |", "|" + "---|" * 13]
    for row in rows:
        cells = [str(row[key])]
        for way, copy in (("up", "h2d"), ("down", "d2h")):
            raw = row["raw"][way]
            cells += [number(raw), number(row["raw"].get(f"{way}_memory"))]
            for kind in ("pageable", "pinned"):
                ours = row["ours"][f"{copy}_{kind}"]["value"]
                cells += [number(ours), f"{ours / raw:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def wire_lines(logs):
    """Over loopback, and over one that the kernel slows down to the rate of a link (bench/pace.c)."""
    link = wire_table(logs / "wire.link", "gbit", "link of Gbit/s, 4 connections")
    return wire_table(logs / "wire", "connections", "connections") + ([""] + link if link else [])


def microseconds(rtt):
    """'500us' as 500, '0' as 0."""
    digits, unit = re.fullmatch(r"(\d+)(us|ms|s)?", rtt).groups()
    return int(digits) * US[unit or "us"]


def sweep_rows(logs):
    """{row: {round trip in us: slowdown}} and the round trips, as they were named."""
    native = load(logs / "sweep.native")
    trips = sorted((f.name.split(".", 1)[1] for f in logs.glob("sweep.*")
                    if re.fullmatch(r"\d+(us|ms|s)?", f.name.split(".", 1)[1])), key=microseconds)
    slow = {}
    for rtt in trips:
        for name, row in load(logs / f"sweep.{rtt}").items():
            if name in SWEEP and "ms" in row and native.get(name, {}).get("ms"):
                slow.setdefault(name, {})[microseconds(rtt)] = row["ms"] / native[name]["ms"]
    return slow, trips


def sweep_lines(logs):
    slow, trips = sweep_rows(logs)
    if not slow:
        return []
    native = load(logs / "sweep.native")
    lines = ["| what | native, ms | " + " | ".join(f"rtt {t}" for t in trips) + " |", "|---|---|" + "---|" * len(trips)]
    for name, points in slow.items():
        cells = [f"{points[microseconds(t)]:.2f}x" if microseconds(t) in points else "" for t in trips]
        lines.append(f"| {SWEEP[name]} | {number(native[name]['ms'])} | " + " | ".join(cells) + " |")
    return lines


def rows_lines(logs, stage, sides):
    """Every row of a stage beside native's, each with its ratio."""
    native, others = load(logs / f"{stage}.native"), [(s, load(logs / f"{stage}.{s}")) for s in sides]
    others = [(s, rows) for s, rows in others if rows]
    if not others:
        return []
    lines = ["| row | unit | native |" + "".join(f" {s} | ratio |" for s, _ in others),
             "|---|---|---|" + "---|---|" * len(others)]
    for name in dict.fromkeys([*native, *(n for _, rows in others for n in rows)]):
        n = native.get(name, {})
        unit = next((r[name].get("unit", "ms") for r in [native, *(r for _, r in others)] if name in r))
        base = n.get("value", n.get("ms"))
        cells = []
        for _, rows in others:
            ours = rows.get(name, {}).get("value", rows.get(name, {}).get("ms"))
            cells += [number(ours), f"{ours / base:.2f}" if ours is not None and base else ""]
        lines.append(f"| {name} | {unit} | {number(base)} | " + " | ".join(cells) + " |")
    return lines


def text_of(path):
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def results(logs, machine):
    """The page of bench/results."""
    lines = [f"# {machine[0]}: {machine[1]}", "", ", ".join(machine[2:]) + ". `bench/gpu.sh`, everything in one run; "
             "medians. The remote client could open no NVIDIA device.", ""]
    for title, part in (
            ("Main rows", main_table(logs)),
            ("Slowdown against the round trip (simulated, over tcp)", sweep_lines(logs)),
            ("Large copies against plain sockets, over loopback, and with a link's rate", wire_lines(logs)),
            ("Many clients", rows_lines(logs, "many", ["shm", "unix", "tcp"])),
            ("The start of a program", rows_lines(logs, "start", ["cold", "warm"])),
            ("PyTorch", rows_lines(logs, "torch", ["shm", "unix", "tcp"])),
            ("Single calls", rows_lines(logs, "micro", ["shm", "unix", "tcp"]))):
        if part:
            lines += [f"## {title}", "", *part, ""]
    said = [line for page in sorted(logs.glob("*.table")) for line in text_of(page).splitlines()
            if re.match(r"modules|.*left out|FAIL|apps:|e2e:|handles:", line)]
    if said:
        lines += ["## Besides", "", *("    " + line for line in said), ""]
    lines.append("Ratios of GB/s and of steps/s are better when large, all others when small.")
    return "\n".join(lines) + "\n"


def replace_part(page, part):
    """Puts PART between the marks of a document."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{part}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def write_all(logs, options):
    machine = text_of(logs / "machine").splitlines() or ["undated", "unknown"]
    name = options.name or re.sub(r"\W+", "-", machine[1].split(",")[0].lower().removeprefix("nvidia ")).strip("-")
    page = options.results / f"{machine[0]}-{name}.md"
    page.write_text(results(logs, machine), encoding="utf-8")
    print(page)
    slow, document = sweep_rows(logs)[0], options.docs / "performance.md"
    if not slow:
        return
    svg = options.docs / "performance.svg"
    svg.write_text(plot.slowdowns({SWEEP[n]: p for n, p in slow.items()}), encoding="utf-8")
    print(svg)
    if document.exists():
        where = f"[bench/results/{page.name}](../bench/results/{page.name})"
        replace_part(document, f"{machine[0]}, {machine[1]}; all rows: {where}.\n\n"
                               "![slowdown against round trip](performance.svg)")
        print(document)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", type=pathlib.Path)
    parser.add_argument("--name", help="of the machine, for the file (default: the GPU's)")
    parser.add_argument("--stage", choices=("wire", "sweep"))
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    options = parser.parse_args()
    if options.stage:
        print("\n".join({"wire": wire_lines, "sweep": sweep_lines}[options.stage](options.logs)))
        return 0
    if options.logs.is_dir():
        write_all(options.logs, options)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-xzf", options.logs, "-C", folder], check=True)
        write_all(pathlib.Path(folder), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
