#!/usr/bin/env python3
"""Draws latency and bus bandwidth beside NCCL, or by ranks, by modes or by ways of channels, or what calls add between
kernels, from files of mscclpp_bench --json.

Usage: picture.py -o PICTURE FILE...          PICTURE ends in .svg or .png
       picture.py --check PICTURE FILE...     changes nothing; exit status 1 if PICTURE is not that of the files

Files of several collectives, or beside anything but NCCL, give a small picture of the latency of each collective. Of
one collective, files of mode blocking that were all made without --compare give one curve each, the latency of so many
ranks. Files of one collective and of the other modes of MPI, made without --compare or with --compare blocking, give
the latency of each mode, and of the blocking calls beside it. Otherwise files of the modes give two curves each; of
one of mode port, the rate of plain copies between the GPUs is drawn as a line. Files of mode channel, without others,
give a small picture of messages, or of each collective, with a curve for each way. Files of --between, without others,
give what a call adds by the length of the kernels: a curve for each kind of kernel, size and contender, and of the
kind none a line. A check compares the digest of the files and of this script that an SVG holds, and draws it again
where the matplotlib is the one that drew it (else it says so: "redrawing skipped").
"""
import argparse
import hashlib
import os
import re
import sys
import tempfile

from results import CHANNEL_WAYS, Unusable, bus_factor, collective_of, describe, describe_row, has_rival, load
from results import size_text
from results import title as title_of

# By mode.
COLOURS = {"blocking": "#1f5fa8", "stream": "#c25a00", "nonblocking": "#2f7d32", "persistent": "#7b3fa0",
           "queued": "#b5262b", "graph": "#5d5d00"}
# What NCCL's curve is called, by how its calls were waited for.
RIVAL = {"sync": "NCCL and a stream synchronise", "spin": "NCCL, polled for", "end": "NCCL, queued in a stream",
         "graph": "NCCL, in a graph"}


def ours_of(mode, row):
    """Returns what our curve is called: the function, or how calls were made."""
    names = {"stream": "queued in a stream", "nonblocking": f"MPI_I{collective_of(row)} and MPI_Wait",
             "persistent": "MPI_Start and MPI_Wait", "queued": f"MPIX_Mscclpp_{collective_of(row)}_enqueue",
             "graph": "in a graph"}
    return names.get(mode, f"MPI_{collective_of(row).capitalize()}")


def read_calls(paths):
    """Returns curves [(label, mode, is ours, ranks, sizes, times, bandwidths)], the copy rate or None, and a title."""
    curves, copy_rate, title = [], None, None
    for path in paths:
        data = load(path)
        if data["mode"] == "port":
            rates = [row["copy"]["GB_per_s"] for row in data["results"] if row.get("copy")]
            copy_rate = max(rates + [copy_rate or 0]) or None
            continue
        if data["mode"] not in COLOURS or data.get("compare") != "nccl":
            raise Unusable(f"{path}: neither of a mode of calls with --compare nccl, nor of mode port")
        rows = [row for row in data["results"] if not row["in_place"]] or data["results"]
        rows = [row for row in rows if has_rival(row)]
        if not rows:
            raise Unusable(f"{path}: NCCL has nothing like it")
        kinds = {(row["type"], row["op"]) for row in rows}
        if len(kinds) != 1:
            raise Unusable(f"{path}: {len(kinds)} types and operations; one can be drawn")
        kind = rows[0]["type"]
        sizes = [row["bytes"] for row in rows]
        for ours, key in ((True, "time_us"), (False, "rival_time_us")):
            times = [row[key]["median"] for row in rows]
            rates = [count / time * 1e-3 * bus_factor(data, rows[0]) for count, time in zip(sizes, times)]
            label = ours_of(data["mode"], rows[0]) if ours else RIVAL[data["nccl_wait"]]
            curves.append((f"{label}, {kind}", data["mode"], ours, len(data["ranks"]), sizes, times, rates))
        title = (f"{headline(rows[0])} on {len(data['ranks'])} x {data['ranks'][0]['device_name']}, "
                 f"NCCL {data['nccl_version']}")
    if not curves:
        raise Unusable("no file of a mode of calls among " + ", ".join(paths))
    if len({curve[3] for curve in curves}) != 1:
        raise Unusable("files of different numbers of ranks cannot share a picture")
    return curves, copy_rate, title


