#!/usr/bin/env python3
"""Compares a new run of mscclpp_bench --json with a stored one, or ours with the other side of a run.

Usage: regress.py [--tolerance FRACTION] [--most-over US] [--init-over MS] STORED NEW
       regress.py [--most-over US] [--most-ratio RATIO] NEW

Runs with --compare: one line for each ratio ours / theirs that is worse by more than the tolerance (default 0.1), and,
with --most-over, for each row of the new run in which ours takes more than theirs and US microseconds, with
--most-ratio, in which it takes more than RATIO times theirs.
Ratios and not times, since machines of one kind differ from one another, and both sides of a ratio are of one run.
Runs without --compare, both of one machine: with --most-over, one line for each row that takes more than the stored one
and US microseconds; and with --host-buffers one, if MPI_Init took over MS milliseconds (default 10) more than then.
Runs with --between: the time is what a call adds to the loop; the kernels of both runs have to be the same.

Besides, a line for each result that is wrong or was not verified, and for each row of the stored run that the new one
lacks. Exit status 0 if no line is printed, 1 if some are, 2 if the files cannot be compared.
"""
import argparse
import sys

from results import Unusable, collective_of, describe, describe_row, has_rival, load, size_text


def load_rows(path, options):
    """Returns the contents of a file, and its rows by (collective, type, operation, bytes, in_place).

    Raises Unusable if the rows cannot be compared. Files of the modes port and channel have no times of MPI's calls.
    Without the other side of --compare there are no ratios, so times have to be compared, which requires a stored file
    and --most-over.
    """
    data = load(path)
    rows = {}
    if data["mode"] in ("port", "channel") or (data.get("compare", "none") == "none" and
                                               (options.most_over is None or not options.stored)):
        raise Unusable(f"{path}: no ratios; use a file of mscclpp_bench --compare, or two files with --most-over")
    for result in data["results"]:
        rows[collective_of(result), result["type"], result["op"], result["bytes"], result["in_place"]] = result
    return data, rows


def name(key):
    """Returns the name of a row of load_rows(), for a line of the output."""
    collective, kind, operation, byte_count, in_place = key
    what = describe_row({"coll": collective, "type": kind, "op": operation})
    return f"{size_text(byte_count)} {what}, {'in' if in_place else 'out of'} place"


def demand_comparable(stored, new, paths):
    """Raises Unusable unless both runs measured in the same way, with the same number of ranks."""
    for what, default in (("mode", None), ("device", None), ("compare", None), ("buffers", "device")):
        if stored.get(what, default) != new.get(what, default):
            raise Unusable(f"{paths[1]}: {what} is {new.get(what, default)}, but {stored.get(what, default)} in "
                           f"{paths[0]}")
    between = [describe(data["between"]) if "between" in data else "nothing said" for data in (stored, new)]
    if between[0] != between[1]:
        raise Unusable(f"{paths[1]}: between is {between[1]}, but {between[0]} in {paths[0]}")
    if len(stored["ranks"]) != len(new["ranks"]):
        raise Unusable(f"{paths[1]}: {len(new['ranks'])} ranks, but {len(stored['ranks'])} in {paths[0]}")


def time(row):
    """Returns the microseconds of a call, or those that the call adds to the loop with kernels."""
    return row["added_us" if "added_us" in row else "time_us"]["median"]


def difference(row):
    """Returns how many microseconds our call takes longer than the call of the other side."""
    if "difference_us" in row:
        return row["difference_us"]["median"]
    return row["time_us"]["median"] - row["rival_time_us"]["median"]


def worse_ratios(stored, new, options):
    """Yields a line for each row whose ratio is worse than the stored one, or that has a ratio in one run only.

    Rows that the new run lacks are skipped, because faults() names them. In runs without --compare no row has a ratio.
    """
    for key, before in stored.items():
        after = new.get(key)
        if after is None or "ratio" not in before or (not has_rival(before) and not has_rival(after)):
            continue
        if has_rival(before) != has_rival(after):
            yield f"no ratio: {name(key)}: one of the two runs has no other side"
            continue
        if before["ratio"] is None or after["ratio"] is None:
            # If there is a limit in microseconds, longer_times() judges the row.
            if options.most_over is None:
                yield f"no ratio: {name(key)}: a side adds nothing; use --most-over"
        elif after["ratio"] > before["ratio"] * (1 + options.tolerance):
            yield (f"regression: {name(key)}: ratio {after['ratio']:.2f}, stored {before['ratio']:.2f} "
                   f"({100 * (after['ratio'] / before['ratio'] - 1):+.0f} %, {100 * options.tolerance:.0f} % allowed)")


