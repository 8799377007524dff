"""bench/plot.py - a picture of slowdowns against round trips: SVG, with nothing but the standard library.

Both axes are logarithmic; no delay at all has a place of its own at the left. Text and lines take their colours
from the reader's scheme, light or dark.
"""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 84, 240, 40, 56
COLOURS = ("#2a88cf", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")     # told apart by the colour-blind
MARKS = ("circle", "square", "diamond", "triangle", "circle", "square")
STYLE = """text { font: 13px sans-serif; fill: #222 }
.title { font-weight: bold; font-size: 15px }
.grid { stroke: #222; stroke-opacity: .15 }
.axis { stroke: #222 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .grid { stroke: #ddd } .axis { stroke: #ddd } }"""


def rtt_text(us):
    return "0" if us == 0 else f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} us"


class Axes:
    """Where a round trip and a slowdown are on the paper."""

    def __init__(self, trips, most):
        self.trips = trips
        positive = [t for t in trips if t > 0] or [1]
        self.low, self.high = math.log10(min(positive)), math.log10(max(positive))
        self.zero = 0 in trips
        self.top = max(math.log10(most) * 1.06, math.log10(2))

    def x(self, us):
        inner = WIDTH - LEFT - RIGHT
        start = 0.12 if self.zero else 0.03
        if us == 0:
            return LEFT + 0.03 * inner
        share = (math.log10(us) - self.low) / (self.high - self.low or 1)
        return LEFT + (start + share * (0.97 - start)) * inner

    def y(self, slowdown):
        floor = math.log10(0.5)
        share = (math.log10(max(slowdown, 0.5)) - floor) / (self.top - floor)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def levels(self):
        steps = [m * 10 ** e for e in range(-1, 7) for m in (1, 2, 5)]
        shown = [s for s in steps if 0.5 <= s <= 10 ** self.top]
        return shown if len(shown) <= 10 else [s for s in shown if math.log10(s) % 1 < 1e-9 or s == 0.5]


def mark(kind, x, y, colour):
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    points = {"square": ((-4, -4), (4, -4), (4, 4), (-4, 4)), "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0)),
              "triangle": ((0, -5), (5, 4), (-5, 4))}[kind]
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points)}" fill="{colour}"/>'


def frame(axes):
    """Grid, labels of both axes, titles."""
    out, right, floor = [], WIDTH - RIGHT, HEIGHT - BOTTOM
    for level in axes.levels():
        y = axes.y(level)
        out.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{"1x: native" if level == 1 else f"{level:g}x"}</text>')
    for us in axes.trips:
        x = axes.x(us)
        out.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{floor}"/>')
        out.append(f'<text x="{x:.1f}" y="{floor + 18}" text-anchor="middle">{rtt_text(us)}</text>')
    out.append(f'<line class="axis" x1="{LEFT}" y1="{axes.y(1):.1f}" x2="{right}" y2="{axes.y(1):.1f}"/>')
    out.append(f'<text class="title" x="16" y="22">A program that seldom waits stays fast over a slow network (time / native time)</text>')
    out.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle">round trip that was added '
               '(simulated)</text>')
    return out


def spread(places, gap):
    """PLACES moved apart downwards until neighbours have GAP between them."""
    moved = {}
    last = -math.inf
    for name, y in sorted(places.items(), key=lambda item: item[1]):
        last = moved[name] = max(y, last + gap)
    over = last - (HEIGHT - BOTTOM + 10)
    return {n: y - over for n, y in moved.items()} if over > 0 else moved


def slowdowns(series):
    """SVG of SERIES: {title: {round trip in us: time divided by the native time}}."""
    trips = sorted({us for points in series.values() for us in points})
    axes = Axes(trips, max(v for points in series.values() for v in points.values()))
    out = frame(axes)
    names = spread({n: axes.y(p[max(p)]) for n, p in series.items()}, 18)
    for (name, points), colour, kind in zip(series.items(), COLOURS, MARKS):
        place = [(axes.x(us), axes.y(v)) for us, v in sorted(points.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in place)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [mark(kind, x, y, colour) for x, y in place]
        out.append(f'<text x="{WIDTH - RIGHT + 14}" y="{names[name] + 4:.1f}" style="fill: {colour}">'
                   f"{escape(name)}, {points[max(points)]:.3g}x</text>")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'aria-label="slowdown against round trip">\n'
            f"<style>{STYLE}</style>\n" + "\n".join(out) + "\n</svg>\n")
