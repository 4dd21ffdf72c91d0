"""Tests of the language of plans: what the compiler makes is proven, runs right, and is what was asked for."""
import glob
import json
import os
import random
import re
import resource
import unittest.mock

from harness import HERE, PYTHON, check, run_program
from mscclpp_plans import Program, Refused, exceeded, programs, prove
from mscclpp_plans.graph import Node, Span, link
from mscclpp_plans.passes import PASSES, Compiled
from mscclpp_plans.sync import Synchronisation
from random_programs import random_program

# One way of each kind to give the steps of a rank to blocks, and what the cost model chooses for 1 MiB and for 1 KB.
WAYS = {"one": {"blocks": 1, "instances": 1, "packets": False, "pipeline": 0},
        "many": {"blocks": 3, "instances": 2, "packets": False, "pipeline": 0},
        "loop": {"blocks": 2, "instances": 1, "pipeline": 64},
        "packets": {"blocks": 2, "instances": 2, "packets": True},
        "chosen": {}, "small": {"size": 1000}}


def algorithm_plans(wanted):
    """The classic algorithms in several shapes and ways, by name."""
    found = {}
    for name, make in programs.FLAT.items():
        for ranks in (1, 2, 3, 4, 8):
            for way, keys in WAYS.items():
                full = f"{name}_{ranks}_{way}"
                if wanted(full) and (name != "allreduce_halving" or ranks & (ranks - 1) == 0):
                    found[full] = make(ranks, **keys).plan()
    for name, make in programs.NODES.items():
        for nodes, gpus in ((2, 2), (3, 2), (2, 4)):
            for way, keys in WAYS.items():
                full = f"{name}_{nodes}x{gpus}_{way}"
                if wanted(full):
                    found[full] = make(nodes, gpus, **keys).plan()
    return found


def prove_all(tool, found, folder, most="4000"):
    """Proves plans and runs them on the twin."""
    paths = [tool.write(name, json.dumps(plan)) for name, plan in found.items()]
    for entry in tool.verdicts(paths) if paths else []:
        check(entry["verdict"] == "ok" and entry["simulated"]["results"], f"{entry['file']}: {entry}")
        rules = {finding["rule"] for finding in entry["findings"]}
        check("packet-order" not in rules, f"{entry['file']}: its packets order other stores, which costs time")
    said = run_program("execution of the language's plans", os.path.join(folder, "execute"), "--brief", "--most", most,
                       *paths) if paths else ""
    check(not said or f"{len(paths)} plans right, 0 wrong, 0 skipped" in said, f"execution: {said}")


def test_algorithms(tool, folder, wanted):
    """Every algorithm is proven and runs right, in whatever way its steps are given to blocks."""
    prove_all(tool, algorithm_plans(wanted), folder)


def test_random_programs(tool, folder, count):
    """Whatever a program does in between, its result is that of its operations one after another."""
    found = {}
    for seed in range(count):
        random_ = random.Random(seed)
        packets = random_.random() < 0.4
        program = random_program(random_, instances=random_.choice((1, 1, 2)), blocks=random_.choice((1, 2, 3)),
                                 packets=packets, pipeline=0 if packets else random_.choice((0, 0, 64)))
        found[f"random_{seed}"] = program.plan()
    prove_all(tool, found, folder, "1000")


def test_changed_packets(tool, folder):
    """Packets are only passed on as they came if their span was not changed meanwhile, not even a part of it."""
    found = {}
    for changed in (0, 1, None):
        program = Program("changed", "allreduce", 3, 2, True, packets=True, blocks=1, instances=1)
        program.chunk(0, "i", 0, 2).copy(1, "s", 0)
        if changed is not None:
            program.chunk(1, "s", changed).reduce(program.chunk(1, "i", changed))
        program.chunk(1, "s", 0, 2).copy(2, "s", 0)
        program.chunk(2, "i", 0, 2).reduce(program.chunk(2, "s", 0, 2))
        for index in {0, 1} - {changed}:
            program.chunk(2, "i", index).reduce(program.chunk(1, "i", index))
        for rank in (0, 1):
            program.chunk(2, "i", 0, 2).copy(rank, "i", 0)
        found[f"changed_{changed}"] = program.plan()
    prove_all(tool, found, folder)
    ops = [count_ops(plan, 1).get("rppkt", 0) for plan in found.values()]
    check(ops == [0, 0, 1], f"packets that are passed on, with a change and without: {ops}")


