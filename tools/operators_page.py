#!/usr/bin/env python3
"""Writes the table of docs/operators.md from what `sardonyx ops --json` prints.

    build/release/tools/sardonyx ops --json | tools/operators_page.py

Everything between the markers of the page is replaced. The column `cuda` says what the build knows: pipe in that of a
build with the CUDA device, or it is left out.
"""

import json
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/operators.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
OWN_DOMAIN = "sardonyx"

# What a kernel declines -> the types it takes.
FLOATS, INTEGERS, BOOL, ANY = "floats", "integers", "bool", "any"
TYPES = {
    "takes float only": [FLOATS],
    "takes float and double only": [FLOATS],
    "takes operands of float and double only": [FLOATS],
    "takes integers only": [INTEGERS],
    "takes int32 and int64 only": [INTEGERS],
    "takes integers of 32 and 64 bits only": [INTEGERS],
    "takes float, double, int8 and uint8 only": [FLOATS, INTEGERS],
    "takes float, double and integers only": [FLOATS, INTEGERS],
    "reduces float, double, int32 and int64 only": [FLOATS, INTEGERS],
    "makes float, double, int16, int32 and int64 only": [FLOATS, INTEGERS],
    "takes float, double, integers and bool only": [FLOATS, INTEGERS, BOOL],
    "takes float, double, integers and booleans only": [FLOATS, INTEGERS, BOOL],
}


def types_of(operator):
    """The types of the operands that carry numbers, by the CPU kernels together."""
    if operator["view"]:
        return ANY
    taken = set()
    for kernel in operator["kernels"]:
        if kernel["device"] == "cpu":
            said = [TYPES[sentence] for sentence in kernel["declines"] if sentence in TYPES]
            taken.update(*said or ([[ANY]] if kernel["speed"] == "reference" else []))
    known = ", ".join(kind for kind in (FLOATS, INTEGERS, BOOL) if kind in taken)
    return ANY if ANY in taken else known or "of its parts"


def gradient_of(operator):
    gradient = operator["gradient"]
    return {"rule": "yes", "standard_form": "yes", "zero": f"zero: {gradient['reason']}",
            "none": f"no: {gradient['reason']}", "missing": "missing"}[gradient["kind"]]


def left_out(operator):
    return "; ".join(f"{port['name']}: {port['no_gradient']}" for port in operator["inputs"] if "no_gradient" in port)


def row_of(operator, cuda):
    name = (operator["domain"] + "::" if operator["domain"] else "") + operator["name"]
    cells = [name, " ".join(map(str, operator["since"])), types_of(operator), gradient_of(operator),
             left_out(operator)]
    if cuda:
        cells.append("yes" if "cuda" in operator["devices"] else "")
    kernels = sorted({kernel["name"] for kernel in operator["kernels"]})
    cells.append(", ".join(kernels) if kernels else "view" if operator["view"] else "read as: " + operator["doc"])
    return "| " + " | ".join(cells) + " |"


def main():
    operators = [operator for operator in json.load(sys.stdin) if operator["domain"] != OWN_DOMAIN]
    cuda = any(kernel["device"] == "cuda" for operator in operators for kernel in operator["kernels"])
    heads = ["operator", "opsets", "types", "gradient", "inputs without one", *(["cuda"] if cuda else []), "kernels"]
    table = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads),
             *(row_of(operator, cuda) for operator in operators)]
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + "\n".join([BEGIN, "", *table, "", END]) + after)
    print(f"{len(operators)} operators in {PAGE.name}")


if __name__ == "__main__":
    main()
