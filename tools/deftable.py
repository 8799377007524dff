"""tools/deftable.py - the rows of a C table of macros (*.def), for the documents that are made from it."""
import re


def rows(text, macro):
    """The arguments of each MACRO(...) as texts; adjacent strings are joined."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for row in re.finditer(rf'^{macro}\(((?:"(?:[^"\\]|\\.)*"|\([^()]*\)|[^"()])*)\)', text, re.M):
        fields = [[]]
        for part in re.finditer(r'"((?:[^"\\]|\\.)*)"|(,)|([\w.-]+(?:\([^()]*\))?)', row[1]):
            if part[2]:
                fields.append([])
            else:
                fields[-1].append(part[3] if part[1] is None else part[1].replace('\\"', '"').replace("\\\\", "\\"))
        yield ["".join(f) for f in fields]
