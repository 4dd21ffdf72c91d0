"""What the scripts beside this one share: they read the results of mscclpp_bench --json and name them in texts."""
import json
import math


class Unusable(Exception):
    """Raised for a file that a script cannot work with. Its text is one line that says why."""


def load(path):
    """Returns the contents of a file of mscclpp_bench --json, checked. Raises Unusable if it is not such a file."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise Unusable(f"{path}: {error}") from error
    if not isinstance(data, dict) or data.get("program") != "mscclpp_bench" or "results" not in data:
        raise Unusable(f"{path}: not written by mscclpp_bench --json")
    check(path, data)
    return data


def is_positive(value):
    """Tells whether a value is a finite number above 0. As in is_number(), true and false are no numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def is_number(value):
    """Tells whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


COLLECTIVES = ("allreduce", "allgather", "allgatherv", "reduce_scatter_block", "reduce_scatter", "bcast", "reduce",
               "alltoall", "alltoallv", "alltoallw", "gather", "gatherv", "scatter", "scatterv", "scan", "exscan",
               "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv",
               "neighbor_alltoallw")
TITLES = {"allreduce": "all-reduce", "allgather": "all-gather", "allgatherv": "all-gather of unequal blocks",
          "reduce_scatter_block": "reduce-scatter", "reduce_scatter": "reduce-scatter of unequal blocks",
          "bcast": "broadcast", "alltoall": "all-to-all", "alltoallv": "all-to-all of unequal blocks",
          "alltoallw": "all-to-all of a type each", "gatherv": "gather of unequal blocks",
          "scatterv": "scatter of unequal blocks", "exscan": "exclusive scan"}


def collective_of(row):
    """Returns the name of a row's collective. Files that name none are of all-reduce."""
    return row.get("coll", "allreduce")


def title(name):
    """Returns a collective's name as prose has it, such as "all-gather"."""
    return TITLES.get(name, name)


def describe_row(row):
    """Returns collective, type and operation. All-reduce is not named, and what only moves data has no operation."""
    words = [] if collective_of(row) == "allreduce" else [collective_of(row)]
    return " ".join(words + [row["type"]] + ([] if row["op"] == "none" else [row["op"]]))


def without_rival(row, key="rival_time_us"):
    """Tells whether a row says that the other side has no such collective.

    `key` is where its time would be. Both the time and the ratio are there then, and null.
    """
    return key in row and row[key] is None and row.get("ratio", 0) is None


def has_rival(row):
    """Tells whether a row has times of the other side, too."""
    return row.get("rival_time_us") is not None or row.get("rival_added_us") is not None


def check(path, data):
    """Raises Unusable, and says where, unless everything that the scripts read is there and has the right type.

    So they need not check what they read. What it demands depends on the mode, --compare, --between and --host-buffers.
    A row without "wrong" is damaged; null means that nothing was verified. Rows of the modes channel and transpose have
    no type, so they are refused, too.
    """
    def demand(good, where):
        """Raises Unusable, with the place in the file, unless `good` is true."""
        if not good:
            raise Unusable(f"{path}: {where} is missing or not what mscclpp_bench writes; is the file damaged?")

    def median(row, key, where, good=is_positive):
        """Demands times under a key of a row, whose median `good` accepts."""
        demand(isinstance(row.get(key), dict) and good(row[key].get("median")), f"{where}, {key}")

    def check_between(between):
        """Demands what describe() reads."""
        demand(isinstance(between, dict) and isinstance(between.get("kind"), str) and
               is_number(between.get("microseconds")) and
               all(isinstance(between.get(key), int) for key in ("calls", "ahead")), "between")

    demand(isinstance(data.get("mode"), str), "mode")
    demand(isinstance(data.get("rounds"), int) and is_positive(data["rounds"]), "rounds")
    demand(isinstance(data.get("ranks"), list) and data["ranks"] and
           all(isinstance(rank, dict) and isinstance(rank.get("device_name"), str) for rank in data["ranks"]), "ranks")
    demand(isinstance(data["results"], list) and all(isinstance(row, dict) for row in data["results"]), "results")
    if not data["results"]:
        raise Unusable(f"{path}: no results")
    # Files that name no other side have none, and so no rows with its times.
    may_lack = "between" not in data and not any(map(has_rival, data["results"]))
    demand(isinstance(data.get("compare", "none" if may_lack else None), str), "compare")
    compared = data.get("compare", "none") != "none"
    demand(data.get("compare") != "nccl" or isinstance(data.get("nccl_version"), str), "nccl_version")
    demand(data.get("buffers", "device") == "device" or is_positive(data.get("mpi_init_us")), "mpi_init_us")
    if "between" in data:
        check_between(data["between"])
    for index, row in enumerate(data["results"]):
        where = f"result {index + 1}"
        demand(isinstance(row.get("bytes"), int) and row["bytes"] > 0, f"{where}, bytes")
        demand(row.get("wrong", "") is None or isinstance(row.get("wrong"), int), f"{where}, wrong")
        if data["mode"] == "port":
            demand(row.get("copy") is None or
                   isinstance(row["copy"], dict) and is_positive(row["copy"].get("GB_per_s")), f"{where}, copy")
            continue
        demand(isinstance(row.get("type"), str) and isinstance(row.get("op"), str), f"{where}, type and op")
        demand(isinstance(row.get("in_place"), bool), f"{where}, in_place")
        demand(collective_of(row) in COLLECTIVES, f"{where}, coll")
        if "between" in data:
            # What calls add may be nothing, and then there is no ratio.
            median(row, "added_us", where, is_number)
            if compared and not without_rival(row, "rival_added_us"):
                median(row, "rival_added_us", where, is_number)
                median(row, "difference_us", where, is_number)
                demand("ratio" in row and (row["ratio"] is None or is_positive(row["ratio"])), f"{where}, ratio")
            continue
        demand(isinstance(row.get("busbw"), (int, float)), f"{where}, busbw")
        median(row, "time_us", where)
        if compared and not without_rival(row, "rival_time_us"):
            median(row, "rival_time_us", where)
            demand(is_positive(row.get("ratio")), f"{where}, ratio")


def describe(between):
    """Says in a few words which kernels were between the calls."""
    if between["kind"] == "none":
        return "no kernels"
    text = f"{between['kind']} of {between['microseconds']:g} us"
    if between["calls"] != 1:
        text += f", {between['calls']} calls"
    if between["ahead"]:
        text += f", {between['ahead']} queued ahead"
    return text


def size_text(count):
    """Returns a number of bytes with the largest unit of which it is a multiple, such as "4 KiB"."""
    for suffix, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {suffix}"
    return f"{count} B"


def bus_factor(data, row):
    """Returns the factor between bytes a second and bus bandwidth of a row's collective, as mscclpp_bench has it."""
    ranks, name = len(data["ranks"]), collective_of(row)
    if name in ("bcast", "reduce", "scan", "exscan") or name.startswith("neighbor_"):
        return 1
    return (2 if name == "allreduce" else 1) * (ranks - 1) / ranks
