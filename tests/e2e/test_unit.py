"""tests/e2e/test_unit.py - what `make install` gives systemd: the unit, the server's user and folders."""
import re
import shutil
import subprocess

import pytest

from conftest import KIND, ROOT, clean_env, client_env, run

pytestmark = pytest.mark.skipif(bool(KIND), reason="what has sanitizers is not installed")

MOST = 2.5      # exposure, of 10


@pytest.fixture(name="system", scope="module")
def fixture_system(tmp_path_factory):
    """A root folder with the server in it, and what systemd needs to read the unit."""
    root = tmp_path_factory.mktemp("system")
    installed = run([ROOT / "tools" / "install.sh", "server", "/usr"], clean_env(DESTDIR=str(root)))
    assert installed.status == 0, installed.err
    (root / "etc").mkdir()
    return root


def analyze(*arguments):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          check=False)


def unit_of(system, folder):
    """The unit, in a folder of its own, with a program that this machine has."""
    text = (system / "usr/lib/systemd/system/cricket-rpc-server.service").read_text(encoding="utf-8")
    unit = folder / "cricket-rpc-server.service"
    unit.write_text(text.replace("=/usr/bin/cricket", f"={system}/usr/bin/cricket"), encoding="utf-8")
    return unit


def test_systemd_understands_the_unit(system, tmp_path):
    verified = analyze("verify", "--man=no", unit_of(system, tmp_path))
    complaints = [line for line in verified.stderr.splitlines() if "cricket" in line]
    assert verified.returncode == 0 and not complaints, verified.stderr


def test_a_mistake_in_the_unit_would_be_noticed(system, tmp_path):
    unit = unit_of(system, tmp_path)
    unit.write_text(unit.read_text(encoding="utf-8").replace("ProtectHome=yes", "ProtectHome=perhaps"), encoding="utf-8")
    assert "perhaps" in analyze("verify", "--man=no", unit).stderr


@pytest.mark.parametrize("package", ["debian/cricket-server.examples", "tools/cricket.spec"])
def test_packages_of_the_server_have_the_drop_ins_that_the_manual_names(package):
    manual = (ROOT / "man/cricket-rpc-server.1").read_text(encoding="utf-8").replace("\\-", "-")
    named = set(re.findall(r"^\.I (.*\.conf)$", manual[manual.index(".SH SYSTEMD"):manual.index(".SH EXIT STATUS")], re.M))
    assert {"checkpoint.conf", "worker-users.conf"} <= named
    files = (ROOT / package).read_text(encoding="utf-8")
    assert not [name for name in sorted(named) if (ROOT / "server" / name).exists() and f"server/{name}" not in files]


def with_settings(system, folder, name):
    """The unit with a drop-in."""
    unit = unit_of(system, folder)
    (folder / f"{unit.name}.d").mkdir()
    shutil.copy(system / "usr/share/doc/cricket" / name, folder / f"{unit.name}.d")
    return unit


@pytest.mark.parametrize("name", ["checkpoint.conf", "worker-users.conf"])
def test_further_settings_are_understood(system, tmp_path, name):
    verified = analyze("verify", "--man=no", with_settings(system, tmp_path, name))
    complaints = [line for line in verified.stderr.splitlines() if "cricket" in line or name in line]
    assert verified.returncode == 0 and not complaints, verified.stderr


def exposure(unit):
    result = analyze("security", "--offline=yes", unit)
    if "unrecognized option" in result.stderr:
        pytest.skip("this systemd cannot look at a file")
    return float(re.search(r"exposure level.*: ([\d.]+)", result.stdout)[1])


def test_other_users_for_workers_cost_no_more_than_the_documents_say(system, tmp_path):
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    told = float(re.search(r"`systemd-analyze security`\s+rates\s+the\s+unit\s+([\d.]+)\s+with\s+it", text)[1])
    assert abs(exposure(with_settings(system, tmp_path, "worker-users.conf")) - told) <= 0.3


def test_the_service_is_exposed_no_more_than_the_documents_say(system, tmp_path):
    found = exposure(unit_of(system, tmp_path))
    assert found <= MOST
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    told = float(re.search(r"`systemd-analyze security`\s+rates\s+the\s+unit\s+([\d.]+)\s+\(0 is best", text)[1])
    assert abs(found - told) <= 0.3      # releases of systemd weigh a little differently


def test_the_user_and_the_folders_are_made(system):
    for tool, options in (("systemd-sysusers", []), ("systemd-tmpfiles", ["--create", "--prefix=/etc", "--prefix=/run"])):
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here")
        made = run([tool, f"--root={system}", *options, "cricket.conf"], clean_env())
        assert made.status == 0, made.err
    assert re.search(r"^cricket:.*:/var/lib/cricket:", (system / "etc/passwd").read_text(encoding="utf-8"), re.M)
    assert (system / "etc/cricket").is_dir()
    assert (system / "run/cricket.sock.ctl").readlink().name == "cricket.sock.ctl"


def test_a_program_reaches_the_server_by_the_link(server, app, tmp_path):
    (tmp_path / "cricket.sock").symlink_to(server.unix)
    result = run([app("vector_add")], client_env(f"shm:{tmp_path}/cricket.sock"))
    assert result.status == 0 and "0 wrong" in result.out, result.err