def moved_data(through, **keys):
    """An all-reduce of two ranks. Sums wait in another chunk of the output; `through` is a buffer on their way."""
    program = Program("moved", "allreduce", 2, 3, blocks=1, instances=1, **keys)
    for rank in (0, 1):
        for index in (0, 1, 2):
            waits = program.chunk(rank, "i", index).copy(rank, "o", 2)
            waits.reduce(program.chunk(1 - rank, "i", index))
            if index < 2:
                (waits.copy(rank, through, 0) if through == "s" else waits).copy(rank, "o", index)
    return program.plan()


def test_moved_data(tool, folder):
    """Data of one chunk may lie in another chunk of the block, which is shorter for some messages."""
    found = {f"moved_{through}_{packets}": moved_data(through, packets=packets)
             for through in ("o", "s") for packets in (False, True)}
    prove_all(tool, found, folder)


class _Touch(Node):
    def __init__(self, reads, writes):
        super().__init__()
        self._reads, self._writes = reads, writes

    def reads(self):
        return self._reads

    def writes(self):
        return self._writes


def test_graph():
    """Intervals that overlap conflict, on the rank that does the step and on its peers; others do not."""
    wide, low, high = Span(0, "s", 0, 4), Span(0, "s", 0, 2), Span(0, "s", 2, 2)
    other_rank, other_buffer = Span(1, "s", 0, 4), Span(0, "o", 0, 4)
    nodes = [_Touch([], [wide]), _Touch([low], [other_rank]), _Touch([other_buffer], [high]), _Touch([wide], []),
             _Touch([], [low])]
    link(nodes)
    before = [{other.number: why for other, why in node.before.items()} for node in nodes]
    check(before == [{}, {1: "RAW"}, {1: "WAW"}, {1: "RAW", 3: "RAW"}, {1: "WAW", 2: "WAR", 4: "WAR"}],
          f"the graph is {before}")
    check([node.level for node in nodes] == [0, 1, 1, 2, 3], f"levels are {[node.level for node in nodes]}")


def count_ops(plan, rank=0):
    """How many operations of each name a rank has."""
    names = [op["name"] for block in plan["gpus"][rank]["threadblocks"] for outer in block["ops"]
             for op in [outer, *outer.get("ops", [])]]
    return {name: names.count(name) for name in names}


def test_passes(tool):
    """What each pass is for can be seen in the plan."""
    one = WAYS["one"]
    ops = count_ops(programs.allreduce_twophase(4, **one).plan())
    check(ops.get("rres") == 1 and "put" not in ops, f"two phases, fused: {ops}")
    ops = count_ops(programs.allreduce_ring(4, packets=True, blocks=1, instances=1).plan())
    check(ops.get("respkt") and ops.get("rppkt") and "ppkt" in ops, f"ring with packets, fused: {ops}")
    ops = count_ops(programs.allgather_direct(4, **one).plan())
    check(ops["put"] == 1 and ops["copy"] == 1, f"puts of direct all-gather, merged: {ops}")
    ops = count_ops(programs.allreduce_halving(8, **one).plan())
    check(ops["put"] <= 3 and ops["rre"] + ops["rres"] == 3, f"neighbours of recursive halving, merged: {ops}")
    ops = count_ops(programs.allreduce_ring(4, **one).plan())
    # In 6 steps with their signals a rank hears 6 times of its neighbour; begin and end add 3 at most.
    check(ops["wait"] <= 9, f"waits of a ring: {ops}")
    explained = programs.allreduce_hierarchical(2, 2).explain()
    check([line for line in explained.splitlines() if not line.startswith(" ")] == list(PASSES),
          f"passes: {explained}")
    done = tool.run("compile", "allreduce_ring", "--ranks", "3", "--pass", "graph", "--pass", "choice")
    check(done.returncode == 0 and "(RAW)" in done.stderr and "by the cost model" in done.stderr and
          "signals" not in done.stderr.splitlines(), f"--pass: {done.stderr}")


