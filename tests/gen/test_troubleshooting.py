"""tests/gen/test_troubleshooting.py - docs/troubleshooting.md has all rows of command/advice.def."""
import re
import subprocess
import sys

from helpers import ROOT


def test_the_page_is_not_stale():
    done = subprocess.run([sys.executable, ROOT / "tools" / "troubleshooting", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_page_has_a_line_for_each_row():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^ADVICE\(", (ROOT / "command" / "advice.def").read_text(encoding="utf-8"), re.M)
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| the message")]
    assert len(rows) == len(lines) > 20
