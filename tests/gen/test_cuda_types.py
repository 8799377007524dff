"""tests/gen/test_cuda_types.py - cuda/*.h and errors.def against the toolkit's cuda.h.

Both declare the same names, so no one program can see both: the same questions are compiled once
with each, and the answers compared.
"""
import os
import re
import subprocess

import pytest

from helpers import ROOT, TABLE, apigen, toolkit_include, toolkit_version
from api.proto import base_name

OURS = ROOT / "cuda"
NEWEST = 13050  # CUDA_VERSION that cuda/ was written for
# Structures that CUDA 13.1 and later have let grow, where calls of before do not read; counts; a type without its name.
GROWN = re.compile(r"CUDA_(HOST|EVENT_RECORD|EXT_SEM_\w+)_NODE_PARAMS|CUgraphNodeParams.(host|eventRecord|extSem\w+) |"
                   r"CUdevResource|CUdevSmResource|CUcheckpoint\w+Args|CUmemPoolProps.reserved|_MAX$|_NUM_OPTIONS$|CU_COREDUMP_LIGHTWEIGHT_FLAGS")


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


TYPES = without_comments("".join(f.read_text() for f in sorted(OURS.glob("*_types.h"))))
ENUMS = without_comments((OURS / "enums.h").read_text())
ERRORS = re.findall(r"^CK_ERROR\((\w+),", (OURS / "errors.def").read_text(), re.M)


def members(body, prefix=""):
    """Paths of the members of a structure or union: srcHost, clusterDim.x."""
    found = []
    nested = r"(?:struct|union)\s*{((?:[^{}]|{[^{}]*})*)}\s*(\w*)\s*;"
    for m in re.finditer(nested + r"|([^;{}]+);", body):
        if m[3] is None:  # without a name: its members count as the outer one's
            found += [prefix + m[2]] if m[2] else []
            found += members(m[1], f"{prefix}{m[2]}." if m[2] else prefix)
        else:
            for declarator in m[3].split(","):
                found.append(prefix + re.search(r"(\w+)\s*(\[.*\])?\s*$", declarator)[1])
    return found


def structures():
    """Name -> members of each structure and union in types.h."""
    pattern = r"typedef (?:struct|union) {((?:[^{}]|{(?:[^{}]|{[^{}]*})*})*)} (\w+);"
    return {name: members(body) for body, name in re.findall(pattern, TYPES)}


def type_names():
    """Everything that types.h and enums.h give a name to."""
    return (re.findall(r"typedef [^;{}(]*?(\w+);", TYPES) +
            re.findall(r"typedef [^;{}]*\(\*(\w+)\)", TYPES) +
            re.findall(r"^}\s*(\w+);", TYPES + "\n" + ENUMS, re.M))


def constants():
    return (re.findall(r"^\s+(CU_\w+)\s*=", ENUMS + TYPES, re.M) + ERRORS +
            re.findall(r"^#define (CU_(?!DA_)\w+|CUDA_\w+) ", TYPES, re.M))


def questions():
    """Label -> C expression, an integer."""
    asked = {f"sizeof {t}": f"sizeof({t})" for t in type_names()}
    asked.update({f"alignof {t}": f"_Alignof({t})" for t in type_names()})
    for name, fields in structures().items():
        for f in fields:
            asked[f"{name}.{f} at"] = f"offsetof({name}, {f})"
            asked[f"{name}.{f} size"] = f"sizeof((({name} *)0)->{f})"
    asked.update({name: name for name in constants()})
    return asked


def answers(folder, name, headers, include, asked):
    """Compile and run a program that prints the answer to each question."""
    source, program = folder / f"{name}.c", folder / name
    lines = "".join(f'\tprintf("{label}=%lld\\n", (long long)({c}));\n'
                    for label, c in asked.items())
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n" +
                      "".join(f'#include "{h}"\n' for h in headers) +
                      "int main(void)\n{\n" + lines + "\treturn 0;\n}\n")
    done = subprocess.run([*os.environ.get("CC", "cc").split(), "-std=gnu11", "-w", f"-I{include}", "-o",
                           program, source], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]
    out = subprocess.run([program], capture_output=True, text=True, check=True, timeout=10).stdout
    return {label: int(value)
            for label, value in (line.rsplit("=", 1) for line in out.splitlines())}


@pytest.fixture(scope="module", name="include")
def the_toolkits_headers():
    include = toolkit_include()
    if not include:
        pytest.skip("no CUDA toolkit (CUDA_HOME, PATH, /usr/local/cuda*, build/cuda): "
                    "cuda/*.h is not compared with cuda.h")
    return include


