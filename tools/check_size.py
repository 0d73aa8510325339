#!/usr/bin/env python3
"""Checks that no source file has more than 700 lines; --report also prints how the tree is doing.

Usage: check_size.py [--report] [ROOT]. Prints FILE:LINE: REASON for each violation and exits 1 if there
is one. The report: lines (median, 95th percentile, maximum), preprocessor conditionals per 1,000 lines
of C++ (#if, #ifdef, #ifndef, #elif; #include and #pragma are not counted), the pairs of folders that
include each other, and what each room of ops/ (a family of operators) costs: files and lines with those
of its tests (tests/ops/ROOM_test.cc, tests/ops/ROOM_*_test.cc).
"""

import collections
import re
import statistics
import sys

from source_files import finish, root_from_arguments, source_files

CAP = 700
CXX = (".h", ".cc", ".cu", ".cuh")
CONDITIONAL = re.compile(r"\s*#\s*(?:if|ifdef|ifndef|elif)\b")
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')


def two_way_pairs(texts: dict) -> list[str]:
    edges = set()
    for file, lines in texts.items():
        for match in filter(None, map(INCLUDE.match, lines)):
            folder, _, name = match[1].rpartition("/")
            if name and folder and folder != file.parent.as_posix():
                edges.add((file.parent.as_posix(), folder))
    return sorted(f"{a} <-> {b}" for a, b in edges if a < b and (b, a) in edges)


def room_of(file, rooms: set) -> str:
    """The room that a file of ops/ROOM/ or a test of it belongs to; "": none."""
    if file.parts[0] == "ops":
        return file.parts[1]
    name = file.name if file.parts[:2] == ("tests", "ops") and len(file.parts) == 3 else ""
    return max((room for room in rooms if name.startswith(f"{room}_")), key=len, default="")


def report_rooms(texts: dict) -> None:
    rooms = {file.parts[1] for file in texts if file.parts[0] == "ops" and len(file.parts) > 2} - {"core"}
    files, lines, of_tests = (collections.Counter() for _ in range(3))
    for file, text in texts.items():
        room = room_of(file, rooms)
        if room not in rooms:
            continue
        files[room] += 1
        (lines if file.parts[0] == "ops" else of_tests)[room] += len(text)
    if not rooms:
        return
    print(f"rooms             {len(rooms)}; a median one {round(statistics.median(files.values()))} files,"
          f" {round(statistics.median(lines[room] for room in rooms))} lines,"
          f" {round(statistics.median(of_tests[room] for room in rooms))} of tests")
    for room in sorted(rooms, key=lambda room: (-lines[room], room)):
        print(f"  {room:<20}{files[room]:>3} files {lines[room]:>5} lines {of_tests[room]:>5} of tests")


def report(texts: dict) -> None:
    by_length = sorted((len(lines), file) for file, lines in texts.items())
    if not by_length:
        return
    last = len(by_length) - 1
    cxx = {file: lines for file, lines in texts.items() if file.suffix in CXX}
    total = sum(map(len, cxx.values()))
    conditionals = sum(bool(CONDITIONAL.match(line)) for lines in cxx.values() for line in lines)
    pairs = two_way_pairs(cxx)
    print(f"files             {len(texts)}, {sum(n for n, _ in by_length)} lines")
    print(f"median            {by_length[last // 2][0]} lines")
    print(f"95th percentile   {by_length[round(last * 0.95)][0]} lines")
    print(f"maximum           {by_length[last][0]} lines ({by_length[last][1]})")
    print(f"#if per 1,000     {1000 * conditionals / max(total, 1):.2f} ({conditionals} in {total})")
    print(f"two-way includes  {len(pairs)}{': ' if pairs else ''}{', '.join(pairs)}")
    report_rooms(texts)


def main() -> None:
    root = root_from_arguments()
    texts = {
        file: (root / file).read_text().splitlines()
        for file in source_files(root, *CXX, ".py", ".sh", ".js", ".css", ".html")
    }
    if "--report" in sys.argv:
        report(texts)
    problems = [
        f"{file}:{len(lines)}: {len(lines)} lines, the cap is {CAP}: find the second subject in it and"
        " give that a file"
        for file, lines in texts.items()
        if len(lines) > CAP
    ]
    finish("check_size", problems, len(texts))


if __name__ == "__main__":
    main()
