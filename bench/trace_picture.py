#!/usr/bin/env python3
"""bench/trace_picture.py NATIVE REMOTE -o FILE.svg [--kernels N] - the GPU's rows of two traces, one above the other, on one scale.

The traces are those of jax.profiler, torch.profiler or `cricket run --profile` (Chrome's format, also compressed). The
picture has the last N kernels of each (18), from the start of the first of them, and a legend of their names. An SVG, with
nothing but the standard library; colours as in plot.py.
"""
import argparse
import gzip
import json
from xml.sax.saxutils import escape

from plot import COLOURS, STYLE

WIDTH, LEFT, TOP, ROW, BAR = 900, 80, 46, 46, 26
SHADES = (*COLOURS, "#8c6d31", "#636363")


def load(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        data = json.load(file)
    return data["traceEvents"] if isinstance(data, dict) else data


def kernels(events):
    """(start, length in us, name) of what a GPU ran, in order: of JAX's by the device's process, of the others by category."""
    gpus = {e["pid"] for e in events if e.get("ph") == "M" and e["name"] == "process_name" and "GPU" in str(e["args"].get("name"))}
    found = [(e["ts"], e["dur"], e["name"]) for e in events if e.get("ph") == "X" and
             (e.get("cat") == "kernel" or (e["pid"] in gpus and "overhead" not in e["name"].lower() and "cat" not in e))]
    return sorted(found)


def bars(rows, top, scale, colours):
    for start, length, name in rows:
        yield (f'<rect x="{LEFT + start * scale:.1f}" y="{top}" width="{max(length * scale, 0.5):.1f}" height="{BAR}" '
               f'fill="{colours[name]}"><title>{escape(name)}: {length:.2f} us</title></rect>')


def ticks(span, scale, top, bottom):
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e9) if span / s <= 10)
    at = 0
    while at <= span:
        x = LEFT + at * scale
        yield f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{at:g} us</text>'
        at += step


def draw(sides):
    """SIDES: name to kernels, which begin at 0."""
    names = list(dict.fromkeys(k[2] for rows in sides.values() for k in rows))
    colours = {name: SHADES[i % len(SHADES)] for i, name in enumerate(names)}
    span = max(start + length for rows in sides.values() for start, length, _ in rows)
    scale, bottom = (WIDTH - LEFT - 20) / span, TOP + ROW * len(sides)
    height = bottom + 40 + 18 * len(names)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"><style>{STYLE}</style>',
           '<text class="title" x="8" y="20">The last kernels on the GPU, natively and remotely</text>']
    out += ticks(span, scale, TOP - 8, bottom)
    for i, (side, rows) in enumerate(sides.items()):
        out.append(f'<text x="8" y="{TOP + ROW * i + BAR * 2 // 3}">{side}</text>')
        out += bars(rows, TOP + ROW * i, scale, colours)
    for i, name in enumerate(names):
        y = bottom + 36 + 18 * i
        out.append(f'<rect x="{LEFT}" y="{y - 10}" width="12" height="12" fill="{colours[name]}"/>'
                   f'<text x="{LEFT + 20}" y="{y}">{escape(name[:100])}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("native")
    parser.add_argument("remote")
    parser.add_argument("-o", dest="output", required=True)
    parser.add_argument("--kernels", type=int, default=18)
    options = parser.parse_args()
    sides = {}
    for side in ("native", "remote"):
        rows = kernels(load(getattr(options, side)))[-options.kernels:]
        if not rows:
            parser.error(f"no kernels in {getattr(options, side)}")
        sides[side] = [(start - rows[0][0], length, name) for start, length, name in rows]
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(draw(sides))


if __name__ == "__main__":
    main()
