"""Video instructions: one value, pairs of 16 bits, four bytes."""
from form import Form

TYPES = ('u32', 's32')
SELECT = ('', '.b0', '.b3', '.h0', '.h1')


def scalar():
    for op in ('vadd', 'vsub', 'vabsdiff', 'vmin', 'vmax'):
        for d in TYPES:
            for a in TYPES:
                for b in TYPES:
                    for sat in ('', '.sat'):
                        name = f'{op}.{d}.{a}.{b}{sat}'
                        yield Form(name, f'{name} d0, a0, a1;', d, f'{a} {b}')
        for i, (x, y) in enumerate((x, y) for x in SELECT for y in SELECT):
            d, a, b = TYPES[i % 2], TYPES[i // 2 % 2], TYPES[i // 4 % 2]
            name = f'{op}.{d}.{a}.{b}'
            yield Form(f'{name} {x or "a"}{y or "b"}', f'{name}.sat d0, a0{x}, a1{y};', d, f'{a} {b}')
        for op2 in ('add', 'min', 'max'):
            for d in TYPES:
                name = f'{op}.{d}.s32.u32.sat.{op2}'
                yield Form(name, f'{name} d0, a0.h1, a1.b2, a2;', d, f's32 u32 {d}')
        for part in ('b0', 'b2', 'h0', 'h1'):
            for d in TYPES:
                name = f'{op}.{d}.s32.u32.sat'
                yield Form(f'{name} d.{part}', f'{name} d0.{part}, a0, a1.h0, a2;', d, f's32 u32 {d}')
    for op in ('vshl', 'vshr'):
        for d in TYPES:
            for a in TYPES:
                for mode in ('.clamp', '.wrap'):
                    for sat in ('', '.sat'):
                        name = f'{op}.{d}.{a}.u32{sat}{mode}'
                        yield Form(name, f'{name} d0, a0, a1;', d, f'{a} u32:=0,1,5,8,16,31,32,33,64,0xffffffff')
            yield Form(f'{op}.{d}.u32.u32.wrap.add', f'{op}.{d}.u32.u32.wrap.add d0, a0.b1, a1, a2;', d, f'u32 u32 {d}')
    for t in TYPES:
        for scale in ('', '.shr7', '.shr15'):
            for sat in ('', '.sat'):
                name = f'vmad.{t}.{t}.{t}{sat}{scale}'
                yield Form(name, f'{name} d0, a0.h0, a1.h1, a2;', t, f'{t} {t} {t}')
    yield Form('vmad.po', 'vmad.u32.u32.u32.po d0, a0.h0, a1.h1, a2;', 'u32', 'u32 u32 u32')
    yield Form('vmad -a', 'vmad.s32.s32.s32 d0, -a0.h0, a1.h1, a2;', 's32', 's32 s32 s32')
    for cmp in ('eq', 'ne', 'lt', 'le', 'gt', 'ge'):
        for a in TYPES:
            for b in TYPES:
                yield Form(f'vset.{a}.{b}.{cmp}', f'vset.{a}.{b}.{cmp} d0, a0, a1.h0;', 'u32', f'{a} {b}')
        yield Form(f'vset.s32.s32.{cmp}.add', f'vset.s32.s32.{cmp}.add d0, a0, a1, a2;', 'u32', 's32 s32 u32')


def packed():
    for way, select, mask in (('2', ('', '.h30', '.h12'), ('', '.h0', '.h1')),
                              ('4', ('', '.b7054', '.b3210'), ('', '.b0', '.b31', '.b210'))):
        for op in ('vadd', 'vsub', 'vavrg', 'vabsdiff', 'vmin', 'vmax'):
            for d in TYPES:
                for a in TYPES:
                    for b in TYPES:
                        name = f'{op}{way}.{d}.{a}.{b}'
                        for tail in ('', '.sat'):
                            yield Form(name + tail, f'{name}{tail} d0, a0, a1, a2;', d, f'{a} {b} {d}')
                        yield Form(name + '.add', f'{name}.add d0, a0, a1, a2;', d, f'{a} {b} {d}')
            for s in select[1:]:
                for m in mask[1:]:
                    yield Form(f'{op}{way} {m} {s}', f'{op}{way}.s32.s32.s32.sat d0{m}, a0{s}, a1{select[-1]}, a2;',
                               's32', 's32 s32 s32')
        for cmp in ('eq', 'ne', 'lt', 'le', 'gt', 'ge'):
            for a in TYPES:
                for b in TYPES:
                    yield Form(f'vset{way}.{a}.{b}.{cmp}', f'vset{way}.{a}.{b}.{cmp} d0, a0, a1, a2;', 'u32',
                               f'{a} {b} u32')
            yield Form(f'vset{way}.s32.u32.{cmp}.add', f'vset{way}.s32.u32.{cmp}.add d0, a0, a1, a2;', 'u32',
                       's32 u32 u32')


def forms():
    yield from scalar()
    yield from packed()
