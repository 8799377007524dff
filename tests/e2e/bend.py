"""tests/e2e/bend.py - runs a command, and cuts the connection to it; for test_move.py.

    bend.py COMMAND BYTES WORD      after BYTES towards it (-1: all), or when it says WORD
"""
import os
import subprocess
import sys
import threading

command, count, word = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def cut():
    os._exit(1)


def forward():
    left = count
    while left:
        data = os.read(0, 65536 if left < 0 else min(left, 65536))
        if not data:
            break
        process.stdin.write(data)
        process.stdin.flush()
        left -= len(data) if left > 0 else 0
    if left == 0:
        cut()
    process.stdin.close()


threading.Thread(target=forward, daemon=True).start()
while True:
    said = os.read(process.stdout.fileno(), 65536)
    if word and word in said:
        cut()
    if not said:
        break
    os.write(1, said)
process.wait()
