#!/usr/bin/env python3
"""Checks the README files: the paths that they name exist, and a folder's README has its five headings.

Usage: check_readmes.py [ROOT]. Prints FILE:LINE: REASON for each violation and exits 1 if there is one.
A path is a word in backticks, or after the heading Read, that holds a slash or ends like a source file;
it may start at the root or at the README's folder and may hold * and {a,b}. Not checked: what stands in
build/ or outside the tree, and patterns with a NAME in capitals. Checks too that docs/limits.md quotes
each entry of tests/known_limits.txt.
"""

import re

from source_files import finish, root_from_arguments, source_files

HEADINGS = ["What", "Flow", "May use", "Read", "Add one"]
HEADING = re.compile(r"[#*\s]*(What|Flow|May use|Read|Add one)\b")
WITHOUT_HEADINGS = ("README.md", "docs/README.md")
FILE = r"[\w*{},-]+\.(?:\{[\w,]+\}|h|cc|cu|cuh|def|py|sh|md|cmake)"
PATH = re.compile(r"[\w.*{},-]+/[\w.*{},/-]*|" + FILE)
PLAIN_PATH = re.compile(r"[\w./-]+/|(?:[\w.-]+/)*" + FILE)  # outside backticks: not and/or
PATTERN_NAME = re.compile(r"(?<![A-Za-z])(?:NAME|LAYER|ROOM|OP|PASS|CASE|DIR|FILE|PRESET)(?![A-Za-z])")


def alternatives(path: str) -> list[str]:
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    before, after = path[: match.start()], path[match.end() :]
    return [full for part in match[1].split(",") for full in alternatives(before + part + after)]


def exists(root, folder, path: str) -> bool:
    return all(
        any(next((root / start).glob(one.rstrip("/")), None) for start in (folder, "."))
        for one in alternatives(path)
    )


def named_paths(lines: list[str]):
    """(line number, path) for each path in backticks or in the section Read."""
    heading = None
    for number, line in enumerate(lines, 1):
        match = HEADING.match(line)
        heading = match[1] if match else None if line.startswith("#") else heading
        words = [word for word in re.findall(r"`([^`\s]+)`", line) if PATH.fullmatch(word)]
        if heading == "Read":
            plain = (word.strip("`.,:") for word in re.findall(r"[^\s();]+", line))
            words += [word for word in plain if PLAIN_PATH.fullmatch(word)]
        for word in dict.fromkeys(words):
            outside = word.startswith(("build/", "../", "/"))
            if not outside and not PATTERN_NAME.search(word):
                yield number, word


def readme_problems(root, file) -> list[str]:
    lines = (root / file).read_text().splitlines()
    problems = [
        f"{file}:{number}: {path} does not exist"
        for number, path in named_paths(lines)
        if not exists(root, file.parent, path)
    ]
    found = [match[1] for match in map(HEADING.match, lines) if match]
    in_order = list(dict.fromkeys(found))
    if file.as_posix() not in WITHOUT_HEADINGS and in_order != HEADINGS:
        problems.append(f"{file}:1: needs the headings {', '.join(HEADINGS)}; found {in_order}")
    return problems


def limit_problems(root) -> list[str]:
    limits = root / "tests/known_limits.txt"
    if not limits.is_file():
        return []
    page = root / "docs/limits.md"
    quoted = page.read_text() if page.is_file() else ""
    return [
        f"tests/known_limits.txt:{number}: docs/limits.md does not quote: {line}"
        for number, line in enumerate(limits.read_text().splitlines(), 1)
        if line.strip() and not line.startswith("#") and line not in quoted
    ]


def main() -> None:
    root = root_from_arguments()
    readmes = [file for file in source_files(root, ".md") if file.name == "README.md"]
    problems = [problem for file in readmes for problem in readme_problems(root, file)]
    finish("check_readmes", problems + limit_problems(root), len(readmes))


if __name__ == "__main__":
    main()
