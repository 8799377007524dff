"""tests/e2e/test_docs.py - documents agree with the programs: what they name is there."""
import ast
import fnmatch
import re
import shlex
import shutil
import subprocess
import sys
import tokenize

import pytest

from conftest import EXPECTED, ROOT, SERVER, clean_env, run

SKIPPED = {".git", ".pytest_cache", "build", "build-san", "build-tsan", "build-portable", "build-arm64", "build-portable-arm64", "build-demo", "build-clang",
           "libtirpc", "bin"}
DOCUMENTS = sorted(p for p in ROOT.rglob("*.md") if not SKIPPED & set(p.relative_to(ROOT).parts))
MANUALS = sorted((ROOT / "man").glob("*.[1-9]"))
# Every folder of the product that holds C.
SOURCES = sorted({str(p.parent.relative_to(ROOT)) for p in ROOT.glob("*/**/*.c")
                  if not (SKIPPED | {"tests", "bench", "examples"}) & set(p.relative_to(ROOT).parts)})
# Paths that a document may name before they are there: what is built, which git ignores, and the submodule's sources.
BUILT = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines() if line.startswith("/")]
ABSENT = [*BUILT, *(f"{path}/*" for path in BUILT), "submodules/libtirpc/*"]
# Documents that may have names of the past.
HISTORY = ("CHANGELOG.md", "docs/releases/", "bench/results/")


def relative(paths):
    return [str(p.relative_to(ROOT)) for p in paths]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def manual_text():
    """All man pages, as words: without the escapes of roff."""
    return "\n".join(p.read_text(encoding="utf-8").replace("\\-", "-") for p in MANUALS)


def code_of(document):
    """What stands in code: indented or fenced lines, and inline pieces."""
    text = text_of(document)
    lines = [line for line in text.splitlines() if line.startswith("    ")]
    for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S):
        lines += block.splitlines()
    return lines + re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def make_commands(document):
    """(folder, goals) of each `make` in the code of a document."""
    home = "cpu" if document == "cpu/README.md" else "."
    for code in code_of(document):
        folder = home
        # Behind a command there may be two spaces, or #, and what it does.
        for command in re.split(r"  +|#", code.strip())[0].removeprefix("$ ").split(" && "):
            if not re.search(r"\b(make|cd) ", command):
                continue
            words = [w for w in shlex.split(command) if "=" not in w]
            if words[:1] == ["cd"]:
                folder = words[1]
            if words[:1] == ["make"]:
                given = words[1:2] == ["-C"]
                yield (words[2], words[3:]) if given else (folder, words[1:])


def goals_of(folder):
    """What the Makefile of FOLDER can make by name, according to make itself."""
    # What the make above us was told (SAN=1) is not what a reader types.
    env = {k: v for k, v in clean_env().items()
           if k not in ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "SAN", "TSAN")}
    database = subprocess.run(["make", "-C", folder, "-npRr", "no-such-goal"], cwd=ROOT, timeout=120,
                              capture_output=True, text=True, check=False, env=env).stdout
    return set(re.findall(r"^([^\s#%:=]+):(?!=)", database, re.M)), \
        re.findall(r"^(\S*%\S*):(?!=)", database, re.M)


def test_there_are_documents_and_manuals():
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"} <= \
        set(relative(DOCUMENTS))
    assert {"cricket-client.7", "cricket-rpc-server.1"} <= {p.name for p in MANUALS}


@pytest.mark.parametrize("document", relative(DOCUMENTS))
def test_links_of_a_document_lead_somewhere(document):
    folder = (ROOT / document).parent
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(document))
    lost = [link for link in links if not re.match(r"https?:|#", link)
            and not (folder / link.split("#", maxsplit=1)[0]).exists()]
    assert not lost


def anchors_of(document):
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h) for h in re.findall(r"^#+ +(.*)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("document", relative(DOCUMENTS))
def test_anchors_of_a_documents_links_are_headings(document):
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text_of(document))
    lost = [f"{path}#{anchor}" for path, anchor in links
            if anchor not in anchors_of((ROOT / document).parent / path if path else ROOT / document)]
    assert not lost


@pytest.mark.parametrize("document", relative(DOCUMENTS))
def test_paths_in_a_document_are_there(document):
    tops = "|".join(p.name for p in ROOT.iterdir() if p.is_dir())
    words = [w for code in code_of(document) for w in code.split()]
    paths = {w.rstrip(",;)") for w in words if re.fullmatch(rf"(?:{tops})/[\w./-]+[,;)]?", w)}
    lost = [p for p in sorted(paths)
            if not (ROOT / p).exists() and not re.search("[A-Z]{4}", p)
            and not any(fnmatch.fnmatch(p, known) for known in ABSENT)]
    # `rpc/chan` may stand for the pair of files; `nccl/state` in client/README.md is relative to it.
    assert not [p for p in lost if not any((base / (p + ".c")).exists() for base in (ROOT, (ROOT / document).parent))]


