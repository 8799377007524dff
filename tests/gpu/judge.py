"""tests/gpu/judge.py - compares what a case gave natively and remotely, and writes the table."""
import datetime
import pathlib
import platform
import re
import subprocess
import sys

ROOT = f"{pathlib.Path(__file__).resolve().parents[2]}/"
GOOD = ("equal", "within", "varies", "limit", "not installed", "native fails")
MARK = re.compile(r"(<!-- table -->\n).*(<!-- end of table -->)", re.S)
VERSIONS = ("torch", "torchvision", "transformers", "triton", "cupy", "jax", "numba", "cuda-bindings",
            "nvidia-ml-py", "numpy")


def distance(a, b):
    """The largest relative difference between two results; None where they cannot be compared."""
    if isinstance(a, dict) and isinstance(b, dict) and "hash" in a and "hash" in b:
        if a["hash"] == b["hash"]:
            return 0.0
        if a["shape"] != b["shape"] or a["type"] != b["type"]:
            return None
        scale = max(abs(a["largest"]), 1e-30)
        far = [abs(x - y) / scale for x, y in zip(a["samples"], b["samples"])]
        far.append(abs(a["largest"] - b["largest"]) / scale)
        return None if any(f != f for f in far) else max(*far, 1e-12)
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return worst(distance(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return worst(distance(x, y) for x, y in zip(a, b))
    if a == b:
        return 0.0
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) / max(abs(a), abs(b), 1e-30)
    return None


def worst(distances):
    distances = list(distances)
    return None if None in distances else max(distances, default=0.0)


def verdict(case, native, remote, again=None):
    """One of GOOD, or "differs", "fails", with a detail. AGAIN: a second native result."""
    if native["status"] == "missing":
        return "not installed", native["error"]
    if "not run" in (native["status"], remote["status"]):
        return "not run", "no time was left"
    if remote["status"] != "ok":
        if native["status"] != "ok":
            return "native fails", native["error"]
        return ("limit", case["limit"]) if case["limit"] else ("fails", remote["error"])
    if native["status"] != "ok":
        return "native fails", native["error"]
    far = distance(native["value"], remote["value"])
    if far == 0:
        return "equal", ""
    if far is not None and far <= case["tolerance"]:
        return "within", f"{case['tolerance']:g}"
    if again and again["status"] == "ok":
        own = distance(native["value"], again["value"])
        if own and far is not None and far <= max(8 * own, 1e-5):
            return "varies", f"by {far:.1g}, native by {own:.1g} from run to run"
    return "differs", "" if far is None else f"by {far:.1g}"


def short(value):
    """A result in a few characters."""
    if isinstance(value, dict) and "hash" in value:
        return f"{value['type']}{value['shape']} {value['hash'][:8]}"
    if isinstance(value, list):
        return f"{len(value)}: " + ", ".join(short(v) for v in value[:2])
    text = " ".join(str(value).split())
    return text if len(text) <= 48 else text[:45] + "..."


def plain(text):
    """A text for the table: without the folder that the project happens to be in, and a GPU's own number."""
    text = re.sub(r"\bGPU-[0-9a-f]{8}-[0-9a-f-]*(\.\.\.)?", "GPU-...", text)
    return text.replace(ROOT, "").replace("|", "/")


def cell(result):
    if result["status"] == "ok":
        return plain(short(result["value"]))
    return plain(f"{result['status']}: {result['error']}")[:90]


def seconds(result):
    return "" if result.get("seconds") is None else f"{result['seconds']:.2f}"


def row(name, native, remote, word, detail):
    said = f"{word} ({detail})" if detail else word
    return [name, cell(native), cell(remote), plain(said), seconds(native), seconds(remote)]


HEAD = ["test", "native", "remote", "result", "s native", "s remote"]


def markdown(rows):
    lines = ["| " + " | ".join(r) + " |" for r in [HEAD, ["---"] * len(HEAD), *rows]]
    return "\n".join(lines) + "\n"


def text_table(rows):
    """The short table: name, result, seconds."""
    width = max(len(r[0]) for r in rows)
    return "\n".join(f"{r[0]:{width}}  {r[4]:>7} {r[5]:>7}  {r[3]}" for r in rows)


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60,
                              check=False).stdout.strip()
    except OSError:
        return ""


def machine():
    """Lines that say what was measured, when and where."""
    gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    code = ("import importlib.metadata as m\nfor n in %r:\n  try: print(n, m.version(n))\n"
            "  except m.PackageNotFoundError:\n    for d in m.distributions():\n"
            "      if (d.name or '').startswith(n + '-cuda'): print(n, d.version)\n" % (VERSIONS,))
    versions = ", ".join(output_of(sys.executable, "-c", code).splitlines())
    nvcc = re.search(r"release ([\d.]+)", output_of("nvcc", "--version"))
    release = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return (f"{datetime.date.today()}; {', '.join(sorted(set(gpu.splitlines()))) or 'no GPU'}"
            f" (driver), {len(gpu.splitlines())} of them; {release}, Python "
            f"{platform.python_version()}; CUDA {nvcc.group(1) if nvcc else 'toolkit: none'}; "
            f"{versions}.")


def write_document(frame, out, rows, summary, transport):
    """FRAME with the measured part put between its marks, as OUT."""
    text = pathlib.Path(frame).read_text(encoding="utf-8")
    body = (f"Measured {machine()} Client and server on the same machine, over {transport}; "
            f"{summary}.\n\n{markdown(rows)}")
    pathlib.Path(out).write_text(MARK.sub(lambda m: m.group(1) + body + m.group(2), text),
                                 encoding="utf-8")
