"""tests/e2e/test_walk.py - the commands of the documents: every option is one of the program's, and what a stranger types first works as it is written."""
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from conftest import PRODUCTS, ROOT, SAN, SLOW, TSAN, clean_env, run
from namespaces import command, missing
from test_docs import DOCUMENTS, HISTORY, MANUALS, code_of, relative
from test_recipes import COUNT

# --- options

PROGRAMS = ("cricket", "cricket-rpc-server", "cricket-exporter", "gpu_launcher", "m3", "m3-server")
END = {"&&", "||", "|", "&", ";", ">", "2>", "<", "#", "--"}


def words_of(line):
    """The words of a command line, as a shell has them; none if it is no command."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        return []


def examples_of(page):
    """The lines of a man page that are not filled."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\-", "-")
    return [line for block in re.findall(r"^\.(?:nf|EX)\n(.*?)^\.(?:fi|EE)", text, re.M | re.S) for line in block.splitlines()]


def commands_in(document):
    """(program, its words) of each command in the code of a document."""
    for code in code_of(document) if document.endswith(".md") else examples_of(document):
        words = words_of(code.strip().rstrip("\\").removeprefix("$ "))
        for i, word in enumerate(words):
            name = word.rsplit("/", 1)[-1]
            first = i == 0 or words[i - 1] in END or "=" in words[i - 1] or words[i - 1] in ("sudo", "timeout")
            if name in PROGRAMS and first:
                rest = words[i + 1:]
                yield name, rest[:next((j for j, w in enumerate(rest) if w in END), len(rest))]


def help_of(program, *words):
    done = run([PRODUCTS / program, *words, "--help"], clean_env())
    return done.out if done.status == 0 else ""


@pytest.fixture(name="helps", scope="module")
def fixture_helps():
    """The help of each program, and of each command of `cricket`."""
    helps = {(name,): help_of(name) for name in PROGRAMS}
    names = re.findall(r"^  ([a-z]+) +[A-Z]", helps[("cricket",)], re.M)
    helps.update({("cricket", name): help_of("cricket", name) for name in names})
    return helps


@pytest.mark.skipif(bool(SAN or TSAN), reason="not all programs are built with a sanitizer")
def test_documented_commands_have_options_that_their_program_knows(helps):
    commands = [(d, *c) for d in relative([*DOCUMENTS, *MANUALS]) if not d.startswith(HISTORY) for c in commands_in(d)]
    assert len(commands) > 300
    lost = []
    for document, program, words in commands:
        key = (program,)
        if program == "cricket" and words and re.fullmatch("[a-z]+", words[0]) and words[0] != "help":
            key, words = ("cricket", words[0]), words[1:]
        text = helps.get(key, "")
        options = [word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
        if key[-1] in ("docker", "podman") and "run" in words:
            options = [o for o in options if o in words[:words.index("run")]]
        lost += [(document, " ".join(key), option) for option in options or [""]
                 if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])" if option else ".", text) and option not in ("--help", "--version", "-V")]
    assert not lost


def test_documented_commands_of_ctl_are_there():
    listed = run([PRODUCTS / "cricket-rpc-server", "--ctl"], clean_env()).err
    known = {name: (len(re.findall(r"(?<!\[)\b[a-z]+(?!\])\b", rest)), len(rest.split()))
             for name, rest in re.findall(r"^  --ctl (\w+) ?(.*)$", listed, re.M)}
    assert known["suspend"] == (1, 2) and known["sessions"] == (0, 0)
    given = [(d, words[words.index("--ctl") + 1:]) for d in relative(DOCUMENTS) if not d.startswith(HISTORY) for _, words in commands_in(d) if "--ctl" in words]
    assert len(given) > 10
    alone = {tuple(words) for _, words in given if len(words) == 1}      # in a sentence, which has no arguments
    assert not [(d, words) for d, words in given if words and words[0] not in known and words != ["COMMAND"]]
    assert not [(d, words) for d, words in given if words and words[0] in known and tuple(words) not in alone
                and not known[words[0]][0] <= len(words) - 1 <= known[words[0]][1]]


