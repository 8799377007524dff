"""tests/gen/test_names.py - the table has every name of the driver library, and the versions of each."""
import re

import pytest

from helpers import ROOT, TABLE, driver_table, tool, toolkit_include, toolkit_version
from api.proto import base_name, is_narrow

# What driver 580 exports, and what headers of CUDA 13.1 to 13.5 add, one a line.
NAMES = (ROOT / "tests" / "data" / "driver_names.txt").read_text().split()
NOT_ON_LINUX = tool("check-cuda").NOT_ON_LINUX


@pytest.fixture(scope="module", name="table")
def the_table():
    return driver_table()


@pytest.fixture(scope="module", name="include")
def the_toolkits_headers():
    include = toolkit_include()
    if not include or not (include / "cudaTypedefs.h").exists():
        pytest.skip("no CUDA toolkit (CUDA_HOME, PATH, /usr/local/cuda*, build/cuda)")
    return include


def test_the_list_of_names_is_whole():
    assert len(NAMES) == len(set(NAMES)) == 733
    assert NAMES == sorted(NAMES)


def test_the_table_has_exactly_the_drivers_names(table):
    assert sorted(r.name for r in table.rows if r.exported) == NAMES


def test_every_refused_name_has_one_reason_and_every_reason_a_name(table):
    refused = [r.name for r in table.rows if r.kind == "refuse" and not is_narrow(r, table)]
    given = {r.name: r.reason for r in table.rows if r.name in refused}
    assert [name for name, reason in given.items() if not reason] == []
    assert set(table.reasons) == set(given.values())


def test_no_row_is_wider_than_a_window():
    assert [line for line in TABLE.read_text().splitlines() if len(line) > 120] == []


def by_version(table):
    """(base name, version, per-thread) of every row that cuGetProcAddress finds -> its name."""
    found = {}
    for r in table.rows:
        if r.exported and int(r.since):
            base, per_thread = base_name(r.name)
            assert (base, int(r.since), per_thread) not in found, r.name
            found[base, int(r.since), per_thread] = r.name
    return found


def test_later_variants_have_later_versions(table):
    last = {}
    for (base, since, per_thread), name in sorted(by_version(table).items()):
        suffix = re.search(r"_v(\d+)(_ptsz|_ptds)?$", name)
        variant = int(suffix[1]) if suffix else 1
        assert last.get((base, per_thread), 0) < variant, f"{name} of {since}"
        last[base, per_thread] = variant


def test_versions_are_those_of_the_toolkits_function_types(table, include):
    version = toolkit_version(include)
    declared = set()
    for header in include.glob("cuda*Typedefs.h"):
        if "untime" in header.name:
            continue
        for m in re.finditer(r"\*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", header.read_text()):
            declared.add((m[1], int(m[2]), bool(m[3])))
    assert len(declared) > 500
    ours = {key for key in by_version(table) if key[1] <= version}
    theirs = {key for key in declared if key[1] <= 13050}
    assert theirs - ours <= NOT_ON_LINUX
    assert ours - theirs == set()
    if version >= 13000:
        assert theirs - ours == NOT_ON_LINUX


def test_the_newest_variant_is_the_one_that_programs_are_compiled_for(table, include):
    version = toolkit_version(include)
    newest = {}
    for (base, since, per_thread), name in sorted(by_version(table).items()):
        if since <= version and not per_thread:
            newest[base] = name
    text = (include / "cuda.h").read_text()
    chosen = re.findall(r"#define\s+(cu[A-Z]\w*)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?\s*$",
                        text[:text.index("#ifdef __cplusplus")], re.M)
    compared = 0
    # Of CUDA 13.4 on, a name stands for another variant only if the program asks for it.
    for base, name in chosen if version < 13010 else []:
        name = name.removesuffix("_ptsz").removesuffix("_ptds")
        # A name that stands for itself, or for another call, tells nothing about variants.
        if base in newest and name != base and base_name(name)[0] == base:
            assert newest[base] == name
            compared += 1
    assert compared > 50 or not 13000 <= version < 13010, f"only {compared} compared"
