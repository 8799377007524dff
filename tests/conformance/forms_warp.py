"""Between the lanes of a warp, between the warps of a block; special registers; flow of control."""
from form import Form, plain

FULL = '0xffffffff'


def shuffles():
    for mode in ('up', 'down', 'bfly', 'idx'):
        for c in (0, 31, 0x1f1f, 0x181f, 0x1800, 0x1c00, 0x1e1f, 0x0f07):
            yield Form(f'shfl.sync.{mode}.b32 {c:#x}', f'shfl.sync.{mode}.b32 d0|d1, a0, a1, {c}, {FULL};', 'b32 pred',
                       'b32 u32:0..33')
        yield Form(f'shfl.sync.{mode} half', f'and.b32 bit, tid, 31;\nsetp.lt.u32 p, bit, 16;\nmov.u32 d0, a0;\n'
                   f'@p shfl.sync.{mode}.b32 d0, a0, 5, {0 if mode == "up" else 15}, 0xffff;', 'b32', 'b32', regs='.reg .pred p;')


def votes():
    for mode in ('all', 'any', 'uni'):
        yield Form(f'vote.sync.{mode}.pred', f'vote.sync.{mode}.pred d0, a0, {FULL};', 'pred', 'pred')
        yield Form(f'vote.sync.{mode}.pred !', f'and.pred a0, a0, a1;\nvote.sync.{mode}.pred d0, !a0, {FULL};', 'pred',
                   'pred:=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1 pred')
    yield Form('vote.sync.ballot.b32', f'vote.sync.ballot.b32 d0, a0, {FULL};', 'b32', 'pred')
    yield Form('vote.sync.ballot odd', 'and.b32 bit, tid, 1;\nsetp.eq.u32 p, bit, 1;\nmov.u32 d0, 7;\n'
               '@p vote.sync.ballot.b32 d0, a0, 0xaaaaaaaa;', 'b32', 'pred', regs='.reg .pred p;')
    for t in ('b32', 'b64'):
        yield Form(f'match.any.sync.{t}', f'match.any.sync.{t} d0, a0, {FULL};', 'b32', f'{t}:=1,2,3,4,0xffffffff')
        yield Form(f'match.all.sync.{t}', f'shr.b32 bit, tid, 5;\nsetp.eq.u32 p, bit, 3;\n@p mov.{t} a0, 9;\n'
                   f'match.all.sync.{t} d0|d1, a0, {FULL};', 'b32 pred', f'{t}:=1,2', regs='.reg .pred p;')
    for t in ('u32', 's32'):
        for op in ('add', 'min', 'max'):
            yield Form(f'redux.sync.{op}.{t}', f'redux.sync.{op}.{t} d0, a0, {FULL};', t, t)
    for op in ('and', 'or', 'xor'):
        yield Form(f'redux.sync.{op}.b32', f'redux.sync.{op}.b32 d0, a0, {FULL};', 'b32', 'b32')
    yield Form('redux.sync half', 'and.b32 bit, tid, 31;\nsetp.lt.u32 p, bit, 11;\nmov.u32 d0, 1;\n'
               '@p redux.sync.add.u32 d0, a0, 0x7ff;', 'u32', 'u32', regs='.reg .pred p;')
    yield Form('elect.sync', f'elect.sync d0|d1, {FULL};', 'b32 pred', 'b32')
    yield Form('activemask.b32', 'activemask.b32 d0;', 'b32', 'b32')


