"""Matrix instructions: loads and stores of tiles, mma, wmma. One warp a tile, two of them."""
from form import Form

WARPS = 64
TILES = '.shared .align 128 .b8 tiles[8192];'
MINE = '.reg .b32 s, b, lane;\nmov.u32 b, tiles;\nshr.u32 lane, tid, 5;\nmad.lo.u32 b, lane, 4096, b;\nand.b32 lane, tid, 31;\n'


def tiles():
    for n in (1, 2, 4):
        for trans in ('', '.trans'):
            names = ', '.join(f'd{i}' for i in range(n))
            kinds = ' '.join(['b32'] * n)
            fill = ''.join(f'st.shared.b32 [s+{i * 4}], a{i};\n' for i in range(4))
            yield Form(f'ldmatrix.x{n}{trans}', MINE + f'mad.lo.u32 s, lane, 16, b;\n{fill}bar.sync 0;\n'
                       f'ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 {{{names}}}, [s];', kinds, 'b32 b32 b32 b32',
                       setup=TILES, threads=WARPS)
            values = ', '.join(f'a{i}' for i in range(n))
            fetch = ''.join(f'ld.shared.b32 d{i}, [s+{i * 4}];\n' for i in range(4))
            yield Form(f'stmatrix.x{n}{trans}', MINE + 'mad.lo.u32 s, lane, 16, b;\nst.shared.v4.b32 [s], {0, 0, 0, 0};\nbar.sync 0;\n'
                       f'stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 [s], {{{values}}};\nbar.sync 0;\n{fetch}',
                       'b32 b32 b32 b32', 'b32 b32 b32 b32', setup=TILES, threads=WARPS)
    yield Form('movmatrix', 'movmatrix.sync.aligned.m8n8.trans.b16 d0, a0;', 'b32', 'b32', threads=WARPS)


def _mma(name, d, a, b, c, what='ints', check='exact', tail=''):
    """@d, @a, @b, @c: (type, number of registers)."""
    groups, first = [], 0
    for kind, count in (a, b, c):
        groups.append('{' + ', '.join(f'a{first + i}' for i in range(count)) + '}')
        first += count
    dest = '{' + ', '.join(f'd{i}' for i in range(d[1])) + '}'
    ins = [f'{k}:{what}' if k[0] not in 'us' and what and k != 'b32' else k for k, n in (a, b, c) for _ in range(n)]
    return Form(f'{name}{" " + what if what != "ints" else ""}', f'{name} {dest}, {", ".join(groups)}{tail};',
                ' '.join([d[0]] * d[1]), ' '.join(ins), check, threads=WARPS)


def mma():
    close = 'absolute 2^-8 or relative 2^-8'
    for what, check in (('ints', 'exact'), ('near', close)):
        for shape, na, nb, kinds in (('m16n8k8', 2, 1, ('f16', 'bf16')), ('m16n8k16', 4, 2, ('f16', 'bf16'))):
            for k in kinds:
                for acc in ('f32', 'f16') if k == 'f16' else ('f32',):
                    c = ('f32', 4) if acc == 'f32' else ('f16x2', 2)
                    yield _mma(f'mma.sync.aligned.{shape}.row.col.{acc}.{k}.{k}.{acc}', c, (k + 'x2', na), (k + 'x2', nb), c,
                               what, check if acc == 'f32' or what == 'ints' else 'absolute 2^-1 or relative 2^-5')
        for shape, na, nb in (('m16n8k4', 2, 1), ('m16n8k8', 4, 2)):
            yield _mma(f'mma.sync.aligned.{shape}.row.col.f32.tf32.tf32.f32', ('f32', 4), ('tf32', na), ('tf32', nb), ('f32', 4),
                       what, check)
        for shape, na, nb, nc in (('m8n8k4', 1, 1, 2), ('m16n8k4', 2, 1, 4), ('m16n8k8', 4, 2, 4), ('m16n8k16', 8, 4, 4)):
            yield _mma(f'mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64', ('f64', nc), ('f64', na), ('f64', nb), ('f64', nc),
                       what, check if what == 'ints' else 'absolute 2^-40 or relative 2^-40')
        for rows in ('row', 'col'):
            for cols in ('row', 'col'):
                for acc in ('f32', 'f16'):
                    c = ('f32', 8) if acc == 'f32' else ('f16x2', 4)
                    yield _mma(f'mma.sync.aligned.m8n8k4.{rows}.{cols}.{acc}.f16.f16.{acc}', c, ('f16x2', 2), ('f16x2', 2), c,
                               what, check if acc == 'f32' or what == 'ints' else 'absolute 2^-1 or relative 2^-5')
    for shape, na, nb, nc, types in (('m8n8k16', 1, 1, 2, 's8 u8'), ('m16n8k16', 2, 1, 4, 's8 u8'), ('m16n8k32', 4, 2, 4, 's8 u8'),
                                     ('m8n8k32', 1, 1, 2, 's4 u4'), ('m16n8k32', 2, 1, 4, 's4 u4'), ('m16n8k64', 4, 2, 4, 's4 u4')):
        for x in types.split():
            for y in types.split():
                for sat in ('', '.satfinite'):
                    yield _mma(f'mma.sync.aligned.{shape}.row.col{sat}.s32.{x}.{y}.s32', ('s32', nc), ('b32', na), ('b32', nb),
                               ('s32', nc))
    for shape, na, nb, nc in (('m8n8k128', 1, 1, 2), ('m16n8k128', 2, 1, 4), ('m16n8k256', 4, 2, 4)):
        for op in ('xor', 'and'):
            yield _mma(f'mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{op}.popc', ('s32', nc), ('b32', na), ('b32', nb), ('s32', nc))
    for x in ('e4m3', 'e5m2'):
        for y in ('e4m3', 'e5m2'):
            # Bytes of small whole numbers in both formats: 0, 0.5, 1, -1, 2, -2.
            numbers = '=0x38b83800,0x00384038,0xc0b83838,0x38383838,0x40003840,0xb8b8b8b8'
            if x != y or x == 'e5m2':
                numbers = '=0x3cbc3c00,0x003c403c,0xc0bc3c3c,0x3c3c3c3c,0x40003c40,0xbcbcbcbc'
            ins = f'{"b32:" + numbers} ' * 6 + 'f32:ints f32:ints f32:ints f32:ints'
            name = f'mma.sync.aligned.m16n8k32.row.col.f32.{x}.{y}.f32'
            yield Form(name, f'{name} {{d0, d1, d2, d3}}, {{a0, a1, a2, a3}}, {{a4, a5}}, {{a6, a7, a8, a9}};', 'f32 f32 f32 f32',
                       ins, threads=WARPS)