def test_names_of_the_code_that_documents_name_are_there():
    """Names with a prefix of Cricket; those with a word in capitals, such as ckc_NAME, stand for several."""
    suffixes = (".c", ".h", ".x", ".api", ".def", ".py")
    code = {w for p in ROOT.rglob("*") if p.suffix in suffixes and not SKIPPED & set(p.relative_to(ROOT).parts)
            for w in re.findall(r"\w+", p.read_text(encoding="utf-8"))}
    named = {(d, w) for d in relative(DOCUMENTS) if not d.startswith(HISTORY) for piece in code_of(d)
             for w in re.findall(r"\bck[a-z]?_[a-z]\w*(?<!_)\b", piece)}
    assert ("docs/architecture.md", "ckc_client") in named
    assert not [(d, w) for d, w in sorted(named) if not {w, re.sub("^ck_(wire|serve)_", "", w)} & code and not re.search("_[A-Z]{4}", w)]


def test_make_commands_in_documents_have_goals():
    commands = {(f, g) for d in relative(DOCUMENTS) for f, goals in make_commands(d) for g in goals}
    assert (".", "demo") in commands and (".", "check") in commands
    lost = []
    for folder in sorted({f for f, _ in commands}):
        names, patterns = goals_of(folder)
        lost += [f"make -C {folder} {goal}" for f, goal in sorted(commands) if f == folder
                 and goal not in names
                 and not any(fnmatch.fnmatch(goal, p.replace("%", "*")) for p in patterns)]
    assert not lost


def test_every_variable_is_in_a_man_page():
    result = run([SERVER, "--help-env"], clean_env())
    variables = re.findall(r"^([A-Z][A-Z0-9_]+)", result.out, re.M)
    assert 10 < len([v for v in variables if v.startswith("CRICKET_")]) <= 40, "a word of a list instead?"
    assert not [v for v in variables if not re.search(rf"\b{v}\b", manual_text())]


def test_every_word_of_a_list_is_in_a_man_page():
    words = re.findall(r"^ {6}([a-z][a-z-]+=?)", run([SERVER, "--help-env"], clean_env()).out, re.M)
    assert {"memory=", "no-peers", "no-shm", "compress"} <= set(words)
    bold = re.sub(r"\\f[BIR]", "", manual_text())
    assert not [w for w in words if not re.search(rf"^\.B[IR]? (.*[, ])?{w}( |$)", bold, re.M)]


def test_every_variable_of_the_client_is_in_its_man_page():
    texts = re.findall(r"^([A-Z][A-Z0-9_]+).*\n    (.*)", run([SERVER, "--help-env"], clean_env()).out, re.M)
    variables = [name for name, text in texts if re.match(r"client|as in CUDA|what to log", text)]
    page = text_of("man/cricket-client.7").replace("\\-", "-")
    assert len(variables) > 20
    assert not [v for v in variables if not re.search(rf"\b{v}\b", page)]


def test_every_option_of_a_subcommand_is_in_the_commands_man_page():
    command = SERVER.parent / "cricket"
    names = re.findall(r"^  (\w+) ", run([command, "--help"], clean_env()).out, re.M)
    options = {o for n in names for o in re.findall(r"--[a-z][a-z-]+", run([command, n, "--help"], clean_env()).out)}
    page = text_of("man/cricket.1").replace("\\-", "-")
    assert {"--nccl", "--install"} <= options
    assert not [o for o in sorted(options) if not re.search(rf"^\.[A-Z]+ .*{o}\b", page, re.M)]


@pytest.mark.parametrize("program, known", [("cricket-rpc-server", "--listen"), ("gpu_launcher", "--batch"),
                                            ("cricket-exporter", "--identities")])
def test_every_option_is_in_the_programs_man_page_and_no_other(program, known):
    result = run([SERVER.parent / program, "--help"], clean_env())
    options = set(re.findall(r"--[a-z][a-z-]+", result.out))
    page = text_of(f"man/{program}.1").replace("\\-", "-")
    assert known in options
    assert set(re.findall(r"--[a-z][a-z-]+", page)) == options


