#!/usr/bin/env python3
"""Checks that no file names a path of one machine or the host of a package registry, and that what walks a plan
knows nothing of what the graph does.

Usage: check_text.py [ROOT]. Prints FILE:LINE: REASON for each violation and exits 1 if there is one.
"""

import re

from source_files import finish, root_from_arguments, source_files

# A slash after a word, a variable or a dot belongs to a relative path (framework/work) and is fine.
MACHINE_PATH = re.compile(r"(?<![\w.~/})-])/(?:work|root|home/\w[\w.-]*)(?![\w-])")
REGISTRY_HOST = re.compile(
    r"\b(?:(?:test\.)?pypi\.org|files\.pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com"
    r"|(?:static\.)?crates\.io|proxy\.golang\.org|repo1?\.maven\.(?:apache\.)?org|rubygems\.org"
    r"|conda\.anaconda\.org|[\w.-]+\.debian\.org/debian\b|archive\.ubuntu\.com)"
)
# That gradients are added up, and in which buckets, is in the graph alone.
GRAPH_MATTERS = re.compile(r"gradient|bucket", re.IGNORECASE)
WALKS_A_PLAN = re.compile(r"runtime/(?:devices/\w*executor\w*|trainer)\.(?:h|cc)")


def violations(file: str, line: str) -> list[str]:
    found = [f"path of one machine: {match[0]}" for match in MACHINE_PATH.finditer(line)]
    found += [f"host of a package registry: {match[0]}" for match in REGISTRY_HOST.finditer(line)]
    if WALKS_A_PLAN.fullmatch(file):
        found += [f"'{match[0]}' is the graph's matter" for match in GRAPH_MATTERS.finditer(line)]
    return found


def main() -> None:
    root = root_from_arguments()
    files = source_files(root)
    problems = []
    for file in files:
        content = (root / file).read_bytes()
        if b"\0" in content:
            continue  # not text
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            problems += [f"{file}:{number}: {reason}" for reason in violations(file.as_posix(), line)]
    finish("check_text", problems, len(files))


if __name__ == "__main__":
    main()
