#!/usr/bin/env python3
"""bench/speed.py - the newest comparison with native runs and peers, as the documents show it.

Reads the newest page of bench/results that has a section "Programs". Writes docs/speed.svg, the chart of README.md, and
the table of docs/performance.md between its two marks. With --check it writes nothing, and fails if one of them differs.
An SVG, with nothing but the standard library; it follows the reader's scheme, light or dark.
"""
import pathlib
import re
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE, DOCUMENT = ROOT / "docs" / "speed.svg", ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- made by bench/speed.py -->", "<!-- until here: speed.py -->"
FAR = "PyTorch script: whole"

# The chart's groups: label, row, is it training?
GROUPS = (("ResNet-50 training", "ResNet-50 training, batch 32", True),
          ("GPT-2 training", "GPT-2 training, 8 x 512", True),
          ("ResNet-50 inference", "ResNet-50 inference, batch 1", False),
          ("GPT-2 generation", "GPT-2, 32 tokens generated", False),
          ("Llama bf16, per token", "Llama bf16, per token", False),
          ("vLLM, 32 streams", "vLLM, graphs, 32 streams", False))
# The same for rows over a simulated network: label, column of Cricket, column of the peer.
DISTANCES = (("training script, 20 ms away", "tcp, 20 ms", "LUPINE, 20 ms"),
             ("training script, 150 ms away", "tcp, 150 ms", None))
# Rows that only the page of results has.
OMITTED = re.compile(r"cuEventElapsedTime|event record \+ synchronise|copy (64 K|1 M)iB|vLLM, eager")
BARS = (("shm", "Cricket, same host (shared memory)", "near"), ("tcp", "Cricket, TCP", "far"),
        ("LUPINE", "LUPINE 7fbd364 (August 2026)", "peer"))
WIDTH, LEFT, RIGHT, TOP, BAR, GAP, MOST = 860, 210, 60, 110, 12, 10, 2.75
STYLE = """text { font: 13px sans-serif; fill: #222 }
.paper { fill: #fff }
.title { font-weight: bold; font-size: 16px }
.small { font-size: 12px }
.grid { stroke: #222; stroke-opacity: .15 }
.native { stroke: #222; stroke-width: 2 }
.near { fill: #2a88cf } .far { fill: #8fc4ea } .peer { fill: #b8b8b8 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .paper { fill: #0d1117 } .grid { stroke: #ddd }
.native { stroke: #ddd } .near { fill: #56a5df } .far { fill: #2c5f86 } .peer { fill: #6b6f76 } }"""


def newest():
    """The page, and its date."""
    pages = [p for p in (ROOT / "bench" / "results").glob("2*.md") if "\n## Programs\n" in p.read_text(encoding="utf-8")]
    page = max(pages)
    return page, page.name[:10]


def rows_of(page):
    """{row: {column: text}} of all tables of a page, in order."""
    rows, head = {}, None
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            head = None
        elif head is None:
            head = cells
        elif head[0] == "row" and not re.fullmatch("-+", cells[0]):
            rows[cells[0]] = dict(zip(head[1:], cells[1:]))
    return rows


def value(text):
    """The number that a cell begins with; None if there is none."""
    found = re.match(r"\d+(?:\.\d+)?", text or "")
    return float(found[0]) if found else None


def slowdown(row, column):
    """Time in COLUMN divided by the native time; None if it was not measured."""
    ours, native = value(row.get(column)), value(row["native"])
    if ours is None:
        return None
    return native / ours if row["better"] == "more" else ours / native


def groups_of(rows):
    """(label, is it training?, [(class of the bar, slowdown or None, words)])."""
    for label, name, training in GROUPS:
        row = rows[name]
        yield label, training, [(kind, slowdown(row, column), f"{column} fails" if row.get(column) == "fails" else "")
                                for column, _, kind in BARS if row.get(column)]
    for label, ours, peer in DISTANCES:
        bars = [("far", slowdown(rows[FAR], ours), "")]
        if peer:
            bars.append(("peer", slowdown(rows[FAR], peer), ", ".join(rows[FAR][peer].split(", ")[1:])))
        yield label, False, bars