# --- a walk on a machine of its own, where the names of the documents are hosts: gpuhost, with TLS and a token, and gpu1 and gpu2, without

TRAIN = "import sys; sys.argv[1:] = []\n" + COUNT.split("\n", 1)[1]
HOSTS = "127.0.0.1 localhost\n127.0.0.2 gpuhost\n127.0.0.3 gpu1\n127.0.0.4 gpu2\n"
SAXPY = r"""
extern "C" __global__ void saxpyKernel(int n, float a, const float *x, const float *y, float *r)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) r[i] = a * x[i] + y[i]; }
"""
# Not run: what needs a real GPU, a package, a network, a place outside of the test's folder, or the line before in the same shell.
NOT_RUN = re.compile(r"srv:|file:/etc|nvidia-smi|^pip |^man |^mpirun |^make |^\$ make|pytorch|^\./matmul$")

# The lines that a stranger types first, in the order of the documents: what to expect of each that does not only succeed.
WALK = (
    ("docs/using.md", "A first program, by hand", {"vector_add": "vector_add: 50000 elements, 0 wrong", "sed": r"\d+ calls answered locally"}),
    ("README.md", "Use the GPU of another machine", {}),
    ("docs/using.md", "The command `cricket`", {"run -s gpuhost --": "^0 0 2$", "-d 1": "^0 0 1$", "run -s emu": "^0 0 [12]$", "eval": "^0 0 2$", "-f plain": "^$", "check gpuhost": "next: cricket run",
                                                "servers gpu1": "gpu2 +ready", "--gpus 2": "^0 0 2$"}),
    ("docs/using.md", "Two ways to load the client", {"./program": "^0 0 2$"}),
    ("docs/using.md", "A server on another machine", {"run -s gpuhost": "^0 0 2$"}),
    ("docs/using.md", "A kernel from a file, a pipe, another language", {"saxpy.cu": r'"R":\[3.5,6.0,8.5\]'}),
    ("docs/using.md", "Memory shared by name: M3", {"m3 alloc": "hello", "m3 stat": "weights", "m3_weights": "their sum is"}),
    ("docs/recipes.md", "VS Code and other IDEs", {}),
    ("docs/recipes.md", "Watch a server", {"metrics": "cricket_up 1"}),
    ("docs/emulator.md", "", {"./program": "^0 0 2$"}),
    ("man/cricket-client.7", "EXAMPLES", {"./matmul": "^0 0 2$", "train.py": "^0 0 1$"}),
    ("docs/metrics.md", "", {"curl": "cricket_up 1"}),
)


