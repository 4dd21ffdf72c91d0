#!/usr/bin/env python3
"""Runs mpi4py's own suite. Usage: suite.py TEST_FOLDER whole|few [ARGUMENT]..., with the arguments of its main.py.

The suite calls its collectives with each root and, of several elements, with each count up to the number of ranks, and
that in arrays of some 20 types, of several packages. With many ranks that takes hours. "few" takes two types, of
Python's own arrays, and few roots and counts. Other types are for few ranks.

If all is well, rank 0 says so, and says what was skipped and why. A rank on which a test fails ends the job.
"""
import importlib.abc
import importlib.util
import os
import re
import sys

LOOP = re.compile(r"for (root|count|rcnt|n) in (range\((?:1, )?[lr]?size(?: \+ 1)?\))")
# The last one is on another node than the first ones, and no power of two.
FEW = r"for \1 in [few for few in \2 if few in (0, 1, 9)]"


class Shortener(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds and loads the tests of collectives, with fewer turns of their loops."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path, target=None):
        """Returns where a module of the suite is."""
        if not name.startswith("test_cco") or not os.path.exists(self.get_filename(name)):
            return None
        return importlib.util.spec_from_file_location(name, self.get_filename(name), loader=self)

    def get_filename(self, fullname):
        """Returns the file of a module."""
        return os.path.join(self.folder, fullname + ".py")

    def get_data(self, path):
        """Returns the text of a file with the shorter loops."""
        with open(path, encoding="utf-8") as file:
            return LOOP.sub(FEW, file.read()).encode()


def shorten(folder):
    """Leaves few types, roots and counts."""
    import arrayimpl  # pylint: disable=import-error,import-outside-toplevel

    sys.meta_path.insert(0, Shortener(folder))
    del arrayimpl.ArrayBackends[1:]
    types = arrayimpl.ArrayBackends[0].TypeMap
    for code in set(types) - {"i", "d"}:
        del types[code]


def say_skipped(skipped):
    """Prints each class with tests that were skipped, and why."""
    names = {}
    for test, reason in skipped:
        where, _, name = test.id().rpartition(".")
        names.setdefault((where, reason), []).append(name)
    for (where, reason), tests in names.items():
        print(f"suite: skipped {where}: {' '.join(tests)}: {reason}", flush=True)


def report(result):
    """Says on rank 0 how many tests ran. Uses no collective, as the calls of collectives are counted."""
    from mpi4py import MPI  # pylint: disable=import-outside-toplevel

    world = MPI.COMM_WORLD
    if not result.wasSuccessful():
        sys.stderr.flush()
        world.Abort(1)
    if world.rank > 0:
        world.send(result.testsRun, 0)
        return
    everywhere = {result.testsRun, *(world.recv(source=rank) for rank in range(1, world.size))}
    say_skipped(result.skipped)
    if len(everywhere) > 1:
        print(f"suite: the ranks ran different numbers of tests: {sorted(everywhere)}", flush=True)
        world.Abort(1)
    print(f"suite: {result.testsRun} tests, {len(result.skipped)} of them skipped", flush=True)


def main():
    """Runs the suite's main program, with a report at its end."""
    folder = sys.argv[1]
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    if sys.argv[2] == "few":
        shorten(folder)
    from main import TestProgram  # pylint: disable=import-error,import-outside-toplevel

    class Program(TestProgram):
        """The suite's program."""

        def runTests(self):
            """Runs the tests and reports."""
            try:
                super().runTests()
            finally:
                report(self.result)

    sys.argv = [os.path.join(folder, "main.py"), *sys.argv[3:]]
    Program(module=None)


main()
