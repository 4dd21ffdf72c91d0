"""Makes a plan from a program: runs the passes, and stores the result of each pass as text."""
from . import blocks, fusion, limits
from .graph import link, sort_by_level
from .steps import lower
from .sync import Synchronisation
from .writer import write

PASSES = ("operations", "graph", "fusion", "choice", "blocks", "signals", "file")


class Compiled:
    """A plan, and the results of all passes.

    plan: the plan as a dictionary for json.dump. choice: the choice with which the plan is made. text: by the name of a
    pass, the lines that describe its result. cache: the steps before blocks are chosen, by whether they use packets and
    whether they keep adjacent chunks together.
    """

    def __init__(self, program):
        """Makes the plan with the fastest choice or, for a portable program, with the fastest choice that fits.

        Raises ValueError if no choice fits, or if a choice that is tried has turns that do not fit into the scratch.
        """
        self.program, self.text, self.cache = program, {}, {}
        self.text["operations"] = [str(operation) for operation in program.operations]
        sorted_choices = self._sorted_choices()
        problems = []
        for choice in sorted_choices:
            plan = self._finish(choice)
            problems = limits.exceeded(plan) if program.portable else []
            if not problems:
                self.plan, self.choice = plan, choice
                return
        raise ValueError(f"{program.name}: no choice of blocks fits into MSCCL++'s executor; {problems[0]}")

    def _steps(self, packets, keeps_adjacent):
        """Returns the steps before blocks are chosen, the slots of packets, and the lines of graph and fusion.

        keeps_adjacent: adjacent chunks are kept together. The passes change operations, so they get copies, and the
        original operations stay as they are for the next choice. Choices share the steps in the cache, and assign new
        blocks to them.

        At the end the steps are sorted and numbered again: each step comes after the steps for which it waits, and
        blocks carry out their steps in this order.
        """
        key = packets, keeps_adjacent
        if key not in self.cache:
            program = self.program
            operations = (fusion.merge if keeps_adjacent else fusion.split)([operation.alike()
                                                                    for operation in program.operations])
            steps, slots = lower(program, operations, packets)
            link(steps)
            graph_lines = [f"{step.number}  {step}"
                           + "".join(f"; after {other.number} ({reason})" for other, reason in step.before.items())
                           for step in steps]
            max_operands = limits.Limits.ITEMS if program.portable else 1 << 30
            steps, fusion_lines = fusion.fuse(steps, max_operands)
            steps = sort_by_level(steps)
            for number, step in enumerate(steps, 1):
                step.number = number
            self.cache[key] = steps, slots, graph_lines, fusion_lines
        return self.cache[key]

    def _sorted_choices(self):
        """Returns all choices that the program allows, sorted by their times in the cost model.

        Choices without packets are left out if the program needs packets. Also stores the text of this pass.
        """
        program, timed = self.program, []
        # The size of a message is the size of the larger one of input and output.
        chunk = max(16, program.size // max(program.counts["i"], program.counts["o"]))
        for packets in (False, True) if program.packets is None else (program.packets,):
            if not packets and program.needs_packets:
                continue
            for choice in blocks.choices(program, chunk, packets):
                steps = self._steps(packets, self._keeps_adjacent(choice))[0]
                time = blocks.estimate(steps, choice, chunk, False)
                timed.append((time + blocks.BLOCK * choice.blocks * choice.instances, choice))
        timed.sort()
        self.chunk = chunk
        self.text["choice"] = [f"for {program.size} bytes, by the cost model"]
        self.text["choice"] += [f"{time:9.1f} us  {choice}" for time, choice in timed[:8]]
        self.text["choice"] += [f"and {len(timed) - 8} more"] if len(timed) > 8 else []
        return [choice for _, choice in timed]

    @staticmethod
    def _keeps_adjacent(choice):
        """Returns True if a choice divides messages neither into instances nor into turns."""
        return choice.instances == 1 and not choice.turn

    def _finish(self, choice):
        """Returns the plan for a choice, and stores the texts of the passes. First assigns blocks to the steps."""
        steps, slots, self.text["graph"], fusion_lines = self._steps(choice.packets, self._keeps_adjacent(choice))
        blocks.estimate(steps, choice, self.chunk)
        sync = Synchronisation(self.program, steps, choice)
        plan = write(self.program, steps, slots, choice, sync)
        self.text["fusion"] = fusion_lines + [f"{len(steps)} steps are left"]
        self.text["blocks"] = [f"rank {rank} block {block}: "
                               + ", ".join(str(step.number) for step in steps if step.agent == (rank, block))
                               for rank, block in sync.agents]
        self.text["signals"] = sync.lines()
        self.text["file"] = _file_lines(plan)
        return plan

    def explain(self, names=PASSES):
        """Returns the results of the passes with these names, as text."""
        lines = []
        for name in names:
            lines += [name, *(f"  {line}" for line in self.text[name])]
        return "\n".join(lines) + "\n"


def _file_lines(plan):
    """Returns lines with the number of operations of each name in a block; equal blocks share a line."""
    blocks_by_text = {}
    for gpu in plan["gpus"]:
        for block in gpu["threadblocks"]:
            names = [op["name"] for outer in block["ops"] for op in [outer, *outer.get("ops", [])]]
            text = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
            blocks_by_text.setdefault(text, []).append(f"rank {gpu['id']} block {block['id']}")
    return [block_names[0] + (f" and {len(block_names) - 1} more" if block_names[1:] else "") + f": {text}"
            for text, block_names in blocks_by_text.items()]
