"""tests/e2e/stock.py - builds docs/examples/client.c with what rpcgen makes of a protocol."""
import shutil
import subprocess

from conftest import HANG, ROOT

EXAMPLES = ROOT / "docs" / "examples"
IMAGE = EXAMPLES / "add_one.ptx"


def flags(what):
    """What pkg-config says of libtirpc."""
    return subprocess.run(["pkg-config", what, "libtirpc"], capture_output=True, text=True, check=True,
                          timeout=HANG).stdout.split()


def build(folder, protocol):
    """The path of the client, of the output of rpcgen as it is."""
    shutil.copy(protocol, folder / "cricket.x")
    subprocess.run(["rpcgen", "cricket.x"], cwd=folder, check=True, timeout=60)
    # Only our file is held to the warnings: rpcgen leaves unused variables behind.
    for source, warnings in ((EXAMPLES / "client.c", ["-Wall", "-Werror"]), ("cricket_clnt.c", ["-w"]),
                             ("cricket_xdr.c", ["-w"])):
        subprocess.run(["cc", *warnings, *flags("--cflags"), "-I.", "-c", source], cwd=folder, check=True,
                       timeout=120)
    subprocess.run(["cc", "client.o", "cricket_clnt.o", "cricket_xdr.o", *flags("--libs"), "-o", "client"],
                   cwd=folder, check=True, timeout=60)
    return folder / "client"


def name_of_image():
    """The hash by which the server knows IMAGE."""
    return subprocess.run(["b2sum", "-l", "256", IMAGE], capture_output=True, text=True, check=True,
                          timeout=HANG).stdout.split()[0]
