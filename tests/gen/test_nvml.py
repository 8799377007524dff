"""tests/gen/test_nvml.py - rpc/nvml.api: what the reader refuses, and the table against nvml.h."""
import re
import subprocess

import pytest

from helpers import ROOT, management_table, toolkit_include
from api.nvml_table import NvmlTable
from api.table import TableError

TYPES = "type nvmlA_t 8\ntype nvmlB_t 12 0x0100000c\nenum nvmlE_t\n"


def refused(text):
    with pytest.raises(TableError) as told:
        NvmlTable("t", TYPES + text)
    return str(told.value)


@pytest.mark.parametrize("text, words", [
    ("999 nvmlF call", "no number and name"),
    ("1000 cuF call", "no number and name"),
    ("1000 nvmlF call\n1000 nvmlG call", "taken"),
    ("1000 nvmlF call\n1001 nvmlF call", "taken"),
    ("1000 nvmlF send", "unknown body"),
    ("1000 nvmlF call,both", "unknown body"),
    ("1000 nvmlF local,client (void)", "'client' is for calls"),
    ("1000 nvmlF call unsigned int *n", "expected direction"),
    ("1000 nvmlF call out unsigned int n", "one '*'"),
    ("1000 nvmlF call in unsigned int *n", "one '*'"),
    ("1000 nvmlF call out nvmlA_t *a", "unknown type"),
    ("1000 nvmlF call out pod nvmlC_t *c", "unknown type"),
    ("1000 nvmlF call out pod nvmlB_t *b", "both ways"),
    ("1000 nvmlF call io pod nvmlA_t *a", "both ways"),
    ("1000 nvmlF call out list nvmlC_t c count", "unknown type"),
    ("1000 nvmlF alias nvmlG", "no call"),
    ("1000 nvmlF refuse in unsigned int n", "no arguments"),
    ("1000 nvmlF local unsigned int n", "parentheses"),
    ("type nvmlC_t", "expected: type"),
    ("type nvmlC_t 8 0x01000009", "larger than itself"),
])
def test_a_bad_row_is_refused(text, words):
    said = refused(text)
    assert words in said and re.match(r"t:\d+: error: ", said)


def test_c_prototypes_are_nvmls():
    table = NvmlTable("t", TYPES + "1000 nvmlF call in nvmlDevice_t device, in nvmlE_t e, "
                      "in string s, out text name length, out list nvmlA_t a count, "
                      "io pod nvmlB_t *b, out words set size, io values nvmlA_t v n")
    assert table.rows[0].prototype() == (
        "nvmlReturn_t nvmlF(nvmlDevice_t device, int e, const char *s, char *name, "
        "unsigned int length, unsigned int *count, struct nvmlA_t *a, struct nvmlB_t *b, "
        "unsigned int size, unsigned long *set, int n, struct nvmlA_t *v)")


@pytest.fixture(scope="module", name="header")
def nvml_header():
    include = toolkit_include()
    if not include or not (include / "nvml.h").exists():
        pytest.skip("no nvml.h in the toolkit's include folder")
    return include / "nvml.h"


def test_every_function_of_nvmls_header_has_a_row(header):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.S)
    declared = set(re.findall(r"DECLDIR\s+(nvml\w+)\s*\(", text))
    assert declared and declared <= {r.name for r in management_table().rows}


def test_sizes_and_versions_are_those_of_nvmls_header(header, tmp_path):
    """The types of the table, compiled with the header; GSP's version is an array of char there."""
    types = {t: v for t, v in management_table().types.items() if "GspFirmware" not in t}
    lines = [f'_Static_assert(sizeof({t}) == {size}, "{t}");' for t, (size, _) in types.items()]
    source = tmp_path / "t.c"
    source.write_text(f'#include "{header}"\n' + "\n".join(lines) + "\n")
    done = subprocess.run(["gcc", "-c", "-o", tmp_path / "t.o", source], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_structures_that_are_looked_into_have_the_tables_size(tmp_path):
    ours = re.findall(r"^struct (nvml\w+_t) {", (ROOT / "cuda" / "nvml.h").read_text(), re.M)
    types = management_table().types
    source = tmp_path / "t.c"
    source.write_text('#include "cuda/nvml.h"\n' + "".join(
        f'_Static_assert(sizeof(struct {t}) == {types[t][0]}, "{t}");\n' for t in ours))
    done = subprocess.run(["gcc", f"-I{ROOT}", "-c", "-o", tmp_path / "t.o", source],
                          capture_output=True, text=True, timeout=60)
    assert len(ours) > 8 and done.returncode == 0, done.stderr


def test_nothing_that_changes_a_gpu_is_forwarded():
    changing = re.compile(r"nvml(Device|System|Unit|\w*Instance|Gpm)?(Set|Reset|Clear|Freeze|Modify|"
                          r"Remove|Discover|Create|Destroy|Activate)")
    for row in management_table().rows:
        assert row.kind != "call" or not changing.match(row.name), row.name
