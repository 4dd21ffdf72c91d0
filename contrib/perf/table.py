#!/usr/bin/env python3
"""Prints the results of mscclpp_bench --json as Markdown tables. Usage: table.py FILE..."""
import sys

from results import Unusable, bus_factor, collective_of, describe, has_rival, load, size_text, title


def print_wrong(data):
    """Prints how many elements were wrong, and how many results were not verified."""
    wrong = sum(result["wrong"] or 0 for result in data["results"])
    unverified = sum(result["wrong"] is None for result in data["results"])
    print(f"\nWrong elements: {wrong}{f', but {unverified} results were not verified' if unverified else ''}\n")


def print_added(data):
    """Prints the table of a file of --between: the time that calls add to a loop with kernels of an application.

    The column of collectives is left out if all rows are all-reduces. Cells of the other side are empty if it does not
    have the collective.
    """
    rival = data["compare"]
    print(f"{len(data['ranks'])} ranks, {data['ranks'][0]['device_name']}, {data['mode']}, between the calls: "
          f"{describe(data['between'])}, median of {data['rounds']} rounds\n")
    has_several = any(collective_of(result) != "allreduce" for result in data["results"])
    heads = (["collective"] if has_several else []) + ["size", "type", "place", "adds, us"]
    heads += [] if rival == "none" else [f"{rival} adds, us", "difference, us", f"ours / {rival}"]
    print("| " + " | ".join(heads) + " |")
    left_columns = 4 if has_several else 3
    print(("|---" if has_several else "") + "|---:|---|---|" + "---:|" * (len(heads) - left_columns))
    for result in data["results"]:
        cells = [collective_of(result)] if has_several else []
        cells += [size_text(result["bytes"]), result["type"], "in" if result["in_place"] else "out of",
                 f"{result['added_us']['median']:.1f}"]
        if rival != "none" and not has_rival(result):
            cells += ["", "", ""]
        elif rival != "none":
            cells += [f"{result['rival_added_us']['median']:.1f}", f"{result['difference_us']['median']:.1f}",
                      "" if result["ratio"] is None else f"{result['ratio']:.2f}"]
        print("| " + " | ".join(cells) + " |")
    print_wrong(data)


# The name of the other side of --compare in the head of a table.
RIVALS = {"nccl": "NCCL", "staged": "by hand", "launched": "launched", "copies": "copies", "kernel": "plain kernel",
          "blocking": "blocking", "native": "native"}


def place_ratio(row, place):
    """Returns the ratio of a row in one place, or "" if there is none."""
    return f"{row[place]['ratio']:.2f}" if place in row and has_rival(row[place]) else ""


def print_collective(data, name):
    """Prints the table of one collective: a line for each type, operation and size.

    The times are those out of place if there are any, and otherwise those in place. The ratio in place has a separate
    column. Cells that the other side did not measure are empty.
    """
    rival = RIVALS[data["compare"]]
    rows = {}
    for result in data["results"]:
        if collective_of(result) == name:
            rows.setdefault((result["type"], result["op"], result["bytes"]), {})[result["in_place"]] = result
    print(f"| size | type | ours, us | {rival}, us | ours / {rival} | in place | ours, GB/s | {rival}, GB/s |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for (kind, _, count), row in rows.items():
        result = row.get(False) or row[True]
        place = result["in_place"]
        rival_time, rival_rate = "", ""
        if has_rival(result):
            rival_time = result["rival_time_us"]["median"]
            rival_rate = f"{count / rival_time * 1e-3 * bus_factor(data, result):.1f}"
            rival_time = f"{rival_time:.1f}"
        print(f"| {size_text(count)} | {kind} | {result['time_us']['median']:.1f} | {rival_time} | "
              f"{place_ratio(row, place)} | {place_ratio(row, True)} | {result['busbw']:.1f} | {rival_rate} |")


def print_file(path):
    """Prints the tables of a file. Raises Unusable if the file was made with neither --compare nor --between."""
    data = load(path)
    if "between" in data:
        print_added(data)
        return
    if data.get("compare") not in RIVALS:
        raise Unusable(f"{path}: made without --compare")
    ranks = len(data["ranks"])
    names = list(dict.fromkeys(map(collective_of, data["results"])))
    beside = f"NCCL {data['nccl_version']}" if data["compare"] == "nccl" else RIVALS[data["compare"]]
    print(f"{ranks} ranks on {ranks} x {data['ranks'][0]['device_name']}, {data['mode']}, "
          f"{beside}, median of {data['rounds']} rounds\n")
    for name in names:
        if names != ["allreduce"]:
            print(f"{'' if name == names[0] else chr(10)}`{name}`, {title(name)}:\n")
        print_collective(data, name)
    print_wrong(data)


if len(sys.argv) < 2:
    sys.exit(__doc__)
try:
    for name in sys.argv[1:]:
        print_file(name)
except Unusable as unusable:
    sys.exit(f"table.py: {unusable}")
