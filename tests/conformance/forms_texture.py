"""Textures and surfaces: geometries, formats, filters, address modes."""
import random
import struct

from form import Form

FORMATS = {'u8': (1, 1), 'u16': (2, 2), 'u32': (3, 4), 's8': (8, 1), 's16': (9, 2), 's32': (10, 4), 'f16': (16, 2),
           'f32': (32, 4)}
ADDRESS = {'wrap': 0, 'clamp': 1, 'mirror': 2, 'border': 3}
READ_AS_INTEGER, NORMALIZED = 1, 2
LAYERED, SURFACE, CUBE, GATHER = 1, 2, 4, 8


class Texture:
    """What lies behind the object that a form's kernel gets: @size in texels, depth or layers last."""

    def __init__(self, size, kind, channels, filter_='point', address='clamp', normalized=False, array_flags=0,
                 surface=False, integers=False):
        self.size, self.kind, self.channels = size, kind, channels
        self.format, width = FORMATS[kind]
        self.texel_bytes = width * channels
        self.filter = int(filter_ == 'linear')
        self.address = ADDRESS[address]
        self.flags = (NORMALIZED if normalized else 0) | (READ_AS_INTEGER if integers else 0)
        self.array_flags = array_flags
        self.surface = surface

    def __str__(self):
        return repr(sorted(self.__dict__.items()))

    def texels(self):
        rng = random.Random(f'texels {self.kind}')
        count = self.size[0] * max(self.size[1], 1) * max(self.size[2], 1) * self.channels
        if self.kind[0] == 'f':
            code = '<f' if self.kind == 'f32' else '<e'
            return b''.join(struct.pack(code, (rng.getrandbits(12) - 2048) / 64) for _ in range(count))
        return bytes(rng.getrandbits(8) for _ in range(count * FORMATS[self.kind][1]))


D = '{d0, d1, d2, d3}'
# A filter's weights have 8 bits, the texels here are below 32: one unit more or less is 64/256.
NEAR = 'absolute 2^-2 or relative 2^-7'


def fetches():
    shapes = (('1d', (12, 0, 0), 'f32:span 12', '{{a0}}', 0), ('2d', (8, 6, 0), 'f32:span 8 f32:span 6', '{{a0, a1}}', 0),
              ('3d', (6, 5, 4), 'f32:span 6 f32:span 5 f32:span 4', '{{a0, a1, a2, a2}}', 0),
              ('a1d', (12, 0, 3), 'u32:0..3 f32:span 12', '{{a0, a1}}', LAYERED),
              ('a2d', (8, 6, 3), 'u32:0..3 f32:span 8 f32:span 6', '{{a0, a1, a2, a2}}', LAYERED))
    for geometry, size, places, coords, flags in shapes:
        for filter_ in ('point', 'linear'):
            for address, normalized in (('clamp', 0), ('border', 0), ('clamp', 1), ('wrap', 1), ('mirror', 1), ('border', 1)):
                ins = ' '.join(_span(p, normalized) for p in places.replace(':span ', ':span=').split())
                # of three fractions the product loses more
                near = 'absolute 2^0' if geometry == '3d' else NEAR
                check = near if filter_ == 'linear' or normalized else 'exact'
                yield Form(f'tex.{geometry}.v4.f32.f32 {filter_} {address}{" normalized" if normalized else ""}',
                           f'tex.{geometry}.v4.f32.f32 {D}, [tex, {coords.format()}];', 'f32 f32 f32 f32', ins, check,
                           texture=Texture(size, 'f32', 4, filter_, address, bool(normalized), flags))
    for kind in FORMATS:
        for channels in (1, 2, 4):
            whole = kind[0] != 'f'
            t = {'u': 'u32', 's': 's32', 'f': 'f32'}[kind[0]]
            yield Form(f'tex.2d.v4.{t}.s32 {kind}x{channels}', f'tex.2d.v4.{t}.s32 {D}, [tex, {{a0, a1}}];', ' '.join([t] * 4),
                       's32:=-2,-1,0,1,2,3,4,5,6,7,8,9 s32:=-1,0,1,2,3,4,5,6',
                       texture=Texture((8, 6, 0), kind, channels, integers=whole))
            if kind[1:] in ('8', '16'):
                for filter_ in ('point', 'linear'):
                    yield Form(f'tex.2d.v4.f32.f32 {kind}x{channels} {filter_}', f'tex.2d.v4.f32.f32 {D}, [tex, {{a0, a1}}];',
                               'f32 f32 f32 f32', 'f32:span=-1,9 f32:span=-1,7', NEAR if filter_ == 'linear' else 'exact',
                               texture=Texture((8, 6, 0), kind, channels, filter_))
    for component in 'rgba':
        yield Form(f'tld4.{component}.2d.v4.f32.f32', f'tld4.{component}.2d.v4.f32.f32 {D}, [tex, {{a0, a1}}];', 'f32 f32 f32 f32',
                   'f32:span=-1,9 f32:span=-1,7', texture=Texture((8, 6, 0), 'f32', 4, 'linear', array_flags=GATHER))
    for filter_ in ('point', 'linear'):
        yield Form(f'tex.cube.v4.f32.f32 {filter_}', f'tex.cube.v4.f32.f32 {D}, [tex, {{a0, a1, a2, a2}}];', 'f32 f32 f32 f32',
                   'f32:span=-4,4 f32:span=-4,4 f32:=0x3f800000,0xbf800000,0x40c00000,0xc0900000', NEAR,
                   texture=Texture((8, 8, 6), 'f32', 4, filter_, 'clamp', True, CUBE))
    for query in ('width', 'height', 'depth'):
        yield Form(f'txq.{query}', f'txq.{query}.b32 d0, [tex];', 'b32', 'b32',
                   texture=Texture((6, 5, 4), 'f32', 4))


