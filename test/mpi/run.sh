#!/usr/bin/env bash
# The mpi layer: programs under mpirun with the component. Usage: run.sh [PATTERN]...
# Runs the cases whose names match one of the shell patterns, all without one; --list prints the names. One line a case,
# and a closing line; exit status 1 if any case failed, 77 if none could run.
#
#   MSCCLPP_COMPONENT_DIR   folder of mca_coll_mscclpp.so (default: components, in the current folder)
#   MSCCLPP_TEST_BINDIR     folder of the test programs (default: test/mpi, in the current folder)
#   MSCCLPP_TEST_DEVICE     host (the twin) or cuda (default: cuda where there is a GPU)
#   MSCCLPP_TEST_MPS=1      ranks on one GPU are clients of MPS and do not take turns, up to 8 of them; the component
#                           is not told
#   MSCCLPP_TEST_LONG=1     10000 communicators in place of 300, one call beyond 2 GiB, any number of ranks a GPU, 20000
#                           rounds of copies without a stream, 20 seeds of random calls, and all counts and numbers of
#                           ranks where few stand for them
#   MSCCLPP_TEST_LANES      1 (default) to 4: so many groups of cases at once, but for those that measure times
#   MSCCLPP_TEST_PART       shared: what can share the processors with other programs; alone: the rest, which measures
#                           times or has many ranks; all (default)
#   MSCCLPP_TEST_PLANS      folder of MSCCL++'s execution plans; the right ones have to serve calls (default: none)
#   MPIRUN                  (default: mpirun)
set -u

component_dir=$(cd "${MSCCLPP_COMPONENT_DIR:-components}" 2>/dev/null && pwd)
bindir=$(cd "${MSCCLPP_TEST_BINDIR:-test/mpi}" 2>/dev/null && pwd)
mpirun=${MPIRUN:-mpirun}
long=${MSCCLPP_TEST_LONG:-0}
mps=${MSCCLPP_TEST_MPS:-0}
lanes=${MSCCLPP_TEST_LANES:-1}
part=${MSCCLPP_TEST_PART:-all}
patterns=("$@")
passed=0
failed=0
skipped=0
scratch=$(mktemp -d)
log=$scratch/log
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache # proofs of plans that other runs have left do not count
# shellcheck source=test/mpi/lanes.sh
. "$(dirname "$0")/lanes.sh"
# shellcheck source=test/mpi/judge.sh
. "$(dirname "$0")/judge.sh"
# shellcheck source=test/mpi/calls.sh
. "$(dirname "$0")/calls.sh"
# shellcheck source=test/mpi/nodes.sh
. "$(dirname "$0")/nodes.sh"
# shellcheck source=test/mpi/queued.sh
. "$(dirname "$0")/queued.sh"
# shellcheck source=test/mpi/channels.sh
. "$(dirname "$0")/channels.sh"
# shellcheck source=test/mpi/mismatch.sh
. "$(dirname "$0")/mismatch.sh"
# shellcheck source=test/mpi/shortage.sh
. "$(dirname "$0")/shortage.sh"
# shellcheck source=test/mpi/late.sh
. "$(dirname "$0")/late.sh"
# shellcheck source=test/mpi/selection.sh
. "$(dirname "$0")/selection.sh"
# shellcheck source=test/mpi/cost.sh
. "$(dirname "$0")/cost.sh"
# shellcheck source=test/mpi/sync.sh
. "$(dirname "$0")/sync.sh"
# shellcheck source=test/mpi/tune.sh
. "$(dirname "$0")/tune.sh"
# shellcheck source=test/mpi/plans.sh
. "$(dirname "$0")/plans.sh"
# shellcheck source=test/mpi/bench.sh
. "$(dirname "$0")/bench.sh"

if [ "${1:-}" != --list ]; then
    [ -e "${component_dir:-/nonexistent}/mca_coll_mscclpp.so" ] || {
        echo "run.sh: no mca_coll_mscclpp.so in MSCCLPP_COMPONENT_DIR='${MSCCLPP_COMPONENT_DIR:-components}'" >&2
        exit 1
    }
    [ -x "${bindir:-/nonexistent}/test_basic" ] || {
        echo "run.sh: no test programs in MSCCLPP_TEST_BINDIR='${MSCCLPP_TEST_BINDIR:-test/mpi}'" >&2
        exit 1
    }
    command -v "$mpirun" >/dev/null || {
        echo "SKIP mpi: no $mpirun"
        exit 77
    }
