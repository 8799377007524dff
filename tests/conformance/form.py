"""A form: one instruction with its modifiers, as a kernel that applies it to a table of operands.

Every thread of one block loads its operands a0, a1, ... runs the body and stores d0, d1, ... The
operands are edge values first, each with each, then random ones; they depend on the form's name
alone, so that answers taken on one machine can be compared with those of another.
"""
import functools
import hashlib
import random
import struct

THREADS = 256
MEMORY = 64  # bytes of scratch memory that a thread may call its own, zero when the kernel starts

# type: bytes in memory, type of the register, edge values
BITS = {1: 'b8', 2: 'b16', 4: 'b32', 8: 'b64'}


def _int_edges(bits):
    top = 1 << bits
    half = top >> 1
    values = [0, 1, 2, 3, 7, 8, top - 1, top - 2, half, half - 1, half + 1, half - 2,
              0x5555555555555555 % top, 0xaaaaaaaaaaaaaaaa % top, 0x0123456789abcdef % top,
              0x80ff7f0180ff7f01 % top, 0xff00ff00ff00ff00 % top, 31, 32, 33, 63, 64, 127, 128,
              255 % top, 256 % top, 0xffff % top]
    return list(dict.fromkeys(values))


def _f32(value):
    return struct.unpack('<I', struct.pack('<f', value))[0]


def _f64(value):
    return struct.unpack('<Q', struct.pack('<d', value))[0]


F32_EDGES = [0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x00800001,
             _f32(1), _f32(-1), 0x3f800001, 0x3f7fffff, _f32(0.5), _f32(-0.5), _f32(1.5), _f32(2.5),
             _f32(-2.5), _f32(3), 0x3effffff, 0x3f000001, 0x7f7fffff, 0xff7fffff, 0x7f800000,
             0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, _f32(127.5), _f32(128), _f32(255.5),
             _f32(32767.5), _f32(65535.5), 0x4effffff, _f32(2**31), _f32(-2**31), 0x4f7fffff,
             _f32(2**32), 0x5effffff, _f32(2**63), _f32(-2**63), _f32(2**64), _f32(2.0**-24),
             _f32(65504), _f32(65520), _f32(2.0**-14), _f32(2.0**-25), 0x38fff000, _f32(1e30),
             _f32(1e-30), _f32(8388608.5), _f32(16777217), _f32(448), _f32(464), _f32(57344),
             _f32(61440), _f32(2.0**-9), _f32(2.0**-10), _f32(0.1), 0x477ff000, 0x3f801000, 0x3f803000]
F64_EDGES = [0, 1 << 63, 1, 1 << 63 | 1, (1 << 52) - 1, 1 << 52, 1 << 63 | 1 << 52, _f64(1), _f64(-1),
             _f64(1) + 1, _f64(1) - 1, _f64(0.5), _f64(-0.5), _f64(1.5), _f64(2.5), _f64(-2.5),
             _f64(0.5) - 1, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000,
             0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001, 0xfff8123456789abc,
             _f64(127.5), _f64(255.5), _f64(32767.5), _f64(2.0**31 - 0.5), _f64(2.0**31),
             _f64(-2.0**31), _f64(-2.0**31 - 0.5), _f64(2.0**32), _f64(2.0**63), _f64(-2.0**63),
             _f64(2.0**64), _f64(2.0**-149), _f64(2.0**-150), _f64(2.0**-126), _f64(3.4028235677973366e38),
             _f64(65504), _f64(65519.99), _f64(65520), _f64(2.0**-24), _f64(2.0**-25), _f64(0.1),
             _f64(1 + 2.0**-24), _f64(1 + 2.0**-24 + 2.0**-50), _f64(1e300), _f64(1e-300)]
F16_EDGES = [0, 0x8000, 1, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x3c00, 0xbc00, 0x3c01, 0x3bff,
             0x3800, 0xb800, 0x3e00, 0x4100, 0xc100, 0x4200, 0x37ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
             0x7e00, 0x7c01, 0xfe12, 0x57f8, 0x5bfc, 0x5f00, 0x5f40, 0x5f60, 0x7b00, 0x7b80, 0x1800, 0x1400]
BF16_EDGES = [0, 0x8000, 1, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x3f80, 0xbf80, 0x3f81, 0x3f7f,
              0x3f00, 0xbf00, 0x3fc0, 0x4020, 0xc020, 0x4040, 0x3eff, 0x7f7f, 0xff7f, 0x7f80, 0xff80,
              0x7fc0, 0x7f81, 0xffc1, 0x42ff, 0x4f00, 0xcf00, 0x4f80, 0x5f00]

SIZES = {'u8': 1, 's8': 1, 'b8': 1, 'u16': 2, 's16': 2, 'b16': 2, 'f16': 2, 'bf16': 2, 'u32': 4, 's32': 4,
         'b32': 4, 'f32': 4, 'f16x2': 4, 'bf16x2': 4, 'u16x2': 4, 's16x2': 4, 'tf32': 4, 'u64': 8, 's64': 8,
         'b64': 8, 'f64': 8, 'pred': 4, 'e4m3x2': 2, 'e5m2x2': 2}


