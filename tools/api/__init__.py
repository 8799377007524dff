"""The generator behind tools/apigen.py: one module an output."""


def banner(source):
    return f"/* Made by tools/apigen.py from {source}: change those, not this file. */\n"
