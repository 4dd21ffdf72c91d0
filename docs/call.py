#!/usr/bin/env python3
"""Draws the way of one call, for architecture.md. Usage: call.py [--check | FOLDER]

Writes call.svg beside this script, or into FOLDER. --check changes nothing, and fails if the picture is another one.
"""
import os
import sys
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, HEIGHT = 1000, 780

FLOORS = (  # top, bottom, name, colour
    (70, 250, "the component: mca/coll/mscclpp", "#eef3fa"),
    (262, 626, "the host library: mca/common", "#f3f7ee"),
    (638, 730, "kernels: device", "#fbf3e8"),
)

BOXES = {  # left, top, width, height, title, second line, colour
    "application": (340, 12, 320, 44, "MPI_Allreduce(device buffer)", "", "#ffffff"),
    "module": (340, 104, 320, 52, "module", "host or device? which type and operation?", "#cfdff3"),
    "previous": (24, 104, 240, 52, "previous component", "serves host buffers", "#ffffff"),
    "stage": (24, 182, 240, 52, "staging", "copies through pinned host memory", "#cfdff3"),
    "setup": (736, 288, 240, 52, "set-up of the team", "once, with all ranks", "#d5e6c4"),
    "task": (340, 288, 320, 52, "task", "one call, from its arguments to its end", "#d5e6c4"),
    "select": (24, 288, 240, 52, "choice", "algorithm, grid, packets", "#d5e6c4"),
    "exchange": (736, 374, 240, 52, "buffers", "exchange and map those of the peers", "#d5e6c4"),
    "runner": (340, 374, 320, 52, "launch", "rings a kernel that stayed, or starts one", "#d5e6c4"),
    "engine": (24, 374, 240, 52, "copy engines", "move chunks; kernels only reduce", "#d5e6c4"),
    "fabric": (736, 460, 240, 52, "fabric", "joins the nodes", "#d5e6c4"),
    "wait": (340, 460, 320, 52, "wait", "mailbox, deadline, failures of peers", "#d5e6c4"),
    "proxy": (736, 546, 240, 52, "proxy and transport", "carries out what kernels ask for", "#d5e6c4"),
    "kernel": (340, 664, 320, 52, "kernel", "on the GPU, or on CPU threads: the host twin", "#f3ddb8"),
    "peers": (24, 664, 240, 52, "GPUs of the node", "loads, stores and packets", "#ffffff"),
    "nodes": (736, 664, 240, 52, "other nodes", "verbs, UCX, shared memory", "#ffffff"),
}

# From, side, to, side, text, its place (x, y).
ARROWS = (
    ("application", "bottom", "module", "top", "", None),
    ("module", "left", "previous", "right", "host buffer", (302, 122)),
    ("module", "left-low", "stage", "right", "no kernel", (302, 182)),
    ("stage", "top", "previous", "bottom", "", None),
    ("module", "right-low", "setup", "left-high", "first call", (698, 208)),
    ("module", "bottom", "task", "top", "device buffer", (500, 220)),
    ("task", "left", "select", "right", "which?", (302, 306)),
    ("task", "right", "exchange", "left-high", "zero-copy", (700, 342)),
    ("task", "bottom", "runner", "top", "one node", (500, 360)),
    ("task", "left-low", "engine", "right", "large", (302, 368)),
    ("task", "right-low", "fabric", "left-high", "nodes", (702, 396)),
    ("runner", "bottom", "wait", "top", "", None),
    ("fabric", "bottom", "proxy", "top", "", None),
    ("fabric", "left", "runner", "right-low", "", None),
    ("wait", "bottom", "kernel", "top", "", None),
    ("kernel", "left", "peers", "right", "", None),
    ("engine", "bottom", "peers", "top", "", None),
    ("kernel", "right-high", "proxy", "left", "triggers, by a FIFO", (698, 628)),
    ("proxy", "bottom", "nodes", "top", "", None),
)
BOTH_WAYS = {("wait", "kernel"), ("kernel", "peers"), ("proxy", "nodes")}


def anchor(name, side):
    left, top, width, height = BOXES[name][:4]
    level = {"low": 0.8, "high": 0.2}.get(side.partition("-")[2], 0.5)
    return {
        "top": (left + width / 2, top),
        "bottom": (left + width / 2, top + height),
        "left": (left, top + height * level),
        "right": (left + width, top + height * level),
    }[side.partition("-")[0]]


def text(x, y, words, size=13, anchor_at="middle", weight="normal", colour="#222222"):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor_at}" font-weight="{weight}" '
            f'fill="{colour}">{escape(words)}</text>')


def draw():
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" role="img" aria-label="The way of one call">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="#444444"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for top, bottom, name, colour in FLOORS:
        lines.append(f'<rect x="10" y="{top}" width="{WIDTH - 20}" height="{bottom - top}" rx="8" fill="{colour}"/>')
        lines.append(text(22, top + 20, name, 12, "start", "bold", "#666666"))
    for start, from_side, end, to_side, words, place in ARROWS:
        (x1, y1), (x2, y2) = anchor(start, from_side), anchor(end, to_side)
        back = ' marker-start="url(#tip)"' if (start, end) in BOTH_WAYS else ""
        lines.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#444444" stroke-width="1.4" '
                     f'marker-end="url(#tip)"{back}/>')
        if words:
            halo = text(place[0], place[1], words, 12, colour="#444444")
            lines.append(halo.replace("<text ", '<text paint-order="stroke" stroke="#ffffff" stroke-width="4" ', 1))
    for left, top, width, height, title, second, colour in BOXES.values():
        lines.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="5" fill="{colour}" '
                     'stroke="#777777"/>')
        middle = left + width / 2
        lines.append(text(middle, top + (21 if second else height / 2 + 5), title, 15, weight="bold"))
        if second:
            lines.append(text(middle, top + 40, second, 12))
    lines.append(text(WIDTH / 2, 758, "An arrow is a call or a transfer. Whatever waits has a deadline.", 13,
                      colour="#444444"))
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def main():
    arguments = sys.argv[1:]
    if len(arguments) > 1:
        sys.exit(f"call.py: '{arguments[1]}' is not allowed; use --check, a folder, or nothing")
    check = arguments == ["--check"]
    path = os.path.join(HERE if check or not arguments else arguments[0], "call.svg")
    if check:
        with open(path, encoding="utf-8") as file:
            if file.read() != draw():
                sys.exit("call.py: call.svg is not what this script draws: run docs/call.py")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(draw())


main()