def _register(kind):
    if kind == 'pred' or kind in ('f32', 'f64'):
        return kind
    if SIZES[kind] < 4:
        return 'b16'
    return kind if kind[0] in 'us' and len(kind) == 3 else BITS[SIZES[kind]]


def _edges(kind):
    if kind == 'f32' or kind == 'tf32':
        return F32_EDGES
    if kind == 'f64':
        return F64_EDGES
    if kind in ('f16', 'bf16'):
        return F16_EDGES if kind == 'f16' else BF16_EDGES
    if kind == 'pred':
        return [0, 1]
    if kind in ('f16x2', 'bf16x2'):
        one = F16_EDGES if kind == 'f16x2' else BF16_EDGES
        return [v | one[(i * 7 + 3) % len(one)] << 16 for i, v in enumerate(one)]
    if kind in ('u16x2', 's16x2'):
        one = _int_edges(16)
        return [v | one[(i * 7 + 3) % len(one)] << 16 for i, v in enumerate(one)]
    return _int_edges(SIZES[kind] * 8)


def _float_near_one(rng, kind):
    """Of a moderate exponent, so that sums neither vanish nor overflow."""
    if kind in ('f32', 'tf32'):
        return rng.getrandbits(1) << 31 | (117 + rng.getrandbits(4)) << 23 | rng.getrandbits(23)
    if kind == 'f64':
        return rng.getrandbits(1) << 63 | (1013 + rng.getrandbits(4)) << 52 | rng.getrandbits(52)
    if kind == 'f16':
        return rng.getrandbits(1) << 15 | (8 + rng.getrandbits(4)) << 10 | rng.getrandbits(10)
    if kind == 'bf16':
        return rng.getrandbits(1) << 15 | (117 + rng.getrandbits(4)) << 7 | rng.getrandbits(7)
    return _float_near_one(rng, kind[:-2]) | _float_near_one(rng, kind[:-2]) << 16


def _random(rng, kind):
    bits = rng.getrandbits(SIZES[kind] * 8)
    how = rng.getrandbits(2)
    if kind == 'pred':
        return bits & 1
    if kind in ('f32', 'f64', 'f16', 'bf16', 'tf32', 'f16x2', 'bf16x2'):
        return bits if how == 0 else _float_near_one(rng, kind)
    # Integers of any length, of either sign.
    if how == 1:
        return bits >> rng.getrandbits(6) % (SIZES[kind] * 8)
    if how == 2:
        return -(bits >> rng.getrandbits(6) % (SIZES[kind] * 8)) % (1 << SIZES[kind] * 8)
    return bits


class Source:
    """Where the values of an operand come from, beside its type: 'u32:0..40', 'f32:=1,2,3', 'f32:ints'."""

    def __init__(self, text):
        self.kind, _, rule = text.partition(':')
        self.size = SIZES[self.kind]
        self.edges = _edges(self.kind)
        self.random = lambda rng: _random(rng, self.kind)
        if rule.startswith('='):
            self.edges = [int(v, 0) % (1 << self.size * 8) for v in rule[1:].split(',')]
            self.random = lambda rng: self.edges[rng.getrandbits(16) % len(self.edges)]
        elif '..' in rule:
            low, high = (int(v, 0) for v in rule.split('..'))
            self.edges = [low, high]
            self.random = lambda rng: low + rng.getrandbits(32) % (high - low + 1)
        elif rule.startswith('span'):
            # Places: multiples of 1/512 from one number to another, those at texels' centres and edges first.
            low, high = (float(v) for v in rule[5:].split(','))
            self.edges = [_f32(low + i * 0.5) for i in range(int((high - low) * 2) + 1)]
            self.random = lambda rng: _f32(low + rng.getrandbits(24) % int((high - low) * 512) / 512)
        elif rule == 'ints':
            # Small whole numbers: sums of their products are exact in any order.
            self.edges = []
            self.random = lambda rng: pack_number(self.kind, rng.getrandbits(4) - 8, rng)
        elif rule == 'near':
            self.edges = []
            self.random = lambda rng: _float_near_one(rng, self.kind)
        elif rule == 'random':
            self.edges = []
        elif rule:
            raise ValueError(text)


def pack_number(kind, value, rng=None):
    """@value as bits of a floating type, both halves of a pair alike but for the sign."""
    if kind in ('f32', 'tf32'):
        return _f32(value)
    if kind == 'f64':
        return _f64(value)
    if kind == 'f16':
        return struct.unpack('<H', struct.pack('<e', value))[0]
    if kind == 'bf16':
        return _f32(value) >> 16
    other = rng.getrandbits(4) - 8 if rng else -value
    return pack_number(kind[:-2], value) | pack_number(kind[:-2], other) << 16