def lines_of(document, title):
    """The commands of a section, one of several lines as one; in what a terminal shows, those behind a $."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if document.startswith("man/"):
        return [line.removeprefix("$ ") for line in examples_of(document)]
    head = rf"^## {re.escape(title)}\n" if title else r"^"
    section = re.search(rf"{head}(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    section = re.sub(r"\|\n +(?=\S)", "| ", section)
    found = [line.strip() for line in re.findall(r"^(?:    |\$ ).*$", section, re.M)]
    shown = [line[2:] for line in found if line.startswith("$ ")]
    return [re.split(r"  +#", line)[0].strip() for line in shown or found]


def is_command(line):
    return re.match(r'(?:\w+=\S+ )*(?:[\w./-]*(?:cricket\S*|m3|gpu_launcher)|\(umask|eval|echo|curl|\./program|\./matmul|tests/\S+|sed) ?', line) is not None


@pytest.fixture(name="place")
def fixture_place(tmp_path):
    """A home with the build in it, and ./program and train.py."""
    for name, folder in (("cpu", PRODUCTS), ("tests", ROOT / "tests")):
        (tmp_path / name).symlink_to(folder)
    (tmp_path / "program").write_text(COUNT.format(python="/usr/bin/env python3"))
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "matmul").symlink_to("program")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    (tmp_path / "hosts").write_text(HOSTS)
    (tmp_path / "run").mkdir(mode=0o700)
    env = clean_env(HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path / "run"), XDG_CONFIG_HOME="", CRICKET_EMU="devices=2,memory=48G")
    env["PATH"] = f"{PRODUCTS}:{env['PATH']}"
    return tmp_path, env


def typed(line):
    """LINE as the test's shell gets it, with its number for the report."""
    if line.endswith("&"):
        ready = {"cricket-rpc-server": "until cricket status >/dev/null 2>&1; do sleep 0.1; done",
                 "cricket-exporter": "until (exec 3<>/dev/tcp/127.0.0.1/9400) 2>/dev/null; do sleep 0.1; done"}
        return f"{line[:-1]} >server.log 2>&1 & {ready[next(name for name in ready if name in line)]}"
    if "--setup gpuhost" in line:
        # what it prints is done as it says: the server is started, the line for the client is taken
        return (f'[ -e setup ] || {{ {line} >setup && eval "$(sed -n \'/Start the server/,/^$/d; s/^ *\\(.*--listen.*\\)/\\1/p\' setup '
                '| sed s/0.0.0.0/127.0.0.2/) --unix $HOME/run/far.sock >far.log 2>&1 &"; until cricket status -s unix:$HOME/run/far.sock >/dev/null 2>&1; do sleep 0.1; done; }')
    if "login gpuhost#" in line:
        return re.sub(r"gpuhost#\S+", "$(grep -o 'gpuhost#sha256:[0-9a-f]*' setup)", f"sed -n 's/^ *token: //p' setup | {line}")
    if "REMOTE_GPU_ADDRESS=gpuhost" in line:
        return line.replace("gpuhost", "gpu1")      # variables alone have neither key nor token
    if line.startswith("eval "):
        return f"( {line}; ./program )"
    if line.startswith("LD_LIBRARY_PATH=/usr/local"):
        return line.replace("/usr/local/lib/cricket/lib", "cpu/lib")
    if "--watch" in line:
        return f"timeout 2 {line}; [ $? = 124 ]"
    return line


@pytest.mark.skipif(bool(SAN or TSAN), reason="programs find the build without the sanitizer's library")
@pytest.mark.skipif(missing() != "", reason=missing())
def test_what_a_stranger_types_first_works_as_it_is_written(place):
    folder, env = place
    steps = [(document, line, expected) for document, title, expected in WALK for line in lines_of(document, title)
             if is_command(line) and not NOT_RUN.search(line) and (line[:5] != "curl " or shutil.which("curl"))]
    others = " ".join(f"--listen {address}" for address in ("127.0.0.3", "127.0.0.4"))
    script = [f"cd {folder}", f"cricket-rpc-server --driver emu {others} --unix $HOME/run/others.sock >others.log 2>&1 &",
              "until cricket status -s unix:$HOME/run/others.sock >/dev/null 2>&1; do sleep 0.1; done"]
    for i, (_, line, _) in enumerate(steps):
        script.append(f"{{ {typed(line)}\n}} >out.{i} 2>&1; echo $? >status.{i}")
    # a bare system may have no /etc/hosts to mount over
    hosts = (f"[ -e /etc/hosts ] || {{ cp -r /etc {folder}/etc 2>/dev/null || true; : >{folder}/etc/hosts; mount --bind {folder}/etc /etc; }}\n"
             f"mount --bind {folder}/hosts /etc/hosts")
    done = subprocess.run([*command(f'{hosts}\nexec "$@"'), "bash", "-c", "\n".join(script)], env=env,
                          capture_output=True, text=True, timeout=240 * SLOW, check=False)
    wrong = []
    for i, (document, line, expected) in enumerate(steps):
        out = pathlib.Path(folder / f"out.{i}").read_text(encoding="utf-8") if (folder / f"out.{i}").exists() else done.stderr
        status = (folder / f"status.{i}").read_text(encoding="utf-8").strip() if (folder / f"status.{i}").exists() else "none"
        wanted = next((text for part, text in expected.items() if part in line), "")
        if '"code":"NO_COMPILER"' in out:       # as on a system without NVRTC and nvcc
            continue
        if status != "0" or not re.search(wanted, out, re.M):
            wrong.append((document, line, status, out))
    assert not wrong and len(steps) > 25