# shape: elements of a, b, c of each lane by type; wmma's tiles go by way of memory.
def wmma():
    for shape in ('m16n16k16', 'm32n8k16', 'm8n32k16'):
        m, n, k = (int(v) for v in shape[1:].replace('n', ' ').replace('k', ' ').split())
        for kind, acc, na, nb in [('f16', 'f32', 8, 8), ('f16', 'f16', 8, 8),
                                  ('bf16', 'f32', m * k // 64, n * k // 64),
                                  ('s8', 's32', m * k // 128, n * k // 128), ('u8', 's32', m * k // 128, n * k // 128)]:
            for la, lb in (('row', 'col'), ('col', 'row'), ('row', 'row')):
                yield _wmma(shape, m, n, k, kind, acc, na, nb, la, lb)
    yield _wmma('m16n16k8', 16, 16, 8, 'tf32', 'f32', 4, 4, 'row', 'col')
    yield _wmma('m8n8k4', 8, 8, 4, 'f64', 'f64', 1, 1, 'row', 'col')
    yield _wmma('m8n8k4', 8, 8, 4, 'f64', 'f64', 1, 1, 'col', 'row')


BYTES = {'f16': 2, 'bf16': 2, 'tf32': 4, 'f64': 8, 's8': 1, 'u8': 1, 'f32': 4, 's32': 4}


def _wmma(shape, m, n, k, kind, acc, na, nb, la, lb):
    """One warp. Operands fill 32 x 32 bytes for each of a, b, c in memory; c is read and written there."""
    nc = m * n // 32 if acc != 'f16' else m * n // 64
    regs = {'f16': 'b32', 'bf16': 'b32', 'tf32': 'b32', 's8': 'b32', 'u8': 'b32', 'f64': 'f64', 'f32': 'f32', 's32': 's32'}
    ra, rb, rc = ('{' + ', '.join(f'%{x}{i}' for i in range(c)) + '}' for x, c in (('x', na), ('y', nb), ('z', nc)))
    decl = f'.reg .{regs[kind]} %x<{na}>, %y<{nb}>;\n.reg .{regs[acc]} %z<{nc}>;\n.reg .b64 pa, pb, pc;\n'
    # Each lane brings 32 bytes of a, 32 of b, 64 of c: stored so that element (i, j) is wherever the layout says.
    words = ''.join(f'st.global.b32 [mem+{i * 4}], a{i};\n' for i in range(8))
    source = {'f16': 'f16x2:ints', 'bf16': 'bf16x2:ints', 'tf32': 'f32:ints', 'f64': 'f32', 's8': 'b32', 'u8': 'b32'}[kind]
    lda = k if la == 'row' else m
    ldb = n if lb == 'row' else k
    body = decl + words + 'bar.sync 0;\nmov.u64 pa, base;\nadd.u64 pb, base, 0;\nadd.u64 pc, base, 2048;\n'
    if kind == 'f64':
        body = decl + ('cvt.rn.f64.s32 %x0, a0;\nst.global.f64 [mem], %x0;\ncvt.rn.f64.s32 %x0, a1;\nst.global.f64 [mem+8], %x0;\n'
                       'bar.sync 0;\nmov.u64 pa, base;\nmov.u64 pb, base;\nadd.u64 pc, base, 0;\n')
        source = 's32:=0,1,2,3,4,5,-1,-2,-3,-4,1000,-777'
    body += (f'wmma.load.a.sync.aligned.{la}.{shape}.global.{kind} {ra}, [pa], {lda};\n'
             f'wmma.load.b.sync.aligned.{lb}.{shape}.global.{kind} {rb}, [pb], {ldb};\n')
    zero = {'f32': '0f00000000', 'f64': '0d0000000000000000', 's32': '5', 'f16': '0x3c003c00' if m == 8 else '0x40003c00'}[acc]
    body += ''.join(f'mov.{regs[acc]} %z{i}, {zero};\n' for i in range(nc))
    types = f'{acc}.{acc}' if kind == 'f16' else f'{acc}.{kind}.{kind}.{acc}'
    body += f'wmma.mma.sync.aligned.{la}.{lb}.{shape}.{types} {rc}, {ra}, {rb}, {rc};\n'
    body += f'bar.sync 0;\nwmma.store.d.sync.aligned.row.{shape}.global.{acc} [base], {rc}, {n};\nbar.sync 0;\n'
    body += ''.join(f'ld.global.b32 d{i}, [mem+{i * 4}];\n' for i in range(8))
    return Form(f'wmma.{la}.{lb}.{shape}.{kind}.{acc}', body, ' '.join(['b32'] * 8), ' '.join([source] * 8), threads=32)


def forms():
    for family in (tiles, mma, wmma):
        yield from family()
