"""Execution plans for coll/mscclpp and MSCCL++, written as programs.

chunks: programs that copy and combine chunks; the compiler derives blocks, channels, signals and waits.
channels: plans that are written block by block, with every signal and wait.
programs: the classic algorithms, in a few lines each.

`Program.compile` proves the plan that it makes with `mscclpp_plan check`. prove() proves any plan.
"""
from . import programs
from .channels import Block, Rank, assemble, local
from .chunks import Program
from .limits import exceeded
from .prove import Refused, prove

__all__ = ["Block", "Program", "Rank", "Refused", "assemble", "exceeded", "local", "programs", "prove"]
