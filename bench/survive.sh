#!/bin/bash
# bench/survive.sh - a demonstration: a program trains on the GPU of a server, over tcp, while
#
#   cut         its connections are cut, for CUT_S seconds (20);
#   suspend     its session leaves the GPU, another program takes all memory there, the session comes back;
#   upgrade     the server executes its program anew;
#   checkpoint  its session is written into files, its worker and its server end, and another server restores it.
#
# Each step prints its commands and times. At the end all losses are compared with those of the same program without a
# server, bit for bit; status 0 if they are the same. The program is PyTorch's (bench/training.py) where that is
# installed, else tests/test_apps/bin/training, as always on the emulated GPU (DRIVER=emu, where CUT_S=3 is enough).
#
# Needs what `make && make test-apps` have built, and root on a machine with a GPU (bench/no-gpu.sh). The checkpoint needs
# CRIU and root, and is left out without.
set -eu
cd "$(dirname "$0")/.."
exec python3 bench/survive.py --driver "${DRIVER:-cuda}" --cut "${CUT_S:-20}"
