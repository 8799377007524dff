"""Single and double precision, halves and bfloats."""
from form import Form, plain

ROUND = ('rn', 'rz', 'rm', 'rp')
FTZ = ('', '.ftz')
SAT = ('', '.sat')


def single_and_double():
    for ftz in FTZ:
        for sat in SAT:
            for r in ROUND:
                for op in ('add', 'sub', 'mul'):
                    yield plain(f'{op}.{r}{ftz}{sat}.f32', 'f32', 'f32 f32')
                for op in ('fma', 'mad'):
                    if op == 'fma' or r == 'rn':
                        yield plain(f'{op}.{r}{ftz}{sat}.f32', 'f32', 'f32 f32 f32')
        for r in ROUND:
            yield plain(f'div.{r}{ftz}.f32', 'f32', 'f32 f32')
            yield plain(f'rcp.{r}{ftz}.f32', 'f32', 'f32')
            yield plain(f'sqrt.{r}{ftz}.f32', 'f32', 'f32')
        for op in ('abs', 'neg'):
            yield plain(f'{op}{ftz}.f32', 'f32', 'f32')
        for op in ('min', 'max'):
            for nan in ('', '.NaN'):
                for sign in ('', '.xorsign.abs'):
                    yield plain(f'{op}{ftz}{nan}{sign}.f32', 'f32', 'f32 f32')
    for r in ROUND:
        for op in ('add', 'sub', 'mul', 'div'):
            yield plain(f'{op}.{r}.f64', 'f64', 'f64 f64')
        yield plain(f'fma.{r}.f64', 'f64', 'f64 f64 f64')
        yield plain(f'rcp.{r}.f64', 'f64', 'f64')
        yield plain(f'sqrt.{r}.f64', 'f64', 'f64')
    yield plain('mad.rn.f64', 'f64', 'f64 f64 f64')
    for op in ('abs', 'neg'):
        yield plain(f'{op}.f64', 'f64', 'f64')
    for op in ('min', 'max'):
        yield plain(f'{op}.f64', 'f64', 'f64 f64')
    for t in ('f32', 'f64'):
        yield plain(f'copysign.{t}', t, f'{t} {t}')
        for kind in ('finite', 'infinite', 'number', 'notanumber', 'normal', 'subnormal'):
            yield plain(f'testp.{kind}.{t}', 'pred', t)


def approximate():
    """The bounds are those of the PTX document: relative, or absolute where it says so."""
    for ftz in FTZ:
        yield plain(f'div.approx{ftz}.f32', 'f32', 'f32 f32', 'relative 2^-21 divisor 2^126')
        yield plain(f'div.full{ftz}.f32', 'f32', 'f32 f32', 'relative 2^-21')
        yield plain(f'rcp.approx{ftz}.f32', 'f32', 'f32', 'relative 2^-22')
        yield plain(f'sqrt.approx{ftz}.f32', 'f32', 'f32', 'relative 2^-22')
        yield plain(f'rsqrt.approx{ftz}.f32', 'f32', 'f32', 'relative 2^-22')
        yield plain(f'sin.approx{ftz}.f32', 'f32', 'f32', 'absolute 2^-20 within 3.15')
        yield plain(f'cos.approx{ftz}.f32', 'f32', 'f32', 'absolute 2^-20 within 3.15')
        yield plain(f'lg2.approx{ftz}.f32', 'f32', 'f32', 'absolute 2^-21 or relative 2^-21')
        yield plain(f'ex2.approx{ftz}.f32', 'f32', 'f32', 'relative 2^-21')
    yield plain('tanh.approx.f32', 'f32', 'f32', 'relative 2^-10')
    yield plain('rcp.approx.ftz.f64', 'f64', 'f64', 'relative 2^-19')
    yield plain('rsqrt.approx.f64', 'f64', 'f64', 'relative 2^-19')
    yield plain('rsqrt.approx.ftz.f64', 'f64', 'f64', 'relative 2^-19')
    for t in ('f16', 'f16x2'):
        yield plain(f'tanh.approx.{t}', t, t, 'relative 2^-9')
        yield plain(f'ex2.approx.{t}', t, t, 'absolute 2^-24 or relative 2^-9')
    for t in ('bf16', 'bf16x2'):
        yield plain(f'tanh.approx.{t}', t, t, 'relative 2^-7')
        yield plain(f'ex2.approx.ftz.{t}', t, t, 'relative 2^-6')


def halves():
    for t in ('f16', 'f16x2', 'bf16', 'bf16x2'):
        half = t.startswith('f16')
        for ftz in FTZ if half else ('',):
            for op in ('add', 'sub', 'mul'):
                for sat in SAT if half else ('',):
                    yield plain(f'{op}{ftz}{sat}.{t}', t, f'{t} {t}')
                yield plain(f'{op}.rn{ftz}.{t}', t, f'{t} {t}')
            for tail in ('', '.relu') + (('.sat',) if half else ()):
                yield plain(f'fma.rn{ftz}{tail}.{t}', t, f'{t} {t} {t}')
            for op in ('abs', 'neg'):
                yield plain(f'{op}{ftz}.{t}', t, t)
            for op in ('min', 'max'):
                for nan in ('', '.NaN'):
                    for sign in ('', '.xorsign.abs'):
                        yield plain(f'{op}{ftz}{nan}{sign}.{t}', t, f'{t} {t}')
        for tail in ('.oob', '.oob.relu'):
            yield plain(f'fma.rn{tail}.{t}', t, f'{t} {t} {t}')


def forms():
    yield from single_and_double()
    yield from approximate()
    yield from halves()
