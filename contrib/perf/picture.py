#!/usr/bin/env python3
"""Draws latency and bus bandwidth beside NCCL, or by ranks, or what calls add between kernels, from files of
mscclpp_bench --json.

Usage: picture.py -o PICTURE FILE...          PICTURE ends in .svg or .png
       picture.py --check PICTURE FILE...     changes nothing; exit status 1 if PICTURE is not that of the files

Files of mode blocking that were all made without --compare give one curve each, the latency of so many ranks.
Otherwise files of the modes blocking and stream give two curves each; of one of mode port, the rate of plain copies
between the GPUs is drawn as a line. Files of --between, without others, give what a call adds by the length of the
kernels: a curve for each kind of kernel, size and contender, and of the kind none a line. A check compares the digest
of the files and of this script that an SVG holds, and draws it again where the matplotlib is the one that drew it (else
it says so: "redrawing skipped").
"""
import argparse
import hashlib
import os
import re
import sys
import tempfile

from results import Unusable, bus_factor, describe, load, size

COLOURS = {"blocking": "#1f5fa8", "stream": "#c25a00"}
OURS = {"blocking": "MPI_Allreduce", "stream": "queued in a stream"}
RIVAL = {"sync": "NCCL and a stream synchronise", "spin": "NCCL, polled for", "end": "NCCL, queued in a stream"}


def read(paths):
    """Curves (label, mode, is ours, ranks, sizes, times, bandwidths), the copy rate or None, and a title."""
    curves, copy, title = [], None, None
    for path in paths:
        data = load(path)
        if data["mode"] == "port":
            rates = [row["copy"]["GB_per_s"] for row in data["results"] if row.get("copy")]
            copy = max(rates + [copy or 0]) or None
            continue
        if data["mode"] not in COLOURS or data.get("compare") != "nccl":
            raise Unusable(f"{path}: neither of mode blocking or stream with --compare nccl, nor of mode port")
        rows = [row for row in data["results"] if not row["in_place"]] or data["results"]
        kinds = {(row["type"], row["op"]) for row in rows}
        if len(kinds) != 1:
            raise Unusable(f"{path}: {len(kinds)} types and operations; one can be drawn")
        kind = rows[0]["type"]
        sizes = [row["bytes"] for row in rows]
        for ours, key in ((True, "time_us"), (False, "rival_time_us")):
            times = [row[key]["median"] for row in rows]
            rates = [count / time * 1e-3 * bus_factor(data) for count, time in zip(sizes, times)]
            label = OURS[data["mode"]] if ours else RIVAL[data["nccl_wait"]]
            curves.append((f"{label}, {kind}", data["mode"], ours, len(data["ranks"]), sizes, times, rates))
        title = f"{len(data['ranks'])} x {data['ranks'][0]['device_name']}, NCCL {data['nccl_version']}"
    if not curves:
        raise Unusable("no file of mode blocking or stream among " + ", ".join(paths))
    if len({curve[3] for curve in curves}) != 1:
        raise Unusable("files of different numbers of ranks cannot share a picture")
    return curves, copy, title


def read_added(paths):
    """Curves {label: [(length of the kernels, what a call adds)]}, levels {label: what it adds}, and a title."""
    curves, levels, titles = {}, {}, set()
    for path in paths:
        data = load(path)
        if "between" not in data:
            raise Unusable(f"{path}: made without --between, as others were not")
        between, rival = data["between"], data.get("compare", "none")
        rows = [row for row in data["results"] if not row["in_place"]] or data["results"]
        for row in rows:
            for who, key in ((data["mode"], "added_us"), (rival, "rival_added_us")):
                if key not in row:
                    continue
                about = f"{size(row['bytes'])} {row['type']} {row['op']}, {who}"
                if between["kind"] == "none":
                    levels[f"no kernels, {about}"] = row[key]["median"]
                else:
                    # All but the length, which is the abscissa.
                    label = describe(between).replace(f" of {between['microseconds']:g} us", "") + f", {about}"
                    curves.setdefault(label, []).append((between["microseconds"], row[key]["median"]))
        titles.add(f"{len(data['ranks'])} ranks, {data['ranks'][0]['device_name']}")
    if not curves:
        raise Unusable("no file with kernels between the calls among " + ", ".join(paths))
    if len(titles) != 1:
        raise Unusable("files of different numbers of ranks or devices cannot share a picture")
    return curves, levels, titles.pop()


def is_added(paths):
    return any("between" in load(path) for path in paths)


def is_alone(paths):
    """Of one contender, so that runs of different numbers of ranks can be compared."""
    return all(data["mode"] == "blocking" and data.get("compare", "none") == "none" for data in map(load, paths))


def read_alone(paths):
    """Curves [(label, sizes, times)] and a title."""
    curves, devices = [], set()
    for path in paths:
        data = load(path)
        rows = [row for row in data["results"] if not row["in_place"]] or data["results"]
        if len({(row["type"], row["op"]) for row in rows}) != 1:
            raise Unusable(f"{path}: several types or operations; one can be drawn")
        devices.add(data["ranks"][0]["device_name"])
        gpus = len({(rank["host"], rank["device"]) for rank in data["ranks"]})
        served = "kernels" if data["served"] else "staged through host memory"
        curves.append((f"{len(data['ranks'])} ranks on {gpus} GPU{'s' if gpus > 1 else ''}, {served}",
                       [row["bytes"] for row in rows], [row["time_us"]["median"] for row in rows]))
    if len(devices) != 1:
        raise Unusable("files of different devices cannot share a picture")
    return curves, devices.pop()


