#!/usr/bin/env python3
"""Writes docs/ptx-coverage.md: the opcodes of emu/ptx/language/ops.def, and the forms that check each."""
import collections
import itertools
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import forms_compare  # noqa: E402
import forms_convert  # noqa: E402
import forms_data  # noqa: E402
import forms_float  # noqa: E402
import forms_integer  # noqa: E402
import forms_matrix  # noqa: E402
import forms_texture  # noqa: E402
import forms_video  # noqa: E402
import forms_warp  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = (forms_integer, forms_video, forms_float, forms_compare, forms_convert, forms_matrix, forms_texture,
            forms_data, forms_warp)
HEAD = """# PTX coverage of the emulated GPU

Made by `make gen` from `emu/ptx/language/ops.def` and `tests/conformance`; do not edit. A row is an opcode that the interpreter
knows; the launch of a kernel that can reach another opcode is refused, with its name. The number behind an opcode counts the kernels
in which it is used and that are compared with an H200's answers; 0: none is.

| opcodes and their forms | what |
|---|---|
"""


def rows(text):
    """(opcode, the comment above its row) in the order of ops.def."""
    note, prefix = '', ''
    for piece in re.finditer(r'/\*(.*?)\*/|CK_PTX_OP\(\w+, "([^"(]+)"|CK_PTX_VIDEO\(\w+, "([^"]+)"|'
                             r'CK_PTX_MBARRIER\(\w+, "([^"]+)"', text.partition('#endif')[2], re.S):
        comment, plain, video, barrier = piece.groups()
        if comment is not None:
            note = ' '.join(re.sub(r'^\s*\*', '', comment, flags=re.M).split())
        else:
            name = plain or video or 'mbarrier.' + barrier
            if not name.endswith('.'):
                yield name, note


def uses():
    """How many forms use each dotted beginning of an instruction's name."""
    counts = collections.Counter()
    for family in FAMILIES:
        for form in family.forms():
            text = form.body + '\n' + form.ptx('k') if family is forms_warp else form.body
            found = set()
            for name in re.findall(r'(?:^|[;\n\s])([a-z][a-z0-9_]*(?:\.[A-Za-z0-9_:]+)*)', text):
                words = name.split('.')
                found.update('.'.join(words[:i]) for i in range(1, len(words) + 1))
            counts.update(found)
    return counts


def page():
    counts = uses()
    lines = []
    for note, group in itertools.groupby(rows((ROOT / 'emu/ptx/language/ops.def').read_text()), lambda row: row[1]):
        names = ', '.join(f'`{name}` {counts[name]}' for name, _ in group)
        lines.append(f'| {names} | {note.replace("|", chr(92) + "|")} |')
    return HEAD + '\n'.join(lines) + '\n'


if __name__ == '__main__':
    (ROOT / 'docs/ptx-coverage.md').write_text(page())
