"""What the scripts beside this one share: reading the results of mscclpp_bench --json, and naming them."""
import json


class Unusable(Exception):
    """A file that is not what a script can work with; its text is one line."""


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise Unusable(f"{path}: {error}") from error
    if not isinstance(data, dict) or data.get("program") != "mscclpp_bench" or "results" not in data:
        raise Unusable(f"{path}: not written by mscclpp_bench --json")
    return data


def size(count):
    for suffix, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {suffix}"
    return f"{count} B"


def bus_factor(data):
    ranks = len(data["ranks"])
    return 2 * (ranks - 1) / ranks
