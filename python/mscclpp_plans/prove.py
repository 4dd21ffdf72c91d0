"""Proofs, by the program mscclpp_plan."""
import json
import shutil
import subprocess
import tempfile


class Refused(Exception):
    """A plan that cannot be proven; the text says why."""


def prove(plan, tool=None):
    """Raises Refused unless `mscclpp_plan check` proves the plan. tool: that program, if it is not in PATH."""
    tool = tool or shutil.which("mscclpp_plan")
    if not tool:
        raise FileNotFoundError("no mscclpp_plan in PATH, which proves plans")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        done = subprocess.run([tool, "check", file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stdout.replace(file.name, plan["name"]) + done.stderr)
