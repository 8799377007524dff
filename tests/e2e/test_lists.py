"""tests/e2e/test_lists.py - sections of the configuration, and variables, whose address stands for several servers."""
import json

import pytest

from conftest import run
from ports import free_port
from test_command import CRICKET, configure, home  # noqa: F401 (a fixture)
from test_discovery import server


@pytest.fixture(name="servers", scope="module")
def fixture_servers(tmp_path_factory):
    """The addresses of one with one GPU, and of one with two."""
    folder = tmp_path_factory.mktemp("lists")
    with server(folder / "a", CRICKET_EMU="devices=1") as a, server(folder / "b", CRICKET_EMU="devices=2") as b:
        yield a.address("tcp"), b.address("tcp")


@pytest.fixture(name="lab")
def fixture_lab(servers, tmp_path, home):  # noqa: F811
    """The environment of commands, with sections for both servers; their addresses."""
    one, two = servers
    (tmp_path / "list").write_text(f"127.0.0.1:{free_port()}\n{two}\n")
    configure(home, f"[pool]\naddress = {one},{two}\n[file]\naddress = file:{tmp_path}/list\n[gone]\naddress = file:{tmp_path}/gone\n")
    return home, one, two


def cricket(env, *words):
    return run([CRICKET, *words], env)


def test_a_choice_of_gpus_is_made_without_a_word(lab):
    """The variable of a program has a second choice, which was once taken for a wrong address."""
    env, one, two = lab
    done = cricket(env, "run", "-s", "pool", "-g", "2", "--", "sh", "-c", "echo $REMOTE_GPU_ADDRESS")
    assert (done.status, done.out, done.err) == (0, f"{two}/0,1|{one}/0\n", "")


def test_commands_in_a_program_are_about_its_first_choice(lab):
    env, one, two = lab
    env = {**env, "REMOTE_GPU_ADDRESS": f"{two}/0,1|{one}/0"}
    for words in (["check"], ["status"], ["store"], ["metrics"], ["reap"]):
        done = cricket(env, *words)
        assert done.status == 0 and done.err == "", (words, done)
    assert json.loads(cricket(env, "check", "--json").out)["server"] == f"{two}/0,1"
    assert [s["address"] for s in json.loads(cricket(env, "servers", "--json", env["REMOTE_GPU_ADDRESS"]).out)] == [two]
    done = cricket(env, "run", "--", "sh", "-c", "echo $REMOTE_GPU_ADDRESS")
    assert (done.status, done.out, done.err) == (0, f"{two}/0,1|{one}/0\n", "")


def test_a_check_looks_at_each_server_of_a_list_and_the_first_of_a_file_that_answers(lab):
    env, one, two = lab

    def connections(name):
        report = json.loads(cricket(env, "check", "--json", name).out)
        assert report["ok"] and report["next"] == f"cricket run -s {name} -- PROGRAM", report
        return [step["text"].split()[0] for step in report["steps"] if step["name"] == "connection"]
    assert connections("pool") == [one, two] and connections("file") == [two]


@pytest.mark.parametrize("words", [["run", "-s", "gone", "true"], ["status", "-s", "gone"], ["servers", "gone"], ["login", "gone"], ["store", "-s", "gone"],
                                   ["put", "gone", "/etc/hostname"], ["reap", "-s", "gone"], ["cdi", "-s", "gone"]])
def test_a_file_without_addresses_is_one_line(lab, tmp_path, words):
    for text in (None, "# nothing\n"):
        if text:
            (tmp_path / "gone").write_text(text)
        done = cricket(lab[0], *words)
        assert done.status != 0 and done.out == "" and done.err.count("\n") == 1, done
        assert f"{tmp_path}/gone" in done.err, done


def test_a_check_says_what_to_do_about_such_a_file(lab, tmp_path):
    report = json.loads(cricket(lab[0], "check", "--json", "gone").out)
    step = report["steps"][-1]
    assert (step["name"], step["ok"]) == ("address", False) and f"file:{tmp_path}/gone: no address in this file: No such file" in step["text"]
    assert "one on each line" in step["advice"]


@pytest.mark.parametrize("words", [["run", "-s"], ["check"], ["status"], ["servers"], ["login"], ["env", "-s"], ["store", "-s"], ["reap", "-s"], ["end", "s1", "-s"]])
def test_devices_behind_the_name_of_a_list_are_explained(lab, words):
    env, one, two = lab
    done = cricket(env, *words, "pool/0", *(["true"] if words[0] == "run" else []))
    assert done.status != 0 and done.out == "", done
    assert done.err == f"cricket: pool/0: [pool] address = {one},{two} is a list: devices are written behind its addresses, as in HOST/0,1\n"


def test_a_command_for_one_server_asks_for_one(lab):
    for words in (["status"], ["top"], ["store", "-s"], ["drain", "-s"], ["end", "s1", "-s"]):
        done = cricket(lab[0], *words, "pool")
        assert done.status == 1 and "several servers: name one of them" in done.err, done
