"""tests/gen/test_bad_tables.py - a bad table is refused, by file and line, and nothing is made."""
import pytest

from helpers import DATA, apigen

# A good row, so that each table is refused for what is wrong with it and for nothing else.
GOOD = " 100 cuGood 2000 call in int number\n"

BAD = {
    "duplicate number": (" 100 cuOther 2000 refuse", 2, "number 100 is taken by cuGood"),
    "duplicate name": (" 101 cuGood 2000 refuse", 2, "cuGood has a row already"),
    "unknown type": (" 101 cuBad 2000 call in CUnothing x", 2, "unknown type 'CUnothing'"),
    "unknown structure": (" 101 cuBad 2000 call in pod CUnothing *x", 2,
                          "unknown pod type 'CUnothing'"),
    "missing direction": (" 101 cuBad 2000 call int x", 2, "missing direction"),
    "missing type": (" 101 cuBad 2000 call in x", 2, "expected direction, type and name"),
    "missing argument": (" 101 cuBad 2000 call in int x,", 2, "missing direction"),
    "unknown body": (" 101 cuBad 2000 post in int x", 2, "unknown body 'post'"),
    "unknown word": (" 101 cuBad 2000 call,sever in int x", 2, "unknown word 'sever'"),
    "quiet, with a reply": (" 101 cuBad 2000 call,quiet in int x", 2, "quiet is for one-way messages"),
    "light, with a reply": (" 101 cuBad 2000 call,light in int x", 2, "light is for one-way messages"),
    "an object that may drain": (" 101 cuBad 2000 call new CUevent *e", 2,
                                 "cuBad creates or destroys an object: drains or nodrains?"),
    "memory that may drain": (" 101 cuMemAllocBad 2000 call out CUdeviceptr *p", 2,
                              "cuMemAllocBad creates or destroys an object: drains or nodrains?"),
    "a message that may drain": (" 10 ck_bad_create - send,both in id thing", 2,
                                 "ck_bad_create creates or destroys an object: drains or nodrains?"),
    "drains, and does not": (" 101 cuBad 2000 call,drains,nodrains new CUevent *e", 2,
                             "neither light nor nodrains"),
    "drains, and is light": (" 101 cuBad 2000 send,light,drains in int x", 2, "neither light nor nodrains"),
    "a word twice": (" 101 cuBad 2000 call,noctx,noctx in int x", 2, "'noctx' stands twice"),
    "a property of no message": (" 101 cuBad 2000 refuse,drains", 2, "drains is for messages"),
    "ahead, without a reply": (" 101 cuBad 2000 send,ahead in int x", 2, "ahead is for calls"),
    "launches, with a reply": (" 101 cuBad 2000 call,launches in int x", 2, "launches is for one-way messages"),
    "recalled, without an answer": (" 101 cuBad 2000 send,recall in int x", 2, "recall is for calls"),
    "recalled by a place that the row has": (" 101 cuBad 2000 cached,recall=2 in int x, out int *y", 2,
                                             "recall=N with a client body by hand"),
    "recalled by a key that only the body knows": (" 101 cuBad 2000 call,client,recall in int x", 2,
                                                   "recall=N with a client body by hand"),
    "recalled by a word behind the key": (" 101 cuBad 2000 call,client,recall=9 in int x", 2, "is word 2 or 3 of a key"),
    "recalled by a word that is none": (" 101 cuBad 2000 call,client,recall=x in int x", 2, "unknown word 'recall=x'"),
    "shares, and is not waited for": (" 101 cuBad 2000 send,shares in int x", 2, "shares is for calls"),
    "one-way without errors": (" 101 cuBad 2000 send,noerr in int x", 2, "noerr is for calls"),
    "one-way with an output": (" 101 cuBad 2000 send out int *x", 2,
                               "cuBad is one-way and cannot have outputs"),
    "cached with two outputs": (" 101 cuBad 2000 cached out int *x, out int *y", 2,
                                "cuBad is cached and needs exactly one output"),
    "cached by an address": (" 101 cuBad 2000 cached in string x, out int *y", 2,
                             "cached calls take numbers and handles only"),
    "cached with none": (" 101 cuBad 2000 cached in int x", 2, "exactly one output"),
    "alias to nowhere": (" 101 cuBad 2000 alias cuNowhere", 2,
                         "cuBad points to cuNowhere, which has no row"),
    "per-thread form of nothing": (" 101 cuBad_ptsz 2000 ptsz cuNowhere", 2, "has no row"),
    "alias without a target": (" 101 cuBad 2000 alias", 2, "cuBad points to nothing"),
    "alias to itself": (" 101 cuBad 2000 alias cuBad", 2, "cuBad points to itself"),
    "aliases in a circle": (" 101 cuBad 2000 alias cuWorse\n 102 cuWorse 2000 alias cuBad", 2,
                            "cuBad points to itself"),
    "alias to a refused call": (" 101 cuBad 2000 alias cuNo\n 102 cuNo 2000 refuse", 2,
                                "cuBad points to cuNo, which cannot be called"),
    "alias to a message": (" 101 cuBad 2000 alias ck_own\n 10 ck_own - call,both in int x", 2,
                           "cuBad points to ck_own, which cannot be called"),
    "bulk not last": (" 10 ck_bad - send,both in bulk data, in int x", 2,
                      "ck_bad: bulk data must be the last argument"),
    "bulk twice": (" 10 ck_bad - call,both in bulk data, out bulk more", 2,
                   "bulk data must be the last argument"),
    "bulk without bodies": (" 101 cuBad 2000 send in bulk data", 2,
                            "cuBad needs bodies by hand on both sides"),
    "message without bodies": (" 10 ck_bad - send,client in int x", 2,
                               "ck_bad needs bodies by hand on both sides"),
    "bytes without a body": (" 101 cuBad 2000 call in bytes data", 2,
                             "'bytes' needs a client body by hand"),
    "object made twice": (" 101 cuBad 2000 cached,nodrains new CUevent *x, out int *y", 2,
                          "cuBad: an object is not made twice: no 'new' in cached"),
    "two objects without a body": (" 101 cuBad 2000 call,nodrains new CUevent *x, del CUstream y", 2,
                                   "cuBad: two objects come or go: a client body by hand"),
    "ids without a body": (" 101 cuBad 2000 call in ids x", 2,
                           "'ids' needs a client body by hand"),
    "number of Cricket's own": (" 99 cuBad 2000 refuse", 2,
                                "numbers below 100 are for ck_ messages"),
    "message with a call's number": (" 101 ck_bad - send,both in int x", 2,
                                     "numbers below 100 are for ck_ messages"),
    "number of the session's set-up": (" 4 ck_bad - send,both in int x", 2,
                                       "numbers below 5 are for the messages of rpc/control.x"),
    "number that is none": (" x cuBad 2000 refuse", 2, "expected: number name since body"),
    "negative number": (" -1 cuBad 2000 refuse", 2, "expected: number name since body"),
    "row without a body": (" 101 cuBad 2000", 2, "expected: number name since body"),
    "version that is none": (" 101 cuBad new refuse", 2, "'new' is no CUDA version"),
    "name of nothing": (" 101 clBad 2000 refuse", 2, "'clBad' is no name of a call"),
    "name that is no word": (" 101 cuBad() 2000 refuse", 2, "'cuBad()' is no name of a call"),
    "output without a pointer": (" 101 cuBad 2000 call out int x", 2, "have one '*'"),
    "input with a pointer": (" 101 cuBad 2000 call in int *x", 2, "have one '*'"),
    "output with two": (" 101 cuBad 2000 call out int **x", 2, "have one '*'"),
    "number as an object": (" 101 cuBad 2000 send,client del int x", 2,
                            "only objects can be new, got or del"),
    "one name twice": (" 101 cuBad 2000 call in int x, out int *x", 2,
                       "'x' names another field of the message"),
    "name of the header": (" 101 cuBad 2000 call in int head", 2, "'head' names another field"),
    "parameters without brackets": (" 101 cuBad 2000 local int x", 2,
                                    "a C parameter list in parentheses is missing"),
    "hand without parameters": (" 101 cuBad 2000 hand", 2, "a C parameter list"),
    "refused without such a reason": (" 101 cuBad 2000 refuse noise", 2, "no line 'reason noise' above"),
    "reason without text": ("reason noise", 2, "expected: reason WORD text"),
    "structure of no header": (" 101 cuBad 2000 call in pod CUnone *x", 2, "declare it in a header that cuda/types.h"),
    "structure that is no pod": (" 101 cuBad 2000 call in CUDA_MEMCPY3D x", 2, "a structure is 'pod CUDA_MEMCPY3D *'"),
    "mistake in a continued line": (" 101 cuBad 2000 call in int x,\n        out int *x", 2, "'x' names another"),
    "refused with arguments": (" 101 cuBad 2000 refuse in int x", 2, "takes no arguments"),
}