def x_of(times):
    return LEFT + times / MOST * (WIDTH - LEFT - RIGHT)


def legend(top):
    x = LEFT
    for _, words, kind in BARS:
        yield f'<rect class="{kind}" x="{x}" y="{top - 10}" width="12" height="12"/>'
        yield f'<text class="small" x="{x + 18}" y="{top}">{escape(words)}</text>'
        x += 32 + 6.3 * len(words)


def group(label, bars, y):
    """A label and its bars, each with its number."""
    middle = y + len(bars) * BAR / 2 + 4
    yield f'<text x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>'
    for i, (kind, times, words) in enumerate(bars):
        top, end = y + i * BAR, LEFT
        if times is not None:
            end = x_of(times)
            yield f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{end - LEFT:.1f}" height="{BAR - 1}"/>'
        text = f"{times:.2f}x {words}".strip() if times is not None else words
        yield f'<text x="{end + 5:.1f}" y="{top + BAR - 2}" style="font-size: 11px">{escape(text)}</text>'


def chart(rows, date):
    groups = list(groups_of(rows))
    near = max(times for _, training, bars in groups if training for kind, times, _ in bars if kind != "peer")
    far = slowdown(rows[FAR], "tcp, 150 ms")
    floor = TOP + sum(len(bars) * BAR + GAP for _, _, bars in groups)
    title = f"Training takes at most {near:.2f}x the time of a local GPU, and a script 150 ms away {far:.2f}x"
    out = [f'<text class="title" x="16" y="26">{title}</text>',
           f'<text class="small" x="16" y="46">Time divided by the native time: shorter is better. One NVIDIA H200, {date}, '
           "client and server on its host; TCP without TLS.</text>",
           '<text class="small" x="16" y="64">20 and 150 ms are simulated round trips. vLLM over TCP: a known limit, '
           "see docs/performance.md.</text>", *legend(88)]
    for times in (0, 0.5, 1, 1.5, 2, 2.5):
        kind = "native" if times == 1 else "grid"
        name = "1x: native" if times == 1 else f"{times:g}x"
        out.append(f'<line class="{kind}" x1="{x_of(times):.1f}" y1="{TOP - 8}" x2="{x_of(times):.1f}" y2="{floor}"/>')
        out.append(f'<text x="{x_of(times):.1f}" y="{floor + 18}" text-anchor="middle">{name}</text>')
    y = TOP
    for label, _, bars in groups:
        out += group(label, bars, y)
        y += len(bars) * BAR + GAP
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {floor + 32}" role="img" aria-label="{title}">\n'
            f'<style>{STYLE}</style>\n<rect class="paper" width="{WIDTH}" height="{floor + 32}" rx="10"/>\n'
            + "\n".join(out) + "\n</svg>\n")


def cell(row, column):
    """A figure, and in parentheses its ratio to native."""
    text, native, ours = row.get(column, ""), value(row["native"]), value(row.get(column))
    return f"{text} ({ours / native:.2f})" if ours is not None else text


def table(rows, page, date):
    columns = ("shm", "tcp", "tls", "LUPINE", "smolvm")
    lines = [f"{date}, one NVIDIA H200, client and server on its host; all rows, versions, conditions:\n"
             f"[bench/results/{page.name}](../bench/results/{page.name}).", "",
             f"| row | unit | native | {' | '.join(columns)} |", "|---|---|---|" + "---|" * len(columns)]
    for name, row in rows.items():
        if "shm" in row and row["unit"] and not OMITTED.match(name):
            cells = " | ".join(cell(row, column) for column in columns)
            lines.append(f"| {name} | {row['unit']} | {row['native']} | {cells} |")
    return "\n".join(lines)


def main():
    page, date = newest()
    rows = rows_of(page)
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    made = {PICTURE: chart(rows, date),
            DOCUMENT: f"{before}{BEGIN}\n\n{table(rows, page, date)}\n\n{END}{rest.split(END)[1]}"}
    if sys.argv[1:] == ["--check"]:
        stale = [p for p, text in made.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
        print(*(f"{p.relative_to(ROOT)} is stale: run bench/speed.py" for p in stale), sep="\n", end="\n" if stale else "")
        return 1 if stale else 0
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
