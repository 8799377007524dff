"""Moves, loads and stores, address spaces, atomic operations, asynchronous copies, barriers in memory."""
from form import Form, plain

INTS = ('u32', 's32', 'u64', 's64')
BUFFER = '.shared .align 128 .b8 buffer[16384];'
SHARED = '.reg .b32 s, base32; .reg .b64 gs;'
# s: 64 bytes of shared memory of this thread's own, from BUFFER in the body.
MINE = 'mov.u32 base32, buffer;\nmad.lo.u32 s, tid, 64, base32;\n'
ALL = 'bar.sync 0;\n'


def moves():
    for t in ('b16', 'b32', 'b64', 'u16', 's32', 'u64', 'f32', 'f64', 'pred'):
        yield plain(f'mov.{t}', t, t)
    yield Form('mov.b32 pack 2', 'mov.b32 d0, {a0, a1};', 'b32', 'b16 b16')
    yield Form('mov.b64 pack 2', 'mov.b64 d0, {a0, a1};', 'b64', 'b32 b32')
    yield Form('mov.b64 pack 4', 'mov.b64 d0, {a0, a1, a2, a3};', 'b64', 'b16 b16 b16 b16')
    yield Form('mov.b32 unpack 2', 'mov.b32 {d0, d1}, a0;', 'b16 b16', 'b32')
    yield Form('mov.b64 unpack 2', 'mov.b64 {d0, d1}, a0;', 'b32 b32', 'b64')
    yield Form('mov.b64 unpack 4', 'mov.b64 {d0, d1, d2, d3}, a0;', 'b16 b16 b16 b16', 'b64')
    yield Form('mov.b64 unpack _', 'mov.b64 {_, d0}, a0;', 'b32', 'b64')
    yield Form('mov.b128', 'mov.b128 q, {a0, a1};\nmov.b128 {d0, d1}, q;', 'b64 b64', 'b64 b64', regs='.reg .b128 q;')


