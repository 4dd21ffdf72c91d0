#!/usr/bin/env python3
"""Prints the results of mscclpp_bench --json as Markdown tables. Usage: table.py FILE..."""
import sys

from results import Unusable, bus_factor, describe, load, size


def verdict(data):
    wrong = sum(result["wrong"] or 0 for result in data["results"])
    unverified = sum(result["wrong"] is None for result in data["results"])
    print(f"\nWrong elements: {wrong}{f', but {unverified} results were not verified' if unverified else ''}\n")


def added_table(data):
    """What calls add to a loop with kernels of an application."""
    rival = data["compare"]
    print(f"{len(data['ranks'])} ranks, {data['ranks'][0]['device_name']}, {data['mode']}, between the calls: "
          f"{describe(data['between'])}, median of {data['rounds']} rounds\n")
    heads = ["size", "type", "place", "adds, us"]
    heads += [] if rival == "none" else [f"{rival} adds, us", "difference, us", f"ours / {rival}"]
    print("| " + " | ".join(heads) + " |")
    print("|---:|---|---|" + "---:|" * (len(heads) - 3))
    for result in data["results"]:
        cells = [size(result["bytes"]), result["type"], "in" if result["in_place"] else "out of",
                 f"{result['added_us']['median']:.1f}"]
        if rival != "none":
            cells += [f"{result['rival_added_us']['median']:.1f}", f"{result['difference_us']['median']:.1f}",
                      "" if result["ratio"] is None else f"{result['ratio']:.2f}"]
        print("| " + " | ".join(cells) + " |")
    verdict(data)


def table(path):
    data = load(path)
    if "between" in data:
        added_table(data)
        return
    if data.get("compare") != "nccl":
        raise Unusable(f"{path}: made without --compare nccl")
    ranks = len(data["ranks"])
    rows = {}
    for result in data["results"]:
        rows.setdefault((result["type"], result["op"], result["bytes"]), {})[result["in_place"]] = result
    print(f"{ranks} ranks on {ranks} x {data['ranks'][0]['device_name']}, {data['mode']}, "
          f"NCCL {data['nccl_version']}, median of {data['rounds']} rounds\n")
    print("| size | type | ours, us | NCCL, us | ours / NCCL | in place | ours, GB/s | NCCL, GB/s |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for (kind, _, count), row in rows.items():
        result = row.get(False) or row[True]
        rival = result["rival_time_us"]["median"]
        in_place = f"{row[True]['ratio']:.2f}" if True in row else ""
        print(f"| {size(count)} | {kind} | {result['time_us']['median']:.1f} | {rival:.1f} | {result['ratio']:.2f} | "
              f"{in_place} | {result['busbw']:.1f} | {count / rival * 1e-3 * bus_factor(data):.1f} |")
    verdict(data)


if len(sys.argv) < 2:
    sys.exit(__doc__)
try:
    for name in sys.argv[1:]:
        table(name)
except Unusable as unusable:
    sys.exit(f"table.py: {unusable}")