def barriers():
    for op in ('and', 'or'):
        yield Form(f'barrier.red.{op}.pred', f'barrier.cta.red.{op}.pred d0, 1, a0;\nbar.red.{op}.pred d1, 2, 256, !a0;',
                   'pred pred', 'pred')
    yield Form('barrier.red.popc.u32', 'barrier.cta.red.popc.u32 d0, 1, a0;\nbar.red.popc.u32 d1, 0, !a0;', 'u32 u32', 'pred')
    yield Form('bar.arrive', '.reg .pred p;\n.reg .b64 other;\nsetp.lt.u32 p, tid, 128;\nxor.b32 bit, tid, 128;\n'
               'mad.wide.u32 other, bit, 64, base;\nmov.b32 d0, 0;\n@p bra SECOND;\nst.global.b32 [mem], a0;\n'
               'membar.cta;\nbar.arrive 3, 256;\nbra.uni DONE;\nSECOND:\nbar.sync 3, 256;\nld.volatile.global.b32 d0, [other];\nDONE:',
               'b32', 'b32')
    yield Form('bar.warp.sync', '.reg .b32 s, b;\nmov.u32 b, cells;\nmad.lo.u32 s, tid, 4, b;\nst.shared.b32 [s], a0;\n'
               'bar.warp.sync 0xffffffff;\nxor.b32 s, tid, 1;\nmad.lo.u32 s, s, 4, b;\nld.shared.b32 d0, [s];', 'b32', 'b32',
               setup='.shared .align 4 .b8 cells[1024];')
    yield Form('barrier.cluster', 'barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nmov.u32 d0, %cluster_nctaid.x;\n'
               'mov.u32 d1, %cluster_ctarank;\nmov.u32 d2, %cluster_nctarank;\nmov.pred d3, %is_explicit_cluster;',
               'u32 u32 u32 pred', 'b32')
    yield Form('mapa', '.reg .b32 s, r;\n.reg .b64 g;\nmov.u32 s, cells;\nmad.lo.u32 s, tid, 4, s;\nst.shared.b32 [s], a0;\nbar.sync 0;\n'
               'mapa.shared::cluster.u32 r, s, 0;\nld.shared::cluster.b32 d0, [r];\ngetctarank.shared::cluster.u32 d1, r;\n'
               'cvt.u64.u32 g, s;\ncvta.shared.u64 g, g;\nmapa.u64 g, g, 0;\nld.b32 d2, [g];',
               'b32 u32 b32', 'b32', setup='.shared .align 4 .b8 cells[1024];')


def registers():
    for r in ('tid.x', 'tid.y', 'tid.z', 'ntid.x', 'ntid.y', 'ctaid.x', 'nctaid.z', 'laneid', 'lanemask_eq', 'lanemask_le',
              'lanemask_lt', 'lanemask_ge', 'lanemask_gt'):
        yield Form(f'%{r}', f'mov.u32 d0, %{r};', 'u32', 'b32')
    yield Form('%dynamic_smem_size', 'mov.u32 d0, %dynamic_smem_size;', 'u32', 'b32')
    yield Form('%clock', 'mov.u32 d0, %clock;\nmov.u32 d1, %clock;\nsub.u32 d1, d1, d0;\nset.lt.u32.u32 d0, d1, 1000000;\n'
               'mov.u64 d2, %clock64;\nset.gt.u32.u64 d1, d2, 0;\nmov.u64 d2, %globaltimer;\nset.gt.u32.u64 bit, d2, 0;\n'
               'cvt.u64.u32 d2, bit;', 'u32 u32 u64', 'b32')


FUNCTIONS = '''.func (.param .b32 r) twice{n}(.param .b32 x) {{ .reg .b32 v; ld.param.b32 v, [x]; add.u32 v, v, v; st.param.b32 [r], v; ret; }}
.func (.param .b32 r) more{n}(.param .b32 x) {{ .reg .b32 v; ld.param.b32 v, [x]; add.u32 v, v, 77; st.param.b32 [r], v; ret; }}'''