def _span(place, normalized):
    """Places a little outside the texture too; of whole sizes, or of 1."""
    kind, _, size = place.partition(':span=')
    if not size:
        return place
    return f'{kind}:span=-2.5,3' if normalized else f'{kind}:span=-2,{int(size) + 2}'


def surfaces():
    for mode, bound in (('trap', 0), ('clamp', 2), ('zero', 2)):
        x = 's32:=0,4,8,12,16,20,24,28' if not bound else 's32:=-8,-4,0,4,8,12,16,20,24,28,32,36'
        y = 's32:0..5' if not bound else 's32:=-2,-1,0,1,2,3,4,5,6,7'
        surface = Texture((8, 6, 0), 'u32', 1, array_flags=SURFACE, surface=True)
        yield Form(f'suld.b.2d.b32.{mode}', f'suld.b.2d.b32.{mode} d0, [tex, {{a0, a1}}];', 'b32', f'{x} {y}', texture=surface)
        # Stores at the border with .clamp would race for its texel.
        if mode == 'clamp':
            continue
        yield Form(f'sust.b.1d.b32.{mode}', f'mad.lo.s32 a0, tid, 4, {-64 if bound else 0};\n'
                   f'sust.b.1d.b32.{mode} [tex, {{a0}}], a1;\nbar.sync 0;\nsuld.b.1d.b32.{mode} d0, [tex, {{a0}}];', 'b32',
                   's32:=0,4 b32', threads=128,
                   texture=Texture((96 if bound else 128, 0, 0), 'u32', 1, array_flags=SURFACE, surface=True))
    for n in (2, 4):
        d, a = ('{' + ', '.join(f'{r}{i + (r == "a")}' for i in range(n)) + '}' for r in 'da')
        yield Form(f'sust.b.2d.v{n}.b32', f'and.b32 bit, tid, 7;\nmul.lo.u32 bit, bit, {n * 4};\nshr.u32 a0, tid, 3;\n'
                   f'sust.b.2d.v{n}.b32.trap [tex, {{bit, a0}}], {a};\nbar.sync 0;\nsuld.b.2d.v{n}.b32.trap {d}, [tex, {{bit, a0}}];',
                   ' '.join(['b32'] * n), ' '.join(['b32'] * (n + 1)), threads=64,
                   texture=Texture((8, 8, 0), 'u32', n, array_flags=SURFACE, surface=True))
    for query in ('width', 'height', 'depth'):
        yield Form(f'suq.{query}', f'suq.{query}.b32 d0, [tex];', 'b32', 'b32',
                   texture=Texture((6, 5, 4), 'f32', 4, array_flags=SURFACE, surface=True))
    for t in ('b8', 'b16', 'b64'):
        wide = {'b8': 'b16'}.get(t, t)
        kind, n = {'b8': ('u8', 1), 'b16': ('u16', 1), 'b64': ('u32', 2)}[t]
        size = int(t[1:]) // 8
        yield Form(f'suld.b.3d.{t}', f'and.b32 bit, tid, 7;\nmul.lo.u32 bit, bit, {size};\nsuld.b.3d.{t}.trap d0, [tex, {{bit, a0, a1, a1}}];',
                   wide, 's32:0..5 s32:0..2', texture=Texture((8, 6, 3), kind, n, array_flags=SURFACE, surface=True))


def forms():
    yield from fetches()
    yield from surfaces()
