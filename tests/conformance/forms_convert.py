"""Conversions: every pair of types, every rounding."""
from form import Form, plain

INTS = ('u8', 's8', 'u16', 's16', 'u32', 's32', 'u64', 's64')
FLOATS = ('f16', 'bf16', 'f32', 'f64')
IROUND = ('rni', 'rzi', 'rmi', 'rpi')
ROUND = ('rn', 'rz', 'rm', 'rp')
WIDTH = {'f16': 16, 'bf16': 16, 'f32': 32, 'f64': 64}
SMALL = {'u8': 'u16', 's8': 's16'}


def one(name, d, a, **more):
    # A register holds more than 8 bits: store all of it.
    return plain(name, SMALL.get(d, d), a, **more)


def _holds(d, a):
    """All values of the integer type a are values of d."""
    wide, narrow = int(d[1:]), int(a[1:])
    return wide >= narrow if d[0] == a[0] else a[0] == 'u' and wide > narrow


def integers():
    for d in INTS:
        for a in INTS:
            yield one(f'cvt.{d}.{a}', d, a)
            if not _holds(d, a):
                yield one(f'cvt.sat.{d}.{a}', d, a)


def mixed():
    for f in FLOATS:
        for i in INTS[2:] if f == 'bf16' else INTS:
            for r in ROUND:
                yield one(f'cvt.{r}.{f}.{i}', f, i)
            for r in IROUND:
                yield one(f'cvt.{r}.{i}.{f}', i, f)
            if f != 'bf16':
                yield one(f'cvt.rzi.sat.{i}.{f}', i, f)
            if f == 'f32':
                yield one(f'cvt.rni.ftz.{i}.{f}', i, f)
                yield one(f'cvt.rn.sat.{f}.{i}', f, i)


def floats():
    for f in FLOATS:
        for r in IROUND:
            yield one(f'cvt.{r}.{f}.{f}', f, f)
    for r in ROUND:
        for d, a in (('f32', 'f64'), ('f16', 'f64'), ('f16', 'f32'), ('bf16', 'f32'), ('bf16', 'f64'),
                     ('bf16', 'f16'), ('f16', 'bf16')):
            yield one(f'cvt.{r}.{d}.{a}', d, a)
            if 'bf16' not in (d, a):
                yield one(f'cvt.{r}.sat.{d}.{a}', d, a)
        yield one(f'cvt.{r}.ftz.f32.f64', 'f32', 'f64')
        yield one(f'cvt.{r}.ftz.f16.f32', 'f16', 'f32')
    for d, a in (('f32', 'f16'), ('f64', 'f16'), ('f64', 'f32'), ('f32', 'bf16'), ('f64', 'bf16'), ('f32', 'f32'),
                 ('f64', 'f64'), ('f16', 'f16')):
        yield one(f'cvt.{d}.{a}', d, a)
        if 'bf16' not in (d, a):
            yield one(f'cvt.sat.{d}.{a}', d, a)
    yield one('cvt.ftz.f64.f32', 'f64', 'f32')
    yield one('cvt.ftz.f32.f16', 'f32', 'f16')
    yield one('cvt.ftz.sat.f32.f32', 'f32', 'f32')
    for r in IROUND:
        yield one(f'cvt.{r}.ftz.f32.f32', 'f32', 'f32')
        yield one(f'cvt.{r}.sat.f32.f32', 'f32', 'f32')


def packed():
    for r in ('rn', 'rz'):
        for relu in ('', '.relu'):
            for d in ('f16', 'bf16'):
                for finite in ('', '.satfinite'):
                    if relu or finite:
                        yield one(f'cvt.{r}{relu}{finite}.{d}.f32', d, 'f32')
                    yield one(f'cvt.{r}{relu}{finite}.{d}x2.f32', f'{d}x2', 'f32 f32')
            yield one(f'cvt.{r}{relu}.tf32.f32', 'b32', 'f32')
    yield one('cvt.rna.tf32.f32', 'b32', 'f32')
    yield one('cvt.rna.satfinite.tf32.f32', 'b32', 'f32')
    for small in ('e4m3x2', 'e5m2x2'):
        for relu in ('', '.relu'):
            yield plain(f'cvt.rn.satfinite{relu}.{small}.f32', 'b16', 'f32 f32')
            yield plain(f'cvt.rn.satfinite{relu}.{small}.f16x2', 'b16', 'f16x2')
            yield plain(f'cvt.rn{relu}.f16x2.{small}', 'b32', 'b16')
    for d in ('u16', 's16'):
        yield plain(f'cvt.pack.sat.{d}.s32', 'b32', 's32 s32')
    for d in ('u8', 's8', 'u4', 's4', 'u2', 's2'):
        yield plain(f'cvt.pack.sat.{d}.s32.b32', 'b32', 's32 s32 b32')


def forms():
    for family in (integers, mixed, floats, packed):
        yield from family()
