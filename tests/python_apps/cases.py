"""tests/python_apps/cases.py - what the programs here share: cases by name, each told in a line."""
import sys
import traceback

CASES = {}


def case(function):
    """A case is a function that raises when something is wrong."""
    CASES[function.__name__] = function
    return function


def main():
    """Runs the cases that the arguments name, or all; 'ok NAME' or 'FAILED NAME' for each."""
    failed = 0
    for name in sys.argv[1:] or CASES:
        try:
            CASES[name]()
            print("ok", name, flush=True)
        except Exception:                       # pylint: disable=broad-exception-caught
            failed += 1
            traceback.print_exc()
            print("FAILED", name, flush=True)
    sys.exit(failed > 0)
