"""tests/gen/test_words.py - loader/gen/words.py against a compiler: words of arguments on the stack.

A function of each signature says where its last argument lies; the generator must pass at least that far.
"""
import os
import re
import shlex
import subprocess
import sys

import pytest

from helpers import ROOT

sys.path.insert(0, str(ROOT / "loader" / "gen"))
import words    # noqa: E402  pylint: disable=wrong-import-position

CC = shlex.split(os.environ.get("CC", "cc"))
TYPES = """
#ifndef TYPES
#define TYPES
typedef struct { int a, b; } pair;
typedef struct { long a, b; } two;
typedef struct { char bytes[64]; } handle;
typedef struct { char bytes[20]; } odd;
typedef struct { float x; } real;
typedef struct { double x; long a; } mixed;
typedef union { char c[24]; long l; } either;
typedef struct { long a[4]; } __attribute__((aligned(16))) broad;
typedef struct { long a[16]; } __attribute__((aligned(64))) wide;
typedef float my_float;
enum colour { RED };
#endif
"""
# Parameters, and how many more words are passed than the compiler needs.
SIGNATURES = {
    "void": 0,
    "int a, const char *b, unsigned long long c": 0,
    "int a, int b, int c, int d, int e, int f, int g": 0,
    "int a, float b, int c, int d, int e, int f, int g, double h": 0,
    "my_float a, int b, int c, int d, int e, int f, enum colour g": 0,
    "float a, float b, float c, float d, float e, float f, float g, float h, float i": 0,
    "long *out, handle h": 0,
    "long *out, handle h, unsigned int flags": 0,
    "handle g, handle h": 0,
    "odd o": 0,
    "const either e, int a, int b, int c, int d, int e2, int f, int g": 0,
    "pair p": 0,
    "int a, int b, int c, int d, int e, pair p, int f": 0,
    "float a, float b, float c, float d, float e, float f, float g, float h, real r": 0,
    "two t": 2,
    "int a, int b, int c, int d, int e, two t": 5,
    "int a, int b, int c, int d, int e, two t, int f, int g": 6,
    "double a, mixed m": 3,
    "int a, broad b": 1,
    "handle h, broad b": 1,
}


def types_of(tmp_path, params):
    (tmp_path / "types.h").write_text(TYPES)
    types = words.split(params)
    measured = words.measure(sorted({t for t in types if t}), [tmp_path / "types.h"], CC)
    return [measured.get(t) for t in types]


def needed(tmp_path, params):
    """The words on the stack, from where va_start finds the argument behind the last one."""
    rest = re.sub(r"^void$", "", params)
    source = (f"{TYPES}#include <stdarg.h>\n#include <stdio.h>\n"
              f"__attribute__((noinline)) void called({rest + ', ' if rest else 'long first, '}...)\n"
              "{ va_list v; __builtin_va_start(v, 0); char *frame = __builtin_frame_address(0);\n"
              '  printf("%ld\\n", (long)((char *)v->overflow_arg_area - frame - 16) / 8); }\n'
              f"int main(void) {{ {' '.join(declared(rest))} called({', '.join(names(rest)) or '0L'}); return 0; }}\n")
    program = tmp_path / "program"
    subprocess.run([*CC, "-std=gnu2x", "-w", "-O0", "-fno-omit-frame-pointer", "-x", "c", "-o", program, "-"],
                   input=source, text=True, check=True, timeout=60)
    return int(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True, timeout=20).stdout)


def declared(params):
    return [f"{p.strip().replace('const ', '')} = {{0}};" for p in params.split(",") if p.strip()]


def names(params):
    return [re.search(r"(\w+)$", p.strip())[1] for p in params.split(",") if p.strip()]


@pytest.mark.parametrize("params", SIGNATURES, ids=lambda p: re.sub(r"\W+", "-", p))
def test_all_words_that_lie_on_the_stack_are_counted(tmp_path, params):
    count = words.on_stack(types_of(tmp_path, params))
    assert count == needed(tmp_path, params) + SIGNATURES[params]


@pytest.mark.parametrize("params", ["wide w", "long double d", "float _Complex z"])
def test_what_no_code_passes_is_refused(tmp_path, params):
    with pytest.raises(words.Unknown):
        words.on_stack(types_of(tmp_path, params))


@pytest.mark.parametrize("params", ["void (*fn)(void *), void *data", "int a, ..."])
def test_a_prototype_that_is_not_read_is_refused(params):
    with pytest.raises(words.Unknown):
        words.split(params)
