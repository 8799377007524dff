#!/usr/bin/env python3
"""Make Cricket's stubs, handlers and tables from rpc/driver.api and, beside it, rpc/nvml.api and rpc/nccl.api.

    apigen.py TABLE --out DIR          generated C into DIR/gen; DIR/cricket.x, for our own coders
    apigen.py TABLE --x FILE           the protocol, as committed in rpc/cricket.x
    apigen.py TABLE --coverage FILE    docs/coverage.md; --coverage-nvml FILE: docs/coverage-nvml.md
                                       --coverage-nccl FILE: docs/coverage-nccl.md
    --check: write nothing, fail when a file differs from what would be written
"""

import argparse
import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from api import client, nccl, nvml, nvml_client, nvml_emu, nvml_server, proto, server, wire  # noqa: E402
from api.nccl_table import NcclTable  # noqa: E402
from api.nvml_table import NvmlTable  # noqa: E402
from api.table import Table, TableError, enum_types  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def put(path, text, check):
    """Write @text unless the file has it already (so that make rebuilds little)."""
    old = read(path) if os.path.exists(path) else None
    if old == text:
        return True
    if check:
        print(f"{path}: stale: run make gen", file=sys.stderr)
        return False
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return True


def build_files(table, control, management):
    """Everything that goes into a build folder."""
    return {
        "cricket.x": wire.cricket_x(table, control, own=True),
        "gen/numbers.h": wire.numbers_h(table),
        "gen/procs.c": wire.procs_c(table),
        "gen/api.h": proto.api_h(table),
        "gen/wire.h": client.wire_h(table),
        "gen/stubs.c": client.stubs_c(table),
        "gen/procaddress.c": proto.procaddress_c(table, counting=True),
        "gen/counted.c": client.counted_c(table),
        "gen/client_bodies.h": proto.client_bodies_h(table),
        "gen/watched.c": client.watched_c(table),
        "gen/driver.h": server.driver_h(table),
        "gen/handlers.h": server.handlers_h(table),
        "gen/handlers.c": server.handlers_c(table),
        "gen/emu_procaddress.c": proto.procaddress_c(table, counting=False),
        "gen/emu_bodies.h": proto.emu_bodies_h(table),
        "gen/emu_calls.c": proto.emu_calls_c(table),
        "gen/client.map": proto.exports_map(table, "client", "\t\tcupti*;\n\t\tInitializeInjectionNvtx2;\n\t\tcricket_store_*;\n" + (nvml.exports(management)
                                            if management else "")),
        "gen/emu.map": proto.exports_map(table, "emu", "\t\tcupti*;\n" + ("\t\tnvml*;\n" if management else "")),
    }


def management_files(management):
    """The same for NVML."""
    return {
        "gen/nvml_api.h": nvml.api_h(management),
        "gen/nvml_server.h": nvml_server.nvml_h(management),
        "gen/nvml_bodies.h": nvml_client.bodies_h(management),
        "gen/nvml_stubs.c": nvml_client.stubs_c(management),
        "gen/emu_nvml.c": nvml_emu.emu_nvml_c(management),
        "gen/nvml_handlers.c": nvml_server.handlers_c(management),
    }


def read_tables(path, headers):
    """The driver's table, and NVML's where a file nvml.api lies beside it."""
    table, management = Table(path, read(path), enum_types("".join(map(read, headers)))), None
    beside = os.path.join(os.path.dirname(path), "nvml.api")
    if os.path.exists(beside):
        management = NvmlTable(beside, read(beside))
        table.more = [r for r in management.rows if r.wire]
    return table, management


def read_collectives(path):
    """NCCL's table, where a file nccl.api lies beside the driver's."""
    beside = os.path.join(os.path.dirname(path), "nccl.api")
    return NcclTable(beside, read(beside)) if os.path.exists(beside) else None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("table")
    p.add_argument("--out")
    p.add_argument("--x")
    p.add_argument("--coverage")
    p.add_argument("--coverage-nvml")
    p.add_argument("--coverage-nccl")
    p.add_argument("--control", default=os.path.join(ROOT, "rpc", "control.x"))
    p.add_argument("--types", nargs="+", metavar="HEADER",
                   default=sorted(glob.glob(os.path.join(ROOT, "cuda", "*.h"))))
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    try:
        table, management = read_tables(args.table, args.types)
        collectives = read_collectives(args.table)
    except TableError as e:
        print(e, file=sys.stderr)
        return 1
    control = read(args.control)
    files = {}
    if args.out:
        made = build_files(table, control, management)
        made.update(management_files(management) if management else {})
        made.update(nccl.files(collectives) if collectives else {})
        files.update({os.path.join(args.out, k): v for k, v in made.items()})
    if args.x:
        files[args.x] = wire.cricket_x(table, control)
    if args.coverage:
        files[args.coverage] = proto.coverage_md(table)
    if args.coverage_nvml:
        files[args.coverage_nvml] = nvml.coverage_md(management)
    if args.coverage_nccl:
        files[args.coverage_nccl] = nccl.coverage_md(collectives)
    ok = [put(path, text, args.check) for path, text in files.items()]
    return 0 if all(ok) else 1


if __name__ == "__main__":
    sys.exit(main())