def longer_times(stored, new, most_over, rival):
    """Yields a line for each row of the new run whose time is longer than another time by more than `most_over` us.

    If the runs have a rival, our time is compared with the rival's time in the new run, and otherwise with our time in
    the stored run. Rows without this other time are skipped.
    """
    for key, after in new.items():
        if rival != "none" and not has_rival(after):
            continue
        if rival != "none":
            over, other = difference(after), rival
        elif key in stored:
            over, other = time(after) - time(stored[key]), "the stored run"
        else:
            continue
        if over > most_over:
            yield f"over: {name(key)}: {time(after):.2f} us, {over:.2f} more than {other}, {most_over:g} allowed"


def larger_ratios(new, most_ratio):
    """Yields a line for each row of the new run whose ratio is missing or larger than `most_ratio`.

    Rows without times of the other side are skipped.
    """
    for key, after in new.items():
        if has_rival(after) and (after["ratio"] is None or after["ratio"] > most_ratio):
            yield f"over: {name(key)}: ratio {after['ratio']}, {most_ratio:g} allowed"


def longer_init(stored, new, init_over):
    """Yields a line if MPI_Init took more than `init_over` ms longer than in the stored run.

    Only runs with --host-buffers contain this time. Without a stored run, there is no time to compare with.
    """
    if "mpi_init_us" in stored and "mpi_init_us" in new:
        over = 1e-3 * (new["mpi_init_us"] - stored["mpi_init_us"])
        if over > init_over:
            yield (f"MPI_Init: {1e-3 * new['mpi_init_us']:.1f} ms, {over:.1f} more than stored, {init_over:g} allowed")


def faults(stored, new):
    """Yields a line for each row that the new run lacks, and for each row that is wrong or was not verified."""
    for key in stored:
        if key not in new:
            yield f"missing: {name(key)}: stored, not in the new run"
    for key, after in new.items():
        if after["wrong"] is None:
            yield f"not verified: {name(key)}: run with --check 0"
        elif after["wrong"]:
            yield f"wrong: {name(key)}: {after['wrong']} wrong elements"


def fraction(text):
    """Returns the value of --tolerance or --most-ratio. Raises ValueError, which argparse reports, if it is refused."""
    value = float(text)
    if not 0 <= value < 10:
        raise ValueError(text)
    return value


def amount(text):
    """Returns the value of --most-over or --init-over. Raises ValueError, which argparse reports, if it is refused."""
    value = float(text)
    if not 0 <= value < 1e9:
        raise ValueError(text)
    return value


def main():
    """Compares the runs, and prints a line for each problem. Ends the process with the status that --help describes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tolerance", type=fraction, default=0.1, metavar="FRACTION")
    parser.add_argument("--most-over", type=amount, metavar="US")
    parser.add_argument("--most-ratio", type=fraction, metavar="RATIO")
    parser.add_argument("--init-over", type=amount, default=10, metavar="MS")
    parser.add_argument("stored", nargs="?", metavar="STORED")
    parser.add_argument("new", metavar="NEW")
    options = parser.parse_args()
    if not options.stored and options.most_over is None and options.most_ratio is None:
        parser.error("one file needs --most-over or --most-ratio")
    try:
        new, new_rows = load_rows(options.new, options)
        stored, stored_rows = load_rows(options.stored, options) if options.stored else ({}, {})
        if options.stored:
            demand_comparable(stored, new, (options.stored, options.new))
    except Unusable as unusable:
        print(f"regress.py: {unusable}", file=sys.stderr)
        sys.exit(2)
    lines = list(worse_ratios(stored_rows, new_rows, options))
    if options.most_over is not None:
        lines += longer_times(stored_rows, new_rows, options.most_over, new.get("compare", "none"))
    if options.most_ratio is not None:
        lines += larger_ratios(new_rows, options.most_ratio)
    lines += list(longer_init(stored, new, options.init_over)) + list(faults(stored_rows, new_rows))
    for line in lines:
        print(line)
    print(f"regress.py: {len(stored_rows or new_rows)} rows compared, {len(lines)} problems")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
