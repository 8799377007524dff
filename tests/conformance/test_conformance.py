"""The comparer finds what differs, and the GPU's answers agree with arithmetic in Python."""
import functools
import pathlib
import re

import pytest

import answers
import coverage
import forms_integer
import forms_video
from form import SIZES, Form, plain

HARDWARE = pathlib.Path(__file__).parent / 'hardware' / 'sm_90.answers'


def compare(form, want, got):
    return answers.compare([form], {form.name: answers.Answer(form.digest(), want)},
                           {form.name: answers.Answer(form.digest(), got)})


def words(values, size=4):
    return b''.join(v.to_bytes(size, 'little') for v in values)


def test_the_list_of_opcodes_is_not_stale():
    assert (coverage.ROOT / 'docs/ptx-coverage.md').read_text() == coverage.page(), 'make gen'


def test_the_documents_have_the_numbers_of_the_forms():
    forms = [form for family in coverage.FAMILIES for form in family.forms()]
    unanswered = sum(form.digest() != gpu()[form.name].digest if form.name in gpu() else True for form in forms)
    page = (coverage.ROOT / 'docs/emulator.md').read_text()
    rows = {text: int(number) for number, text in re.findall(r'^\| (\d+) \| ([^|]+) \|$', page, re.M)}
    assert sum(rows.values()) == len(forms)
    assert sum(number for text, number in rows.items() if 'without an answer' in text) == unanswered
    same = next(number for text, number in rows.items() if text == 'the same bit for bit')
    assert f"{len(forms)} kernels compared with an H200's results: {same} are" in (coverage.ROOT / 'docs/compatibility.md').read_text()


def test_one_wrong_bit_is_found():
    form = plain('add.u32', 'u32', 'u32 u32', threads=4)
    right = words([1, 2, 3, 4])
    assert compare(form, right, right).same == 1
    report = compare(form, right, words([1, 2, 7, 4]))
    assert report.failed == 1 and '0x7, the GPU says 0x3' in report.lines[0]


def test_a_bound_holds_and_is_passed():
    form = plain('sin.approx.f32', 'f32', 'f32:=0x3f800000', 'relative 2^-22', threads=2)
    assert compare(form, words([0x3f576aa4] * 2), words([0x3f576aa5] * 2)).near == 1
    assert compare(form, words([0x3f576aa4] * 2), words([0x3f576ab4] * 2)).failed == 1
    assert compare(form, words([0x7f800000] * 2), words([0x7f7fffff] * 2)).failed == 1


def test_a_nan_is_any_nan_but_no_number():
    form = plain('add.f32', 'f32', 'f32 f32', threads=1)
    assert compare(form, words([0x7fffffff]), words([0x7fc00000])).nan == 1
    assert compare(form, words([0x7fffffff]), words([0x7f800000])).failed == 1


def test_answers_to_another_kernel_count_for_nothing():
    form, changed = (Form('f', f'add.u32 d0, a0, {n};', 'u32', 'u32') for n in (1, 2))
    old = {'f': answers.Answer(form.digest(), words([0] * form.threads))}
    new = {'f': answers.Answer(changed.digest(), words([0] * form.threads))}
    assert answers.compare([changed], old, new).missing == 1


def test_a_departure_is_no_failure_and_is_named_by_a_form():
    form = plain('vadd', 'u32', 'u32 u32', threads=1)
    wanted, got = ({'vadd': answers.Answer(form.digest(), words([n]))} for n in (1, 2))
    assert answers.compare([form], wanted, got, {'vadd'}).departed == 1
    names = {form.name for form in forms_video.forms()}
    assert answers.listed(HARDWARE.parent / 'departures') <= names


@functools.lru_cache
def gpu():
    return answers.load(HARDWARE)[1]


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


MODELS = {
    'add': lambda a, b, bits, sign: a + b,
    'sub': lambda a, b, bits, sign: a - b,
    'mul.lo': lambda a, b, bits, sign: a * b,
    'mul.hi': lambda a, b, bits, sign: a * b >> bits,
    'min': lambda a, b, bits, sign: min(a, b),
    'max': lambda a, b, bits, sign: max(a, b),
    'and': lambda a, b, bits, sign: a & b,
    'or': lambda a, b, bits, sign: a | b,
    'xor': lambda a, b, bits, sign: a ^ b,
    'shl': lambda a, b, bits, sign: a << min(b, bits),
    'shr': lambda a, b, bits, sign: a >> min(b, bits),
    'div': lambda a, b, bits, sign: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else -1,
    'rem': lambda a, b, bits, sign: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else -1,
}


@pytest.mark.parametrize('form', [f for f in forms_integer.forms()
                                  if f.name.rpartition('.')[0] in MODELS and 'x2' not in f.name and 'pred' not in f.name],
                         ids=lambda f: f.name)
def test_the_gpu_computes_what_python_computes(form):
    kind = form.outs[0]
    bits, model = SIZES[kind] * 8, MODELS[form.name.rpartition('.')[0]]
    data = gpu()[form.name].data
    for i, row in enumerate(form.tuples()):
        got = int.from_bytes(data[i * form.out_stride:i * form.out_stride + bits // 8], 'little')
        row = [signed(v, bits) if s.kind[0] == 's' else v for v, s in zip(row, form.sources)]
        assert got == model(*row, bits, kind[0] == 's') % (1 << bits), row
