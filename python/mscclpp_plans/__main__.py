"""python3 -m mscclpp_plans ALGORITHM --ranks N: writes a plan of a classic algorithm."""
import argparse
import json
import sys

from . import Refused, programs, prove


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python3 -m mscclpp_plans", description="Writes execution plans.")
    parser.add_argument("algorithm", choices=[*programs.FLAT, *programs.NODES])
    parser.add_argument("--ranks", type=int, default=0, help="of algorithms that know no nodes")
    parser.add_argument("--nodes", type=int, default=0, help="of the others")
    parser.add_argument("--gpus", type=int, default=0, help="of each node")
    parser.add_argument("--instances", type=int, default=1, help="blocks of threads a rank")
    parser.add_argument("--min", type=int, default=0, help="smallest message, in bytes")
    parser.add_argument("--max", type=int, default=2**64 - 1, help="largest message, in bytes")
    parser.add_argument("--name", help="of the plan (default: of the algorithm)")
    parser.add_argument("--tool", help="mscclpp_plan, where it is not in PATH")
    parser.add_argument("--unproven", action="store_true", help="write the plan without a proof")
    parser.add_argument("-o", "--output", help="file (default: standard output)")
    options = parser.parse_args()
    keys = {"instances": options.instances, "min_message_size": options.min, "max_message_size": options.max}
    try:
        if options.algorithm in programs.FLAT:
            if options.ranks < 1:
                parser.error(f"{options.algorithm} wants --ranks")
            program = programs.FLAT[options.algorithm](options.ranks, **keys)
        else:
            if options.nodes < 1 or options.gpus < 1:
                parser.error(f"{options.algorithm} wants --nodes and --gpus")
            program = programs.NODES[options.algorithm](options.nodes, options.gpus, **keys)
        plan = program.compile()
        plan["name"] = options.name or plan["name"]
        if not options.unproven:
            prove(plan, options.tool)
    except (ValueError, FileNotFoundError, Refused) as error:
        print(f"mscclpp_plans: {error}", file=sys.stderr)
        return 1
    text = json.dumps(plan) + "\n"
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    return 0


sys.exit(main())
