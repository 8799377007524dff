"""tests/gen/test_comments.py - tools/check-comments finds wide comments, and wraps them without changing code or words."""
import subprocess

from helpers import ROOT

WORDS = "a comment that is so long that it does not fit the hundred columns of a line, and ends in the second line of the two"
SOURCE = f"""/*
 * x.c - {WORDS}.
 *
 *     a table    that stays as it is
 * - {WORDS};
 * - short
 */
/* {WORDS} */
struct x {{
\tint member; /* {WORDS} */
\tint other;\t/* short */
}};
static const char text[] = "/* {WORDS} */ is no comment";
"""


def check(*arguments):
    return subprocess.run([ROOT / "tools" / "check-comments", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_wide_comments_are_found_and_wrapped(tmp_path):
    source = tmp_path / "x.c"
    source.write_text(SOURCE)
    ran = check(source)
    assert ran.returncode != 0 and [f"x.c:{n}:" in ran.stdout for n in range(1, 14)].count(True) == 4, ran.stdout
    assert check("--fix", source).returncode == 0
    text = source.read_text()
    assert " *     a table    that stays as it is\n" in text and "\tint other;\t/* short */\n" in text
    assert text.index("/*", text.index("struct")) < text.index("int member;\n")
    assert SOURCE.splitlines()[-1] in text
    assert all(len(line.expandtabs(8)) <= 100 for line in text.splitlines()[:-1])
    assert sorted(w for w in text.split() if w not in ("*", "/*", "*/")) == sorted(w for w in SOURCE.split() if w not in ("*", "/*", "*/"))
    assert check("--fix", source).returncode == 0 and source.read_text() == text
