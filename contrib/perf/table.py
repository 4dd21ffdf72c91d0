#!/usr/bin/env python3
"""Prints the results of mscclpp_bench --json as Markdown tables. Usage: table.py FILE..."""
import json
import sys


def size(count):
    for suffix, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {suffix}"
    return f"{count} B"


def table(path):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    ranks = len(data["ranks"])
    factor = 2 * (ranks - 1) / ranks
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
              f"{in_place} | {result['busbw']:.1f} | {count / rival * 1e-3 * factor:.1f} |")
    wrong = sum(result["wrong"] for result in data["results"])
    print(f"\nWrong elements: {wrong}\n")


if len(sys.argv) < 2:
    sys.exit(__doc__)
for name in sys.argv[1:]:
    table(name)
