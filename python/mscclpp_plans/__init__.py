"""Execution plans for coll/mscclpp and MSCCL++, written as programs.

chunks: says which chunk goes where and is combined with which; blocks, channels, signals and waits are derived.
channels: says every signal and wait, block by block.
programs: the classic algorithms, in a few lines each.

`Program.compile` proves the plan that it makes, by `mscclpp_plan check`. prove() proves any plan.
"""
from . import programs
from .channels import Block, Rank, assemble, local
from .chunks import Program
from .limits import exceeded
from .prove import Refused, prove

__all__ = ["Block", "Program", "Rank", "Refused", "assemble", "exceeded", "local", "programs", "prove"]