def loads():
    small = {'u8': 'b16', 's8': 'b16', 'b8': 'b16', 'u16': 'b16', 's16': 'b16'}
    for t in ('b8', 'u8', 's8', 'b16', 'u16', 's16', 'b32', 'u32', 's32', 'f32', 'b64', 'u64', 's64', 'f64'):
        wide = small.get(t, t)
        for space, at in (('.global', 'mem'), ('.shared', 's'), ('', 'mem'), ('.local', 'slot')):
            local = '.local .align 16 .b8 slot[16];\n' if space == '.local' else ''
            mine = MINE if space == '.shared' else ''
            yield Form(f'st{space}.{t} ld{space}.{t}', f'{local}{mine}st{space}.{t} [{at}], a0;\nld{space}.{t} d0, [{at}];',
                       wide, wide, setup=BUFFER if mine else '', regs=SHARED)
        # Of narrow values into wide registers: what the upper bits become.
        if t[0] != 'f' and t[1:] != '64':
            yield Form(f'ld.global.{t} wide', f'st.global.b64 [mem], a0;\nld.global.{t} d0, [mem];', 'b64', 'b64')
    for t, n in (('b8', 4), ('u8', 2), ('s8', 4), ('u16', 2), ('b16', 4), ('u32', 2), ('b32', 4), ('f32', 4),
                 ('b64', 2), ('f64', 2)):
        wide = small.get(t, t)
        names = [f'{{{", ".join(f"{r}{i}" for i in range(n))}}}' for r in 'ad']
        for space, at in (('.global', 'mem'), ('.shared', 's')):
            yield Form(f'st{space}.v{n}.{t} ld', (MINE if at == 's' else '') +
                       f'st{space}.v{n}.{t} [{at}], {names[0]};\nld{space}.v{n}.{t} {names[1]}, [{at}];',
                       ' '.join([wide] * n), ' '.join([wide] * n), setup=BUFFER if at == 's' else '', regs=SHARED)
    for hint in ('.ca', '.cg', '.cs', '.lu', '.cv', '.nc', '.L1::evict_last', '.L1::no_allocate', '.L2::128B',
                 '.nc.L1::evict_first.L2::256B', '.volatile', '.relaxed.gpu', '.acquire.sys', '.relaxed.cta'):
        text = f'ld{hint}.global.u32' if hint[1] in 'vra' else f'ld.global{hint}.u32'
        yield Form(f'ld.global{hint}.u32', f'{text} d0, [in];', 'u32', 'u32')
    for hint in ('.wb', '.cg', '.cs', '.wt', '.L1::evict_last', '.volatile', '.relaxed.gpu', '.release.sys'):
        text = f'st{hint}.global.u32' if hint[1:3] in ('vo', 're') else f'st.global{hint}.u32'
        yield Form(f'st.global{hint}.u32', f'{text} [mem], a0;\nld.global.u32 d0, [mem];', 'u32', 'u32')
    yield Form('ldu.global.u32', 'ldu.global.u32 d0, [in];', 'u32', 'u32')
    yield Form('ld.global.L2::cache_hint', 'createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n'
               'ld.global.L2::cache_hint.u32 d0, [in], policy;', 'u32', 'u32', regs='.reg .b64 policy;')
    yield Form('prefetch', 'prefetch.global.L1 [in];\nprefetch.global.L2 [in];\nprefetch.global.L2::evict_last [in];\n'
               'prefetchu.L1 [in];\nmov.u32 d0, a0;', 'u32', 'u32')
    yield Form('const', 'and.b32 d0, a0, 31;\nshl.b32 d0, d0, 2;\nmov.u64 gs, table;\nmov.u64 d1, table;\n'
               'cvta.const.u64 gs, gs;\ncvt.u64.u32 d1, d0;\nadd.u64 gs, gs, d1;\nld.u32 d0, [gs];\n'
               'isspacep.const p, gs;\nselp.u64 d1, 1, 0, p;', 'u32 u64', 'u32', regs='.reg .b64 gs; .reg .pred p;',
               setup='.const .align 4 .b32 table[32] = {' + ', '.join(str(i * i * 77) for i in range(32)) + '};')


def spaces():
    yield Form('isspacep', MINE + '.local .align 4 .b8 slot[16];\n.reg .b64 ls;\nmov.u64 ls, slot;\ncvta.local.u64 ls, ls;\n'
               'cvt.u64.u32 gs, s;\ncvta.shared.u64 gs, gs;\nisspacep.shared d0, gs;\nisspacep.global d1, gs;\n'
               'isspacep.local d2, ls;\nisspacep.shared d3, mem;\nisspacep.global d4, mem;\nisspacep.shared::cluster d5, gs;\n'
               'cvta.to.shared.u64 gs, gs;\ncvt.u32.u64 d6, gs;\nsub.u32 d6, d6, base32;',
               'pred pred pred pred pred pred u32', 'u32', setup=BUFFER, regs=SHARED)
    yield Form('generic', MINE + 'cvt.u64.u32 gs, s;\ncvta.shared.u64 gs, gs;\nst.u64 [gs+8], a0;\n'
               'ld.shared.u64 d0, [s+8];', 'u64', 'u64', setup=BUFFER, regs=SHARED)


def _atomic(op, t, operands, space='.global', name=None):
    at, head = ('mem', '') if space == '.global' else ('s', MINE)
    args = ', '.join(f'a{i + 1}' for i in range(operands))
    bits = {'16': 'b16', '64': 'b64'}.get(t[-2:] if t not in ('bf16x2', 'f16x2') else '', 'b32')
    kinds = ' '.join([t] * (operands + 1))
    return Form(name or f'atom{space}.{op}.{t}', head + f'st{space}.{bits} [{at}], a0;\n'
                f'atom{space}.{op}.{t} d0, [{at}], {args};\nld{space}.{bits} d1, [{at}];', f'{t} {t}', kinds,
                setup=BUFFER if head else '', regs=SHARED)


