"""kubernetes/places.py - the places of a server: how many sessions it has room for, and what a container needs for one.

Both come from the command `cricket`: `cricket servers` and `cricket cdi`.
"""
import json
import re
import subprocess

TIMEOUT = 30    # seconds for a command; it has shorter limits of its own


class CommandError(Exception):
    """`cricket` has failed; the text says why."""


def _ask(command, *words):
    """The JSON that a command of `cricket` prints."""
    try:
        done = subprocess.run([command, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(str(error)) from error
    if done.returncode != 0:
        lines = [re.sub("^cricket: ", "", line).strip() for line in done.stderr.splitlines()]
        raise CommandError("; ".join(filter(None, lines)) or f"{command} {words[0]} has ended with status {done.returncode}")
    return json.loads(done.stdout)


class Server:
    """A server, as this node sees it. One thread may call update() while others call the rest."""

    def __init__(self, command, address, limit=None, wait=None):
        """LIMIT: places of this node at most; None: as many as the server admits sessions. WAIT: as in `cricket run --wait`."""
        self.command, self.address, self.limit, self.wait = command, address, limit, wait
        self.offer, self.why = None, "not asked yet"    # its newest answer while it was of use; why it is not now, else empty
        self.given = {}         # GPU -> how often a container got it

    def update(self):
        """Asks the server. Afterwards WHY is empty if it admits sessions."""
        try:
            offers = _ask(self.command, "servers", "--json", "--server", self.address)
            if len(offers) != 1:
                raise CommandError(f"{self.address}: name one server, not {len(offers)}")
            offer = offers[0]
        except CommandError as error:
            self.why = str(error)
            return
        full = 0 < offer.get("max_sessions", 0) <= offer["sessions"]
        # A full server is of use to those that have a place; one that stops, and admits 0 sessions, is not.
        self.why = "" if offer["ok"] and (offer["ready"] or full) else offer.get("why", offer["state"])
        if not self.why:
            self.offer = offer

    def size(self):
        """The number of this node's places, free or not; 0 until the server has answered once."""
        admitted = self.offer["max_sessions"] if self.offer else 0
        return admitted if self.limit is None else min(self.limit, admitted)

    def usable(self, held):
        """How many of them exist now, if containers of this node hold HELD: sessions of other nodes and users take the rest away.

        A container without a session yet is one that will have it, so only as many as there are sessions hold one of those.
        """
        if self.why:
            return 0
        sessions = self.offer["sessions"]
        return max(0, min(self.size(), self.offer["max_sessions"] - sessions + min(held, sessions)))

    def choose_gpus(self, count):
        """The numbers of COUNT GPUs with the fewest programs. CommandError: the server has fewer."""
        gpus = self.offer["gpus"] if self.offer else []
        if count > len(gpus):
            raise CommandError(f"{self.address} has {len(gpus)} GPUs, and {count} are requested")
        gpus = sorted(gpus, key=lambda gpu: (gpu["programs"], self.given.get(gpu["index"], 0), gpu["index"]))
        chosen = sorted(gpu["index"] for gpu in gpus[:count])
        for index in chosen:
            self.given[index] = self.given.get(index, 0) + 1
        return chosen

    def edits(self, count):
        """What a container with COUNT places gets: a dict of variables, and a list of (path in the container, path of the host)."""
        words = ["--devices", ",".join(map(str, self.choose_gpus(count)))] + (["--wait", self.wait] if self.wait else [])
        made = _ask(self.command, "cdi", "--name", "all", "--server", self.address, *words)["devices"][0]["containerEdits"]
        return dict(word.split("=", 1) for word in made["env"]), [(mount["containerPath"], mount["hostPath"]) for mount in made["mounts"]]
