"""Writes the plans of classic algorithms or of a file with a program. `mscclpp_plan compile` runs this module."""
import argparse
import inspect
import json
import os
import runpy
import sys

from . import Program, Refused, exceeded, programs, prove
from .passes import PASSES, Compiled

ALGORITHMS = [*programs.FLAT, *programs.NODES, "defaults"]


def algorithm(text):
    """Checks an argument for argparse, and returns it: the name of an algorithm, or of a file with a program."""
    if not text.endswith(".py") and text not in ALGORITHMS:
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; use a file whose name ends in .py, or one of "
                                         + ", ".join(ALGORITHMS))
    return text


def setting(text):
    """Parses NAME=VALUE for argparse. Returns the name and the value, which is a whole number or a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; use NAME=VALUE")
    return name, int(value) if value.lstrip("-").isdigit() else value


def parse_arguments():
    """Returns the options of the command line, and the parser."""
    parser = argparse.ArgumentParser(prog="mscclpp_plan compile", description="Writes execution plans.")
    parser.add_argument("algorithm", type=algorithm, metavar="ALGORITHM|PROGRAM.py",
                        help="a file that defines `plan`, or one of " + ", ".join(ALGORITHMS)
                        + "; `defaults` are all-reduces of several sizes for --nodes and --gpus")
    parser.add_argument("-o", "--output", help="file to write (default: standard output); for `defaults`, a folder")
    parser.add_argument("--ranks", type=int, help="number of ranks, for algorithms of one node")
    parser.add_argument("--nodes", type=int, help="number of nodes, for the other algorithms")
    parser.add_argument("--gpus", type=int, help="GPUs of each node")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
                        help="an argument of a program's function `plan`")
    parser.add_argument("--name", help="name of the plan (default: of the algorithm)")
    parser.add_argument("--min", type=int, default=0, help="smallest message, in bytes")
    parser.add_argument("--max", type=int, default=2**64 - 1, help="largest message, in bytes")
    chosen = parser.add_argument_group("what the cost model chooses if it is not given; only for algorithms")
    chosen.add_argument("--packets", action=argparse.BooleanOptionalAction, help="send data as packets, or not")
    chosen.add_argument("--blocks", type=int, help="blocks of threads that share the steps of a rank")
    chosen.add_argument("--instances", type=int, help="how often these blocks are there, each with a part of the data")
    chosen.add_argument("--pipeline", type=int, metavar="BYTES",
                        help="bytes of a chunk in one turn of a loop; 0: no loop")
    chosen.add_argument("--size", type=int, metavar="BYTES",
                        help="size of the messages to choose for (default: --max, or 1 MiB)")
    chosen.add_argument("--most-blocks", type=int, default=16, metavar="N", help="most blocks of a rank (default: 16)")
    parser.add_argument("--portable", action="store_true", help="keep to the limits of MSCCL++'s own executor")
    parser.add_argument("--explain", action="store_true", help="print on standard error what each pass made")
    parser.add_argument("--pass", dest="passes", choices=PASSES, action="append", metavar="NAME",
                        help="print what this pass made; one of " + ", ".join(PASSES))
    parser.add_argument("--unproven", action="store_true", help="write the plan without a proof")
    parser.add_argument("--tool", help="the program mscclpp_plan, if it is not in PATH")
    return parser.parse_args(), parser


def run_program(path, arguments):
    """Runs a file, and returns its variable `plan`, or the result of its function `plan`: a Program or a finished plan.

    arguments: the arguments of this function. Raises ValueError if the file has no such variable or function, if there
    are arguments but no function, or if the function does not take them.
    """
    result = runpy.run_path(path, run_name="__plan__").get("plan")
    if callable(result):
        try:
            inspect.signature(result).bind(**arguments)
        except TypeError as error:
            raise ValueError(f"{path}: --set: the function `plan` {error}") from error
        result = result(**arguments)
    elif arguments:
        raise ValueError(f"{path}: --set is for a function `plan`, which it lacks")
    if not isinstance(result, (Program, dict)):
        raise ValueError(f"{path}: `plan` is neither a Program nor a plan nor a function that returns one")
    return result


def make_programs(options, parser):
    """Returns the programs, or finished plans, that the options ask for. Wrong usage ends the process with status 2."""
    if options.algorithm.endswith(".py"):
        return [run_program(options.algorithm, dict(options.set))]
    if options.algorithm == "defaults" and not options.output:
        parser.error("defaults wants --output, a folder for several plans")
    if options.algorithm in programs.FLAT:
        shape = {"--ranks": options.ranks}
    else:
        shape = {"--nodes": options.nodes, "--gpus": options.gpus}
    if None in shape.values():
        parser.error(f"{options.algorithm} wants " + " and ".join(shape))
    for name, value in shape.items():
        if value < 1:
            parser.error(f"{name} is {value}; allowed are numbers from 1")
    if options.algorithm == "defaults":
        return list(programs.defaults(*shape.values()))
    make = {**programs.FLAT, **programs.NODES}[options.algorithm]
    return [make(*shape.values(), packets=options.packets, blocks=options.blocks, instances=options.instances,
                 pipeline=options.pipeline, size=options.size, most_blocks=options.most_blocks,
                 min_message_size=options.min, max_message_size=options.max)]


def compile_one(source, options):
    """Returns a finished plan. source: a Program, which is compiled, or a finished plan.

    Proves the plan unless the options include --unproven. Raises Refused if the plan has a fault, ValueError if it has
    to be portable and exceeds a limit, and FileNotFoundError if the program mscclpp_plan is not found. The limits of a
    Program are checked when it is compiled.
    """
    if isinstance(source, Program):
        source.portable = source.portable or options.portable
        compiled = Compiled(source)
        plan = compiled.plan
        if options.explain or options.passes:
            sys.stderr.write(compiled.explain(PASSES if options.explain else options.passes))
    else:
        plan = source
        if options.portable and exceeded(plan):
            raise ValueError("\n".join([f"{plan['name']} does not fit into MSCCL++'s executor", *exceeded(plan)]))
    plan["name"] = options.name or plan["name"]
    if not options.unproven:
        prove(plan, options.tool)
    return plan


def write(plan, options):
    """Writes a plan to the file or folder of the options, or to standard output."""
    path, text = options.output, json.dumps(plan) + "\n"
    if options.algorithm == "defaults":
        os.makedirs(path, exist_ok=True)
        path = os.path.join(path, plan["name"] + ".json")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


def main():
    """Runs the command line. Returns the exit status: 0, or 1 if a plan could not be made, proven or written.

    Wrong usage ends the process with status 2. Plans of `defaults` that were written before a failure are not removed.
    """
    options, parser = parse_arguments()
    try:
        for source in make_programs(options, parser):
            write(compile_one(source, options), options)
    except (ValueError, OSError, SyntaxError, Refused) as error:
        print(f"mscclpp_plan compile: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
