"""Comparisons, selections, predicates."""
from form import Form, plain

SIGNED = ('eq', 'ne', 'lt', 'le', 'gt', 'ge')
UNSIGNED = SIGNED + ('lo', 'ls', 'hi', 'hs')
FLOAT = SIGNED + ('equ', 'neu', 'ltu', 'leu', 'gtu', 'geu', 'num', 'nan')


def comparisons(t):
    if t[0] == 'b' and t[1] != 'f':
        return ('eq', 'ne')
    return FLOAT if 'f' in t else UNSIGNED if t[0] == 'u' else SIGNED


def setp():
    for t in ('b16', 'b32', 'b64', 'u16', 'u32', 'u64', 's16', 's32', 's64', 'f32', 'f64', 'f16', 'bf16'):
        # Of halves there is no second, inverted result.
        dest, kinds = ('d0', 'pred') if t in ('f16', 'bf16') else ('d0|d1', 'pred pred')
        for i, cmp in enumerate(comparisons(t)):
            bool_op = ('and', 'or', 'xor')[i % 3]
            for ftz in ('', '.ftz') if t in ('f32', 'f16') else ('',):
                yield Form(f'setp.{cmp}{ftz}.{t}', f'setp.{cmp}{ftz}.{t} {dest}, a0, a1;', kinds, f'{t} {t}')
            yield Form(f'setp.{cmp}.{bool_op}.{t}', f'setp.{cmp}.{bool_op}.{t} {dest}, a0, a1, a2;', kinds,
                       f'{t} {t} pred')
            yield Form(f'setp.{cmp}.{bool_op}.{t} !c', f'setp.{cmp}.{bool_op}.{t} {dest}, a0, a1, !a2;', kinds,
                       f'{t} {t} pred')
    for t in ('f16x2', 'bf16x2'):
        for cmp in FLOAT:
            yield Form(f'setp.{cmp}.{t}', f'setp.{cmp}.{t} d0|d1, a0, a1;', 'pred pred', f'{t} {t}')
            yield Form(f'setp.{cmp}.and.{t}', f'setp.{cmp}.and.{t} d0|d1, a0, a1, a2;', 'pred pred', f'{t} {t} pred')


def set_():
    for t in ('b16', 'b32', 'b64', 'u16', 'u32', 'u64', 's16', 's32', 's64', 'f32', 'f64'):
        for i, cmp in enumerate(comparisons(t)):
            d = ('u32', 's32', 'f32')[i % 3]
            yield plain(f'set.{cmp}.{d}.{t}', d, f'{t} {t}')
            yield plain(f'set.{cmp}.xor.{d}.{t}', d, f'{t} {t} pred')
    for t in ('f16', 'bf16'):
        for i, cmp in enumerate(FLOAT):
            for d in (t, 'u16', 's16', 'u32', 's32'):
                yield plain(f'set.{cmp}.{d}.{t}', d, f'{t} {t}')
            yield plain(f'set.{cmp}.{t}.{("u16", "s16", "u32", "s32", "u64", "f32", "f64")[i % 7]}', t,
                        '{0} {0}'.format(("u16", "s16", "u32", "s32", "u64", "f32", "f64")[i % 7])) \
                if cmp in SIGNED else plain(f'set.{cmp}.or.u32.{t}', 'u32', f'{t} {t} pred')
    for t in ('f16x2', 'bf16x2'):
        for cmp in FLOAT:
            yield plain(f'set.{cmp}.{t}.{t}', t, f'{t} {t}')
            yield plain(f'set.{cmp}.u32.{t}', 'u32', f'{t} {t}')
    yield plain('set.lt.ftz.f32.f32', 'f32', 'f32 f32')
    yield plain('set.geu.ftz.u32.f32', 'u32', 'f32 f32')
    yield plain('set.lt.ftz.f16.f16', 'f16', 'f16 f16')


def select():
    for t in ('b16', 'b32', 'b64', 'u16', 'u32', 'u64', 's16', 's32', 's64', 'f32', 'f64'):
        yield plain(f'selp.{t}', t, f'{t} {t} pred')
        yield plain(f'slct.{t}.s32', t, f'{t} {t} s32')
        yield plain(f'slct.{t}.f32', t, f'{t} {t} f32')
        yield plain(f'slct.ftz.{t}.f32', t, f'{t} {t} f32')


def forms():
    yield from setp()
    yield from set_()
    yield from select()
