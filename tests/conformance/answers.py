"""Answers of a driver: how they are kept in a file, and whether two of them agree."""
import json
import lzma
import math
import os
import struct
import sys

from form import SIZES


class Answer:
    """What became of a form: the bytes that it stored, or why it was refused."""

    def __init__(self, digest, data=b'', refused=''):
        self.digest, self.data, self.refused = digest, data, refused


def save(path, device, results):
    """A line of JSON, then all bytes, compressed."""
    rows = [[name, a.digest, len(a.data), a.refused] for name, a in results.items()]
    head = json.dumps({'device': device, 'forms': rows}).encode()
    with lzma.open(path, 'wb', preset=9) as out:
        out.write(head + b'\n' + b''.join(a.data for a in results.values()))


def load(path):
    with lzma.open(path) as source:
        head = json.loads(source.readline())
        rest = source.read()
    results, at = {}, 0
    for name, digest, size, refused in head['forms']:
        results[name] = Answer(digest, rest[at:at + size], refused)
        at += size
    return head['device'], results


FORMATS = {'f32': '<f', 'f64': '<d', 'f16': '<e', 'tf32': '<f'}


def number(kind, bits):
    if kind == 'bf16':
        kind, bits = 'f32', bits << 16
    return struct.unpack(FORMATS[kind], bits.to_bytes(SIZES[kind], 'little'))[0]


def pieces(kind, bits):
    """A pair as two values."""
    if kind in ('f16x2', 'bf16x2'):
        return [(kind[:-2], bits & 0xffff), (kind[:-2], bits >> 16)]
    return [(kind, bits)]


class Check:
    """How near a result must be: 'exact', or bounds: 'relative 2^-22', 'absolute 2^-20 within 3.15',
    'absolute A or relative R', 'relative R divisor D' (a divisor above D has no bound)."""

    def __init__(self, text):
        words = text.split()
        self.exact = words == ['exact']
        self.bounds = {k: _power(v) for k, v in zip(words, words[1:]) if k in ('relative', 'absolute', 'within', 'divisor')}

    def near(self, kind, want, got, operands):
        if self.exact or 'f' not in kind:
            return False
        a, b = number(kind, want), number(kind, got)
        if 'within' in self.bounds and not abs(operands[0]) <= self.bounds['within']:
            return True
        if 'divisor' in self.bounds and not abs(operands[1]) <= self.bounds['divisor']:
            return True
        if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
            return math.isnan(a) and math.isnan(b)
        return (abs(a - b) <= self.bounds.get('absolute', 0) or
                abs(a - b) <= self.bounds.get('relative', 0) * abs(a))


def _power(text):
    if '^' in text:
        base, power = text.split('^')
        return float(base) ** int(power)
    return float(text)


def is_nan(kind, bits):
    return kind in ('f32', 'f64', 'f16', 'bf16', 'tf32') and math.isnan(number(kind, bits))


class Report:
    def __init__(self):
        self.lines, self.same, self.near, self.nan, self.failed, self.missing, self.refused = [], 0, 0, 0, 0, 0, 0
        self.departed = 0

    def summary(self):
        return (f'{self.same} forms the same bit for bit, {self.near} within their bounds, {self.nan} but for the bits of '
                f'NaNs, {self.departed} where the GPU departs from the document, {self.failed} wrong, {self.refused} refused, '
                f'{self.missing} without an answer')


def listed(path):
    """The lines of a file that are no comments; none where there is no file."""
    if not os.path.exists(path):
        return set()
    with open(path) as source:
        return {line.strip() for line in source if line.strip() and not line.startswith('#')}


def compare(forms, wanted, got, departures=()):
    """@departures: names of forms whose answers are not what the document says."""
    report = Report()
    for form in forms:
        want, have = wanted.get(form.name), got.get(form.name)
        if not want or not have or want.digest != have.digest or want.refused:
            report.missing += 1
            continue
        if have.refused:
            report.refused += 1
            report.lines.append(f'refused: {form.name}: {have.refused}')
            continue
        judge(form, want.data, have.data, report, form.name in departures)
    return report


def judge(form, want, got, report, departs):
    check, near, nans, wrong = Check(form.check), 0, 0, []
    rows = form.tuples() if want != got else []
    for i, row in enumerate(rows):
        for place, kind in zip(form.out_offsets, form.outs):
            at = i * form.out_stride + place
            a, b = (int.from_bytes(d[at:at + SIZES[kind]], 'little') for d in (want, got))
            if a == b:
                continue
            values = [number(s.kind, v) if s.kind in FORMATS else v for s, v in zip(form.sources, row)]
            for half, ((k, x), (_, y)) in enumerate(zip(pieces(kind, a), pieces(kind, b))):
                if x == y:
                    continue
                if is_nan(k, x) and is_nan(k, y):
                    nans += 1
                elif check.near(k, x, y, values):
                    near += 1
                else:
                    wrong.append(describe(form, row, kind, a, b))
                    break
    if wrong and departs:
        report.departed += 1
    elif wrong:
        report.failed += 1
        report.lines.append(f'wrong: {form.name}: {len(wrong)} of {form.threads}: ' + '; '.join(wrong[:3]))
    elif nans:
        report.nan += 1
        report.lines.append(f'nan bits: {form.name}: {nans}')
    elif near:
        report.near += 1
    else:
        report.same += 1


def describe(form, row, kind, want, got):
    operands = ' '.join(f'{v:#x}' for v in row)
    return f'{operands} -> {got:#x}, the GPU says {want:#x}'


if __name__ == '__main__':
    sys.exit('a module of ./conformance')