def test_choice(tool):
    """The cost model is that of `mscclpp_plan show`, and it takes packets, instances and loops where they pay."""
    for make, shape, keys in ((programs.allreduce_ring, (8,), {"size": 64 << 20}),
                              (programs.allreduce_hierarchical, (2, 4), {"size": 64 << 20, "most_blocks": 48}),
                              (programs.alltoall_twostep, (2, 4), {"size": 64 << 20}),
                              (programs.allgather_bruck, (8,), {"size": 8192})):
        compiled = Compiled(make(*shape, **keys))
        path = tool.write("chosen", json.dumps(compiled.plan))
        shown = float(re.search(r"([\d.]+) us by the cost model", tool.run("show", "--bytes", str(keys["size"]),
                                                                           path).stdout).group(1))
        guessed = float(re.search(r"([\d.]+) us", compiled.text["choice"][1]).group(1))
        check(abs(shown - guessed) < 0.25 * shown, f"{make.__name__}: {guessed} us chosen, {shown} us shown")
    check(Compiled(programs.allreduce_oneshot(8, size=1024)).choice.packets, "no packets for 1 KiB")
    large = Compiled(programs.allreduce_ring(8, size=64 << 20)).choice
    check(not large.packets and large.instances == 16, f"for 64 MiB: {large}")
    looped = Compiled(programs.allreduce_hierarchical(2, 4, size=64 << 20, most_blocks=48)).choice
    check(looped.turn and looped.blocks > 1, f"several nodes, 64 MiB: {looped}")


def staged_allgather(ranks, **keys):
    """Blocks go around a ring through scratch, which is all that peers and proxies touch."""
    p = Program("staged_allgather", "allgather", ranks, reuse_resources=True, **keys)
    for r in range(ranks):
        have = p.chunk(r, "i", 0).copy(r, "o", r)
        for k in range(1, ranks):
            passed = have.copy((r + k - 1) % ranks, "s", 2).copy((r + k) % ranks, "s", k % 2)
            have = passed.copy((r + k) % ranks, "o", r)
    return p