def refusal(tmp_path, text):
    """What the generator says to the table, having made nothing."""
    table, out = tmp_path / "bad.api", tmp_path / "out"
    table.write_text(text)
    status, said = apigen(table, "--control", DATA / "control.x", "--out", out)
    assert not out.exists()
    assert status == 1
    assert len(said.splitlines()) == 1, said
    return table, said


@pytest.mark.parametrize("rows, line, why", BAD.values(), ids=[k.replace(" ", "-") for k in BAD])
def test_it_is_refused(tmp_path, rows, line, why):
    table, said = refusal(tmp_path, GOOD + rows + "\n")
    assert said.startswith(f"{table}:{line}: error: "), said
    assert why in said


def test_the_good_row_is_taken(tmp_path):
    table = tmp_path / "good.api"
    table.write_text(GOOD)
    assert apigen(table, "--control", DATA / "control.x", "--out", tmp_path / "out") == (0, "")


def test_a_table_of_nothing_is_refused(tmp_path):
    table, said = refusal(tmp_path, "# nothing\n")
    assert said.startswith(f"{table}:1: error: "), said


def test_lines_are_counted_with_comments_and_blank_ones(tmp_path):
    table, said = refusal(tmp_path, "# one\n\n" + GOOD + "\n 100 cuBad 2000 refuse # five\n")
    assert said.startswith(f"{table}:5: error: number 100 is taken"), said
