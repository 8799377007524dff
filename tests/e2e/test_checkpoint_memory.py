"""Device memory of sessions in checkpoints: in a file of its own, with a hash for each piece, and back."""
import json
import os
import subprocess

import pytest

from conftest import DRIVER, wait_until
from holder import PIECE, SIZE, programs_that_hold_memory, save  # noqa: F401
from travel import ctl, servers_with_criu, session_of  # noqa: F401

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="only the emulated GPU")

@pytest.mark.parametrize("kind", ["zero", "equal", "random"])
def test_device_memory_is_in_a_file_of_its_own_and_equal_pieces_are_there_once(servers, hold, tmp_path, kind):
    server, folder = servers("server"), tmp_path / "saved"
    program = hold(server, kind)
    done = save(server, folder)
    assert done.returncode == 0, done.stderr + server.log()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == 2 and len(manifest["file"]["pieces"]) >= SIZE // PIECE
    file = (folder / "memory.bin").stat()
    assert file.st_mode & 0o777 == 0o600
    assert file.st_size in {"zero": range(0, 2 * PIECE), "equal": range(PIECE, 4 * PIECE),
                            "random": range(SIZE, SIZE + 2 * PIECE)}[kind]
    assert sum(image["size"] for image in manifest["images"]) < SIZE       # CRIU has written the rest only
    wait_until(lambda: not server.workers(), 30, "the worker has ended")
    done = ctl(server, "restore", folder)
    assert done.returncode == 0, done.stderr + server.log()
    assert program.same() and program.same()


def damage(file, how):
    if how == "missing":
        file.unlink()
    elif how == "short":
        os.truncate(file, file.stat().st_size - 1)
    elif how == "foreign":
        file.write_bytes(os.urandom(file.stat().st_size))
    else:
        with open(file, "r+b") as f:
            f.seek(SIZE // 2)
            byte = f.read(1)[0]
            f.seek(SIZE // 2)
            f.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("how, why", [("missing", "No such file"), ("short", "does not have"), ("changed", "has changed"),
                                      ("foreign", "has changed")])
def test_a_damaged_file_is_refused_and_no_session_is_there(servers, hold, tmp_path, how, why):
    server, folder = servers("server"), tmp_path / "saved"
    program = hold(server, "random")
    assert save(server, folder).returncode == 0
    file = folder / "memory.bin"
    whole = file.read_bytes()
    damage(file, how)
    done = ctl(server, "restore", folder)
    assert done.returncode == 1 and why in done.stderr, done.stderr + server.log()
    wait_until(lambda: not server.workers(), 30, "nothing of the session is left")
    file.write_bytes(whole)
    done = ctl(server, "restore", folder)
    assert done.returncode == 0, done.stderr + server.log()
    assert program.same()


def test_another_server_takes_the_memory_and_writes_it_again(servers, hold, tmp_path):
    first, second = servers("first"), servers("second")
    program = hold(first, "random")
    for here, there, folder in ((first, second, tmp_path / "saved"), (second, first, tmp_path / "again")):
        done = ctl(here, "checkpoint", session_of(here), folder, there.address("tcp"))
        assert done.returncode == 0, done.stderr + here.log()
        done = ctl(there, "restore", folder)
        assert done.returncode == 0, done.stderr + there.log()
        assert program.same()


@pytest.mark.parametrize("format", [1, 4])
def test_a_checkpoint_without_the_file_is_restored_and_one_of_a_newer_format_refused(servers, hold, tmp_path, format):
    server, folder = servers("server", "--park-memory", "0"), tmp_path / "saved"
    program = hold(server, "random")
    assert save(server, folder).returncode == 0
    manifest = folder / "manifest.json"
    assert json.loads(manifest.read_text())["format"] == 1 and not (folder / "memory.bin").exists()
    manifest.write_text(manifest.read_text().replace('"format": 1', f'"format": {format}'))
    done = ctl(server, "restore", folder)
    if format == 1:
        assert done.returncode == 0, done.stderr + server.log()
        assert program.same()
    else:
        assert done.returncode == 1 and "not a format that this release reads" in done.stderr


# the first has no room for memory.bin, the second none for what CRIU writes then
@pytest.mark.parametrize("room", ["16m", "36m"])
def test_a_full_disk_ends_the_checkpoint_and_not_the_session(servers, hold, tmp_path, room):
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room},mode=700", "none", place]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        server = servers("server")
        program = hold(server, "random")
        done = save(server, place / "saved")
        assert done.returncode == 1 and ("No space left" in done.stderr or room == "36m"), done.stderr
        assert not [path for path in place.iterdir() if path.is_dir()]
        assert program.same() and program.same()
    finally:
        subprocess.run(["umount", "-l", place], check=False)
