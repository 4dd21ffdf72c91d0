"""Proves plans with the program mscclpp_plan."""
import json
import shutil
import subprocess
import tempfile


class Refused(Exception):
    """Raised for a plan that has a fault. The text contains the verdict and the faults."""


def prove(plan, tool=None):
    """Proves a plan with `mscclpp_plan check`. Raises Refused if the program finds a fault.

    tool: the path of mscclpp_plan, if it is not in PATH. Raises FileNotFoundError if the program is neither given nor
    in PATH.
    """
    tool = tool or shutil.which("mscclpp_plan")
    if not tool:
        raise FileNotFoundError("no mscclpp_plan in PATH, which proves plans")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        result = subprocess.run([tool, "check", file.name], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Refused(result.stdout.replace(file.name, plan["name"]) + result.stderr)
