#!/usr/bin/env python3
"""tests/systems/layouts.py BUILD CC BUILD CC - compares what two compilers make of the types on the wire.

BUILD is a build folder of cpu/, CC its compiler. Compared are all structures, unions and enums of cuda/, rpc/ and the
generated protocol: sizes, and names, places and sizes of members. The compilers' debug information tells them.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is in no message and is made of the C library's own types.
INSIDE = {"ck_chan", "ck_link_watch", "ck_mutex"}


def headers(build):
    files = sorted((ROOT / "cuda").glob("*.h")) + sorted((ROOT / "rpc").glob("*.h"))
    return files + [build / "cricket.h"]


def own_names(files):
    text = "\n".join(re.sub(r"/\*.*?\*/", "", f.read_text(), flags=re.S) for f in files)
    return set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", text)) | set(re.findall(r"\}\s*(\w+)\s*;", text))


def entries(build, cc, folder):
    """The debug information as {offset: (depth, tag, {attribute: value})}, in order."""
    source, out = folder / "all.c", folder / "all.o"
    source.write_text("#define _GNU_SOURCE\n" + "".join(f'#include "{f}"\n' for f in headers(build)))
    subprocess.run([cc, "-std=gnu11", "-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", f"-I{ROOT}", f"-I{build}",
                    f"-I{build}/gen", *flags(cc), "-c", "-o", out, source], check=True)
    text = subprocess.run(["readelf", "--debug-dump=info", out], check=True, capture_output=True, text=True).stdout
    found, entry = {}, None
    for line in text.splitlines():
        head = re.match(r" <(\w+)><(\w+)>: Abbrev Number: \d+ \((DW_TAG_\w+)\)", line)
        attribute = re.match(r"    <\w+>\s+(DW_AT_\w+)\s*: (.*)", line)
        if head:
            entry = (int(head[1], 16), head[3], {})
            found[head[2]] = entry
        elif attribute and entry:
            entry[2][attribute[1]] = re.sub(r"^\(.*?\): ", "", attribute[2]).strip()
    return found


def flags(cc):
    """Where libtirpc's headers are: beside the compiler's libraries."""
    root = subprocess.run([cc, "-print-sysroot"], capture_output=True, text=True).stdout.strip().rstrip("/")
    return [f"-I{root}/usr/include/tirpc"]


def size_of(found, offset):
    tag, at = found[offset][1:]
    if "DW_AT_byte_size" in at:
        return at["DW_AT_byte_size"]
    inner = at.get("DW_AT_type", "").strip("<>").removeprefix("0x")
    if tag == "DW_TAG_array_type":
        depth, offsets = found[offset][0], list(found)
        bounds = []
        for child in offsets[offsets.index(offset) + 1:]:
            if found[child][0] <= depth:
                break
            bounds.append(found[child][2].get("DW_AT_upper_bound", "open"))
        return f"{size_of(found, inner)}[{','.join(bounds)}]"
    return size_of(found, inner) if inner in found else "?"


def layouts(found, names):
    """{name: text} of the types among names."""
    result, offsets = {}, list(found)
    places = {o: i for i, o in enumerate(offsets)}
    for offset, (_, tag, at) in found.items():
        name, target = at.get("DW_AT_name"), offset
        if tag == "DW_TAG_typedef":
            target = at.get("DW_AT_type", "").strip("<>").removeprefix("0x")
        if name not in names or target not in found or name in INSIDE:
            continue
        depth, kind, what = found[target]
        if kind not in ("DW_TAG_structure_type", "DW_TAG_union_type", "DW_TAG_enumeration_type") or \
                "DW_AT_declaration" in what:
            continue
        lines = [f"{kind[7:]} of {what.get('DW_AT_byte_size')} bytes"]
        for child in offsets[places[target] + 1:]:
            level, tag, member = found[child]
            if level <= depth:
                break
            if tag == "DW_TAG_member" and level == depth + 1:
                inner = member["DW_AT_type"].strip("<>").removeprefix("0x")
                lines.append(f"{member.get('DW_AT_name', 'unnamed')} at {member.get('DW_AT_data_member_location', 0)}"
                             f" of {size_of(found, inner)}")
            elif tag == "DW_TAG_enumerator":
                lines.append(f"{member.get('DW_AT_name')} = {member.get('DW_AT_const_value')}")
        result[name] = "; ".join(lines)
    return result


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    of = []
    for build, cc in (sys.argv[1:3], sys.argv[3:5]):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(build).resolve()
            of.append(layouts(entries(build, cc, pathlib.Path(folder)), own_names(headers(build))))
    different = [name for name in sorted(of[0].keys() | of[1].keys()) if of[0].get(name) != of[1].get(name)]
    for name in different:
        print(f"{name}: {of[0].get(name)}\n{' ' * len(name)}  {of[1].get(name)}")
    if different or len(of[0]) < 500:
        sys.exit(f"layouts: {len(different)} of {len(of[0])} types differ")
    print(f"layouts: {len(of[0])} types, the same for {sys.argv[2]} and {sys.argv[4]}")


if __name__ == "__main__":
    main()