def test_credits(tool, folder):
    """In a loop through a scratch that is shorter than the chunks, credits keep turns apart."""
    found = {f"staged_{ranks}_{blocks}": staged_allgather(ranks, blocks=blocks, instances=1, pipeline=1 << 22).plan()
             for ranks in (2, 3) for blocks in (1, 2, 4)}
    found["staged_nodes"] = staged_allgather(4, blocks=2, instances=1, pipeline=1 << 22,
                                             port=lambda one, other: one // 2 != other // 2).plan()
    prove_all(tool, found, folder)
    with unittest.mock.patch.object(Synchronisation, "_add_credits"):
        without = staged_allgather(2, blocks=4, instances=1, pipeline=1 << 22).plan()
    paths = [tool.write(name, json.dumps(plan)) for name, plan in [*found.items(), ("without", without)]]
    for entry in tool.verdicts(paths):
        # The note says that the scratch has to be as large as the message.
        rules = {finding["rule"] for finding in entry["findings"]}
        check(("wrap" in rules) == entry["file"].endswith("without.json"), f"{entry['file']}: {rules}")
    try:
        staged_allgather(2, blocks=1, instances=1, pipeline=1 << 26).plan()
        check(False, "turns that do not fit into the scratch are taken")
    except ValueError as error:
        check("do not fit" in str(error), f"turns too large: {error}")


def test_portable(tool):
    """Where that is asked for, plans keep to the limits of MSCCL++'s executor, or are refused."""
    for make, shape, keys in ((programs.allreduce_twophase, (16,), {}), (programs.allreduce_oneshot, (16,), {}),
                              (programs.alltoall_direct, (16,), {"packets": True}), (programs.allgather_ring, (8,), {}),
                              (programs.allreduce_hierarchical, (2, 8), {})):
        entry = tool.verdicts([tool.write("portable", json.dumps(make(*shape, portable=True, **keys).plan()))])[0]
        rules = {finding["rule"] for finding in entry["findings"]}
        check(entry["verdict"] == "ok" and "portable" not in rules, f"{make.__name__}: {entry}")
    # Without being asked the same program exceeds a limit, so that the checks above cannot pass by chance.
    free = programs.allreduce_twophase(16, **WAYS["one"]).plan()
    check(any("sources of one" in line for line in exceeded(free)), f"limits: {exceeded(free)[:3]}")
    done = tool.run("compile", "allreduce_ring", "--ranks", "32", "--blocks", "1", "--instances", "1", "--portable")
    check(done.returncode == 1 and "operations; MSCCL++ has room for 64" in done.stderr, f"--portable: {done.stderr}")


def test_refusals(tool):
    """What a program cannot be is said; a plan that yields wrong results is not written."""
    for make, what in ((lambda: Program("x", "broadcast", 2), "broadcast"),
                       (lambda: Program("x", "allreduce", 0), "ranks is 0"),
                       (lambda: Program("x", "allreduce", 2, blocks=0), "blocks is 0"),
                       (lambda: Program("x", "allreduce", 2, blocks=17), "blocks is 17; allowed are 1 to 16"),
                       (lambda: Program("x", "allreduce", 2, instances=9, most_blocks=8),
                        "instances is 9; allowed are 1 to 8"),
                       (lambda: Program("x", "allreduce", 2, pipeline=40), "pipeline is 40"),
                       (lambda: Program("x", "allreduce", 2).chunk(2, "i", 0), "rank is 2"),
                       (lambda: Program("x", "allreduce", 2).chunk(0, "x", 0), "'x'"),
                       (lambda: Program("x", "allreduce", 2).chunk(0, "i", 1), "1 chunks from 1 on"),
                       (lambda: Program("x", "allreduce", 1, 3).chunk(0, "o", 0, 2).copy(0, "o", 1),
                        "copy: o[0..1] of rank 0 and o[1..2] of rank 0 overlap"),
                       (lambda: Program("x", "allreduce", 1, 3, True).chunk(0, "o", 1, 2).reduce(
                           Program("x", "allreduce", 1, 3).chunk(0, "i", 0, 2)), "reduce: i[0..1]"),
                       (lambda: programs.allreduce_halving(3), "powers of 2")):
        try:
            make()
            check(False, f"taken, though {what} is wrong")
        except ValueError as error:
            check(what in str(error), f"{what}: {error}")
    program = programs.allreduce_twophase(3)
    program.operations.pop()
    for act in (lambda: prove(program.plan(), tool.program), lambda: program.compile(tool.program)):
        try:
            act()
            check(False, "a plan without its last copy is proven")
        except Refused as refused:
            check("wrong result" in str(refused), f"refused with {refused}")


PROGRAM = """
from mscclpp_plans import programs
def plan(ranks=3, wrong=0):
    program = programs.allgather_direct(ranks, instances=2)
    if wrong:
        program.operations.pop()
    return program
"""


def test_compile(tool):
    """mscclpp_plan compile: algorithms and programs, proven unless one says otherwise."""
    program, empty = tool.write("program", PROGRAM, ".py"), tool.write("empty", "plan = 3\n", ".py")
    ring = ["allreduce_ring", "--ranks", "3"]
    for arguments, status, ranks, err in (
            (["allreduce_ring", "--ranks", "4"], 0, 4, ""), ([program], 0, 3, ""),
            ([program, "--set", "ranks=5"], 0, 5, ""), ([program, "--set", "wrong=1"], 1, 0, "wrong result"),
            ([program, "--set", "rank=5"], 1, 0, "argument 'rank'"),
            ([program, "--set", "wrong=1", "--unproven"], 0, 3, ""), ([program, "--set", "ranks"], 2, 0, "NAME=VALUE"),
            ([*ring, "--no-packets", "--explain"], 0, 3, "would say what is known"),
            ([*ring, "--packets", "--explain"], 0, 3, "sends i[0] of rank 0 as packets"),
            ([*ring, "--pipeline", "40"], 1, 0, "pipeline is 40"), ([*ring, "--pass", "x"], 2, 0, "'x'"),
            (["allreduce_ring"], 2, 0, "--ranks"), (["allreduce_ring", "--ranks", "0"], 2, 0, "--ranks is 0"),
            (["defaults", "--nodes", "2", "--gpus", "8"], 2, 0, "--output"),
            ([empty], 1, 0, "neither a Program"), (["/nonexistent.py"], 1, 0, "/nonexistent.py"),
            (["frobnicate"], 2, 0, "'frobnicate' is not allowed"), ([], 2, 0, "Usage")):
        done = tool.run("compile", *arguments)
        check(done.returncode == status and err in done.stderr,
              f"compile {arguments}: status {done.returncode}: {done.stderr[-500:]}")
        check(status != 0 or len(json.loads(done.stdout)["gpus"]) == ranks, f"compile {arguments}: {done.stdout[:200]}")


def test_python_path(tool):
    """mscclpp_plan compile puts the folder of its module behind all of PYTHONPATH, however long that is."""
    program = tool.write("path", 'import os\nraise ValueError(os.environ["PYTHONPATH"])\n', ".py")
    given = [f"{PYTHON}:/first", f"{PYTHON}:/{'x' * 9000}:/last"]
    said = [tool.run("compile", program, PYTHONPATH=path).stderr.strip() for path in given]
    added = [text.split("compile: ", 1)[-1].removeprefix(path) for text, path in zip(said, given)]
    check(len(added[0]) > 1 and added[0] == added[1], f"PYTHONPATH gets {[text[-200:] for text in said]}")


def test_guide(tool):
    """The program of the guide is what the guide says."""
    guide = os.path.join(HERE, "..", "..", "docs", "plans-guide.md")
    if not os.path.exists(guide):
        print("skipped: the guide: no docs/plans-guide.md")
        return
    with open(guide, encoding="utf-8") as file:
        path = tool.write("guide", re.search(r"```python\n(.*?)```", file.read(), re.S).group(1), ".py")
    for arguments in ([], ["--set", "packets=1"], ["--set", "instances=4", "--name", "two_steps_4"]):
        done = tool.run("compile", path, *arguments)
        check(done.returncode == 0 and len(json.loads(done.stdout)["gpus"]) == 4, f"guide {arguments}: {done.stderr}")


def test_defaults(tool):
    """The default plans of MSCCL++'s shapes and of others are proven, at the sizes that they are for."""
    for nodes, gpus in ((2, 8), (4, 8), (3, 1), (1, 3)):
        folder = os.path.join(tool.folder, f"defaults_{nodes}x{gpus}")
        done = tool.run("compile", "defaults", "--nodes", str(nodes), "--gpus", str(gpus), "-o", folder)
        paths = sorted(glob.glob(os.path.join(folder, "*.json")))
        check(done.returncode == 0 and len(paths) == 2, f"defaults {nodes} x {gpus}: {paths} {done.stderr}")
        for entry in tool.verdicts(paths):
            check(entry["verdict"] == "ok" and entry["simulated"]["results"], f"{entry['file']}: {entry}")


def processor_seconds(tool, tries, *arguments):
    """The processor time that the tool takes: the least of some tries, as other jobs may be in its way."""
    times = []
    for _ in range(tries):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = tool.run(*arguments)
        times.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        check(done.returncode == 0, f"{arguments}: {done.stdout[:300]}")
    return min(times)


def test_speed(tool):
    """The default plans are proven in seconds. The static checks, which each job makes, take nearly no time."""
    with open(tool.program, "rb") as file:
        slower = 20 if b"__asan_init" in file.read() else 1
    for nodes, proof, static in ((2, 2, 0.05), (4, 20, 0.2)):
        paths = sorted(glob.glob(os.path.join(tool.folder, f"defaults_{nodes}x8", "*.json")))
        for path in paths:
            for most, took in ((proof, processor_seconds(tool, 1, "check", path)),
                               (static, processor_seconds(tool, 3, "check", "--static", path))):
                check(took < slower * most, f"{path}: {took} s for {most}")


def test_all(tool, folder, long):
    """All tests but those of single algorithms."""
    test_graph()
    test_passes(tool)
    test_choice(tool)
    test_credits(tool, folder)
    test_portable(tool)
    test_changed_packets(tool, folder)
    test_moved_data(tool, folder)
    test_random_programs(tool, folder, 2000 if long else 150)
    test_refusals(tool)
    test_compile(tool)
    test_python_path(tool)
    test_defaults(tool)
    test_speed(tool)
    test_guide(tool)
