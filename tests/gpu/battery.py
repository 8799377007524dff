#!/usr/bin/env python3
"""tests/gpu/battery.py - the programs that people try first, natively and remotely, compared.

    tests/gpu/battery.py                      all, as root on a machine with a GPU
    tests/gpu/battery.py cases_torch          a file
    tests/gpu/battery.py -k 'sdpa|fft'        cases by a regular expression
    tests/gpu/battery.py --transport tcp      in place of the unix socket
    tests/gpu/battery.py --list               what there is

Prints a table last, writes it with date, versions and hardware as OUT/compatibility.md, and ends with
status 1 when something is not as it is natively.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import judge  # noqa: E402
import runner  # noqa: E402

FILES = ("cases_torch", "cases_torch_train", "cases_torch_compile", "cases_torch_process", "cases_cupy",
         "cases_jax", "cases_compilers", "cases_nvml", "cases_libraries", "cases_programs")


def arguments():
    parser = argparse.ArgumentParser(description="native against remote")
    parser.add_argument("files", nargs="*", help=f"of: {' '.join(FILES)}")
    parser.add_argument("-k", metavar="REGEX", default="", help="cases whose name contains it")
    parser.add_argument("-j", type=int, default=4, help="files at once (default 4)")
    parser.add_argument("--address", help="of a server that runs; else one is started")
    parser.add_argument("--transport", choices=("unix", "tcp"), default="unix")
    parser.add_argument("--out", default="build/gpu/battery", help="folder of logs and results")
    parser.add_argument("--seconds", type=float, default=480, help="for all of it (default 480)")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def gpu_count():
    if "BATTERY_GPUS" in os.environ:
        return int(os.environ["BATTERY_GPUS"])
    listed = judge.output_of("nvidia-smi", "-L").splitlines()
    return max(1, sum(line.startswith("GPU ") for line in listed))


def run_file(sides, module, wanted):
    """All cases of a file on both sides; {name: (case, native, remote, again)}."""
    cases = runner.cases_of(module)
    if isinstance(cases, str):
        status = "missing" if cases.startswith("ModuleNotFoundError") else "error"
        return {"all": ({"limit": "", "tolerance": 0},
                        {"status": status, "error": cases, "seconds": None},
                        {"status": status, "error": cases, "seconds": None}, None)}
    names = [n for n in cases if re.search(wanted, n)]
    native = runner.run_cases(sides, "native", module, cases, names)
    # What is not here natively cannot be compared: it is not tried again.
    tried = [n for n in names if native[n]["status"] != "missing"]
    remote = runner.run_cases(sides, "remote", module, cases, tried)
    unsure = [n for n in tried if native[n]["status"] == remote[n]["status"] == "ok"
              and judge.verdict(cases[n], native[n], remote[n])[0] == "differs"]
    again = runner.run_cases(sides, "native", module, cases, unsure) if unsure else {}
    if "ends" in native and "ends" in remote:
        cases["ends"] = {"limit": "", "tolerance": 0}
        names.append("ends")
    absent = {"status": "missing", "error": "", "seconds": None}
    return {n: (cases[n], native[n], remote.get(n, absent), again.get(n)) for n in names}


def rows_of(files, done):
    """The table's rows, and how many there are of each word."""
    rows, count = [], collections.Counter()
    for module in files:
        for name, (case, native, remote, again) in done[module].items():
            word, detail = judge.verdict(case, native, remote, again)
            count[word] += 1
            title = f"{module.removeprefix('cases_')}: {name}"
            rows.append(judge.row(title, native, remote, word, detail))
    return rows, count


def main():
    options = arguments()
    files = [pathlib.Path(f).stem for f in options.files] or list(FILES)
    if options.list:
        for module in files:
            cases = runner.cases_of(module)
            print(f"{module}: {cases if isinstance(cases, str) else ' '.join(cases)}")
        return 0
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.log"):
        old.unlink()
    if "cases_libraries" in files:
        with open(out / "make.log", "w", encoding="utf-8") as log:
            subprocess.run(["make", "-C", runner.HERE, "-k", f"-j{os.cpu_count()}"], check=False, stdout=log,
                           stderr=subprocess.STDOUT)
    server, address = (None, options.address) if options.address else \
        runner.start_server(out, options.transport)
    sides = runner.Sides(address, out.resolve(), gpu_count(), options.seconds)
    try:
        with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
            running = {m: pool.submit(run_file, sides, m, options.k) for m in files}
            done = {m: r.result() for m, r in running.items()}
    finally:
        sides.close()
        if server:
            server.terminate()
            server.wait()
    rows, count = rows_of(files, done)
    summary = ", ".join(f"{n} {word}" for word, n in count.most_common())
    transport = "tcp" if not address.startswith("unix:") else "a unix socket"
    judge.write_document(runner.ROOT / "docs" / "compatibility.md", out / "compatibility.md", rows,
                         summary, transport)
    with open(out / "results.json", "w", encoding="utf-8") as f:
        json.dump({m: {n: v[1:] for n, v in r.items()} for m, r in done.items()}, f, indent=1)
    bad = [r for r in rows if not r[3].startswith(judge.GOOD)]
    for r in bad:
        print(f"{r[3].upper()}: {r[0]}: native {r[1]}; remote {r[2]}")
    print(judge.text_table(rows))
    print(f"battery over {transport}: {summary}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
