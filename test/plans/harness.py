"""What the tests of plans share: counting checks, and starting programs."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, "..", "..", "python")
ENVIRONMENT = dict(os.environ, PYTHONPATH=PYTHON, PYTHONDONTWRITEBYTECODE="1")
sys.path.insert(0, PYTHON)
passed, failures = 0, []


def check(condition, text):
    """Counts a check; prints the text if it fails."""
    global passed
    if condition:
        passed += 1
    else:
        failures.append(text)
        print(f"failed: {text}", file=sys.stderr)


class Tool:
    """The program mscclpp_plan, and a folder for files."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *arguments, **variables):
        """Runs it, with more variables in the environment."""
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, errors="replace",
                              check=False, timeout=600, env={**ENVIRONMENT, **variables})

    def write(self, name, text, suffix=".json"):
        """Writes a file and returns its path."""
        path = os.path.join(self.folder, name + suffix)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def verdicts(self, paths, *options):
        """What it says of each file, as the objects of --json."""
        done = self.run("check", "--json", *options, *paths)
        check(done.returncode in (0, 1), f"exit status {done.returncode}: {done.stderr.strip()[:300]}")
        said = json.loads(done.stdout) if done.stdout else []
        check(len(said) == len(paths), f"{len(said)} verdicts for {len(paths)} files")
        refused = any(entry["verdict"] != "ok" for entry in said)
        check(done.returncode == int(refused), f"exit status {done.returncode}, though refused is {refused}")
        return said


def run_program(what, *command):
    """Runs one of the programs in C. Returns what it prints if it succeeds."""
    if not os.access(command[0], os.X_OK):
        print(f"skipped: {what}: no {command[0]}")
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{what}: exit status {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
