#!/usr/bin/env python3
"""tests/e2e/engine.py - podman, as far as podman-compose calls it to bring services up: where no engine can run.

It is called `podman` in a folder of PATH. ENGINE_FOLDER holds the commands that it has got: NAME.image of each image, NAME.container
of each container. An image is the last stage of its Dockerfile, a container a process of this system;
ENGINE_FOLDER/places says which words stand for which: {there: here}.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

FOLDER = pathlib.Path(os.environ["ENGINE_FOLDER"])


def seconds(text):
    """30, 1s, 500ms or 2m as seconds."""
    number, unit = re.fullmatch(r"([\d.]+)(ms|s|m)?", text).groups()
    return float(number) * {"ms": 0.001, "m": 60}.get(unit, 1)


def parser_of_create():
    parser = argparse.ArgumentParser()
    for name in ("--name", "--pod", "--network", "--requires", "--health-cmd", "--health-interval", "--health-retries"):
        parser.add_argument(name)
    for name in ("-e", "--label", "--device", "--security-opt"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def image_of(dockerfile):
    """Environment, entrypoint and command of the last stage of a Dockerfile."""
    image = {}
    for line in pathlib.Path(dockerfile).read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            image = {"env": {}, "entrypoint": [], "command": []}
        elif word == "ENV":
            image["env"].update(pair.split("=", 1) for pair in rest.split())
        elif word in ("ENTRYPOINT", "CMD"):
            image["entrypoint" if word == "ENTRYPOINT" else "command"] = json.loads(rest)
    return image


def record(kind, name, value=None):
    """Reads what is known of an image or a container, or writes it."""
    path = FOLDER / f"{name.replace('/', '_')}.{kind}"
    if value is None:
        return json.loads(path.read_text(encoding="utf-8"))
    return path.write_text(json.dumps(value), encoding="utf-8")


def prepared(container, command):
    """(words, environment) with which a command of a container runs."""
    image = record("image", container["image"])
    env = {**image["env"], **dict(pair.split("=", 1) for pair in container["env"])}
    places = json.loads((FOLDER / "places").read_text(encoding="utf-8"))

    def here(word):
        for there, place in places.items():
            word = word.replace(there, place)
        return word

    return [here(w) for w in command], {**os.environ, **{k: here(v) for k, v in env.items()}}


def build(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("-f", required=True)
    parser.add_argument("-t", required=True)
    parser.add_argument("context")
    told = parser.parse_args(words)
    record("image", told.t, image_of(told.f))


def create(words):
    told = parser_of_create().parse_args(words)
    image = record("image", told.image)
    record("container", told.name, {
        "image": told.image, "env": told.e, "network": told.network, "devices": told.device,
        "command": [*image["entrypoint"], *(told.command or image["command"])],
        "health": json.loads(told.health_cmd or "null"), "interval": told.health_interval, "retries": told.health_retries})


def start(words):
    """In the place of this process, which podman-compose ends when it ends the container."""
    container = record("container", words[-1])
    command, env = prepared(container, container["command"])
    os.execvpe(command[0], command, env)


def wait(words):
    """Until the health check succeeds. A slow machine gets more tries than the container would."""
    container = record("container", words[-1])
    command, env = prepared(container, container["health"])
    for _ in range(10 * int(container["retries"])):
        if subprocess.run(command, env=env, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(seconds(container["interval"]))
    sys.exit(f"engine: {words[-1]} is not healthy")


def main():
    word, *words = sys.argv[1:]
    with open(FOLDER / "calls", "a", encoding="utf-8") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    known = {"build": build, "create": create, "start": start}
    if word == "--version":
        print("podman version 5.4.0")
    elif word == "ps":
        print("[]")
    elif word == "wait" and words[0] == "--condition=healthy":
        wait(words)
    elif word in known:
        known[word](words)
    elif (word, *words[:1]) not in (("pod", "exists"), ("network", "exists")):
        sys.exit(f"engine: {' '.join(sys.argv[1:])}: not known")


if __name__ == "__main__":
    main()
