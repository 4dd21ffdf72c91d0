"""Execution plans for coll/mscclpp and MSCCL++, written as programs.

chunks: says which chunk goes where and is combined with which; blocks, channels, signals and waits are derived.
channels: says every signal and wait, block by block.
programs: the classic algorithms, in a few lines each.

Every plan can be proven with `mscclpp_plan check` before it is used: prove() does that.
"""
import json
import shutil
import subprocess
import tempfile

from . import programs
from .channels import Block, Rank, assemble, local
from .chunks import Program

__all__ = ["Block", "Program", "Rank", "Refused", "assemble", "local", "programs", "prove"]


class Refused(Exception):
    """A plan that cannot be proven; the text says why."""


def prove(plan, tool=None):
    """Raises Refused unless `mscclpp_plan check` proves the plan."""
    tool = tool or shutil.which("mscclpp_plan")
    if not tool:
        raise FileNotFoundError("no mscclpp_plan in PATH, which proves plans")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        done = subprocess.run([tool, "check", file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stdout.replace(file.name, plan["name"]) + done.stderr)
