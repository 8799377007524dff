"""The state of a server as a dict that prints as tables, in a terminal and in a notebook."""
import html


def _bytes(value):
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f} {units[0]}" if units[0] != "B" and value < 100 else f"{value:.0f} {units[0]}"


def _time(seconds):
    seconds = int(seconds)
    if seconds >= 86400:
        return f"{seconds // 86400}d{seconds % 86400 // 3600:02}h"
    if seconds >= 3600:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
    return f"{seconds // 60}m{seconds % 60:02}s" if seconds >= 60 else f"{seconds}s"


def _part(value):
    return "-" if value is None else f"{value:.0%}"


GPUS = [("GPU", lambda g: str(g["index"])), ("NAME", lambda g: g["name"]),
        ("MEMORY", lambda g: f"{_bytes(g['used'])} of {_bytes(g['memory'])}"), ("USE", lambda g: _part(g.get("utilization")))]
SESSIONS = [("SESSION", lambda s: s["session"]), ("PROGRAM", lambda s: s["program"]), ("STATE", lambda s: s["state"]),
            ("GPU", lambda s: ",".join(str(g["index"]) for g in s.get("gpus", ())) or "-"),
            ("MEMORY", lambda s: _bytes(s["memory"] + s["host_memory"])), ("AGE", lambda s: _time(s["age"])),
            ("IDENTITY", lambda s: s["identity"]), ("HOST", lambda s: f"{s['host']}:{s['client_pid']}")]
WAITING = [("PLACE", lambda w: str(w["place"])), ("PROGRAM", lambda w: w["program"]), ("WAITS", lambda w: _time(w["age"])),
           ("IDENTITY", lambda w: w["identity"]), ("HOST", lambda w: f"{w['host']}:{w['client_pid']}")]


class Status(dict):
    """A server's reply, as docs/status.md describes it."""

    @classmethod
    def of_offers(cls, offers):
        """What servers tell other hosts: numbers of sessions and their GPUs, but no list of sessions."""
        gpus = [{**gpu, "used": gpu["memory"] - gpu["free"]} for offer in offers for gpu in offer["gpus"]]
        return cls(host=", ".join(offer["address"] or "this host" for offer in offers), release=offers[0]["release"], gpus=gpus,
                   session_count=sum(offer["sessions"] for offer in offers), max_sessions=sum(offer["max_sessions"] for offer in offers),
                   waiting_count=sum(offer["waiting"] for offer in offers))

    def _head(self):
        text = f"{self.get('host', 'cricket-rpc-server')}: {self['session_count']} of {self['max_sessions']} sessions"
        return text + (f", {self['waiting_count']} waiting" if self.get("waiting_count") else "")

    def _tables(self):
        """Heads and rows, of texts, of the tables that are not empty."""
        for columns, rows in ((GPUS, self.get("gpus")), (SESSIONS, self.get("sessions")), (WAITING, self.get("waiting"))):
            if rows:
                yield [name for name, _ in columns], [[text(row) for _, text in columns] for row in rows]

    def __repr__(self):
        lines = [self._head()]
        for head, rows in self._tables():
            widths = [max(map(len, column)) for column in zip(head, *rows)]
            lines += [""] + ["  ".join(f"{text:{width}}" for text, width in zip(row, widths)).rstrip() for row in (head, *rows)]
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self):
        def row(kind, texts):
            return "<tr>" + "".join(f"<{kind} style='text-align: left'>{html.escape(text)}</{kind}>" for text in texts) + "</tr>"
        tables = "".join(f"<table><thead>{row('th', head)}</thead><tbody>{''.join(row('td', texts) for texts in rows)}</tbody></table>"
                         for head, rows in self._tables())
        return f"<p><b>{html.escape(self._head())}</b></p>{tables}"
