#!/usr/bin/env python3
"""Prints the results of mscclpp_bench --json as Markdown tables. Usage: table.py FILE..."""
import sys

from results import Unusable, bus_factor, coll, describe, has_rival, load, size, title


def verdict(data):
    wrong = sum(result["wrong"] or 0 for result in data["results"])
    unverified = sum(result["wrong"] is None for result in data["results"])
    print(f"\nWrong elements: {wrong}{f', but {unverified} results were not verified' if unverified else ''}\n")


def added_table(data):
    """What calls add to a loop with kernels of an application."""
    rival = data["compare"]
    print(f"{len(data['ranks'])} ranks, {data['ranks'][0]['device_name']}, {data['mode']}, between the calls: "
          f"{describe(data['between'])}, median of {data['rounds']} rounds\n")
    several = any(coll(result) != "allreduce" for result in data["results"])
    heads = (["collective"] if several else []) + ["size", "type", "place", "adds, us"]
    heads += [] if rival == "none" else [f"{rival} adds, us", "difference, us", f"ours / {rival}"]
    print("| " + " | ".join(heads) + " |")
    lead = 4 if several else 3
    print(("|---" if several else "") + "|---:|---|---|" + "---:|" * (len(heads) - lead))
    for result in data["results"]:
        cells = [coll(result)] if several else []
        cells += [size(result["bytes"]), result["type"], "in" if result["in_place"] else "out of",
                 f"{result['added_us']['median']:.1f}"]
        if rival != "none" and not has_rival(result):
            cells += ["", "", ""]
        elif rival != "none":
            cells += [f"{result['rival_added_us']['median']:.1f}", f"{result['difference_us']['median']:.1f}",
                      "" if result["ratio"] is None else f"{result['ratio']:.2f}"]
        print("| " + " | ".join(cells) + " |")
    verdict(data)


# What a file of --compare calls the other side, in a table's head.
RIVALS = {"nccl": "NCCL", "staged": "by hand", "launched": "launched", "copies": "copies", "kernel": "plain kernel",
          "blocking": "blocking"}


def of_place(row, place):
    """The ratio of a row's one place, if it was measured beside another side."""
    return f"{row[place]['ratio']:.2f}" if place in row and has_rival(row[place]) else ""


def rows_of(data, name):
    rival = RIVALS[data["compare"]]
    rows = {}
    for result in data["results"]:
        if coll(result) == name:
            rows.setdefault((result["type"], result["op"], result["bytes"]), {})[result["in_place"]] = result
    print(f"| size | type | ours, us | {rival}, us | ours / {rival} | in place | ours, GB/s | {rival}, GB/s |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for (kind, _, count), row in rows.items():
        result = row.get(False) or row[True]
        place = result["in_place"]
        theirs, rate = "", ""
        if has_rival(result):
            theirs = result["rival_time_us"]["median"]
            rate = f"{count / theirs * 1e-3 * bus_factor(data, result):.1f}"
            theirs = f"{theirs:.1f}"
        print(f"| {size(count)} | {kind} | {result['time_us']['median']:.1f} | {theirs} | {of_place(row, place)} | "
              f"{of_place(row, True)} | {result['busbw']:.1f} | {rate} |")


def table(path):
    data = load(path)
    if "between" in data:
        added_table(data)
        return
    if data.get("compare") not in RIVALS:
        raise Unusable(f"{path}: made without --compare")
    ranks = len(data["ranks"])
    names = list(dict.fromkeys(map(coll, data["results"])))
    beside = f"NCCL {data['nccl_version']}" if data["compare"] == "nccl" else RIVALS[data["compare"]]
    print(f"{ranks} ranks on {ranks} x {data['ranks'][0]['device_name']}, {data['mode']}, "
          f"{beside}, median of {data['rounds']} rounds\n")
    for name in names:
        if names != ["allreduce"]:
            print(f"{'' if name == names[0] else chr(10)}`{name}`, {title(name)}:\n")
        rows_of(data, name)
    verdict(data)


if len(sys.argv) < 2:
    sys.exit(__doc__)
try:
    for name in sys.argv[1:]:
        table(name)
except Unusable as unusable:
    sys.exit(f"table.py: {unusable}")
