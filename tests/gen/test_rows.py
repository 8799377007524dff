"""tests/gen/test_rows.py - the check of lists of messages outside the tables can fail."""
import subprocess

import pytest

from helpers import ROOT

LISTS = {
    "switch": "int f(int p)\n{\n\tswitch (p) {\n\tcase CK_PROC_launch:\n\t\treturn 1;\n\t}\n}\n",
    "comparison": "bool f(int p)\n{\n\treturn p == CK_PROC_launch ||\n\t       p == CK_PROC_function;\n}\n",
    "chain": "void f(int p)\n{\n" + "".join(f"\tif (p == CK_PROC_{n})\n\t\tg();\n" for n in ("launch", "function", "image")) + "}\n",
    "array": "static const int all[] = {CK_PROC_launch, CK_PROC_function};\n",
    "designated array": "static const bool all[] = {[CK_PROC_launch] = true, [CK_PROC_function] = true};\n",
}


def check_rows(path):
    return subprocess.run([ROOT / "tools" / "check-rows", path], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS)
def test_a_list_of_messages_is_refused(tmp_path, text):
    source = tmp_path / "x.c"
    source.write_text(text)
    ran = check_rows(source)
    assert ran.returncode != 0 and "x.c:" in ran.stdout and "rpc/driver.api" in ran.stdout


def test_one_message_is_no_list(tmp_path):
    source = tmp_path / "x.c"
    source.write_text("/* case CK_PROC_launch: */\nint f(int p)\n{\n\treturn p == CK_PROC_launch ? g(CK_PROC_function) : 0;\n}\n"
                      "struct key k = {CK_PROC_launch, 0, 1};\n")
    assert check_rows(source).returncode == 0
