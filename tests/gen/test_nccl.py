"""tests/gen/test_nccl.py - rpc/nccl.api: what the reader refuses; the table against NCCL's names and its header nccl.h.

The header and the library are those of an installed NCCL (/usr/include, the toolkit's folder, PyPI's nvidia-nccl-cu13);
without one, the list of names in tests/data stands for it.
"""
import ctypes
import pathlib
import re
import subprocess

import pytest

from helpers import ROOT, nccl_table, toolkit_include
from api.nccl_table import NcclTable
from api.table import TableError

# What NCCL 2.28.9 exports, and what the headers up to 2.32 add, one a line.
NAMES = (ROOT / "tests" / "data" / "nccl_names.txt").read_text().split()
HEAD = "reason device      Why.\n# --- group\n- ncclZ refuse device\n"


def includes():
    """Folders that may have nccl.h."""
    yield from filter(None, [toolkit_include(), pathlib.Path("/usr/include"), pathlib.Path("/usr/local/include")])
    for site in (ROOT / "build" / "python").glob("*/lib/python*/site-packages/nvidia"):
        yield from site.glob("*/include")


def find(name, folders):
    return next((f / name for f in folders if (f / name).exists()), None)


@pytest.fixture(scope="module", name="table")
def the_table():
    return nccl_table()


@pytest.fixture(scope="module", name="header")
def the_header():
    path = find("nccl.h", includes())
    if not path:
        pytest.skip("no nccl.h (libnccl-dev, nvidia-nccl-cu13)")
    text = path.read_text()
    version = int(re.search(r"#define NCCL_VERSION_CODE (\d+)", text)[1])
    if not 22700 <= version < 22900:
        pytest.skip(f"nccl.h of {version}; the table is that of 2.28")
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


@pytest.mark.parametrize("text, words", [
    ("1 ncclA op", "expected: number name"),
    ("1 cuA op comm", "no call of NCCL"),
    ("1 ncclA send comm", "no call of NCCL"),
    ("- ncclA op comm", "a number from 1 to 99"),
    ("1 ncclA hand (void)", "a number from 1 to 99"),
    ("100 ncclA op comm", "a number from 1 to 99"),
    ("1 ncclA op comm\n1 ncclB op comm", "taken"),
    ("1 ncclA op comm\n2 ncclA op comm", "has a row"),
    ("1 ncclA op where", "has no place"),
    ("1 ncclA op sendbuff=where", "has no place"),
    ("- ncclA hand void", "parentheses"),
    ("- ncclA refuse never", "no line 'reason never'"),
])
def test_a_bad_row_is_refused(text, words):
    with pytest.raises(TableError) as told:
        NcclTable("t", HEAD + text)
    assert words in str(told.value) and re.match(r"t:\d+: error: ", str(told.value))


def test_a_reason_that_no_row_gives_is_refused():
    with pytest.raises(TableError, match="no row gives"):
        NcclTable("t", HEAD + "reason other x\n")


def test_the_table_has_exactly_nccls_names(table):
    assert sorted(r.name for r in table.rows) == NAMES


def declared(header):
    """name -> number of parameters."""
    found = {}
    for name, params in re.findall(r"\b(nccl[A-Z]\w+)\s*\(([^()]*)\)\s*;", header):
        found[name] = 0 if params.strip() in ("", "void") else params.count(",") + 1
    return found


def test_each_call_of_the_header_is_on_the_table(table, header):
    rows = {r.name: r for r in table.rows}
    calls = declared(header)
    assert len(calls) > 35 and set(calls) <= set(rows)
    for name, count in calls.items():
        if rows[name].kind != "refuse":
            assert len(rows[name].names()) == count, name


def test_what_the_header_does_not_have_is_refused_or_newer(table, header):
    offered = {r.name for r in table.offered}
    assert offered - set(declared(header)) <= {"ncclCommRevoke", "ncclAlltoAll", "ncclGather", "ncclScatter"}


def test_numbers_are_those_of_the_header(header):
    own = (ROOT / "cuda" / "nccl.h").read_text()
    theirs = dict(re.findall(r"\b(nccl\w+)\s*=\s*(\d+)", header))
    ours = dict(re.findall(r"\b(nccl\w+)\s*=\s*(\d+)", own))
    assert len(ours) > 25
    assert {n: v for n, v in ours.items() if n in theirs and n != "ncclNumOps"} == \
        {n: v for n, v in theirs.items() if n in ours and n != "ncclNumOps"}


def test_the_configuration_has_the_headers_fields(header):
    def fields(text):
        body = re.search(r"typedef struct[^{]*\{([^}]*)\}\s*ncclConfig_t", text)[1]
        return re.findall(r"([\w *]+?)\b(\w+);", re.sub(r"\s+", " ", body))
    own = fields((ROOT / "cuda" / "nccl.h").read_text())
    theirs = fields(header)
    assert [(t.strip(), n) for t, n in theirs] == [(t.strip(), n) for t, n in own][:len(theirs)]


def test_an_installed_library_of_that_release_has_no_other_names(table):
    folders = [f for i in includes() for f in (i.parent / "lib", i.parent / "lib64", i.parent / "lib" / "x86_64-linux-gnu")]
    library = find("libnccl.so.2", folders)
    if not library:
        pytest.skip("no libnccl.so.2 is installed")
    text = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True, timeout=120).stdout
    names = {line.split()[2].split("@")[0] for line in text.splitlines()}
    version = ctypes.c_int()
    assert ctypes.CDLL(str(library)).ncclGetVersion(ctypes.byref(version)) == 0
    if version.value // 100 != 228:
        pytest.skip(f"libnccl.so.2 of {version.value}")
    assert {n for n in names if n.startswith("nccl")} <= {r.name for r in table.rows}
