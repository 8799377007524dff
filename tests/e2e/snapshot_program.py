"""tests/e2e/snapshot_program.py - a program that is written into files when it is ready, and then asks each copy for a number.

    python3 snapshot_program.py READY-FILE [KIND]        with a client preloaded

KIND: `child` has a child process with a session of its own; `managed` uses managed memory; `listens` has a network socket;
`plain` makes no CUDA call before the copy. The number is read from standard input; the sum that is printed depends on device
memory of before and on the number, and is made by a new thread.
"""
import ctypes
import os
import pathlib
import socket
import sys
import threading

ready, kind = pathlib.Path(sys.argv[1]), (sys.argv[2:] or [""])[0]
cuda = ctypes.CDLL(None)
WORDS = 1 << 18


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name}: error {result}")


class Numbers:
    """Device memory that is full of one number."""

    def __init__(self, number):
        self.context, self.memory = ctypes.c_void_p(), ctypes.c_uint64()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        call("cuCtxSetCurrent", self.context)
        if kind == "managed":
            call("cuMemAllocManaged", ctypes.byref(self.memory), ctypes.c_size_t(4 * WORDS), ctypes.c_uint(1))
        else:
            call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(4 * WORDS))
        call("cuMemsetD32_v2", self.memory, ctypes.c_uint(number), ctypes.c_size_t(WORDS))

    def sum_with(self, number):
        """After one word has been replaced."""
        found, words = [], (ctypes.c_uint32 * WORDS)()

        def work():
            call("cuCtxSetCurrent", self.context)
            call("cuMemsetD32_v2", self.memory, ctypes.c_uint(number), ctypes.c_size_t(1))
            call("cuMemcpyDtoH_v2", words, self.memory, ctypes.c_size_t(4 * WORDS))
            found.append(sum(words))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0] if found else sys.exit("the thread has failed")


def serve_child(question, answer):
    numbers = Numbers(5)
    answer.write("ready\n")
    answer.flush()
    answer.write(f"{numbers.sum_with(int(question.readline()))}\n")
    answer.flush()
    os._exit(0)


def start_child():
    asks, answers = os.pipe(), os.pipe()
    if os.fork() == 0:
        serve_child(os.fdopen(asks[0]), os.fdopen(answers[1], "w"))
    answer = os.fdopen(answers[0])
    assert answer.readline() == "ready\n"
    return os.fdopen(asks[1], "w"), answer


child = start_child() if kind == "child" else None
numbers = None if kind == "plain" else Numbers(7)
if kind == "listens":
    listener = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
ready.write_text("")
number = int(sys.stdin.readline())
print("sum", numbers.sum_with(number), "process", os.getpid(), flush=True)
if child:
    child[0].write(f"{number}\n")
    child[0].flush()
    print("child", child[1].readline().strip(), flush=True)
sys.stdin.read()
print("end", flush=True)
