"""python3 -m mscclpp_plans ALGORITHM|PROGRAM.py|defaults: writes the plans of algorithms or of a program."""
import argparse
import json
import os
import runpy
import sys

from . import Program, Refused, programs, prove


def run(path, values):
    """What a program calls `plan`: a Program or a plan."""
    found = runpy.run_path(path, run_name="__plan__").get("plan")
    if callable(found):
        found = found(**values)
    elif values:
        raise ValueError(f"{path}: --set is for a function `plan`, which it lacks")
    if not isinstance(found, (Program, dict)):
        raise ValueError(f"{path}: `plan` is neither a Program nor a plan nor a function that returns one")
    return found


def setting(text):
    """NAME=VALUE, of which the value is a whole number or a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; use NAME=VALUE")
    return name, int(value) if value.lstrip("-").isdigit() else value


def algorithm(text):
    """One of the algorithms, or the file of a program."""
    if not text.endswith(".py") and text not in [*programs.FLAT, *programs.NODES, "defaults"]:
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; use a file whose name ends in .py, or one of "
                                         + ", ".join([*programs.FLAT, *programs.NODES, "defaults"]))
    return text


def make(options, parser):
    """The programs, or finished plans, that are asked for."""
    keys = {"instances": options.instances, "packets": options.packets, "min_message_size": options.min,
            "max_message_size": options.max}
    if options.algorithm.endswith(".py"):
        return [run(options.algorithm, dict(options.set))]
    if options.algorithm in programs.FLAT:
        if options.ranks < 1:
            parser.error(f"{options.algorithm} wants --ranks")
        return [programs.FLAT[options.algorithm](options.ranks, **keys)]
    if options.nodes < 1 or options.gpus < 1:
        parser.error(f"{options.algorithm} wants --nodes and --gpus")
    if options.algorithm == "defaults":
        if not options.output:
            parser.error("defaults wants --output, a folder for several plans")
        return list(programs.defaults(options.nodes, options.gpus))
    return [programs.NODES[options.algorithm](options.nodes, options.gpus, **keys)]


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python3 -m mscclpp_plans", description="Writes execution plans.")
    parser.add_argument("algorithm", type=algorithm, metavar="ALGORITHM|PROGRAM.py",
                        help="one of " + ", ".join([*programs.FLAT, *programs.NODES]) + ", a program that defines "
                        "`plan`, or `defaults`: all-reduces of several sizes for --nodes and --gpus")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
                        help="an argument of a program's function `plan`")
    parser.add_argument("--ranks", type=int, default=0, help="of algorithms that know no nodes")
    parser.add_argument("--nodes", type=int, default=0, help="of the others")
    parser.add_argument("--gpus", type=int, default=0, help="of each node")
    parser.add_argument("--instances", type=int, default=1, help="blocks of threads a rank")
    parser.add_argument("--packets", action="store_true", help="data go between ranks as packets")
    parser.add_argument("--min", type=int, default=0, help="smallest message, in bytes")
    parser.add_argument("--max", type=int, default=2**64 - 1, help="largest message, in bytes")
    parser.add_argument("--name", help="of the plan (default: of the algorithm)")
    parser.add_argument("--tool", help="mscclpp_plan, where it is not in PATH")
    parser.add_argument("--unproven", action="store_true", help="write the plan without a proof")
    parser.add_argument("--explain", action="store_true", help="tell on standard error what the passes make of it")
    parser.add_argument("-o", "--output", help="file (default: standard output); of defaults, a folder")
    options = parser.parse_args()
    try:
        for made in make(options, parser):
            if options.explain and isinstance(made, Program):
                sys.stderr.write(made.explain())
            plan = made.compile() if isinstance(made, Program) else made
            plan["name"] = options.name or plan["name"]
            if not options.unproven:
                prove(plan, options.tool)
            write(plan, options)
    except (ValueError, OSError, SyntaxError, Refused) as error:
        print(f"mscclpp_plans: {error}", file=sys.stderr)
        return 1
    return 0


def write(plan, options):
    """Writes a plan where it is to go."""
    path, text = options.output, json.dumps(plan) + "\n"
    if options.algorithm == "defaults":
        os.makedirs(path, exist_ok=True)
        path = os.path.join(path, plan["name"] + ".json")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


sys.exit(main())
