"""tests/gen/test_wcm_kernels.py - wcm/kernels.ptx is of the present sources."""
import subprocess

from helpers import ROOT


def test_the_kernels_are_of_their_sources():
    result = subprocess.run([ROOT / "tools" / "wcm-kernels", "--check"], capture_output=True, text=True, check=False,
                            timeout=30)
    assert result.returncode == 0, result.stdout + result.stderr