def draw_alone(pyplot, paths):
    curves, title = read_alone(paths)
    figure, axes = pyplot.subplots(figsize=(9, 5.2))
    for label, sizes, times in curves:
        axes.plot(sizes, times, marker="o", markersize=3, label=label)
    set_sizes((axes,), [count for curve in curves for count in curve[1]])
    axes.set_yscale("log")
    axes.set_ylabel("time of a call, us")
    axes.set_title("All-reduce by ranks that share a GPU: lower is better")
    axes.legend(fontsize=9)
    figure.suptitle(title)
    return figure


def set_sizes(all_axes, sizes):
    """The abscissa, from the smallest to the largest message."""
    ticks = [1 << power for power in range(3, 41, 3) if min(sizes) <= 1 << power <= max(sizes)]
    for axes in all_axes:
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [size(tick) for tick in ticks], rotation=35, ha="right")
        axes.minorticks_off()
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.set_xlabel("message")


def digest(paths):
    """Of all that a picture is made from."""
    total = hashlib.sha256()
    for path in [os.path.abspath(__file__)] + list(paths):
        with open(path, "rb") as file:
            total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()


def draw_calls(pyplot, paths):
    curves, copy, title = read(paths)
    figure, (latency, bandwidth) = pyplot.subplots(1, 2, figsize=(12, 4.6))
    for label, mode, ours, _, sizes, times, rates in curves:
        style = {"color": COLOURS[mode], "linestyle": "-" if ours else "--", "marker": "o" if ours else None,
                 "markersize": 3, "label": label}
        latency.plot(sizes, times, **style)
        bandwidth.plot(sizes, rates, **style)
    if copy:
        bandwidth.axhline(copy, color="#777777", linestyle=":", label=f"plain copies between GPUs, {copy:.0f} GB/s")
    set_sizes((latency, bandwidth), [count for curve in curves for count in curve[4]])
    latency.set_yscale("log")
    latency.set_ylabel("time of a call, us")
    latency.set_title("Latency: lower is better")
    latency.legend(fontsize=9)
    bandwidth.set_ylabel("bus bandwidth, GB/s")
    bandwidth.set_ylim(bottom=0)
    bandwidth.set_title("Bus bandwidth: higher is better")
    bandwidth.legend(fontsize=9)
    figure.suptitle(f"All-reduce on {title}")
    return figure


def draw_added(pyplot, paths):
    curves, levels, title = read_added(paths)
    figure, axes = pyplot.subplots(figsize=(9, 5.2))
    for label, points in sorted(curves.items()):
        points = sorted(points)
        axes.plot([point[0] for point in points], [point[1] for point in points], marker="o", markersize=3,
                  label=label)
    for index, (label, level) in enumerate(sorted(levels.items())):
        axes.axhline(level, color="#777777", linestyle=[":", "--", "-."][index % 3], label=label)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_xlabel("length of a kernel, us")
    axes.set_ylabel("what a call adds, us")
    axes.set_title("All-reduce between kernels of an application: lower is better")
    axes.legend(fontsize=8)
    figure.suptitle(title)
    return figure


def draw(output, paths):
    drawer = draw_added if is_added(paths) else draw_alone if is_alone(paths) else draw_calls
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Ids from a fixed salt, no date, text as text: the same data give the same small file.
    pyplot.rcParams.update({"svg.hashsalt": "mscclpp", "svg.fonttype": "none", "font.size": 10,
                            "font.family": "sans-serif"})
    figure = drawer(pyplot, paths)
    figure.tight_layout()
    metadata = None
    if output.endswith(".svg"):
        metadata = {"Date": None, "Creator": f"Matplotlib {matplotlib.__version__}", "Description": digest(paths)}
    figure.savefig(output, metadata=metadata, dpi=110)
    pyplot.close(figure)


def check(picture, paths):
    """The reason why the picture is not that of the files, or None."""
    (read_added if is_added(paths) else read_alone if is_alone(paths) else read)(paths)
    with open(picture, encoding="utf-8") as file:
        text = file.read()
    found = re.search(r"<dc:description>(\w+)</dc:description>", text)
    if not found or found.group(1) != digest(paths):
        return f"{picture} was drawn from other files or by another script: draw it again"
    version = re.search(r"<dc:title>Matplotlib ([\w.]+)</dc:title>", text)
    try:
        import matplotlib
    except ImportError:
        print("picture.py: redrawing skipped: no matplotlib")
        return None
    if not version or version.group(1) != matplotlib.__version__:
        print(f"picture.py: redrawing skipped: the matplotlib here is {matplotlib.__version__}")
        return None
    with tempfile.TemporaryDirectory() as folder:
        again = os.path.join(folder, "again.svg")
        draw(again, paths)
        with open(again, encoding="utf-8") as file:
            if file.read() != text:
                return f"{picture} is not what is drawn from these files"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("-o", "--output", metavar="PICTURE")
    group.add_argument("--check", metavar="PICTURE")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    try:
        if options.check:
            reason = check(options.check, options.files)
            if reason:
                sys.exit(f"picture.py: {reason}")
        elif not options.output.endswith((".svg", ".png")):
            parser.error(f"--output: '{options.output}' is not allowed; use a name that ends in .svg or .png")
        else:
            draw(options.output, options.files)
    except Unusable as unusable:
        sys.exit(f"picture.py: {unusable}")
    except ImportError as error:
        sys.exit(f"picture.py: {error}; Debian's package is python3-matplotlib")
    except OSError as error:
        sys.exit(f"picture.py: {error}")


if __name__ == "__main__":
    main()