fi

if [ -z "${MSCCLPP_TEST_DEVICE:-}" ]; then
    MSCCLPP_TEST_DEVICE=host
    compgen -G '/dev/nvidia[0-9]*' >/dev/null && MSCCLPP_TEST_DEVICE=cuda
fi
case $MSCCLPP_TEST_DEVICE in
host | cuda) export MSCCLPP_TEST_DEVICE ;;
*)
    echo "run.sh: MSCCLPP_TEST_DEVICE='$MSCCLPP_TEST_DEVICE' is not allowed; use host or cuda" >&2
    exit 1
    ;;
esac

[[ $mps == [01] ]] || {
    echo "run.sh: MSCCLPP_TEST_MPS='$mps' is not allowed; use 0 or 1" >&2
    exit 1
}

[[ $lanes == [1-4] ]] || {
    echo "run.sh: MSCCLPP_TEST_LANES='$lanes' is not allowed; use 1 to 4" >&2
    exit 1
}

[[ $part == @(all|shared|alone) ]] || {
    echo "run.sh: MSCCLPP_TEST_PART='$part' is not allowed; use all, shared or alone" >&2
    exit 1
}

# What every job gets. Open MPI's vector code saturates sums of 8 and 16 bits and so is no oracle. A component path
# replaces Open MPI's own folder, which has to be named again.
ompi_info=$(dirname "$(command -v "$mpirun")")/ompi_info
[ -x "$ompi_info" ] || ompi_info=ompi_info
pkglibdir=$("$ompi_info" --path pkglibdir --parsable 2>/dev/null | sed 's/^path:pkglibdir://')
launch=("$mpirun" --oversubscribe --bind-to none)
[ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
# Jobs that run side by side leave one another the processors that they wait on.
[ "$lanes" = 1 ] || export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
# Each rank is started by this script. Open MPI and PRRTE, which Open MPI 5 starts ranks with, name the parameter
# differently, and both split its value at blanks.
agent=$(cd "$(dirname "$0")" && pwd)/whole_lines
[[ $agent == *' '* ]] || export OMPI_MCA_orte_fork_agent="$agent" PRTE_MCA_prte_fork_agent="$agent"
launch+=(--mca op '^avx' --mca mca_base_component_path "$component_dir:$pkglibdir")
device=(--mca coll_mscclpp_device "$MSCCLPP_TEST_DEVICE")
# Ranks may outnumber GPUs; without MPS their kernels take turns then, which is slow, but is what is to be tested.
[ "$MSCCLPP_TEST_DEVICE" = host ] || [ "$mps" = 1 ] || device+=(--mca coll_mscclpp_shared_gpu kernels)
forced=(--mca coll mscclpp "${device[@]}")
ucx=yes
grep -aqs ucp_worker_create "$component_dir/mca_coll_mscclpp.so" || ucx=no
max_ranks=256
gpus=0
if [ "$MSCCLPP_TEST_DEVICE" = cuda ]; then
    visible=${CUDA_VISIBLE_DEVICES-$(compgen -G '/dev/nvidia[0-9]*' | tr '\n' ',')}
    gpus=$(tr ',' '\n' <<<"${visible%%-*}" | grep -c .)
    [ "$long" = 1 ] || [ "$gpus" -eq 0 ] || max_ranks=$(((mps == 1 ? 8 : 4) * gpus))
fi

# Groups that run side by side. The longest first, so that the lanes end together.
groups=(algorithms nodes_collectives plans nodes nodes_algorithms requests queued programs tune nodes_late bench stages
    late no_memory sync_copies check random idle channels selection mixed descriptors init rules ports said differs
    counters)
# Groups that run alone: with so many processes nothing else keeps its deadlines; 16 ranks whose lines are counted; what
# is about how long calls take; ranks that are killed.
alone=(many nodes_named cost linger killed)
if [ "$part" != alone ]; then
    run_groups "${groups[@]}"
fi
if [ "$part" != shared ]; then
    for name in "${alone[@]}"; do
        "cases_$name"
    done
fi
[ "${patterns[0]:-}" = --list ] && exit 0
echo "$passed passed, $failed failed, $skipped skipped ($MSCCLPP_TEST_DEVICE)"
[ $failed -eq 0 ] || exit 1
[ $passed -gt 0 ] || exit 77
