"""tests/gen/test_releases.py - messages stay as they were in each release, or CK_PROTOCOL changes.

tests/data/protocol/RELEASE.txt has the number, the name and a hash of the structures of each message.
`python3 tests/gen/test_releases.py tests/data/protocol/RELEASE.txt` writes one, for a new release; with --check before the
path it fails unless that is already there, as `make release` demands.
"""
import hashlib
import pathlib
import re
import sys

import pytest

from helpers import ROOT

RECORDED = ROOT / "tests" / "data" / "protocol"


def clean(text):
    """XDR without comments and space."""
    return " ".join(re.sub(r"/\*.*?\*/", "", text, flags=re.S).split())


def messages(text):
    """{(number, name): hash of what travels}, and CK_PROTOCOL."""
    text = clean(text)
    shapes = dict(re.findall(r"(?:struct|enum) (\w+) (\{.*?\});", text))
    consts = dict(re.findall(r"const (\w+) = (\w+);", text))

    def whole(name, seen=()):
        """A structure's text with those of the structures in it, and the values of constants."""
        words = re.findall(r"\w+|[^\w\s]", shapes.get(name, name))
        return " ".join(whole(w, (*seen, name)) if w in shapes and w not in seen and w != name
                        else consts.get(w, w) for w in words)

    found = {}
    for result, name, args, number in re.findall(r"(\w+) (\w+)\((\w+)\) = (\d+);", text):
        both = whole(args) + " -> " + whole(result)
        found[int(number), name] = hashlib.sha256(both.encode()).hexdigest()[:16]
    return found, int(consts["CK_PROTOCOL"])


def today():
    return messages((ROOT / "rpc" / "cricket.x").read_text())


def recorded(path):
    return recorded_text(path.read_text(encoding="utf-8"))


def recorded_text(text):
    first, *lines = text.splitlines()
    rows = [line.split() for line in lines]
    return {(int(n), name): value for n, name, value in rows}, int(first.split()[-1])


def broken(before, now):
    """What a peer of before would not understand. Hello (1) may grow at its end, see CONTRIBUTING.md."""
    return [name for (number, name), value in before.items()
            if number != 1 and now.get((number, name)) != value]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.txt")), ids=lambda p: p.stem)
def test_no_message_of_a_release_has_changed(path):
    (before, protocol), (now, current) = recorded(path), today()
    assert len(before) > 400
    assert protocol != current or not broken(before, now), "a new number for it, or a new CK_PROTOCOL"


def test_a_changed_message_is_found():
    text = (ROOT / "rpc" / "cricket.x").read_text()
    now, _ = today()
    for old, new in (("unsigned hyper bytesize;", "unsigned int bytesize;"), ("ck_upload_args) = 10;", "ck_upload_args) = 9;"),
                     ("unsigned hyper ctx;\n};", "unsigned hyper ctx;\n\tint more;\n};")):
        assert old in text
        assert broken(now, messages(text.replace(old, new))[0])


def test_a_new_message_breaks_nothing():
    text = (ROOT / "rpc" / "cricket.x").read_text()
    now, _ = today()
    more, _ = messages(text.replace("void CK_BYE(void) = 4;", "void CK_BYE(void) = 4;\n\t\tvoid NEW(void) = 9999;"))
    assert len(more) == len(now) + 1 and not broken(now, more)


def record():
    """Today's messages, as a file of RECORDED has them."""
    rows, number = today()
    return "\n".join([f"CK_PROTOCOL {number}", *(f"{n} {name} {value}" for (n, name), value in sorted(rows.items()))]) + "\n"


def test_a_record_is_what_is_read():
    rows, number = today()
    assert recorded_text(record()) == (rows, number)


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[-1])
    if sys.argv[1] != "--check":
        place.write_text(record(), encoding="utf-8")
    elif place.read_text(encoding="utf-8") != record():
        sys.exit(f"{place} is not the record of today's messages: python3 tests/gen/test_releases.py {place}")