@pytest.fixture(scope="module", name="both")
def both_answers(include, tmp_path_factory):
    """Label -> (ours, the toolkit's), for what the toolkit knows."""
    folder, asked = tmp_path_factory.mktemp("types"), questions()
    if toolkit_version(include) > 13000:
        asked = {k: c for k, c in asked.items() if not GROWN.search(k)}
    if toolkit_version(include) < NEWEST:  # an older one lacks some names; it may
        known = set(re.findall(r"\w+", (include / "cuda.h").read_text()))
        asked = {k: c for k, c in asked.items()
                 if set(re.findall(r"\b(?:CU\w+|cuuint\w+)", c)) <= known}
    if toolkit_version(include) != NEWEST:  # counts grow
        asked = {k: c for k, c in asked.items() if not re.search(r"(_MAX|_NUM_OPTIONS)$", k)}
    ours = answers(folder, "ours", ["cuda/types.h"], ROOT, asked)
    theirs = answers(folder, "theirs", ["cuda.h"], include, asked)
    assert ours.keys() == theirs.keys() == asked.keys()
    return {label: (ours[label], theirs[label]) for label in asked}


def differences(both, labels):
    return {k: both[k] for k in labels if k in both and both[k][0] != both[k][1]}


def test_the_questions_are_about_all_that_is_declared():
    found = structures()
    assert len(found) == len(re.findall(r"typedef (?:struct|union) {", TYPES)) >= 7
    assert {"clusterDim", "clusterDim.z", "pad"} <= set(found["CUlaunchAttributeValue"])
    assert found["CUuuid"] == ["bytes"]
    assert len(found["CUDA_MEMCPY3D"]) == 25
    assert len(type_names()) == len(set(type_names())) == (TYPES + ENUMS).count("typedef ")
    declared = re.findall(r"\bCU\w*_\w+\s*[=,]", ENUMS)
    assert len(re.findall(r"^\s+(CU_\w+)\s*=", ENUMS, re.M)) == len(declared) > 300
    assert len(ERRORS) == (OURS / "errors.def").read_text().count("CK_ERROR(CUDA_") > 90
    assert len(constants()) == len(set(constants()))


def test_types_have_the_size_and_alignment_of_the_toolkits(both):
    assert differences(both, [k for k in both if k.startswith(("sizeof", "alignof"))]) == {}


def test_members_lie_where_the_toolkits_do(both):
    assert differences(both, [k for k in both if k.endswith((" at", " size"))]) == {}


def test_constants_have_the_toolkits_values(both):
    assert differences(both, constants()) == {}


def test_every_error_of_the_toolkit_is_known(include):
    text = without_comments((include / "cuda.h").read_text())
    theirs = re.findall(r"(CUDA_\w+)\s*=", re.search(r"enum cudaError_enum {(.*?)}", text, re.S)[1])
    assert len(theirs) > 50
    if toolkit_version(include) <= NEWEST:
        assert set(theirs) - set(ERRORS) == set()
    if toolkit_version(include) == NEWEST:
        assert set(ERRORS) == set(theirs)


def bare(parameters):
    """A parameter list without const and line breaks."""
    return " ".join(parameters.replace("const ", "").split())


def test_calls_have_the_toolkits_prototypes(include, tmp_path):
    assert apigen(TABLE, "--out", tmp_path)[0] == 0
    api = (tmp_path / "gen" / "api.h").read_text()
    ours = dict(re.findall(r"^CUresult (\w+)\((.*)\);", api, re.M))
    header = without_comments((include / "cuda.h").read_text())
    shared = [name for name in ours if re.search(rf"\b{name}\b", header)]
    assert len(shared) > 150
    # The toolkit's own way to declare all variants under their real names.
    source = tmp_path / "api.c"
    source.write_text("#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n" +
                      "".join(f"CUresult {name}({ours[name]});\n" for name in shared))
    done = subprocess.run([*os.environ.get("CC", "cc").split(), "-std=gnu11", "-w", "-fsyntax-only",
                           f"-I{include}", source], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "LC_ALL": "C"})
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    clashes = [re.search(r"conflicting types for '(\w+)'", line) for line in errors]
    assert all(clashes), done.stderr[:2000]
    for name in {m[1] for m in clashes}:
        # The newest variant is declared under its base name, behind a #define.
        theirs = re.findall(rf"\b(?:{name}|{base_name(name)[0]})\s*\(([^;]*)\);", header)
        # A structure that is only read is const here, if the toolkit says so or not.
        if bare(ours[name]) in [bare(text) for text in theirs]:
            continue
        # A pointer to what cuda/types.h does not declare is a pointer to void there.
        assert "void *" in ours[name], f"{name}: {theirs}"
        assert len(ours[name].split(",")) in [len(t.split(",")) for t in theirs], name
