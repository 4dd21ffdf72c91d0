"""What check and guard_cases.py share: where things are, and cases of scripts with a line each."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
STORED = os.path.join(HERE, "h200", "blocking-2.json")
PYTHON = sys.argv[1] if len(sys.argv) > 1 else sys.executable
failures = 0  # cases that have failed


def run(script, *arguments):
    """Runs a script of contrib/perf. Returns its exit status and everything printed."""
    done = subprocess.run([PYTHON, "-B", os.path.join(HERE, script)] + list(arguments), cwd=TOP, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def case(name, good, output=""):
    """Prints the line of a case and, if it failed, the end of the output."""
    global failures
    failures += not good
    print(("ok   " if good else "FAIL ") + name)
    if not good:
        print("\n".join("     " + line for line in output.strip().split("\n")[-10:]))


def expect(name, status, pattern, script, *arguments):
    """A case: the script must end with the status and print something that matches the pattern."""
    found_status, output = run(script, *arguments)
    case(name, found_status == status and re.search(pattern, output) is not None, f"status {found_status}\n{output}")


def write(folder, name, data):
    """Writes a text, or anything else as JSON, to a file. Returns its path."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(data if isinstance(data, str) else json.dumps(data))
    return path
