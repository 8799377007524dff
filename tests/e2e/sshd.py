"""tests/e2e/sshd.py - an sshd of a test's own, on loopback."""
import contextlib
import os
import shutil
import socket
import subprocess

import pytest

from conftest import HANG, wait_until
from ports import free_port


def answers(port):
    """Whether a process accepts connections at the port."""
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def sshd_in(folder, *lines):
    """The ssh command with the options that reach the sshd; the user may log in with a key. LINES are further ones of
    its configuration. Skips the test where there is none."""
    sshd = shutil.which("sshd") or ("/usr/sbin/sshd" if os.path.exists("/usr/sbin/sshd") else None)
    if not sshd or not shutil.which("ssh"):
        pytest.skip("no sshd (Debian: openssh-server)")
    if os.getuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    port = free_port()
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True, timeout=60)
    shutil.copy(folder / "user.pub", folder / "authorized")
    config = folder / "sshd_config"
    config.write_text(f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
                      f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n" + "".join(f"{line}\n" for line in lines))
    with open(folder / "sshd.log", "w", encoding="utf-8") as log:
        daemon = subprocess.Popen([sshd, "-D", "-e", "-f", config], stdout=log, stderr=log)
    try:
        wait_until(lambda: answers(port), 20, "sshd listens")
        yield (f"ssh -F none -p {port} -i {folder}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o "
               f"UserKnownHostsFile=/dev/null -o ExitOnForwardFailure=yes -o LogLevel=ERROR")
    finally:
        daemon.terminate()
        daemon.wait(HANG)
