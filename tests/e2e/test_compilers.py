"""tests/e2e/test_compilers.py - `cricket run -s emu` makes NVIDIA's compilers return PTX (compilers/), here with stand-ins for them."""
import subprocess
import sys

import pytest

from conftest import DRIVER, PRODUCTS, command_env, ended, start

pytestmark = pytest.mark.skipif(DRIVER != "emu", reason="starts the emulated GPU itself")

# LTO-IR is "LTO:" and the PTX that it becomes. Machine code is "\x7fELF".
NVJITLINK = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
struct link { int ptx, error; char text[4096]; };
int nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = 13; *minor = 0; return 0; }
int nvJitLinkCreate(void **handle, uint32_t count, const char **options)
{
	struct link *l = *handle = calloc(1, sizeof(*l));
	for (uint32_t i = 0; i < count; i++) {
		l->ptx += strcmp(options[i], "-ptx") == 0;
		l->error |= strcmp(options[i], "-wrong") == 0;
	}
	return l->error;
}
int nvJitLinkDestroy(void **handle) { free(*handle); *handle = NULL; return 0; }
int nvJitLinkAddData(void *handle, int type, const void *data, size_t size, const char *name)
{
	struct link *l = handle;
	if (type == 3 && memcmp(data, "LTO:", 4) == 0)
		memcpy(l->text, (const char *)data + 4, size - 4);
	return type == 3 || !l->ptx ? 0 : 3;
}
int nvJitLinkAddFile(void *handle, int type, const char *path) { return 3; }
int nvJitLinkComplete(void *handle) { return 0; }
int nvJitLinkGetLinkedCubinSize(void *handle, size_t *size) { *size = 4; return ((struct link *)handle)->ptx ? 6 : 0; }
int nvJitLinkGetLinkedCubin(void *handle, char *code) { memcpy(code, "\x7f" "ELF", 4); return 0; }
int nvJitLinkGetLinkedPtxSize(void *handle, size_t *size) { *size = strlen(((struct link *)handle)->text) + 1; return ((struct link *)handle)->ptx != 1; }
int nvJitLinkGetLinkedPtx(void *handle, char *text) { strcpy(text, ((struct link *)handle)->text); return 0; }
"""
NVRTC = r"""
#include <stddef.h>
#include <string.h>
/* a program is a string: the architecture */
int nvrtcGetCUBINSize(const char *program, size_t *size) { *size = strcmp(program, "sm_90") == 0 ? 4 : 0; return 0; }
int nvrtcGetCUBIN(const char *program, char *code) { memcpy(code, "\x7f" "ELF", 4); return 0; }
int nvrtcGetPTXSize(const char *program, size_t *size) { *size = 5; return 0; }
int nvrtcGetPTX(const char *program, char *text) { strcpy(text, "text"); return 0; }
"""
# As cuda-bindings does, it asks for each function in the whole process first.
PROGRAM = r"""
import ctypes, sys
own, there = ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
CUBIN, PTX, LTOIR, FATBIN, OBJECT, LIBRARY, ANY = 1, 2, 3, 4, 5, 6, 10

def function(name):
    return getattr(own, name, None) or getattr(there, name)

def link(options, *inputs, get="Cubin"):
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    words = (ctypes.c_char_p * len(options))(*options)
    results = [function("nvJitLinkCreate")(ctypes.byref(handle), len(options), words)]
    for kind, data in inputs:
        if isinstance(data, str):
            results.append(function("nvJitLinkAddFile")(handle, kind, data.encode()))
        else:
            results.append(function("nvJitLinkAddData")(handle, kind, data, len(data), b"x"))
    results.append(function("nvJitLinkComplete")(handle))
    results.append(function(f"nvJitLinkGetLinked{get}Size")(handle, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value)
    if not any(results):
        results.append(function(f"nvJitLinkGetLinked{get}")(handle, code))
    results.append(function("nvJitLinkDestroy")(ctypes.byref(handle)))
    assert not handle.value
    return results, code.raw

def launched(code):
    "What the kernel k writes."
    module, kernel, memory, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
    assert cuda.cuModuleLoadData(ctypes.byref(module), code) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"k") == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), 4) == 0
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p))
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == 0
    assert cuda.cuMemcpyDtoH_v2(ctypes.byref(out), memory, 4) == 0
    return out.value

