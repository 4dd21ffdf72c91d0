#!/usr/bin/env python3
"""Compares the ratios ours / theirs of a new run of mscclpp_bench --json with those of a stored one.

Usage: regress.py [--tolerance FRACTION] STORED NEW

One line for each ratio that is worse by more than the tolerance (default 0.1), each result that is wrong or was not
verified and each size of the stored run that the new one lacks. Exit status 0 without any, 1 with some, 2 if the two
cannot be compared.
Ratios and not times, since machines of one kind differ from one another, and both sides of a ratio are of one run.
"""
import argparse
import sys

from results import Unusable, load, size


def keyed(path):
    data = load(path)
    rows = {}
    for result in data["results"]:
        if "ratio" not in result:
            raise Unusable(f"{path}: no ratios; use a file of mscclpp_bench --compare")
        rows[result["type"], result["op"], result["bytes"], result["in_place"]] = result
    return data, rows


def name(key):
    kind, operation, count, in_place = key
    return f"{size(count)} {kind} {operation}, {'in' if in_place else 'out of'} place"


def comparable(stored, new, paths):
    for what in ("mode", "device", "compare"):
        if stored.get(what) != new.get(what):
            raise Unusable(f"{paths[1]}: {what} is {new.get(what)}, but {stored.get(what)} in {paths[0]}")
    if len(stored["ranks"]) != len(new["ranks"]):
        raise Unusable(f"{paths[1]}: {len(new['ranks'])} ranks, but {len(stored['ranks'])} in {paths[0]}")


def regressions(stored, new, tolerance):
    """A line for each."""
    for key, before in stored.items():
        after = new.get(key)
        if after is None:
            yield f"missing: {name(key)}: stored with ratio {before['ratio']:.2f}, not in the new run"
        elif after["ratio"] > before["ratio"] * (1 + tolerance):
            yield (f"regression: {name(key)}: ratio {after['ratio']:.2f}, stored {before['ratio']:.2f} "
                   f"({100 * (after['ratio'] / before['ratio'] - 1):+.0f} %, {100 * tolerance:.0f} % allowed)")
    for key, after in new.items():
        if after["wrong"] is None:
            yield f"not verified: {name(key)}: run with --check 0"
        elif after["wrong"]:
            yield f"wrong: {name(key)}: {after['wrong']} wrong elements"


def fraction(text):
    value = float(text)
    if not 0 <= value < 10:
        raise ValueError(text)
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tolerance", type=fraction, default=0.1, metavar="FRACTION")
    parser.add_argument("stored", metavar="STORED")
    parser.add_argument("new", metavar="NEW")
    options = parser.parse_args()
    try:
        (stored, before), (new, after) = keyed(options.stored), keyed(options.new)
        comparable(stored, new, (options.stored, options.new))
    except Unusable as unusable:
        print(f"regress.py: {unusable}", file=sys.stderr)
        sys.exit(2)
    lines = list(regressions(before, after, options.tolerance))
    for line in lines:
        print(line)
    print(f"regress.py: {len(before)} ratios compared, {len(lines)} problems")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