@pytest.mark.parametrize("page", relative(MANUALS))
def test_a_man_page_formats_without_warnings(page):
    if shutil.which("groff"):
        command = ["groff", "-man", "-Tutf8", "-wall", "-wmac", "-z", ROOT / page]
    elif shutil.which("mandoc"):
        command = ["mandoc", "-man", "-Tlint", "-Wwarning", ROOT / page]
    else:
        pytest.skip("neither groff nor mandoc is here")
    result = run(command, clean_env())
    assert (result.status, result.out + result.err) == (0, "")


def test_the_driver_api_that_documents_name_is_that_of_the_table():
    number = int(re.search(r"define CK_CUDA_VERSION_ON_TABLE (\d+)", text_of("client/link/client.h"))[1])
    pattern = r"CUDA (\d+\.\d+)\s+driver (?:API|library)|server's driver, at most (\d+\.\d+)"
    named = {(d, a or b) for d in relative([*DOCUMENTS, *MANUALS]) if not d.startswith(HISTORY) for a, b in re.findall(pattern, text_of(d))}
    assert {d for d, _ in named} >= {"README.md", "docs/compatibility.md", "docs/coverage.md", "man/cricket-client.7"}
    assert {v for _, v in named} == {f"{number // 1000}.{number % 1000 // 10}"}, named


@pytest.mark.parametrize("document", [d for d in relative([*DOCUMENTS, *MANUALS]) if d != "docs/coverage-nvml.md"])
def test_counts_of_names_are_those_of_the_coverage_table(document):
    """The README has none and refers to the table; a document that has them has the table's."""
    row = re.search(r"\| \*\*all\*\* \| (\d+) \| (\d+) \| (\d+) \|", text_of("docs/coverage.md"))
    names, work, refused = row.groups()
    text = text_of(document)
    assert set(re.findall(r"\b(\d+) names that the CUDA", text)) <= {names}
    assert set(re.findall(r"\b(\d+) (?:names )?work\b", text)) <= {work}
    assert set(re.findall(r"\b(\d+) are refused", text)) <= {refused}
    assert document != "README.md" or "(docs/coverage.md)" in text


def test_counts_of_null_handles_are_those_of_the_lists():
    said = re.search(r"of (\d+) calls with such arguments, (\d+) return another.*? (\d+) of them crash natively", text_of("docs/compatibility.md"), re.S)
    calls, differ = (text_of(f"tests/null_handles/{name}").splitlines() for name in ("h200.answers", "differences"))
    assert [int(n) for n in said.groups()] == [len(calls), len(differ), sum("crashes" in line.split() for line in differ)]
    assert not [line for line in differ if "SUCCESS" in line.split()]


def test_python_of_the_wheel_is_of_the_release_that_the_documents_name():
    """pip refuses older ones; this machine's may be newer."""
    least = re.search(r"for any Python from 3\.(\d+) on", text_of("docs/install.md"))[1]
    assert f'python_requires=">=3.{least}"' in text_of("python/setup.py")
    sources = [p for p in (ROOT / "python").rglob("*.py") if "build" not in p.parts]
    assert len(sources) > 8
    for source in sources:
        ast.parse(source.read_text(encoding="utf-8"), str(source), feature_version=(3, int(least)))


SCRIPTS = sorted(p for p in ROOT.rglob("*.py") if not SKIPPED & set(p.relative_to(ROOT).parts))


def nested_quotes(path):
    """Lines with a string in an f-string of the same quotes, which Python takes from 3.12 on; an older one finds them by itself."""
    open_quotes, lines = [], []
    with open(path, "rb") as f:
        for token in tokenize.tokenize(f.readline):
            kind, quotes = tokenize.tok_name[token.type], token.string.lstrip("fFrRbBuU")
            if kind in ("FSTRING_START", "STRING") and any(quotes[0] == q[0] and len(q) == 1 for q in open_quotes):
                lines.append(token.start[0])
            if kind == "FSTRING_START":
                open_quotes.append(quotes)
            elif kind == "FSTRING_END":
                open_quotes.pop()
    return lines


@pytest.mark.parametrize("script", relative(SCRIPTS))
def test_a_script_runs_with_the_python_of_debian_12(script):
    ast.parse(text_of(script), script, feature_version=(3, 11))
    assert nested_quotes(ROOT / script) == []


def test_the_readme_is_short():
    """What does not fit belongs in docs/ and man/."""
    assert len(text_of("README.md").splitlines()) <= 100
    parts = {p.splitlines()[0]: p for p in text_of("README.md").split("\n## ")}
    assert len(re.findall(r"^\| \*\*", parts["What works"], re.M)) == 5
    assert len(re.findall(r"^- ", parts["Limits"], re.M)) == 4


@pytest.mark.parametrize("document, program", [("README.md", "vector_add"), ("docs/using.md", "vector_add"),
                                               ("docs/using.md", "cuda_memset_async")])