def atomics():
    for space in ('.global', '.shared'):
        for t in ('b32', 'b64'):
            for op in ('and', 'or', 'xor', 'exch'):
                yield _atomic(op, t, 1, space)
            yield _atomic('cas', t, 2, space)
        yield _atomic('cas', 'b16', 2, space)
        for t in INTS:
            for op in ('min', 'max') + (('add',) if t != 's64' else ()):
                yield _atomic(op, t, 1, space)
        for op in ('inc', 'dec'):
            yield _atomic(op, 'u32', 1, space)
        yield _atomic('add', 'f32', 1, space)
        yield _atomic('add', 'f64', 1, space)
        for t in ('f16', 'f16x2', 'bf16', 'bf16x2'):
            yield _atomic('add.noftz', t, 1, space)
    for t in ('f16', 'f16x2', 'bf16', 'bf16x2'):
        for op in ('add', 'min', 'max'):
            bits = 'b32' if 'x2' in t else 'b16'
            for n in (2, 4) + ((8,) if 'x2' not in t else ()):
                a = [f'a{i}' for i in range(n)]
                size = 4 if 'x2' in t else 2
                store = ''.join(f'st.global.{bits} [mem+{i * size}], a{n + i};\n' for i in range(n))
                load = ''.join(f'ld.global.{bits} d{n + i}, [mem+{i * size}];\n' for i in range(n))
                d = ', '.join(f'd{i}' for i in range(n))
                yield Form(f'atom.global.v{n}.{t}.{op}', f'{store}atom.global.v{n}.{t}.{op}.noftz {{{d}}}, [mem], '
                           f'{{{", ".join(a)}}};\n{load}', ' '.join([t] * 2 * n), ' '.join([t] * 2 * n), threads=64)
    for n in (2, 4):
        a, d = (', '.join(f'{r}{i}' for i in range(n)) for r in 'ad')
        store = ''.join(f'st.global.f32 [mem+{i * 4}], a{n + i};\n' for i in range(n))
        load = ''.join(f'ld.global.f32 d{n + i}, [mem+{i * 4}];\n' for i in range(n))
        yield Form(f'atom.global.v{n}.f32.add', f'{store}atom.global.v{n}.f32.add {{{d}}}, [mem], {{{a}}};\n{load}',
                   ' '.join(['f32'] * 2 * n), ' '.join(['f32'] * 2 * n), threads=64)
        yield Form(f'red.global.v{n}.f32.add', f'{store}red.global.v{n}.f32.add [mem], {{{a}}};\n'
                   + load.replace(f'd{n}', 'd0').replace(f'd{n + 1}', 'd1').replace(f'd{n + 2}', 'd2').replace(f'd{n + 3}', 'd3'),
                   ' '.join(['f32'] * n), ' '.join(['f32'] * 2 * n), threads=64)
    for op in ('exch', 'cas'):
        more, c = ('', '') if op == 'exch' else (', r', 'mov.b128 r, {a4, a5};\n')
        yield Form(f'atom.global.{op}.b128', f'st.global.v2.b64 [mem], {{a0, a1}};\nmov.b128 q, {{a2, a3}};\n{c}'
                   f'atom.global.{op}.b128 o, [mem], q{more};\nmov.b128 {{d0, d1}}, o;\nld.global.v2.b64 {{d2, d3}}, [mem];',
                   'b64 b64 b64 b64', ' '.join(['b64:=1,2'] * 6), regs='.reg .b128 q, r, o;')
    # All threads at one place: the sum does not depend on their order.
    for t, op in (('u32', 'add'), ('s32', 'min'), ('s32', 'max'), ('u32', 'min'), ('u64', 'add'), ('b32', 'and'),
                  ('b32', 'or'), ('b32', 'xor'), ('b64', 'xor'), ('s64', 'max'), ('u64', 'min')):
        size = 'b' + t[1:]
        yield Form(f'red.global.{op}.{t} all', f'red.relaxed.gpu.global.{op}.{t} [base], a0;\n{ALL}ld.global.{size} d0, [base];', t, t)
        yield Form(f'red.shared.{op}.{t} all', f'mov.u32 s, buffer;\nst.shared.{size} [s], 0;\n{ALL}red.shared.{op}.{t} [s], a0;\n'
                   f'{ALL}ld.shared.{size} d0, [s];', t, t, setup=BUFFER, regs=SHARED)
    yield Form('red.global.add.f32 all', f'red.global.add.f32 [base], a0;\n{ALL}ld.global.f32 d0, [base];', 'f32', 'f32:ints')
    yield Form('red.global.add.f64 all', f'red.global.add.f64 [base], a0;\n{ALL}ld.global.f64 d0, [base];', 'f64', 'f64:ints')
    yield Form('red.global.inc.u32 all', f'red.global.inc.u32 [base], 99;\n{ALL}ld.global.u32 d0, [base];', 'u32', 'u32')
    yield Form('red.global.add.noftz.f16x2 all', f'red.global.add.noftz.f16x2 [base], a0;\n{ALL}ld.global.b32 d0, [base];',
               'f16x2', 'f16x2:ints')


