#!/usr/bin/env python3
"""Checks the law of direction over every #include: tools -> runtime -> passes -> ops -> graph.

Usage: check_layers.py [ROOT]. Prints FILE:LINE: REASON for each violation and exits 1 if there is one.
"""

import re

from source_files import finish, root_from_arguments, source_files

ORDER = ["graph", "ops", "passes", "runtime", "tools"]
LAYERS = ORDER + ["models", "tests"]
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed(layer: str) -> list[str]:
    if layer == "models":
        return ["models", "graph"]
    if layer in ("tools", "tests"):
        return LAYERS if layer == "tests" else ORDER + ["models"]
    return ORDER[: ORDER.index(layer) + 1]


def violation(file, bracket: str, included: str, root) -> str | None:
    """Why `file` must not include `included`, or None."""
    layer, target = file.parts[0], included.split("/")
    if bracket == "<" and (target[0] not in LAYERS or not (root / included).is_file()):
        return None  # a library's header
    if bracket == "<":
        return f"<{included}> is our own header: write it in quotes"
    if target[0] not in LAYERS or not (root / included).is_file():
        return f'"{included}" is not a path from the root'
    if target[0] not in allowed(layer):
        return f"{layer}/ must not include {target[0]}/ ({included})"
    # registry.h only declares the registration functions that every room defines.
    in_room = layer == "ops" and len(file.parts) > 2 and included != "ops/registry.h"
    if in_room and target[0] == "ops" and target[1] not in (file.parts[1], "core"):
        return f"ops/{file.parts[1]}/ may include ops/core/ and graph/, not {included}"
    return None


def main() -> None:
    root = root_from_arguments()
    files = [
        file
        for file in source_files(root, ".h", ".cc", ".cu", ".cuh", ".def", ".inc")
        if file.parts[0] in LAYERS
    ]
    problems = []
    for file in files:
        for number, line in enumerate((root / file).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            reason = match and violation(file, match[1], match[2], root)
            if reason:
                problems.append(f"{file}:{number}: {reason}")
    finish("check_layers", problems, len(files))


if __name__ == "__main__":
    main()