def test_output_in_a_document_is_what_the_program_prints(document, program):
    shown = [line.strip() for line in text_of(document).splitlines()]
    printed = (EXPECTED / f"{program}.txt").read_text(encoding="utf-8").splitlines()
    assert printed and not [line for line in printed if line not in shown]


def test_what_the_readme_says_of_demo_and_check_is_what_they_print():
    said = re.search(r"`make check` ends with `(.*?)`", text_of("README.md")).group(1)
    assert f'@echo "{said}' in text_of("Makefile")
    title = re.search(r"== Running (.*)", text_of("README.md")).group(1)
    app = re.search(r"^app=(.*)$", text_of("tools/demo.sh"), re.M).group(1)
    assert f'title "Running {title.replace(app, "$app")}"' in text_of("tools/demo.sh")


def test_chart_and_table_of_speed_are_made_from_the_newest_results():
    result = run([sys.executable, ROOT / "bench" / "speed.py", "--check"], clean_env())
    assert (result.status, result.out + result.err) == (0, "")


def test_the_readme_dates_its_figures_as_the_chart_and_the_newest_results_do():
    dates = set(re.findall(r"20\d\d-\d\d-\d\d", text_of("README.md") + text_of("docs/speed.svg")))
    assert len(dates) == 1
    pages = [p.name[:10] for p in (ROOT / "bench/results").glob("2*.md") if "\n## Programs\n" in p.read_text(encoding="utf-8")]
    assert dates == {max(pages)}


def test_the_rows_in_contributing_are_refused_today_and_taken_by_the_generator(tmp_path):
    row = r"^ (\d+) (cu\w+) +\d.*(?:\n {20}\S.*)*$"
    rows = [(m[1], m[2], m[0]) for m in re.finditer(row, text_of("CONTRIBUTING.md"), re.M)]
    assert rows
    table = text_of("rpc/driver.api")
    for number, name, text in rows:
        table, count = re.subn(rf"^ *{number} {name} +\d+ refuse\b.*$", text, table, flags=re.M)
        assert count == 1
    (tmp_path / "driver.api").write_text(table, encoding="utf-8")
    result = run([sys.executable, ROOT / "tools" / "apigen.py", tmp_path / "driver.api",
                  "--x", tmp_path / "cricket.x"], clean_env())
    assert result.status == 0, result.err
    protocol = (tmp_path / "cricket.x").read_text(encoding="utf-8")
    assert all(f"PROC_{name}(" in protocol for _, name, text in rows if " ptsz " not in text)


@pytest.mark.parametrize("folder", ["bench", "docker", "docs", "man", "python", "tools", "tests/e2e", "tests/fuzz", "tests/gen"])
def test_a_folders_readme_names_its_files(folder):
    text = text_of(f"{folder}/README.md")
    files = [p for p in (ROOT / folder).iterdir() if p.is_file() and p.name != "README.md"]
    assert files
    assert not [p.name for p in files if p.stem not in text]


def test_contributing_names_every_folder():
    layout = text_of("CONTRIBUTING.md").split("## Layout")[1].split("##")[0]
    tracked = {p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".")} - {"build"}
    assert not [name for name in sorted(tracked) if f"{name}/" not in layout]


def test_every_product_folder_is_looked_at():
    assert {"libcuda", "rpc/transport", "loader/halves", "loader/stubs", "client/wire", "server/session"} <= set(SOURCES)


@pytest.mark.parametrize("folder", SOURCES)
def test_a_folders_readme_names_its_sources(folder):
    """Its own README, or that of the folder above."""
    own = ROOT / folder / "README.md"
    above = ROOT / folder / ".." / "README.md"
    text = (own if own.exists() else above).read_text(encoding="utf-8")
    named = {n.split("/")[-1] for n in re.findall(r"`([^`\n]+)`", text)}
    sources = {p.name for p in (ROOT / folder).glob("*.c")}
    assert not [s for s in sorted(sources)
                if not any(fnmatch.fnmatch(s, n) or fnmatch.fnmatch(s[:-2], n) for n in named)]


def promised_tests():
    """(file, function) of each test that docs/security.md names for a promise."""
    found = re.findall(r"`(?:(tests/unit)/)?(test_\w+\.(?:py|c))::(\w+)`", text_of("docs/security.md"))
    return [(f"{folder or 'tests/e2e'}/{name}", function) for folder, name, function in found]


def test_each_promise_of_the_security_page_has_a_test():
    named = promised_tests()
    assert len(named) > 15
    missing = [(file, function) for file, function in named
               if not re.search(rf"^(?:def|static void) {function}\(", text_of(file), re.M)]
    assert not missing