def read_added(paths):
    """Reads files of --between.

    Returns curves {label: [(length of the kernels, what a call adds)]}, levels without kernels {label: what it adds},
    the ranks with their device, and the collective.
    """
    curves, levels, titles, collectives = {}, {}, set(), set()
    for path in paths:
        data = load(path)
        if "between" not in data:
            raise Unusable(f"{path}: made without --between, as others were not")
        between, rival = data["between"], data.get("compare", "none")
        rows = [row for row in data["results"] if not row["in_place"]] or data["results"]
        for row in rows:
            for side, key in ((data["mode"], "added_us"), (rival, "rival_added_us")):
                if key not in row:
                    continue
                if row[key] is None:
                    continue
                row_label = f"{size_text(row['bytes'])} {describe_row(row)}, {side}"
                if between["kind"] in ("none", "barrier"):
                    levels[f"{describe(between)}, {row_label}"] = row[key]["median"]
                else:
                    # All but the length, which is the abscissa.
                    label = describe(between).replace(f" of {between['microseconds']:g} us", "") + f", {row_label}"
                    curves.setdefault(label, []).append((between["microseconds"], row[key]["median"]))
        collectives.update(map(collective_of, rows))
        titles.add(f"{len(data['ranks'])} ranks, {data['ranks'][0]['device_name']}")
    if not curves:
        raise Unusable("no file with kernels between the calls among " + ", ".join(paths))
    if len(titles) != 1:
        raise Unusable("files of different numbers of ranks or devices cannot share a picture")
    return (curves, levels, titles.pop(),
            headline({"coll": collectives.pop()}) if len(collectives) == 1 else "Collectives")


def is_added(paths):
    """Tells whether some file was made with --between."""
    return any("between" in load(path) for path in paths)


def headline(row):
    """Returns the collective of a row for the beginning of a title."""
    name = title_of(collective_of(row))
    return name[0].upper() + name[1:]


def is_several(paths):
    """Tells whether files are of several collectives, or beside something that other pictures have no curve for."""
    measured = [data for data in map(load, paths) if data["mode"] != "port"]
    names = {collective_of(row) for data in measured for row in data["results"]}
    return len(names) > 1 or any(data.get("compare", "none") in ("staged", "launched", "copies", "kernel", "native")
                                 for data in measured)


# What the other side's curve is called, by --compare.
SIDES = {"none": None, "staged": "by hand", "launched": "launched", "copies": "plain copies", "kernel": "plain kernel",
         "nccl": "NCCL", "blocking": "blocking", "native": "without the plan"}


def read_several(paths):
    """Returns panels {collective: [(label, is ours, sizes, times)]} and a title."""
    panels, titles = {}, set()
    for path in paths:
        data = load(path)
        if data["mode"] in ("port", "channel"):
            raise Unusable(f"{path}: files of mode {data['mode']} cannot share a picture with others")
        if len({row["type"] for row in data["results"]}) != 1:
            raise Unusable(f"{path}: several types; one can be drawn")
        for name in dict.fromkeys(map(collective_of, data["results"])):
            of_name = [row for row in data["results"] if collective_of(row) == name]
            rows = [row for row in of_name if not row["in_place"]] or of_name
            if len({row["op"] for row in rows}) != 1:
                raise Unusable(f"{path}: several operations; one can be drawn")
            curves = panels.setdefault(name, [])
            curves.append((data["mode"], True, [row["bytes"] for row in rows],
                           [row["time_us"]["median"] for row in rows]))
            rival_rows = [row for row in rows if has_rival(row)]
            if rival_rows:
                curves.append((SIDES[data["compare"]], False, [row["bytes"] for row in rival_rows],
                               [row["rival_time_us"]["median"] for row in rival_rows]))
        titles.add(f"{len(data['ranks'])} ranks, {data['ranks'][0]['device_name']}, {data['results'][0]['type']}")
    if len(titles) != 1:
        raise Unusable("files of different numbers of ranks, devices or types cannot share a picture")
    return panels, titles.pop()


def is_channel(paths):
    """Tells whether some file is of mode channel."""
    return any(load(path)["mode"] == "channel" for path in paths)


def read_channel(paths):
    """Returns panels {what: [(label, True, sizes, times)]} of files of mode channel, and a title."""
    panels, titles = {}, set()
    counts = {len(load(path)["ranks"]) for path in paths}
    for path in paths:
        data = load(path)
        if data["mode"] != "channel":
            raise Unusable(f"{path}: mode {data['mode']} cannot share a picture with mode channel")
        for name in dict.fromkeys(row.get("coll") for row in data["results"]):
            rows = [row for row in data["results"] if row.get("coll") == name]
            key, panel = ("time_us", name) if name else ("one_way_us", "a message, one way")
            ranks = f", {len(data['ranks'])} ranks" if len(counts) > 1 else ""
            for way in CHANNEL_WAYS:
                panels.setdefault(panel, []).append((way + ranks, True, [row["bytes"] for row in rows],
                                                     [row[way][key]["median"] for row in rows]))
        titles.add(data["ranks"][0]["device_name"] + (f", {len(data['ranks'])} ranks" if len(counts) == 1 else ""))
    if len(titles) != 1:
        raise Unusable("files of different devices cannot share a picture")
    return panels, f"channels between kernels, {titles.pop()}"


