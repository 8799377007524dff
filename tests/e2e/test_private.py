"""tests/e2e/test_private.py - what one client leaves on the server is not for another.

The strangers here know more than a client would tell them: hashes, numbers, keys' lengths.
"""
import os
import pwd
import pathlib
import random
import re

import pytest

from conftest import Server, client_env, run, wait_until
from stranger import Session, name_of, opaque, u32, u64

INVALID_IMAGE = 200
SECRET = "sesame"


def module_with(constant):
    """PTX with CONSTANT in a variable, and a kernel."""
    values = ",".join(str(byte) for byte in constant)
    return (".version 7.0\n.target sm_75\n.address_size 64\n"
            f".visible .global .align 1 .b8 key[{len(constant)}]={{{values}}};\n"
            ".visible .entry k(){ ret; }\n").encode()


def constant_of(session, module, size):
    """What is in the variable of a module that SESSION has built."""
    err, found = session.ask("ck_global", u64(module) + opaque(b"key"))
    assert err == 0
    err, data = session.ask("ck_download", found[:8] + u64(0) + u64(size) + u32(0))
    assert err == 0
    return data[4:4 + size]


@pytest.fixture
def server(tmp_path):
    s = Server(tmp_path / "server")
    yield s
    s.stop()


@pytest.fixture
def constant():
    return b"private-%016x" % random.getrandbits(64)


def listed(session):
    """Every 32 bytes in the reply to the hello that could name an image."""
    hello = session.hello
    return [hello[at:at + 32] for at in range(0, len(hello) - 31, 4)]


def test_the_reply_to_a_hello_names_no_image_that_can_be_loaded(server, constant):
    """Not even where both are known by the same address."""
    image = module_with(constant)
    owner = Session(server)
    owner.upload(image)
    assert owner.error() == 0
    owner.end()
    server.wait_idle()
    other = Session(server)
    assert name_of(image) not in listed(other)
    assert [other.build(100 + i, name) for i, name in enumerate(listed(other)[-20:])] == [INVALID_IMAGE] * 20
    other.end()


def test_a_hash_loads_nothing_that_another_identity_has_sent(server, constant):
    """The client by the unix socket is this user, the one by TCP an address."""
    image = module_with(constant)
    owner = Session(server, "unix")
    owner.upload(image)
    assert owner.build(100, name_of(image)) == 0
    assert constant_of(owner, 100, len(constant)) == constant
    other = Session(server, "tcp")
    assert other.build(100, name_of(image)) == INVALID_IMAGE
    other.upload(image)     # who has it may use it
    assert other.build(101, name_of(image)) == 0
    owner.end()
    other.end()
    server.wait_idle()
    # and from now on both may, without sending it again; it is there once
    for transport in ("tcp", "unix"):
        again = Session(server, transport)
        assert again.build(100, name_of(image)) == 0
        again.end()
    stored = [p for p in pathlib.Path(server.log_file.parent / "cache").rglob(name_of(image).hex())
              if p.stat().st_blocks]
    assert len(stored) == 1


def test_holders_of_a_token_are_one_identity_after_a_restart_too(tmp_path, constant):
    image = module_with(constant)
    token = tmp_path / "token"
    token.write_text(SECRET + "\n")
    for run_number in range(2):
        s = Server(tmp_path / "server", "--token-file", token)
        client = Session(s, "tcp", SECRET.encode())
        if run_number == 0:
            client.upload(image)
        assert client.build(100, name_of(image)) == 0
        client.end()
        s.stop()
    token.write_text("another\n")
    s = Server(tmp_path / "server", "--token-file", token)
    client = Session(s, "tcp", b"another")
    assert client.build(100, name_of(image)) == INVALID_IMAGE
    client.end()
    s.stop()


def test_a_token_that_the_server_did_not_ask_for_makes_no_identity(server, constant):
    """It could be made up anew for each session, with a share of the cache for each."""
    image = module_with(constant)
    for number in range(2):
        client = Session(server, "tcp", b"made up %d" % number)
        if number == 0:
            client.upload(image)
        assert client.build(100, name_of(image)) == 0
        client.end()
    assert len(os.listdir(server.log_file.parent / "cache" / "owners")) == 1


def test_a_spare_worker_learns_of_the_identity_with_its_client(tmp_path, constant):
    image = module_with(constant)
    s = Server(tmp_path / "server", "--warm", "1", "--log", "debug")
    for number, (transport, expected) in enumerate((("unix", 0), ("tcp", INVALID_IMAGE), ("unix", 0))):
        wait_until(s.spares, 10, "a spare worker")
        client = Session(s, transport)
        if number == 0:
            client.upload(image)
        assert client.build(100, name_of(image)) == expected
        client.end()
        s.wait_idle()
    assert s.log().count("has a client") == 3
    s.stop()


def test_the_log_says_for_whom_a_session_is(server, app):
    for transport in ("unix", "tcp"):
        assert run([app("vector_add")], client_env(server.address(transport))).status == 0
    assert re.findall(r"session of vector_add .*, for (.*)", server.log()) == [
        f"user {pwd.getpwuid(os.getuid()).pw_name}", "address 127.0.0.1"]


@pytest.mark.parametrize("length", [0, 8, 24])      # 24: a ticket's, of nothing
def test_the_reply_to_a_wrong_ticket_has_no_bytes_of_the_worker_s_stack(server, length):
    """They were an address: where the worker's code is."""
    for _ in range(3):
        session = Session(server)
        err, reply = session.ask("ck_ipc_memory_open", opaque(bytes(length)) + u32(0))
        assert err and reply == bytes(len(reply))
        session.end()
