"""Renames pictures by the date on which they were taken."""

import argparse
import datetime as dt
import json
import sys
from collections import defaultdict
from pathlib import Path

SUFFIXES = {".jpg", ".jpeg", ".png", ".heic"}


class Unreadable(Exception):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def taken_at(path: Path) -> dt.datetime:
    try:
        stat = path.stat()
    except OSError as error:
        raise Unreadable(path, str(error)) from error
    return dt.datetime.fromtimestamp(stat.st_mtime)


def plan(folder: Path) -> dict[Path, Path]:
    """Old path to new path; numbers are added where two would collide."""
    seen: dict[str, int] = defaultdict(int)
    renames: dict[Path, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in SUFFIXES:
            continue
        stem = taken_at(path).strftime("%Y-%m-%d_%H-%M-%S")
        seen[stem] += 1
        number = "" if seen[stem] == 1 else f"_{seen[stem]}"
        renames[path] = path.with_name(f"{stem}{number}{path.suffix.lower()}")
    return renames


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    args = parser.parse_args(argv)
    renames = plan(args.folder)
    if args.json:
        print(json.dumps({str(a): str(b) for a, b in renames.items()}, indent=2))
        return 0
    for old, new in renames.items():
        print(f"{old.name} -> {new.name}")
    if input("Rename? [y/N] ").strip().lower() != "y":
        return 1
    for old, new in renames.items():
        old.rename(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
