"""tests/gen/test_documents.py - documents that are made from tables of the code have all their rows, and are not stale."""
import re
import subprocess
import sys

import pytest

from helpers import ROOT


@pytest.mark.parametrize("tool", ["troubleshooting", "policy-keys"])
def test_the_page_is_not_stale(tool):
    done = subprocess.run([sys.executable, ROOT / "tools" / tool, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page, table, macro, least", [
    ("docs/troubleshooting.md", "command/check/advice.def", r"^ADVICE\(", 20),
    ("docs/policy.md", "server/policy/terms.def", r"^CK_TERM(?:_TEXT)?\(", 20),
])
def test_the_page_has_a_line_for_each_row(page, table, macro, least):
    rows = re.findall(macro, (ROOT / table).read_text(encoding="utf-8"), re.M)
    text = (ROOT / page).read_text(encoding="utf-8")
    if "<!-- end -->" in text:
        text = text.split("tools/policy-keys", 1)[1].split("<!-- end -->")[0].replace("| `prefixes`", "")
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| the message", "| key"))]
    assert len(rows) == len(lines) >= least


def test_a_policy_of_all_keys_is_right(tmp_path):
    """tests/e2e/test_policy.py has a policy of all keys; here: it does have all."""
    keys = re.findall(r'^CK_TERM(?:_TEXT)?\("(\w+)"', (ROOT / "server/policy/terms.def").read_text(encoding="utf-8"), re.M)
    text = (ROOT / "tests/e2e/test_policy.py").read_text(encoding="utf-8").split("# all keys")[1].split("'''")[0]
    assert not [key for key in keys if f" {key} = " not in text]
