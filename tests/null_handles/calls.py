#!/usr/bin/env python3
"""tests/null_handles/calls.py API.H - a row for each call that null_handles.c makes, from the generated prototypes.

A row is X(name, "kinds"): p an output or input by pointer, h a handle, s a number.
"""
import re
import sys

# They end the context or the process's state, take long, or change settings that outlive the call.
LEFT_OUT = re.compile(r"cu(Init|CtxCreate|DevicePrimaryCtx(Reset|Release|Retain|SetFlags)|Multicast|Checkpoint|Coredump|Profiler"
                      r"|Logs|GetExportTable|CtxReset|Stream(Wait|Write)Value|DeviceRegister|DeviceUnregister|CtxRecord)\w*")
# Structures and fractions do not travel in the registers of whole numbers.
BY_VALUE = re.compile(r"\b(float|double|CUipcMemHandle|CUipcEventHandle|CUuuid|CUmemLocation)\s+\w+$")
# A handle is a pointer, or a number that stands for an object.
HANDLE = re.compile(r"^CU(context|stream|event|module|function|kernel|library|graph\w*|array|mipmappedArray|texref|surfref|"
                    r"texObject|surfObject|memoryPool|greenCtx|linkState|external\w+|userObject|deviceptr|"
                    r"memGenericAllocationHandle|graphicsResource|devResourceDesc|asyncCallbackHandle|logsCallbackHandle)\b")


def kind(parameter):
    if "*" in parameter or "[" in parameter:
        return "p"
    return "h" if HANDLE.match(parameter.replace("const ", "").strip()) else "s"


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    for name, parameters in sorted(re.findall(r"^CUresult (cu\w+)\((.*)\);$", text, re.M)):
        parts = [] if parameters == "void" else [p.strip() for p in parameters.split(",")]
        if LEFT_OUT.fullmatch(name) or any(BY_VALUE.search(p) and "*" not in p for p in parts) or len(parts) > 14:
            continue
        kinds = "".join(map(kind, parts))
        if "h" in kinds:
            print(f'X({name}, "{kinds}")')


main()
