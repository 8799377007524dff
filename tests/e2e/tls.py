"""tests/e2e/tls.py - keys, certificates and authorities for tests, and what stands in the middle of a connection."""
import contextlib
import functools
import socket
import ssl
import subprocess
import threading

PROBE = bytes.fromhex("80000028" "00000001" "00000000" "00000002" "00000063" "00000001" "00000000"
                      "00000007" "00000000" "00000000" "00000000")


@functools.cache
def first_message():
    """The whole first record of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def hello_to(port):
    """A connection to PORT of this host, with that record."""
    s = socket.create_connection(("127.0.0.1", port), 100)     # as HANG in conftest.py, which needs pytest; bench/ does without
    s.sendall(first_message())
    return s


def trusting():
    """A client's context that speaks Cricket's protocol and trusts everyone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["sunrpc"])
    return context


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


class Authority:
    """An authority with a folder; it signs certificates for servers and clients."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.ca, self.key = folder, folder / "ca.pem", folder / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                "-out", self.ca, "-days", 30, "-subj", "/CN=authority of a test")

    def sign(self, name, subject=None, names="DNS:localhost,IP:127.0.0.1", days=30, use="serverAuth"):
        """A certificate and a key: two files."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, more = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        subject = f"/CN={name}" if subject is None else subject
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
                "-subj", subject or "/")
        more.write_text(f"extendedKeyUsage={use}\n" + (f"subjectAltName={names}\n" if names else ""))
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial", "-out", cert,
                "-days", days, "-extfile", more)
        key.chmod(0o600)
        return cert, key


class Middle:
    """Passes connections on to PORT, and has CHANGE(data, to_server, total) make of each piece what it likes. All that
    has passed is in `seen`."""

    def __init__(self, port, change=None):
        self.to, self.change, self.seen = ("127.0.0.1", port), change, bytearray()
        self.total = {True: 0, False: 0}
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.to)
            except OSError:
                return
            for s, other, to_server in ((near, far, True), (far, near, False)):
                threading.Thread(target=self.pass_on, args=(s, other, to_server), daemon=True).start()

    def pass_on(self, s, other, to_server):
        try:
            while data := s.recv(1 << 16):
                with self.lock:
                    self.seen += data
                    before = self.total[to_server]
                    self.total[to_server] += len(data)
                    if self.change:
                        data = self.change(data, to_server, before)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            for x in (s, other):
                try:
                    x.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def stop(self):
        self.listener.close()
