"""Functions that the scripts in this folder share: they read the results of mscclpp_bench --json and describe them."""
import json
import math


class Unusable(Exception):
    """Raised for a file that a script cannot use. Its text is one line with the reason."""


def load(path):
    """Returns the checked contents of a file of mscclpp_bench --json. Raises Unusable if it is not such a file."""
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
    """Returns True if a value is a finite number above 0. As in is_number(), true and false are no numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def is_number(value):
    """Returns True if a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


COLLECTIVES = ("allreduce", "allgather", "allgatherv", "reduce_scatter_block", "reduce_scatter", "bcast", "reduce",
               "alltoall", "alltoallv", "alltoallw", "gather", "gatherv", "scatter", "scatterv", "scan", "exscan",
               "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv",
               "neighbor_alltoallw")
CHANNEL_WAYS = ("packets", "put", "port")  # of mode channel
TITLES = {"allreduce": "all-reduce", "allgather": "all-gather", "allgatherv": "all-gather of unequal blocks",
          "reduce_scatter_block": "reduce-scatter", "reduce_scatter": "reduce-scatter of unequal blocks",
          "bcast": "broadcast", "alltoall": "all-to-all", "alltoallv": "all-to-all of unequal blocks",
          "alltoallw": "all-to-all of a type each", "gatherv": "gather of unequal blocks",
          "scatterv": "scatter of unequal blocks", "exscan": "exclusive scan"}


def collective_of(row):
    """Returns the name of a row's collective. In files without collectives, all rows are all-reduces."""
    return row.get("coll", "allreduce")


def title(name):
    """Returns a collective's name for prose, such as "all-gather"."""
    return TITLES.get(name, name)


def describe_row(row):
    """Returns collective, type and operation of a row. All-reduce is not named.

    A collective that only moves data has no operation.
    """
    words = [] if collective_of(row) == "allreduce" else [collective_of(row)]
    return " ".join(words + [row["type"]] + ([] if row["op"] == "none" else [row["op"]]))


def without_rival(row, key="rival_time_us"):
    """Returns True if a row says that the other side does not have the collective.

    `key` is the key of the other side's time. Both this time and the ratio are then null.
    """
    return key in row and row[key] is None and row.get("ratio", 0) is None


def has_rival(row):
    """Returns True if a row also has times of the other side."""
    return row.get("rival_time_us") is not None or row.get("rival_added_us") is not None


def check(path, data):
    """Raises Unusable, with the place in the file, if a value that the scripts read is missing or has a wrong type.

    So the scripts need not check the values that they read. The required values depend on the mode, --compare,
    --between and --host-buffers. A row without "wrong" is damaged; null means that nothing was verified. Rows of the
    mode transpose have no type, so they are refused, too.
    """
    def demand(good, where):
        """Raises Unusable, with the place in the file, unless `good` is true."""
        if not good:
            raise Unusable(f"{path}: {where} is missing or not what mscclpp_bench writes; is the file damaged?")

    def median(row, key, where, good=is_positive):
        """Demands that a row has times under a key, and that `good` accepts their median."""
        demand(isinstance(row.get(key), dict) and good(row[key].get("median")), f"{where}, {key}")

    def check_between(between):
        """Demands the values that describe() reads."""
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
    # A file that names no other side must not have rows with times of another side.
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
        if data["mode"] == "channel":
            demand(row.get("coll", "") in ("",) + COLLECTIVES, f"{where}, coll")
            for way in CHANNEL_WAYS:
                demand(isinstance(row.get(way), dict), f"{where}, {way}")
                median(row[way], "time_us" if "coll" in row else "one_way_us", f"{where}, {way}")
            continue
        demand(isinstance(row.get("type"), str) and isinstance(row.get("op"), str), f"{where}, type and op")
        demand(isinstance(row.get("in_place"), bool), f"{where}, in_place")
        demand(collective_of(row) in COLLECTIVES, f"{where}, coll")
        if "between" in data:
            # Calls may add no time, and there is then no ratio.
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
    """Returns a short text that says which kernels were between the calls."""
    if between["kind"] == "none":
        return "no kernels"
    if between["kind"] == "barrier":
        return "after barriers"
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
    """Returns the factor from bytes a second to bus bandwidth for a row's collective, as in mscclpp_bench."""
    ranks, name = len(data["ranks"]), collective_of(row)
    if name in ("bcast", "reduce", "scan", "exscan") or name.startswith("neighbor_"):
        return 1
    return (2 if name == "allreduce" else 1) * (ranks - 1) / ranks
