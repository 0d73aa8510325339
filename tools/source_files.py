"""Which files the checks of tools/check_*.py look at.

In a git checkout: what git tracks or would offer to add (so a new file is checked before its first
commit, and build/ never is). Elsewhere, for example in an unpacked archive: every file outside build/.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def root_from_arguments() -> Path:
    """The tree to check: the last argument that is no option, else the one this script stands in."""
    named = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    return Path(named[-1]).resolve() if named else ROOT


def source_files(root: Path, *suffixes: str) -> list[Path]:
    """Paths relative to `root`, sorted; all files, or those that end in one of `suffixes`."""
    names = None
    if (root / ".git").exists():
        git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(git, capture_output=True, check=False)
        if listing.returncode == 0:
            names = [Path(name) for name in listing.stdout.decode().split("\0") if name]
    if names is None:
        names = [path.relative_to(root) for path in root.rglob("*")]
        names = [name for name in names if name.parts[0] not in (".git", "build")]
    return sorted(
        name
        for name in set(names)
        if (root / name).is_file() and (not suffixes or name.suffix in suffixes)
    )


def finish(check: str, problems: list[str], checked: int) -> None:
    """Prints the problems, one a line, and leaves with 1, or says that all is well and leaves with 0."""
    print("\n".join(problems) if problems else f"{check}: {checked} files, no violation")
    sys.exit(1 if problems else 0)
