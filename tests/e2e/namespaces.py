"""tests/e2e/namespaces.py - a machine of a test's own: its mounts, its network, and its processes, where the kernel permits that."""
import functools
import os
import subprocess
import sys

FLAGS = ["-mnp", "--fork", "--kill-child", "--mount-proc"]
# Sets the loopback interface up, also where there is no ip(8): SIOCSIFFLAGS, up and running.
LOOPBACK = 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))'


@functools.cache
def missing():
    """Why there is no such machine; empty: there can be one."""
    try:
        done = subprocess.run([*command(), "true"], capture_output=True, text=True, check=False, timeout=60)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def command(script="exec \"$@\""):
    """The first words of a command that is to run there after SCRIPT, which runs it by "$@"."""
    flags = FLAGS if os.geteuid() == 0 else ["-r", *FLAGS]
    return ["unshare", *flags, "sh", "-ec", f"{sys.executable} -c '{LOOPBACK}'\n{script}", "sh"]