HEAD = b".version 8.0\n.target sm_80\n.address_size 64\n"
SEVEN = b".visible .func (.param .b32 r) seven() { st.param.b32 [r], 7; ret; }\n"
KERNEL = HEAD + b'''.extern .func (.param .b32 r) seven();
.visible .entry k(.param .u64 p) { .reg .b64 a; .reg .b32 v; ld.param.u64 a, [p];
 { .param .b32 r; call (r), seven, (); ld.param.b32 v, [r]; } st.global.u32 [a], v; ret; }
'''
ALONE = HEAD + b".visible .entry k(.param .u64 p) { .reg .b64 a; ld.param.u64 a, [p]; st.global.u32 [a], 5; ret; }\n"
ARCH, LTO = b"-arch=sm_90", b"-lto"
"""
JIT = PROGRAM + r"""
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
# no context: one text needs no linker
results, code = link([ARCH], (PTX, ALONE))
assert not any(results) and code == ALONE + b"\0", (results, code)
assert cuda.cuCtxSetCurrent(context) == 0 and launched(code) == 5
assert launched(link([ARCH], (PTX, KERNEL), (PTX, HEAD + SEVEN))[1]) == 7
assert launched(link([ARCH, LTO], (LTOIR, b"LTO:" + ALONE))[1]) == 5
assert launched(link([ARCH, LTO], (PTX, HEAD + SEVEN), (LTOIR, b"LTO:" + KERNEL))[1]) == 7
assert launched(link([ARCH, LTO], (PTX, HEAD + SEVEN), (PTX, KERNEL))[1]) == 7
with open(sys.argv[2], "wb") as file:
    file.write(KERNEL)
assert launched(link([ARCH], (PTX, HEAD + SEVEN), (PTX, sys.argv[2]))[1]) == 7
# what only nvJitLink links: its result, or its error
assert link([ARCH], (CUBIN, b"\x7fELF"))[1] == b"\x7fELF"
assert link([ARCH], (CUBIN, b"\x7fELF"), (PTX, ALONE))[1] == b"\x7fELF"
assert link([ARCH], (ANY, b"\x7fELF"))[1] == b"\x7fELF"
assert 3 in link([ARCH, LTO], (LTOIR, b"LTO:" + ALONE), (CUBIN, b"\x7fELF"))[0]
assert 3 in link([ARCH, LTO])[0]
assert link([b"-wrong"])[0][0] == 1
assert 3 in link([ARCH], (PTX, sys.argv[2] + ".missing"))[0]
# asked for PTX, it does what it did
results, code = link([ARCH, LTO, b"-ptx"], (LTOIR, b"LTO:" + ALONE), get="Ptx")
assert not any(results) and code == ALONE + b"\0", (results, code)
print("right")
"""
RTC = PROGRAM + r"""
size, text = ctypes.c_size_t(), ctypes.create_string_buffer(5)
assert function("nvrtcGetCUBINSize")(b"sm_90", ctypes.byref(size)) == 0 and size.value == 5
assert function("nvrtcGetCUBIN")(b"sm_90", text) == 0 and text.value == b"text"
assert function("nvrtcGetCUBINSize")(b"compute_90", ctypes.byref(size)) == 0 and size.value == 0
print("right")
"""
# Without the library there is an error and no crash.
ABSENT = r"""
import ctypes
own, handle, size = ctypes.CDLL(None), ctypes.c_void_p(1), ctypes.c_size_t()
assert own.nvJitLinkCreate(ctypes.byref(handle), 0, None) == 6
assert [own.nvJitLinkAddData(handle, 2, b"x", 1, b"x"), own.nvJitLinkAddFile(handle, 2, b"x"), own.nvJitLinkComplete(handle)] == [6] * 3
assert own.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)) == own.nvJitLinkGetLinkedCubin(handle, None) == 6
assert own.nvJitLinkDestroy(ctypes.byref(handle)) == 6
assert own.nvrtcGetCUBINSize(handle, ctypes.byref(size)) == own.nvrtcGetCUBIN(handle, None) == 11
print("right")
"""


@pytest.mark.parametrize("library,source,program", [("libnvJitLink.so.13", NVJITLINK, JIT), ("libnvrtc.so.13", NVRTC, RTC),
                                                    ("none", "", ABSENT)])
def test_what_compilers_return_is_ptx(tmp_path, library, source, program):
    (tmp_path / "library.c").write_text(source, encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / library, tmp_path / "library.c"], check=True)
    env = command_env(XDG_CONFIG_HOME=str(tmp_path), XDG_RUNTIME_DIR=str(tmp_path))
    done = ended(start([PRODUCTS / "cricket", "run", "-s", "emu", "--", sys.executable, "-c", program, tmp_path / library,
                        tmp_path / "kernel.ptx"], env), 60)
    assert (done.status, done.out) == (0, "right\n"), done.out + done.err
