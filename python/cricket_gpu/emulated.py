"""An emulated GPU for the running process.

`cricket run -s emu` starts and ends the server. Its program is one that waits for the end of a pipe, which this process
holds: so the server also ends if this process is killed.
"""
import os
import subprocess

import cricket_gpu

HOLD = ("sh", "-c", "env -0; exec cat >/dev/null")      # says what `cricket run` has set, and waits
OF_THE_SHELL = ("_", "OLDPWD", "PWD", "SHLVL")


class Emulated:
    """A server with the emulated GPU, which this process uses, and those that it starts. `address` is the server's."""

    def __init__(self):
        # No file object: the kernel closes this end, after the client has taken leave of the server. Python closes files earlier.
        end, self._hold = os.pipe()
        try:
            self._process = subprocess.Popen([cricket_gpu.program(), "run", "-s", "emu", "--", *HOLD], stdin=end, stdout=subprocess.PIPE)
        except BaseException:
            os.close(self._hold)
            raise
        finally:
            os.close(end)
        try:
            with self._process.stdout as said:
                lines = os.fsdecode(said.read()).split("\0")
            variables = dict(line.split("=", 1) for line in lines if line)
            variables = {name: value for name, value in variables.items() if os.environ.get(name) != value and name not in OF_THE_SHELL}
            if "REMOTE_GPU_ADDRESS" not in variables:
                raise ConnectionError(f"the emulated GPU did not start: `cricket run -s emu` ended with status {self._process.wait()}")
            self.address = cricket_gpu._use(variables, self)
        except BaseException:
            self._end()
            raise

    def _end(self):
        os.close(self._hold)
        self._hold = None
        self._process.wait()

    def close(self):
        """Ends the GPU and undoes the change of this process. If the process has used CUDA, the GPU stays until its end."""
        if self._hold is None:
            return
        if cricket_gpu._connected.get("options") is self:
            try:
                cricket_gpu.disconnect()
            except RuntimeError:
                return
        self._end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
