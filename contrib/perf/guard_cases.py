"""Cases of contrib/perf/guard on an imitated machine, for the gate check."""
import os
import re
import shutil
import subprocess
import sys

from cases import HERE, STORED, TOP, case, run, write

# mpirun: writes what a machine would measure. In runs whose arguments hold all words of IMITATED_RUNS, ours takes
# IMITATED_OVER us more than the other side, but only in the first IMITATED_TIMES of these runs.
MPIRUN = r"""#!{python}
import json, os, sys
arguments = sys.argv[1:]
value = lambda option: arguments[arguments.index(option) + 1] if option in arguments else None
with open("{stored}", encoding="utf-8") as file:
    data = json.load(file)
words = os.environ.get("IMITATED_RUNS", "of none").split(",")
over = 0.0
if all(f" {{word}} " in f" {{' '.join(arguments)}} " for word in words):
    with open("{folder}/times", "a+", encoding="utf-8") as file:
        file.write(".")
        file.seek(0)
        if len(file.read()) <= int(os.environ.get("IMITATED_TIMES", "99")):
            over = float(os.environ["IMITATED_OVER"])
data["results"] = data["results"][:3]
data["compare"] = value("--compare") or "none"
for row in data["results"]:
    row["rival_time_us"]["median"] = row["time_us"]["median"] - over
    if "--between" in arguments:
        row.update(added_us={{"median": 9 + over}}, rival_added_us={{"median": 9.0}}, difference_us={{"median": over}})
if "--host-buffers" in arguments:
    data.update(buffers="heap", mpi_init_us=250e3 + 1e3 * over)
print("a table", *arguments)
if os.environ.get("IMITATED_STATUS"):
    sys.exit(int(os.environ["IMITATED_STATUS"]))
with open(value("--json"), "w", encoding="utf-8") as file:
    json.dump(data, file)
"""


def check_guard(folder):
    """guard on an imitated machine, whose mpirun makes up what is measured.

    guard and what it needs are copied to a tree of their own, so that functions of lib.sh can be replaced there.
    """
    tree, build, tools = (os.path.join(folder, name) for name in ("tree", "build", "bin"))
    for path in (os.path.join(tree, "contrib", "perf"), os.path.join(build, "components"), tools):
        os.makedirs(path)
    for name in ("guard", "regress.py", "results.py"):
        shutil.copy(os.path.join(HERE, name), os.path.join(tree, "contrib", "perf"))
    with open(os.path.join(TOP, "contrib", "lib.sh"), encoding="utf-8") as file:
        write(os.path.join(tree, "contrib"), "lib.sh", file.read() + """
gpu_count() { echo "${IMITATED_GPUS:-1}"; }
mps_answers() { [ "${IMITATED_MPS:-yes}" = yes ]; }
find_library() { [ "${IMITATED_LIBRARIES:-yes}" = yes ]; }
""")
    write(os.path.join(build, "components"), "mca_coll_mscclpp.so", "")
    os.chmod(write(build, "mscclpp_plan", "#!/bin/sh\n"), 0o755)
    write(build, "Makefile", f"OMPI_VERSION = 4.1.4\nOMPI_PKGLIBDIR = /\nMPIRUN = {tools}/mpirun\n")
    os.chmod(write(tools, "mpirun", MPIRUN.format(python=sys.executable, stored=STORED, folder=folder)), 0o755)

    def guard(name, status, pattern, *arguments, absent=None, **settings):
        """A case: guard must end with the status, print what matches the pattern, and nothing that matches `absent`."""
        if os.path.exists(os.path.join(folder, "times")):
            os.remove(os.path.join(folder, "times"))
        done = subprocess.run([os.path.join(tree, "contrib", "perf", "guard"), *arguments], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **settings})
        case(f"guard, {name}", done.returncode == status and re.search(pattern, done.stdout, re.M) is not None and
             not (absent and re.search(absent, done.stdout, re.M)), f"status {done.returncode}\n{done.stdout}")

    guard("one GPU", 0, r"\A(ok   guard:host:.*\n){2}((ok   guard:between:\w+:\d+:launched|SKIP guard:between:.*nccl: "
          r"needs 2 GPUs).*\n){8}(ok   guard:one_gpu:[248]:(staged|launched) .*\n){6}"
          r"SKIP guard:plans: .*\n\Z", "--quick", build)
    guard("plans", 0, r"\A(ok   guard:plan:[248]:\w+:.*\n){9}\Z", build, "plans")
    guard("a slow plan", 1, r"^FAIL guard:plan:4:packets:.*\n     over: .* 1.20 more than native, 1 allowed", build,
          "plans", IMITATED_RUNS="4,32k", IMITATED_OVER="1.2", absent="FAIL.*twophase")
    guard("several GPUs", 0, r"^ok   guard:between:waves:20:nccl ", build, "between", IMITATED_GPUS="2",
          absent="SKIP|host")
    guard("MPI_Init", 1, r"^FAIL guard:host:heap: 3 times in a row\n     MPI_Init: 262.0 ms, 12.0 more", build,
          "host",
          IMITATED_RUNS="--host-buffers,mscclpp", IMITATED_OVER="12")
    guard("between kernels", 1, r"^FAIL guard:between:full:20:launched: .*\n     over: .* 0.60 more than launched, 0.5 "
          r"allowed\n", "--quick", build, IMITATED_RUNS="full:20", IMITATED_OVER="0.6", absent="FAIL.*coop")
    guard("slower than NCCL", 1, r"^ok   guard:between:coop:20:launched .*\nFAIL guard:between:coop:20:nccl: ",
          "--quick", build, "between", IMITATED_GPUS="2", IMITATED_RUNS="coop:20", IMITATED_OVER="0.2")
    guard("slower than staged", 1, r"^FAIL guard:one_gpu:8:staged: ", build, "one_gpu", IMITATED_RUNS="-n 8,staged",
          IMITATED_OVER="0.1", absent="FAIL guard:one_gpu:4")
    guard("twice in a row is no fault", 0, r"^ok   guard:one_gpu:8:staged ", build, "one_gpu",
          IMITATED_RUNS="-n 8,staged", IMITATED_OVER="0.1", IMITATED_TIMES="2")
    guard("a run that fails", 1, r"^FAIL guard:host:heap: 3 times in a row\n     a table ", build, "host",
          IMITATED_STATUS="3")
    guard("no MPS", 0, r"^SKIP guard:between: needs MPS or 2 GPUs\nSKIP guard:one_gpu: needs MPS\n", build,
          IMITATED_MPS="no")
    guard("no libraries", 0, r"^SKIP guard:between:gemm:50: no cuBLAS\n", "--quick", build, "between",
          IMITATED_GPUS="2", IMITATED_LIBRARIES="no")
    guard("no GPU", 77, r"\ASKIP guard: no GPU here\n\Z", build, IMITATED_GPUS="0")
    guard("no build", 2, r"\Aguard: '/nonexistent' is no build folder", "/nonexistent")
    guard("a bad part", 2, r"\Aguard: 'hosts' is no part; use host, between, one_gpu or plans\n\Z", build, "hosts")