def flow():
    yield Form('brx.idx', '.reg .b32 i;\nrem.u32 i, a0, 4;\nWAYS: .branchtargets W0, W1, W2, W3;\nbrx.idx i, WAYS;\n'
               'W0: mov.u32 d0, 10;\nbra DONE;\nW1: mul.lo.u32 d0, a0, 3;\nbra DONE;\nW2: not.b32 d0, a0;\nbra DONE;\n'
               'W3: shr.u32 d0, a0, 3;\nDONE:', 'u32', 'u32')
    yield Form('call', '{ .param .b32 x; .param .b32 r; st.param.b32 [x], a0; call (r), twiceA, (x); ld.param.b32 d0, [r]; }', 'u32', 'u32',
               setup=FUNCTIONS.format(n='A'))
    yield Form('call indirect', '.reg .b64 f, g;\n.reg .pred p;\nmov.u64 f, twiceB;\nmov.u64 g, moreB;\nsetp.gt.u32 p, a0, 1000;\n'
               'selp.u64 f, f, g, p;\nPROTO: .callprototype (.param .b32 _) _ (.param .b32 _);\n'
               '{ .param .b32 x; .param .b32 r; st.param.b32 [x], a0; call (r), f, (x), PROTO; ld.param.b32 d0, [r]; }', 'u32', 'u32',
               setup=FUNCTIONS.format(n='B'))
    yield Form('call table', '.reg .b64 f, i;\nrem.u32 d0, a0, 2;\nmul.wide.u32 i, d0, 8;\nmov.u64 f, tableC;\nadd.u64 f, f, i;\n'
               'ld.global.u64 f, [f];\nWHO: .calltargets twiceC, moreC;\n'
               '{ .param .b32 x; .param .b32 r; st.param.b32 [x], a0; call (r), f, (x), WHO; ld.param.b32 d0, [r]; }', 'u32', 'u32',
               setup=FUNCTIONS.format(n='C') + '\n.global .align 8 .u64 tableC[2] = {twiceC, moreC};')
    yield Form('alloca', '.reg .b32 p32;\n.reg .b64 p, n;\nrem.u32 d0, tid, 4;\nmad.lo.u32 d0, d0, 16, 16;\ncvt.u64.u32 n, d0;\n'
               'stacksave.u64 n;\nalloca.u64 p, 64;\nst.local.u32 [p], a0;\nst.local.u32 [p+60], a1;\nld.local.u32 d0, [p];\n'
               'ld.local.u32 d1, [p+60];\nstackrestore.u64 n;', 'u32 u32', 'u32 u32')
    yield Form('loop', '.reg .pred p;\nand.b32 d0, a0, 63;\nmov.u32 d1, 1;\nAGAIN:\nmad.lo.u32 d1, d1, 3, d0;\nsub.u32 d0, d0, 1;\n'
               'setp.ge.s32 p, d0, 0;\n@p bra AGAIN;', 'u32 u32', 'u32')
    yield Form('lock in a warp', '.reg .pred p;\n.reg .b32 old;\nAGAIN:\natom.global.acquire.gpu.cas.b32 old, [base], 0, 1;\n'
               'setp.eq.u32 p, old, 0;\n@!p bra AGAIN;\nld.volatile.global.u32 old, [base+4];\nadd.u32 old, old, a0;\n'
               'st.volatile.global.u32 [base+4], old;\nmembar.gl;\natom.global.release.gpu.exch.b32 old, [base], 0;\nbar.sync 0;\n'
               'ld.volatile.global.u32 d0, [base+4];', 'u32', 'u32')
    yield Form('nanosleep', 'nanosleep.u32 20;\npmevent 1;\nmov.u32 d0, a0;', 'u32', 'u32')
    yield Form('fences', 'membar.cta;\nmembar.gl;\nmembar.sys;\nfence.sc.gpu;\nfence.acq_rel.cta;\nfence.acq_rel.cluster;\n'
               'fence.proxy.alias;\nfence.proxy.async;\nfence.proxy.async.global;\nmov.u32 d0, a0;', 'u32', 'u32')
    yield Form('griddepcontrol', 'griddepcontrol.wait;\ngriddepcontrol.launch_dependents;\nmov.u32 d0, a0;', 'u32', 'u32')


def forms():
    for family in (shuffles, votes, barriers, registers, flow):
        yield from family()