def copies():
    """Asynchronous copies: what arrives, also where the source is short."""
    for how, size in (('ca', 4), ('ca', 8), ('ca', 16), ('cg', 16)):
        yield Form(f'cp.async.{how} {size}', MINE + 'st.shared.v4.b32 [s], {-1, -1, -1, -1};\n'
                   f'cp.async.{how}.shared.global [s], [in], {size};\ncp.async.commit_group;\ncp.async.wait_group 0;\n'
                   'ld.shared.v4.b32 {d0, d1, d2, d3}, [s];', 'b32 b32 b32 b32', 'b32 b32 b32 b32', setup=BUFFER, regs=SHARED)
        yield Form(f'cp.async.{how} {size} short', MINE + 'st.shared.v4.b32 [s], {-1, -1, -1, -1};\n'
                   f'rem.u32 n, tid, {size + 1};\ncp.async.{how}.shared.global [s], [in], {size}, n;\ncp.async.wait_all;\n'
                   'ld.shared.v4.b32 {d0, d1, d2, d3}, [s];', 'b32 b32 b32 b32', 'b32 b32 b32 b32', setup=BUFFER,
                   regs=SHARED + ' .reg .b32 n;')
        yield Form(f'cp.async.{how} {size} ignored', MINE + 'st.shared.v4.b32 [s], {-1, -1, -1, -1};\n'
                   f'setp.lt.u32 p, a0, 0x80000000;\ncp.async.{how}.shared.global [s], [in], {size}, p;\ncp.async.wait_all;\n'
                   'ld.shared.v4.b32 {d0, d1, d2, d3}, [s];', 'b32 b32 b32 b32', 'b32 b32 b32 b32', setup=BUFFER,
                   regs=SHARED + ' .reg .pred p;')
    wait = ('WAIT:\nmbarrier.try_wait.parity.shared.b64 done, [bar], 0;\n@!done bra WAIT;\n')
    start = ('mov.u32 bar, barrier;\nsetp.eq.u32 first, tid, 0;\n@first mbarrier.init.shared.b64 [bar], {};\n'
             '@first fence.mbarrier_init.release.cluster;\nbar.sync 0;\n')
    regs = SHARED + ' .reg .pred done, first; .reg .b32 bar; .reg .b64 state;'
    setup = BUFFER + '\n.shared .align 8 .b64 barrier;'
    yield Form('mbarrier.arrive', start.format(256) + MINE + 'st.shared.b32 [s], a0;\nmbarrier.arrive.shared.b64 state, [bar];\n'
               + wait + 'xor.b32 s, tid, 255;\nmad.lo.u32 s, s, 64, base32;\nld.shared.b32 d0, [s];', 'b32', 'b32',
               setup=setup, regs=regs)
    yield Form('mbarrier.test_wait', start.format(256) + 'mbarrier.arrive.shared.b64 state, [bar];\n'
               'AGAIN:\nmbarrier.test_wait.shared.b64 done, [bar], state;\n@!done bra AGAIN;\n'
               'mbarrier.pending_count.b64 d0, state;\nset.le.u32.u32 d0, d0, 256;', 'u32', 'u32', setup=setup, regs=regs)
    yield Form('mbarrier.arrive.noComplete', start.format(512) + 'mbarrier.arrive.noComplete.shared.b64 state, [bar], 1;\n'
               'bar.sync 0;\nmbarrier.arrive.shared.b64 _, [bar];\n' + wait + 'mov.u32 d0, a0;', 'u32', 'u32', setup=setup, regs=regs)
    yield Form('mbarrier.expect_tx cp.async.bulk', start.format(1) +
               '@first mbarrier.arrive.expect_tx.shared.b64 state, [bar], 4096;\nmov.u32 base32, buffer;\n'
               '@first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [base32], [in], 4096, [bar];\n'
               + wait + 'mad.lo.u32 s, tid, 16, base32;\nld.shared.v4.b32 {d0, d1, d2, d3}, [s];', 'b32 b32 b32 b32',
               'b32 b32 b32 b32', setup=setup, regs=regs)
    yield Form('cp.async.bulk.global.shared', 'mov.u32 base32, buffer;\nmad.lo.u32 s, tid, 16, base32;\n'
               'st.shared.v4.b32 [s], {a0, a1, a2, a3};\nfence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.eq.u32 first, tid, 0;\n'
               '@first cp.async.bulk.global.shared::cta.bulk_group [base], [base32], 4096;\n@first cp.async.bulk.commit_group;\n'
               '@first cp.async.bulk.wait_group 0;\nbar.sync 0;\nmad.wide.u32 gs, tid, 16, base;\n'
               'ld.global.v4.b32 {d0, d1, d2, d3}, [gs];', 'b32 b32 b32 b32', 'b32 b32 b32 b32', setup=setup, regs=regs)
    for op, t in (('add', 'u32'), ('min', 's32'), ('max', 'u32'), ('xor', 'b32'), ('add', 'u64'), ('inc', 'u32'), ('and', 'b32')):
        size = int(t[1:]) // 8
        yield Form(f'cp.reduce.async.bulk.{op}.{t}', 'mov.u32 base32, buffer;\n'
                   f'mad.lo.u32 s, tid, {size}, base32;\nst.shared.b{size * 8} [s], a0;\nmad.wide.u32 gs, tid, {size}, base;\n'
                   f'st.global.b{size * 8} [gs], a1;\nfence.proxy.async;\nbar.sync 0;\nsetp.eq.u32 first, tid, 0;\n'
                   f'@first cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{t} [base], [base32], {256 * size};\n'
                   '@first cp.async.bulk.commit_group;\n@first cp.async.bulk.wait_group 0;\nbar.sync 0;\n'
                   f'ld.global.b{size * 8} d0, [gs];', t, f'{t} {t}', setup=setup, regs=regs)
    yield Form('cp.async.mbarrier.arrive', start.format(256) + MINE +
               'cp.async.ca.shared.global [s], [in], 4;\ncp.async.mbarrier.arrive.noinc.shared.b64 [bar];\n' + wait +
               'xor.b32 s, tid, 255;\nmad.lo.u32 s, s, 64, base32;\nld.shared.b32 d0, [s];', 'b32', 'b32', setup=setup, regs=regs)


def forms():
    for family in (moves, loads, spaces, atomics, copies):
        yield from family()
