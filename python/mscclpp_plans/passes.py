"""Makes a plan of a program: runs the passes, and keeps what each of them made."""
from . import blocks, fusion, limits
from .graph import link, order
from .steps import lower
from .sync import Synchronisation
from .writer import write

PASSES = ("operations", "graph", "fusion", "choice", "blocks", "signals", "file")


class Compiled:
    """A plan, and what each pass made.

    plan: as json.dump takes it. choice: the one that the plan is made by. text: lines, by the name of the pass. cache:
    steps before blocks are chosen, by whether they use packets and keep neighbouring chunks together.
    """

    def __init__(self, program):
        """Makes the plan by the fastest choice or, of a portable program, by the fastest one that fits.

        Raises ValueError if none fits, or if a choice that is tried has turns that do not fit into the scratch.
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

    def _steps(self, packets, whole):
        """Returns the steps before blocks are chosen, the slots of packets, and the lines of graph and fusion.

        whole: neighbouring chunks stay together. The passes change operations, so they get copies; the program's own
        serve the next choice. The steps of the cache are shared by choices, and get their blocks for each anew.

        At the end the steps are sorted and numbered again: each is behind those that it waits for, and blocks do
        their steps in this order.
        """
        key = packets, whole
        if key not in self.cache:
            program = self.program
            operations = (fusion.merge if whole else fusion.split)([operation.alike()
                                                                    for operation in program.operations])
            steps, slots = lower(program, operations, packets)
            link(steps)
            graph_lines = [f"{step.number}  {step}"
                           + "".join(f"; after {other.number} ({why})" for other, why in step.before.items())
                           for step in steps]
            most = limits.Limits.ITEMS if program.portable else 1 << 30
            steps, fusion_lines = fusion.fuse(steps, most)
            steps = order(steps)
            for number, step in enumerate(steps, 1):
                step.number = number
            self.cache[key] = steps, slots, graph_lines, fusion_lines
        return self.cache[key]

    def _sorted_choices(self):
        """Returns the choices that the program leaves open, the fastest by the cost model first.

        Choices without packets are left out if the program needs packets.
        """
        program, timed = self.program, []
        # A message is what the larger one of input and output holds.
        chunk = max(16, program.size // max(program.counts["i"], program.counts["o"]))
        for packets in (False, True) if program.packets is None else (program.packets,):
            if not packets and program.needs_packets:
                continue
            for choice in blocks.choices(program, chunk, packets):
                steps = self._steps(packets, self._whole(choice))[0]
                time = blocks.estimate(steps, choice, chunk, False)
                timed.append((time + blocks.BLOCK * choice.blocks * choice.instances, choice))
        timed.sort()
        self.chunk = chunk
        self.text["choice"] = [f"for {program.size} bytes, by the cost model"]
        self.text["choice"] += [f"{time:9.1f} us  {choice}" for time, choice in timed[:8]]
        self.text["choice"] += [f"and {len(timed) - 8} more"] if len(timed) > 8 else []
        return [choice for _, choice in timed]

    @staticmethod
    def _whole(choice):
        """Tells whether a choice cuts messages neither into instances nor into turns."""
        return choice.instances == 1 and not choice.turn

    def _finish(self, choice):
        """Returns the plan for a choice, and keeps what the passes made. Gives the steps their blocks first."""
        steps, slots, self.text["graph"], fusion_lines = self._steps(choice.packets, self._whole(choice))
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
        """Returns what the passes of these names made, as text."""
        lines = []
        for name in names:
            lines += [name, *(f"  {line}" for line in self.text[name])]
        return "\n".join(lines) + "\n"


def _file_lines(plan):
    """Returns how many operations of each name blocks have, with one line for all blocks that are alike."""
    blocks_by_text = {}
    for gpu in plan["gpus"]:
        for block in gpu["threadblocks"]:
            names = [op["name"] for outer in block["ops"] for op in [outer, *outer.get("ops", [])]]
            text = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
            blocks_by_text.setdefault(text, []).append(f"rank {gpu['id']} block {block['id']}")
    return [block_names[0] + (f" and {len(block_names) - 1} more" if block_names[1:] else "") + f": {text}"
            for text, block_names in blocks_by_text.items()]
