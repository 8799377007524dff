"""Integer arithmetic, logic, bits, shifts, bytes."""
from form import Form, plain

WIDTHS = {'16': 2, '32': 4, '64': 8}
INTS = ['u16', 's16', 'u32', 's32', 'u64', 's64']
SHIFT = 'u32:=0,1,2,7,8,15,16,17,31,32,33,63,64,65,127,128,255,256,0x7fffffff,0xffffffff'
FIELD = 'u32:=0,1,2,5,8,16,17,31,32,33,63,64,65,255,256,257,0xffffffff'


def _double(t):
    return t[0] + str(int(t[1:]) * 2)


def arithmetic():
    for t in INTS + ['u16x2', 's16x2']:
        yield plain(f'add.{t}', t, f'{t} {t}')
        yield plain(f'min.{t}', t, f'{t} {t}')
        yield plain(f'max.{t}', t, f'{t} {t}')
    for t in INTS:
        yield plain(f'sub.{t}', t, f'{t} {t}')
        yield plain(f'div.{t}', t, f'{t} {t}')
        yield plain(f'rem.{t}', t, f'{t} {t}')
        yield plain(f'sad.{t}', t, f'{t} {t} {t}')
        for part in ('lo', 'hi'):
            yield plain(f'mul.{part}.{t}', t, f'{t} {t}')
            yield plain(f'mad.{part}.{t}', t, f'{t} {t} {t}')
        if t[1:] != '64':
            yield plain(f'mul.wide.{t}', _double(t), f'{t} {t}')
            yield plain(f'mad.wide.{t}', _double(t), f'{t} {t} {_double(t)}')
        if t[0] == 's':
            yield plain(f'abs.{t}', t, t)
            yield plain(f'neg.{t}', t, t)
    for name in ('add.sat.s32', 'sub.sat.s32', 'min.relu.s32', 'max.relu.s32'):
        yield plain(name, 's32', 's32 s32')
    for name in ('min.relu.s16x2', 'max.relu.s16x2'):
        yield plain(name, 's16x2', 's16x2 s16x2')
    yield plain('mad.hi.sat.s32', 's32', 's32 s32 s32')
    yield plain('mad24.hi.sat.s32', 's32', 's32 s32 s32')
    for t in ('u32', 's32'):
        for part in ('lo', 'hi'):
            yield plain(f'mul24.{part}.{t}', t, f'{t} {t}')
            yield plain(f'mad24.{part}.{t}', t, f'{t} {t} {t}')


def carries():
    for t in ('u32', 's32', 'u64', 's64'):
        for op in ('add', 'sub'):
            yield Form(f'{op}.cc.{t}', f'{op}.cc.{t} d0, a0, a1;\n{op}c.cc.{t} d1, a2, a3;\naddc.{t} d2, a0, a3;\n',
                       f'{t} {t} {t}', f'{t} {t} {t} {t}')
            yield Form(f'{op}c.{t}', f'{op}.cc.{t} d0, a0, a1;\n{op}c.{t} d0, a2, a3;', t, f'{t} {t} {t} {t}')
        for part in ('lo', 'hi'):
            yield Form(f'mad.{part}.cc.{t}', f'mad.{part}.cc.{t} d0, a0, a1, a2;\naddc.{t} d1, a3, a0;', f'{t} {t}',
                       f'{t} {t} {t} {t}')
            yield Form(f'madc.{part}.{t}', f'add.cc.{t} d0, a0, a3;\nmadc.{part}.{t} d0, a0, a1, a2;', t,
                       f'{t} {t} {t} {t}')
            yield Form(f'madc.{part}.cc.{t}', f'add.cc.{t} d0, a0, a3;\nmadc.{part}.cc.{t} d0, a0, a1, a2;\n'
                       f'addc.{t} d1, a2, a3;', f'{t} {t}', f'{t} {t} {t} {t}')


def logic():
    for t in ('pred', 'b16', 'b32', 'b64'):
        for op in ('and', 'or', 'xor'):
            yield plain(f'{op}.{t}', t, f'{t} {t}')
        yield plain(f'not.{t}', t, t)
        if t != 'pred':
            yield plain(f'cnot.{t}', t, t)
    for table in (0, 1, 0x0f, 0x17, 0x3c, 0x80, 0x96, 0xaa, 0xb1, 0xca, 0xd8, 0xe8, 0xf0, 0xfe, 0xff, 0x5a):
        yield Form(f'lop3.b32 {table:#04x}', f'lop3.b32 d0, a0, a1, a2, {table};', 'b32', 'b32 b32 b32')
    for op in ('or', 'and'):
        yield Form(f'lop3.{op}.b32', f'lop3.{op}.b32 d0|d1, a0, a1, a2, 0x18, a3;', 'b32 pred', 'b32 b32 b32 pred')
    for t in ('b16', 'b32', 'b64'):
        yield plain(f'shl.{t}', t, f'{t} {SHIFT}')
    for t in INTS + ['b16', 'b32', 'b64']:
        yield plain(f'shr.{t}', t, f'{t} {SHIFT}')
    for side in 'lr':
        for mode in ('clamp', 'wrap'):
            yield plain(f'shf.{side}.{mode}.b32', 'b32', f'b32 b32 {SHIFT}')


def bits():
    for t in ('b32', 'b64'):
        yield plain(f'popc.{t}', 'u32', t)
        yield plain(f'clz.{t}', 'u32', t)
        yield plain(f'brev.{t}', t, t)
        yield plain(f'bfi.{t}', t, f'{t} {t} {FIELD} {FIELD}')
    for t in ('u32', 's32', 'u64', 's64'):
        yield plain(f'bfind.{t}', 'u32', t)
        yield plain(f'bfind.shiftamt.{t}', 'u32', t)
        yield plain(f'bfe.{t}', t, f'{t} {FIELD} {FIELD}')
    yield plain('fns.b32', 'b32', 'b32 u32:0..31 s32:=-33,-32,-31,-5,-3,-2,-1,0,1,2,3,4,5,8,16,31,32,33')
    for mode in ('clamp', 'wrap'):
        yield plain(f'bmsk.{mode}.b32', 'b32', f'{FIELD} {FIELD}')
        for t in ('u32', 's32'):
            yield plain(f'szext.{mode}.{t}', t, f'{t} {FIELD}')


def bytes_():
    yield plain('prmt.b32', 'b32', 'b32 b32 u32')
    for mode in ('f4e', 'b4e', 'rc8', 'ecl', 'ecr', 'rc16'):
        yield plain(f'prmt.b32.{mode}', 'b32', 'b32 b32 u32')
    for a in ('u32', 's32'):
        for b in ('u32', 's32'):
            c = 's32' if 's32' in (a, b) else 'u32'
            yield plain(f'dp4a.{a}.{b}', c, f'{a} {b} {c}')
            for part in ('lo', 'hi'):
                yield plain(f'dp2a.{part}.{a}.{b}', c, f'{a} {b} {c}')


def forms():
    for family in (arithmetic, carries, logic, bits, bytes_):
        yield from family()