def draw_channel(pyplot, paths):
    """Draws a small picture for messages, or for each collective that kernels make over channels."""
    return draw_panels(pyplot, *read_channel(paths))


def draw_several(pyplot, paths):
    """Draws a small picture of the latency for each collective."""
    return draw_panels(pyplot, *read_several(paths))


def draw_panels(pyplot, panels, title):
    """Draws a small picture for each of the panels, as read_several returns them."""
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(lines, columns, figsize=(3.4 * columns, 2.9 * lines), squeeze=False)
    places = [axes for line in grid for axes in line]
    colours = {}
    for axes, (name, curves) in zip(places, panels.items()):
        for label, ours, sizes, times in curves:
            colour = colours.setdefault((label, ours), f"C{len(colours)}")
            axes.plot(sizes, times, color=colour, linestyle="-" if ours else "--", label=label)
        set_sizes((axes,), [count for curve in curves for count in curve[2]])
        axes.set_yscale("log")
        axes.set_title(name, fontsize=10)
        axes.set_ylabel("us")
        axes.legend(fontsize=7)
    for axes in places[len(panels):]:
        axes.axis("off")
    figure.suptitle(f"Time of a call, lower is better: {title}")
    return figure


def is_modes(paths):
    """Tells whether files are of modes of MPI, not only blocking, and beside nothing but blocking calls."""
    files = [load(path) for path in paths]
    return (all(data.get("compare", "none") in ("none", "blocking") and data["mode"] in COLOURS for data in files) and
            any(data["mode"] not in ("blocking", "stream") for data in files))


def read_modes(paths):
    """Returns curves [(label, mode, is ours, sizes, times)] and a title."""
    curves, titles = [], set()
    for path in paths:
        data = load(path)
        rows = [row for row in data["results"] if not row["in_place"]] or data["results"]
        if len({(row["type"], row["op"]) for row in rows}) != 1:
            raise Unusable(f"{path}: several types or operations; one can be drawn")
        sizes = [row["bytes"] for row in rows]
        curves.append((ours_of(data["mode"], rows[0]), data["mode"], True, sizes,
                       [row["time_us"]["median"] for row in rows]))
        if has_rival(rows[0]):
            curves.append((f"{ours_of('blocking', rows[0])}, beside {data['mode']}", data["mode"], False, sizes,
                           [row["rival_time_us"]["median"] for row in rows]))
        titles.add(f"{headline(rows[0])}, {len(data['ranks'])} ranks, {data['ranks'][0]['device_name']}, "
                   f"{rows[0]['type']}")
    if len(titles) != 1:
        raise Unusable("files of different collectives, numbers of ranks, devices or types cannot share a picture")
    return curves, titles.pop()


def draw_modes(pyplot, paths):
    """Draws the latency of each mode, and of the blocking calls beside it."""
    curves, title = read_modes(paths)
    figure, axes = pyplot.subplots(figsize=(9, 5.2))
    for label, mode, ours, sizes, times in curves:
        axes.plot(sizes, times, color=COLOURS[mode], linestyle="-" if ours else "--", marker="o" if ours else None,
                  markersize=3, label=label)
    set_sizes((axes,), [count for curve in curves for count in curve[3]])
    axes.set_yscale("log")
    axes.set_ylabel("time of a call, us")
    axes.set_title("Time of a call, lower is better")
    axes.legend(fontsize=8)
    figure.suptitle(title)
    return figure


def is_alone(paths):
    """Tells whether all files are blocking runs without a rival, so that numbers of ranks can be compared."""
    return all(data["mode"] == "blocking" and data.get("compare", "none") == "none" for data in map(load, paths))


def read_alone(paths):
    """Returns curves [(label, sizes, times)], the device's name and the collective's."""
    curves, devices, headlines = [], set(), set()
    for path in paths:
        data = load(path)
        rows = [row for row in data["results"] if not row["in_place"]] or data["results"]
        if len({(row["type"], row["op"]) for row in rows}) != 1:
            raise Unusable(f"{path}: several types or operations; one can be drawn")
        headlines.add(headline(rows[0]))
        devices.add(data["ranks"][0]["device_name"])
        gpus = len({(rank["host"], rank["device"]) for rank in data["ranks"]})
        how_served = "kernels" if data["served"] else "staged through host memory"
        curves.append((f"{len(data['ranks'])} ranks on {gpus} GPU{'s' if gpus > 1 else ''}, {how_served}",
                       [row["bytes"] for row in rows], [row["time_us"]["median"] for row in rows]))
    if len(devices) != 1:
        raise Unusable("files of different devices cannot share a picture")
    return curves, devices.pop(), headlines.pop()