class Form:
    """One kernel. @body uses a0.. and d0.., mem (this thread's scratch memory) and all the rest of PTX."""

    def __init__(self, name, body, outs, ins, check='exact', threads=THREADS, setup='', regs='', texture=None):
        self.name = name
        self.body = body
        self.outs = outs.split()
        self.sources = [Source(s) for s in ins.split()]
        self.check = check
        self.threads = threads
        self.setup = setup
        self.regs = regs
        self.texture = texture
        self.out_stride = max(sum(max(SIZES[k], 1) for k in self.outs), 1)
        self.in_offsets, self.in_stride = self._places([s.size for s in self.sources])
        self.out_offsets, self.out_stride = self._places([SIZES[k] for k in self.outs])

    @staticmethod
    def _places(sizes):
        at, places = 0, []
        for size in sizes:
            at = -(-at // size) * size
            places.append(at)
            at += size
        widest = max(sizes, default=1)
        return places, -(-at // widest) * widest

    def ptx(self, entry):
        lines = [f'.visible .entry {entry}(.param .u64 pin, .param .u64 pout, .param .u64 pmem, .param .u64 ptex)', '{',
                 '\t.reg .b64 in, out, base, mem, tex;', '\t.reg .b32 tid, bit;']
        lines += [f'\t.reg .{_register(s.kind)} a{i};' for i, s in enumerate(self.sources)]
        lines += [f'\t.reg .{_register(k)} d{i};' for i, k in enumerate(self.outs)]
        if self.regs:
            lines.append('\t' + self.regs)
        lines += ['\tld.param.u64 in, [pin];', '\tld.param.u64 out, [pout];', '\tld.param.u64 base, [pmem];',
                  '\tld.param.u64 tex, [ptex];',
                  '\tmov.u32 tid, %tid.x;', f'\tmad.wide.u32 in, tid, {max(self.in_stride, 1)}, in;',
                  f'\tmad.wide.u32 out, tid, {self.out_stride}, out;', f'\tmad.wide.u32 mem, tid, {MEMORY}, base;']
        for i, s in enumerate(self.sources):
            if s.kind == 'pred':
                lines += [f'\tld.global.u32 bit, [in+{self.in_offsets[i]}];', f'\tsetp.ne.u32 a{i}, bit, 0;']
            else:
                wide = 'u8' if s.size == 1 else _register(s.kind)
                lines.append(f'\tld.global.{wide} a{i}, [in+{self.in_offsets[i]}];')
        if self.setup.startswith('.shared'):
            lines.insert(2, '\t' + self.setup)
        lines.append('\t' + self.body.strip().replace('\n', '\n\t'))
        for i, k in enumerate(self.outs):
            if k == 'pred':
                lines += [f'\tselp.u32 bit, 1, 0, d{i};', f'\tst.global.u32 [out+{self.out_offsets[i]}], bit;']
            else:
                lines.append(f'\tst.global.{BITS[SIZES[k]]} [out+{self.out_offsets[i]}], d{i};')
        outside = [] if self.setup.startswith('.shared') else [self.setup]
        return '\n'.join(outside + lines + ['\tret;', '}', ''])

    @functools.lru_cache(maxsize=1)
    def tuples(self):
        """The operands of each thread."""
        rng = random.Random('cricket ' + self.name)
        edges = [s.edges for s in self.sources]
        room = self.threads * 5 // 8 if all(edges) and edges else 0
        product = 1
        for e in edges:
            product *= len(e) if e else 1
        rows = []
        # All combinations if they fit, else a walk through them in steps that share no factor with their number.
        step = 1 if product <= room else product * 618 // 1000 | 1
        while _common(step, product) > 1:
            step += 2
        for i in range(min(product, room)):
            at, row = i * step % product, []
            for e in edges:
                row.append(e[at % len(e)])
                at //= len(e)
            rows.append(row)
        while len(rows) < self.threads:
            rows.append([s.random(rng) for s in self.sources])
        return rows

    @functools.lru_cache(maxsize=1)
    def operands(self):
        data = bytearray(max(self.in_stride * self.threads, 1))
        for i, row in enumerate(self.tuples()):
            for source, place, value in zip(self.sources, self.in_offsets, row):
                at = i * self.in_stride + place
                data[at:at + source.size] = value.to_bytes(source.size, 'little')
        return bytes(data)

    def digest(self):
        what = f'{self.ptx("k")}{self.texture}'
        return hashlib.sha256(what.encode() + self.operands()).hexdigest()[:12]


def _common(a, b):
    while b:
        a, b = b, a % b
    return a


def plain(name, outs, ins, check='exact', **more):
    """An instruction whose operands are its destinations and then its sources."""
    names = [f'd{i}' for i in range(len(outs.split()))] + [f'a{i}' for i in range(len(ins.split()))]
    return Form(name, f'{name} {", ".join(names)};', outs, ins, check, **more)