def draw_alone(pyplot, paths):
    """Draws the latency for each number of ranks."""
    curves, device, collective = read_alone(paths)
    figure, axes = pyplot.subplots(figsize=(9, 5.2))
    for label, sizes, times in curves:
        axes.plot(sizes, times, marker="o", markersize=3, label=label)
    set_sizes((axes,), [count for curve in curves for count in curve[1]])
    axes.set_yscale("log")
    axes.set_ylabel("time of a call, us")
    axes.set_title(f"{collective} by ranks that share a GPU: lower is better")
    axes.legend(fontsize=9)
    figure.suptitle(device)
    return figure


def set_sizes(all_axes, sizes):
    """Makes the axis of sizes go from the smallest to the largest message."""
    ticks = [1 << power for power in range(3, 41, 3) if min(sizes) <= 1 << power <= max(sizes)]
    for axes in all_axes:
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [size_text(tick) for tick in ticks], rotation=35, ha="right")
        axes.minorticks_off()
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.set_xlabel("message")


def digest(paths):
    """Returns the digest of all that a picture is made from: this script and the files."""
    total = hashlib.sha256()
    for path in [os.path.abspath(__file__)] + list(paths):
        with open(path, "rb") as file:
            total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()


def draw_calls(pyplot, paths):
    """Draws latency and bus bandwidth beside NCCL."""
    curves, copy_rate, title = read_calls(paths)
    figure, (latency, bandwidth) = pyplot.subplots(1, 2, figsize=(12, 4.6))
    for label, mode, ours, _, sizes, times, rates in curves:
        style = {"color": COLOURS[mode], "linestyle": "-" if ours else "--", "marker": "o" if ours else None,
                 "markersize": 3, "label": label}
        latency.plot(sizes, times, **style)
        bandwidth.plot(sizes, rates, **style)
    if copy_rate:
        bandwidth.axhline(copy_rate, color="#777777", linestyle=":",
                          label=f"plain copies between GPUs, {copy_rate:.0f} GB/s")
    set_sizes((latency, bandwidth), [count for curve in curves for count in curve[4]])
    latency.set_yscale("log")
    latency.set_ylabel("time of a call, us")
    latency.set_title("Latency: lower is better")
    latency.legend(fontsize=9)
    bandwidth.set_ylabel("bus bandwidth, GB/s")
    bandwidth.set_ylim(bottom=0)
    bandwidth.set_title("Bus bandwidth: higher is better")
    bandwidth.legend(fontsize=9)
    figure.suptitle(title)
    return figure


def draw_added(pyplot, paths):
    """Draws collective a call adds by the length of the kernels."""
    curves, levels, device, collective = read_added(paths)
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
    axes.set_title(f"{collective} between kernels of an application: lower is better")
    axes.legend(fontsize=8)
    figure.suptitle(device)
    return figure


def find_kind(paths):
    """Returns the function that reads these files, and the one that draws them."""
    if is_channel(paths):
        return read_channel, draw_channel
    if is_added(paths):
        return read_added, draw_added
    if is_several(paths):
        return read_several, draw_several
    if is_modes(paths):
        return read_modes, draw_modes
    return (read_alone, draw_alone) if is_alone(paths) else (read_calls, draw_calls)


def draw(output, paths):
    """Draws the picture of the files. The same data give the same bytes."""
    drawer = find_kind(paths)[1]
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    # With ids from a fixed salt, no date, and text as text, the same data give the same file, and a small one.
    pyplot.rcParams.update({"svg.hashsalt": "mscclpp", "svg.fonttype": "none", "font.size": 10,
                            "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]})
    figure = drawer(pyplot, paths)
    figure.tight_layout()
    metadata = None
    if output.endswith(".svg"):
        metadata = {"Date": None, "Creator": f"Matplotlib {matplotlib.__version__}", "Description": digest(paths)}
    figure.savefig(output, metadata=metadata, dpi=110)
    pyplot.close(figure)


def check(picture, paths):
    """Returns the reason why the picture is not that of the files, or None."""
    find_kind(paths)[0](paths)
    with open(picture, encoding="utf-8") as file:
        text = file.read()
    description = re.search(r"<dc:description>(\w+)</dc:description>", text)
    if not description or description.group(1) != digest(paths):
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
        redrawn = os.path.join(folder, "again.svg")
        draw(redrawn, paths)
        with open(redrawn, encoding="utf-8") as file:
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
