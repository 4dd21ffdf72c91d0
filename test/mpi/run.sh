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
#                           rounds of copies without a stream, and all counts and numbers of ranks where few stand for
#                           them
#   MSCCLPP_TEST_LANES      1 (default) to 4: so many groups of cases at once, but for those that measure times
#   MPIRUN                  (default: mpirun)
set -u

component_dir=$(cd "${MSCCLPP_COMPONENT_DIR:-components}" 2>/dev/null && pwd)
bindir=$(cd "${MSCCLPP_TEST_BINDIR:-test/mpi}" 2>/dev/null && pwd)
mpirun=${MPIRUN:-mpirun}
long=${MSCCLPP_TEST_LONG:-0}
mps=${MSCCLPP_TEST_MPS:-0}
lanes=${MSCCLPP_TEST_LANES:-1}
patterns=("$@")
passed=0
failed=0
skipped=0
scratch=$(mktemp -d)
log=$scratch/log
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=test/mpi/lanes.sh
. "$(dirname "$0")/lanes.sh"
# shellcheck source=test/mpi/nodes.sh
. "$(dirname "$0")/nodes.sh"
# shellcheck source=test/mpi/sync.sh
. "$(dirname "$0")/sync.sh"
# shellcheck source=test/mpi/tune.sh
. "$(dirname "$0")/tune.sh"
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

# What every job gets. Open MPI's vector code saturates sums of 8 and 16 bits and so is no oracle. A component path
# replaces Open MPI's own folder, which has to be named again.
ompi_info=$(dirname "$(command -v "$mpirun")")/ompi_info
[ -x "$ompi_info" ] || ompi_info=ompi_info
pkglibdir=$("$ompi_info" --path pkglibdir --parsable 2>/dev/null | sed 's/^path:pkglibdir://')
launch=("$mpirun" --oversubscribe --bind-to none)
[ "$(id -u)" -ne 0 ] || launch+=(--allow-run-as-root)
# Jobs that run side by side leave one another the processors that they wait on.
[ "$lanes" = 1 ] || export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
launch+=(--mca op '^avx' --mca mca_base_component_path "$component_dir:$pkglibdir")
device=(--mca coll_mscclpp_device "$MSCCLPP_TEST_DEVICE")
# Ranks may outnumber GPUs; without MPS their kernels take turns then, which is slow, but is what is to be tested.
[ "$MSCCLPP_TEST_DEVICE" = host ] || [ "$mps" = 1 ] || device+=(--mca coll_mscclpp_shared_gpu kernels)
forced=(--mca coll mscclpp "${device[@]}")
ucx=yes
grep -aqs ucp_worker_create "$component_dir/mca_coll_mscclpp.so" || ucx=no
most_ranks=64
gpus=0
if [ "$MSCCLPP_TEST_DEVICE" = cuda ]; then
    visible=${CUDA_VISIBLE_DEVICES-$(compgen -G '/dev/nvidia[0-9]*' | tr '\n' ',')}
    gpus=$(tr ',' '\n' <<<"${visible%%-*}" | grep -c .)
    [ "$long" = 1 ] || [ "$gpus" -eq 0 ] || most_ranks=$(((mps == 1 ? 8 : 4) * gpus))
fi

wanted() {
    local pattern
    [ ${#patterns[@]} -gt 0 ] || return 0
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2254 # a pattern it is
        case $1 in $pattern) return 0 ;; esac
    done
    return 1
}

report_failure() {
    failed=$((failed + 1))
    echo "FAIL $1: $2"
    grep -avE '^-+$|^$' "$log" | tail -n 25 | sed 's/^/     /'
}

# Whether this case is to be run now.
begin() {
    if [ "${patterns[0]:-}" = --list ]; then
        echo "$1"
        return 1
    fi
    wanted "$1"
}

# launch LIMIT ARGUMENT...: the exit status of the job; 124 after LIMIT seconds.
launch() {
    local limit=$1 asked=()
    shift
    # Imitated nodes that share a GPU have kernels only where they are asked for, under MPS, too.
    if [ "$mps" = 1 ] && [[ " $* " == *" coll_mscclpp_ranks_per_node "* ]] &&
        [[ " $* " != *" coll_mscclpp_shared_gpu "* ]]; then
        asked=(--mca coll_mscclpp_shared_gpu kernels)
    fi
    timeout -k 10 "$limit" "${launch[@]}" ${asked[@]+"${asked[@]}"} "$@" >"$log" 2>&1 </dev/null
}

# ranks_of [mpirun argument]...: how many they ask for.
ranks_of() {
    while [ $# -gt 1 ] && [ "$1" != -n ]; do shift; done
    echo "${2:-1}"
}

# leave_out NAME [mpirun argument]...: true, and a skip, if these are too many ranks for the GPUs, or exchange between
# nodes by what was not built in.
leave_out() {
    if [ "$(ranks_of "${@:2}")" -gt "$most_ranks" ]; then
        if [ "$mps" = 1 ]; then
            skip "$1" "more than 8 ranks on a GPU; set MSCCLPP_TEST_LONG=1"
        else
            skip "$1" "more than 4 ranks would take turns on a GPU, for minutes; use MPS or set MSCCLPP_TEST_LONG=1"
        fi
    elif [ "$ucx" = no ] &&
        grep -Fx -A1 coll_mscclpp_transport < <(printf '%s\n' "${@:2}") | grep -Eqx 'ucx|network'; then
        skip "$1" "built without UCX"
    else
        return 1
    fi
}

# run NAME LIMIT [mpirun argument]... PROGRAM [argument]...: must pass.
run() {
    local name=$1 limit=$2 start=$SECONDS status
    shift 2
    leave_out "$name" "$@" && return 0
    begin "$name" || return 0
    launch "$limit" "$@"
    status=$?
    case $status in
    0)
        passed=$((passed + 1))
        echo "ok   $name ($((SECONDS - start)) s)"
        ;;
    77)
        skipped=$((skipped + 1))
        echo "SKIP $name: $(sed -n 's/^skipped: //p' "$log" | head -n 1)"
        ;;
    124 | 137) report_failure "$name" "not at its end after $limit s" ;;
    *) report_failure "$name" "exit status $status" ;;
    esac
}

# The job must pass and print a line that matches.
run_saying() {
    local name=$1 expression=$2 before=$passed
    shift 2
    run "$name" "$@"
    if [ "$passed" -gt "$before" ] && ! grep -aEq "$expression" "$log"; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but no line matches: $expression"
    fi
}

# The job must pass and print no line that matches.
run_never_saying() {
    local name=$1 expression=$2 before=$passed
    shift 2
    run "$name" "$@"
    if [ "$passed" -gt "$before" ] && grep -aEq "$expression" "$log"; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but a line matches: $expression"
    fi
}

# The job must pass and print so many lines that match.
run_counting() {
    local name=$1 count=$2 expression=$3 before=$passed found
    shift 3
    run "$name" "$@"
    [ "$passed" -gt "$before" ] || return 0
    found=$(grep -aEc "$expression" "$log")
    if [ "$found" -ne "$count" ]; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but $found lines in place of $count match: $expression"
    fi
}

# The job must pass, and all calls that it tells of, of which there are some, must be served by algorithms that match.
run_by() {
    local name=$1 expression=$2 before=$passed served
    shift 2
    run "$name" "$@"
    [ "$passed" -gt "$before" ] || return 0
    served=$(grep -aEo 'call [0-9]+: [a-z_]+, ' "$log" | sed 's/.*: \(.*\), /\1/' | sort -u)
    if [ -z "$served" ] || grep -Evxq "$expression" <<<"$served"; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but by $(paste -sd, <<<"${served:-no kernel}") in place of $expression"
    fi
}

# The job must fail by itself within LIMIT, and print a line that matches; or, if any will do, not die of a signal.
run_failing() {
    local name=$1 expression=$2 limit=$3 start=$SECONDS status
    shift 3
    leave_out "$name" "$@" && return 0
    begin "$name" || return 0
    launch "$limit" "$@"
    status=$?
    if [ $status -eq 0 ]; then
        report_failure "$name" "passed, but must end with an error"
    elif [ $status -eq 124 ] || [ $status -eq 137 ]; then
        report_failure "$name" "no error within $limit s"
    elif ! grep -aEq "$expression" "$log"; then
        report_failure "$name" "exit status $status, but no line matches: $expression"
    elif [ -z "$expression" ] && grep -aq 'exited on signal' "$log"; then
        report_failure "$name" "ended by a signal"
    else
        passed=$((passed + 1))
        echo "ok   $name ($((SECONDS - start)) s)"
    fi
}

skip() {
    begin "$1" || return 0
    skipped=$((skipped + 1))
    echo "SKIP $1: $2"
}

cases_programs() {
    local n
    for n in 1 2 3 4; do
        run "types_ops:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_types_ops"
        run "counts:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_counts"
        # By what serves within a node, spawned processes, too.
        run_by "comms:$n" '[^n][a-z_]*' 120 -n "$n" "${forced[@]}" --mca coll_mscclpp_verbose 3 \
            "$bindir/test_comms" --spawn
        run "memory:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_memory"
        run "userop:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_userop"
    done
    run "finalize" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 10 "$bindir/test_finalize"
    run "session" 60 -n 3 "${forced[@]}" "$bindir/test_session"
    # Packets, in both ways, and what is too large for them, by turns.
    run "counts:packets" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_oneshot_max 2k \
        --mca coll_mscclpp_twophase_max 16k "$bindir/test_counts" quick
    for n in 1 2 4; do
        run "bitwise:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_bitwise"
        run "errors:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_errors"
        run "threads:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_threads"
        # Threads that Open MPI lets spin leave the others too little of the processors to meet often.
        run "threads:many:$n" 120 -n "$n" --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_threads" --many
    done
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        # More than the twin's memory has file descriptors for.
        # shellcheck disable=SC2016 # each rank's own shell expands it
        run_saying "many_comms:alive" '^150 communicators: 300 calls, [1-9][0-9]* served' 120 -n 2 "${forced[@]}" \
            --mca coll_mscclpp_scratch_size 1m sh -c 'ulimit -n 192 && exec "$@"' sh "$bindir/test_many_comms" alive 150
    fi
    if [ "$long" = 1 ]; then
        run "many_comms:10000" 1200 -n 2 "${forced[@]}" "$bindir/test_many_comms" 10000
        run "counts:big" 600 -n 2 "${forced[@]}" "$bindir/test_counts" big
    else
        run "many_comms:300" 240 -n 3 "${forced[@]}" "$bindir/test_many_comms" 300
        skip "counts:big" "needs 2 GiB of device memory a rank and minutes; set MSCCLPP_TEST_LONG=1"
    fi
}

# What is staged through host memory.
cases_stages() {
    local n staged=("${forced[@]}" --mca coll_mscclpp_algorithm stage)
    for n in 2 3 4; do
        run "stage:$n" 240 -n "$n" "${staged[@]}" "$bindir/test_stage"
        run "native:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_stage"
        run "stage_async:$n" 120 -n "$n" "${staged[@]}" "$bindir/test_stage_async"
        run "stage_async:threads:$n" 120 -n "$n" "${staged[@]}" "$bindir/test_stage_async" --threads
        run "stage_layout:$n" 120 -n "$n" "${staged[@]}" "$bindir/test_stage_layout"
        run "native_layout:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_stage_layout"
        run "native_silent:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_silent"
    done
    cases_overflow
    # Where bounds are known, holes are read along; where not all memory is the device's, more bytes are looked at.
    [ "$MSCCLPP_TEST_DEVICE" = host ] || return 0
    for n in 2 3; do
        if [ "$n" -gt 2 ] && [ "$long" != 1 ]; then
            skip "stage_shared:$n" "takes long, and 2 ranks do the same; set MSCCLPP_TEST_LONG=1"
            skip "stage_shared:layout:$n" "takes long, and 2 ranks do the same; set MSCCLPP_TEST_LONG=1"
            continue
        fi
        # The first rank of each call decides for all of them, whatever kinds of memory they pass; or each call agrees.
        run "native_shared:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 "$bindir/test_stage"
        run "native_shared:agreed:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 \
            --mca coll_mscclpp_mixed_buffers 1 "$bindir/test_stage"
        run "stage_shared:$n" 240 -n "$n" "${staged[@]}" --mca coll_mscclpp_twin_shared_only 1 "$bindir/test_stage"
        run "stage_shared:layout:$n" 120 -n "$n" "${staged[@]}" --mca coll_mscclpp_twin_shared_only 1 \
            "$bindir/test_stage_layout"
    done
}

# Sums that overflow do so alike, by kernels and staged, with Open MPI's vector code.
cases_overflow() {
    local -a with_vectors=("${launch[@]/#^avx/^none}")
    local -a launch=("${with_vectors[@]}")
    run "overflow:kernels" 60 -n 3 "${forced[@]}" "$bindir/test_overflow" served
    run "overflow:staged" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_overflow" staged
}

# engines_for N: what serves N ranks that ask for engines. Those want a GPU without other processes for each of them.
engines_for() {
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        echo engines
    elif [ "$gpus" -gt 0 ] && [ "$1" -gt "$gpus" ]; then
        echo zerocopy
    elif [ "$gpus" -gt 0 ] && [ "$lanes" = 1 ]; then
        echo engines
    else
        echo 'engines|zerocopy'
    fi
}

# Every algorithm by name with several numbers of ranks. Parameters that ranks must have in common come from rank 0.
cases_algorithms() {
    local algorithm n by job most
    for algorithm in oneshot twophase oneshot_put zerocopy engines scratch stage; do
        by=$algorithm
        most=3
        job=("${forced[@]}" --mca coll_mscclpp_algorithm "$algorithm")
        case $MSCCLPP_TEST_DEVICE:$algorithm in
        # So that ranks can map one another's buffers. Each call looks through all mappings of its process then.
        host:zerocopy | host:engines)
            job+=(--mca coll_mscclpp_twin_shared_only 1)
            most=2
            ;;
        esac
        for n in 1 2 3 4 5 8; do
            [ "$algorithm" != engines ] || by=$(engines_for "$n")
            # A single rank copies, and what is staged is no kernel's.
            if [ "$n" = 1 ] || [ $algorithm = stage ]; then
                run "algorithm:$algorithm:$n" 240 -n "$n" "${job[@]}" "$bindir/test_counts" quick
            else
                run_by "algorithm:$algorithm:$n" "$by" 240 -n "$n" "${job[@]}" --mca coll_mscclpp_verbose 3 \
                    "$bindir/test_counts" quick
            fi
        done
        [ "$algorithm" != engines ] || [ "$gpus" -ne 1 ] || skip "algorithm:engines:by engines" \
            "needs 2 GPUs, since engines serve only ranks with a GPU of their own; zerocopy has taken their place"
        run "algorithm:$algorithm:types_ops" 240 -n $most "${job[@]}" "$bindir/test_types_ops"
        run "algorithm:$algorithm:bitwise" 120 -n 4 "${job[@]}" "$bindir/test_bitwise"
    done
    for n in 1 2 3 5 8; do
        run "algorithm:oneshot-ll8:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_algorithm oneshot \
            --mca coll_mscclpp_packet ll8 "$bindir/test_counts" quick
    done
    for n in 1 2 3 5 8; do
        run "algorithm:twophase-ll128:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_algorithm twophase \
            --mca coll_mscclpp_packet ll128 "$bindir/test_counts" quick
    done
    run_saying "algorithm:twophase-ll128:used" 'twophase, .* threads, LL128' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_algorithm twophase --mca coll_mscclpp_packet ll128 \
        "$bindir/test_counts" quick
    run_never_saying "algorithm:twophase-ll16:used" 'LL128' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_algorithm twophase --mca coll_mscclpp_packet ll16 \
        "$bindir/test_counts" quick
    # The epoch of the packets comes to its end again and again.
    run "algorithm:oneshot:epoch_limit" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm oneshot \
        --mca coll_mscclpp_epoch_limit 16 "$bindir/test_counts" quick
    run "algorithm:twophase:epoch_limit" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm twophase \
        --mca coll_mscclpp_epoch_limit 16 "$bindir/test_counts" quick
    # Little scratch: large messages go through it in many pieces.
    run "algorithm:scratch:small" 240 -n 4 "${forced[@]}" --mca coll_mscclpp_algorithm scratch \
        --mca coll_mscclpp_scratch_size 1m "$bindir/test_counts" quick
}

# mixed NAME RANKS HOST_RANKS [mpirun argument]...: only the first of the HOST_RANKS passes host memory on GPUs.
mixed() {
    local name=$1 n=$2 how ranks expression="rank [${3//[^0-9]/}] passed host (memory|buffers) and rank [0-9] device"
    local -a hosts host=()
    IFS=, read -ra hosts <<<"$3"
    shift 3
    for how in first later allowed; do
        ranks=$(printf ',%s' "${hosts[@]}")
        [ $how != later ] || ranks=$(printf ',%s/1' "${hosts[@]}")
        [ "$MSCCLPP_TEST_DEVICE" = cuda ] || host=(--mca coll_mscclpp_twin_host_ranks "${ranks:1}")
        if [ $how = allowed ]; then
            run "$name:allowed" 60 -n "$n" "${forced[@]}" "$@" ${host[@]+"${host[@]}"} \
                --mca coll_mscclpp_mixed_buffers 1 "$bindir/test_mixed" allowed
        else
            run_failing "$name:refused:$how" "$expression" 20 -n "$n" "${forced[@]}" "$@" ${host[@]+"${host[@]}"} \
                "$bindir/test_mixed" refused $how
        fi
    done
}

# A parameter that one rank has set otherwise: rank 0's value counts, and both are named.
cases_differs() {
    local each row rank name value other what expression
    # shellcheck disable=SC2016 # each rank's own shell expands it
    each='[ "$OMPI_COMM_WORLD_RANK" != "$1" ] || export "OMPI_MCA_coll_mscclpp_$2=$3"; shift 3; exec "$@"'
    for row in 2:enable:0:1:served 2:priority:-1:90:served 2:priority:5:90:served 2:mixed_buffers:1:0:served \
        0:mixed_buffers:1:0:served 0:priority:80:90:served 1:algorithm:stage:auto:served 0:enable:0:1:idle \
        0:priority:-1:90:idle 0:priority:20:90:idle; do
        IFS=: read -r rank name value other what <<<"$row"
        if [ "$rank" = 0 ]; then
            expression="warning: .*parameter $name is $other on rank (1|2|1, 2) .*$value on rank 0, whose value counts"
        else
            expression="warning: .*parameter $name is $value on rank $rank .*$other on rank 0, whose value counts"
        fi
        run_saying "differs:$name $value on rank $rank" "$expression" 60 -n 3 "${forced[@]}" \
            --mca coll_mscclpp_timeout 20 sh -c "$each" sh "$rank" "$name" "$value" "$bindir/test_basic" "$what"
    done
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run_saying "differs:device auto on rank 1" 'parameter device is auto on rank 1 .*host on rank 0' 60 -n 3 \
            "${forced[@]}" --mca coll_mscclpp_timeout 20 sh -c "$each" sh 1 device auto "$bindir/test_basic" served
    fi
    # Of every communicator, but said once.
    run_counting "differs:said once" 1 'parameter scratch_size is 2097152 on rank 2 and 16777216 on rank 0' 60 -n 3 \
        "${forced[@]}" sh -c "$each" sh 2 scratch_size 2m "$bindir/test_basic" served
}

# Calls that do not match: all that differs is named, and calls that match, of every kind, pass.
cases_check() {
    local fault what check=(-n 3 "${forced[@]}" --mca coll_mscclpp_check_calls 1 --mca coll_mscclpp_timeout)
    local late=("${check[@]}" 2)
    check+=(20)
    local bytes='sends (12|16) bytes to rank [02], which expects (12|16)$'
    while IFS=: read -r fault what; do
        run_saying "check:$fault" "the calls of the ranks do not match: $what" 60 "${check[@]}" "$bindir/test_check" \
            blocking "$fault"
    done <<-EOF
	count:the count is 4 on rank 0, 1 and 3 on rank 2$
	type:the size of the type is 4 bytes on rank 0, 1 and 8 bytes on rank 2$
	op:the operation is MPI_SUM on rank 0, 1 and MPI_MAX on rank 2$
	collective:the call is MPI_Allreduce on rank 0, 1 and MPI_Bcast on rank 2$
	root:the root is 0 on rank 0, 1 and 1 on rank 2$
	reduce:the count is 4 on rank 0, 1 and 3 on rank 2$
	scan:the count is 4 on rank 0, 1 and 3 on rank 2$
	exscan:the count is 4 on rank 0, 1 and 3 on rank 2$
	reduce_scatter_block:the count is 12 on rank 0, 1 and 9 on rank 2$
	reduce_scatter:the count is 12 on rank 0, 1 and 11 on rank 2$
	EOF
    for fault in bcast allgather allgatherv alltoall alltoallv alltoallw gather gatherv scatter scatterv; do
        run_saying "check:$fault" "the calls of the ranks do not match: rank [02] $bytes" 60 "${check[@]}" \
            "$bindir/test_check" blocking "$fault"
    done
    # What is under way cannot be taken back.
    run_failing "check:variant" 'the call is MPI_Allreduce on rank 0, 1 and MPI_Iallreduce on rank 2$' 60 \
        "${check[@]}" "$bindir/test_check" blocking variant
    for fault in count op alltoallv; do
        run_failing "check:nonblocking:$fault" 'MPI_Ial.* the calls of the ranks do not match: ' 60 "${check[@]}" \
            "$bindir/test_check" nonblocking $fault
    done
    run "check:right:stage" 240 "${check[@]}" "$bindir/test_stage"
    run "check:right:stage_async" 120 "${check[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_stage_async"
    run "check:right:stage_layout" 120 "${check[@]}" "$bindir/test_stage_layout"
    run "check:right:comms" 120 "${check[@]}" "$bindir/test_comms" --spawn
    run "check:right:threads" 120 "${check[@]}" "$bindir/test_threads"
    run "check:right:userop" 60 "${check[@]}" "$bindir/test_userop"
    run "check:right:finalize" 60 "${check[@]}" "$bindir/test_finalize"
    run_saying "check:late" 'MPI_Allreduce: rank [01] has waited .* that have not come: 2 .parameter timeout.$' 60 \
        "${late[@]}" "$bindir/test_late" timeout 5 first
    # Where it costs nothing the comparison is always made; else the deadline tells of it.
    run_saying "check:exchange" 'rank 0 passed 4194304 bytes of type int32 with MPI_SUM, and rank 2 4194288 bytes' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm zerocopy "$bindir/test_check" exchange
    run_saying "check:wait" 'rank [012] passed 655[0-9]+ bytes of type int32 with MPI_SUM, and rank [012] 655[0-9]+ ' \
        60 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm oneshot "$bindir/test_check" wait
    for fault in first later; do
        run_saying "check:deadline:$fault" 'calls of the ranks that do not match .* are one possible reason' 60 -n 3 \
            "${forced[@]}" --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 5 $fault
    done
}

# What was asked for by name and does not serve is said, once; so is what memory or address space would mend.
cases_said() {
    local name
    run_counting "said:algorithm of nodes on one" 1 'warning: .*algorithm is nodes_split, which cannot serve all-' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm nodes_split "$bindir/test_basic" served
    run_counting "said:algorithm between nodes" 1 'algorithm is oneshot, which cannot serve .*: nodes[a-z_]* does' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm oneshot --mca coll_mscclpp_ranks_per_node 1 \
        "$bindir/test_basic" served
    run_counting "said:transport" 1 'warning: .*coll_mscclpp_transport is verbs, .*: device buffers are staged' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_transport verbs --mca coll_mscclpp_verbs_devices none \
        --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_counts" staged
    run_counting "said:algorithm without kernels" 1 'algorithm is nodes, but no kernels can serve this com' 60 \
        -n 3 "${forced[@]}" --mca coll_mscclpp_transport verbs --mca coll_mscclpp_verbs_devices none \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_algorithm nodes "$bindir/test_counts" staged
    for name in auto network; do
        run_never_saying "said:not of $name" warning: 60 -n 3 "${forced[@]}" --mca coll_mscclpp_transport $name \
            --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_basic" served
    done
    [ "$MSCCLPP_TEST_DEVICE" = host ] || return 0
    run_counting "said:algorithm that maps" 1 'algorithm is zerocopy, which cannot serve .*: scratch does' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_algorithm zerocopy "$bindir/test_basic" served
    # shellcheck disable=SC2016 # each rank's own shell expands it
    run_saying "said:address space" 'warning: MPI_COMM_WORLD: rank 1: what a team needs, .*memory: device buffers are' \
        60 -n 3 "${forced[@]}" --mca coll_mscclpp_scratch_size 1g --mca coll_mscclpp_ucx 0 \
        --mca coll_mscclpp_algorithm scratch \
        sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -v 1500000; exec "$@"' sh "$bindir/test_counts" staged
}

# What communicators cost, of which the runs' own lines tell more. Times have limits that a busy machine keeps, too.
cases_cost() {
    local n
    for n in 2 3 4; do
        # Of each rank's scratch every rank maps less than 1 MiB.
        run "cost:space:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_cost" space $((n * 1024))
        run_saying "cost:dup:$n" 'ready with what an ended communicator has left' 120 -n "$n" "${forced[@]}" \
            --mca coll_mscclpp_verbose 2 "$bindir/test_cost" dup 5000
    done
    run_never_saying "cost:dup, no reuse" 'what an ended communicator has left' 120 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_verbose 2 --mca coll_mscclpp_reuse 0 "$bindir/test_cost" dup 0
    run "cost:threads:3" 120 -n 3 "${forced[@]}" "$bindir/test_cost" threads 0
}

# Between nodes the ranks of one are all of one kind, or a node has both.
cases_mixed() {
    local ctrl
    mixed mixed 3 0
    for ctrl in 1 0; do
        mixed "nodes:mixed:1:ucx $ctrl" 3 0 --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_ucx $ctrl
        [ "$MSCCLPP_TEST_DEVICE" = host ] || continue
        mixed "nodes:mixed:2:ucx $ctrl" 4 2,3 --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_ucx $ctrl
    done
    mixed "nodes:mixed:3" 5 0 --mca coll_mscclpp_ranks_per_node 2
}

# On each allocation that fails all ranks end alike. The errors that these jobs print are theirs to print.
cases_no_memory() {
    local n per who transport=shm # UCX 1.13 aborts where a connection ends that is still being wired up
    local -a init=("${forced[@]}")
    if [ "$MSCCLPP_TEST_DEVICE" = cuda ]; then
        transport=cuda_ipc
        # Asked for by name, CUDA would begin in MPI_Init, and its runtime does not survive there without memory.
        init=(--mca coll mscclpp --mca coll_mscclpp_device auto "${device[@]:3}")
    fi
    for n in 2 3; do
        run "no_memory:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory"
    done
    run "no_memory:stage" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_no_memory" stage
    for who in 1 all; do
        for n in 1 2 3 4; do
            run "no_memory:init:$who:$n" 60 -n 3 "${init[@]}" "$bindir/test_no_memory" init $who $n
        done
        run_saying "no_memory:init:$who:ever" 'memory was refused' 60 -n 3 "${init[@]}" "$bindir/test_no_memory" \
            init $who -1
    done
    for per in 1 2; do
        run "no_memory:nodes:3/$per" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node "$per" \
            --mca coll_mscclpp_transport $transport --mca coll_mscclpp_exchange_memory device \
            --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory"
        run "no_memory:nodes:3/$per:shm" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node "$per" \
            --mca coll_mscclpp_transport shm --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory"
    done
}

# A rank is killed while kernels run. Under MPS the driver may then end the work of the others on its GPU with an error,
# so that these cases come after all others; what it did is printed.
cases_killed() {
    local name before n=3 within=late:killed:within amid=late:killed:amid large=late:killed:amid:large
    local next=late:killed:next_job
    local -a busy
    [ "$mps" = 0 ] || n=8
    if { wanted $within || wanted $amid || wanted $large; } && ! lets_others_go_on; then
        for name in $within $amid $large $next; do
            skip "$name" "this mpirun ends all ranks where one is killed"
        done
        return
    fi
    for name in $within $amid $large; do
        before=$passed
        busy=(amid 100)
        [ "$name" != $within ] || busy=(within 100)
        [ "$name" != $large ] || busy=(amid 2000000)
        run_saying "$name" 'all that are left have ended well' 60 -n "$n" --enable-recovery "${forced[@]}" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 6 "${busy[@]}"
        [ "$passed" -eq "$before" ] || grep -a '^note: ' "$log" | sort | sed 's/^/     /'
    done
    run $next 60 -n 2 "${forced[@]}" "$bindir/test_basic" served
}

# few_descriptors NAME EXPRESSION [mpirun argument]... PROGRAM [argument]...: must pass where it does without the
# component, and print a line that matches, if one has to.
few_descriptors() {
    local name=$1 expression=$2
    shift 2
    wanted "$name" && [ "${patterns[0]:-}" != --list ] && ! launch 60 -n 4 --mca coll '^mscclpp' "$@" && {
        skip "$name" "Open MPI does not get through it either"
        return
    }
    if [ -n "$expression" ]; then
        run_saying "$name" "$expression" 60 -n 4 "${forced[@]}" "$@"
    else
        run "$name" 60 -n 4 "${forced[@]}" "$@"
    fi
}

# Few descriptors, on one rank of four or on all: before MPI_Init, counted from what it opens by itself, and after it.
cases_descriptors() {
    local who unused limit opened=0 said='too few file descriptors' more=(2 3 5 11) later=(0 6) lines
    if [ "$MSCCLPP_TEST_DEVICE" != host ]; then
        skip "descriptors" "the GPU's runtime does not do without descriptors"
        return
    fi
    if [ "$long" = 1 ]; then
        mapfile -t more < <(seq -14 50)
        mapfile -t later < <(seq 0 64)
    fi
    for who in 1 all; do
        for limit in "${more[@]}"; do
            if [ "$opened" = 0 ] && [ "${patterns[0]:-}" != --list ] && wanted "descriptors:init:$who:$limit"; then
                launch 60 -n 1 --mca coll '^mscclpp' "$bindir/test_descriptors" count
                opened=$(sed -n 's/ descriptors$//p' "$log")
                : "${opened:?test_descriptors does not count}"
            fi
            # What is opened for a moment only may be there when it is wanted, so nothing need be said.
            # shellcheck disable=SC2016 # the ranks' shells expand it
            few_descriptors "descriptors:init:$who:$limit" '' sh -c \
                '[ "$0" != all ] && [ "$OMPI_COMM_WORLD_RANK" != "$0" ] || ulimit -n "$1"; shift; exec "$@"' \
                "$who" $((opened + limit)) "$bindir/test_descriptors" calls
        done
        for unused in "${later[@]}"; do
            lines=$said
            [ "$unused" -lt 2 ] || lines=
            few_descriptors "descriptors:later:$who:$unused" "$lines" "$bindir/test_descriptors" calls $who "$unused"
            if [ "$ucx" = yes ]; then
                few_descriptors "descriptors:nodes:$who:$unused" "$said" --mca coll_mscclpp_ranks_per_node 2 \
                    --mca coll_mscclpp_transport ucx "$bindir/test_descriptors" calls $who "$unused"
            fi
        done
    done
}

# Some launchers end all ranks where one is killed, whatever they are told.
lets_others_go_on() {
    # shellcheck disable=SC2016 # the ranks' shells expand it
    launch 30 --enable-recovery -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || kill -9 $$; sleep 1; echo alive'
    grep -q alive "$log"
}

cases_late() {
    local when named='ranks that have not (arrived|come): 2'
    for when in later first; do
        run_saying "late:warn:$when" "$named" 30 -n 3 "${forced[@]}" --mca coll_mscclpp_warn_after 1 \
            "$bindir/test_late" warn 3 $when
        run_saying "late:timeout:$when" "$named" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
            "$bindir/test_late" timeout 5 $when
    done
    run_saying "late:warn:who waits" ': rank 0 has waited [0-9.]+ s; ranks that have not arrived: 2' 30 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 3 later
    # Each rank calls three times more. Names reach the terminal without the characters that it obeys.
    run_counting "late:broken, said once" 3 ': an earlier call failed' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 5 later
    run_saying "late:name" '\?\[31mred\?: all-reduce call' 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
        "$bindir/test_late" timeout 5 first
    run_never_saying "late:name, as it is" $'\033\\[31m' 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
        "$bindir/test_late" timeout 5 later
    if { wanted late:killed:first || wanted late:killed:later; } && ! lets_others_go_on; then
        skip late:killed:first "this mpirun ends all ranks where one is killed"
        skip late:killed:later "this mpirun ends all ranks where one is killed"
    else
        run_saying "late:killed:first" "$named" 60 -n 3 --enable-recovery "${forced[@]}" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 5 first
        run_saying "late:killed:later" 'all that are left have ended well' 60 -n 3 --enable-recovery "${forced[@]}" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 5
    fi
    run_saying "late:timeout:spawned" 'ranks that have not come: 1' 60 -n 1 "${forced[@]}" \
        --mca coll_mscclpp_timeout 1 "$bindir/test_late" spawned 3
    # This layer of Open MPI keeps messages that a communicator has left behind for the next one with its id.
    if "$ompi_info" --parsable 2>/dev/null | grep -q '^mca:pml:ucx:'; then
        UCX_TLS=tcp,self,sm run_saying "late:timeout:first:pml ucx" "$named" 60 -n 3 "${forced[@]}" \
            --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca coll_mscclpp_timeout 2 \
            "$bindir/test_late" timeout 5 first
    else
        skip "late:timeout:first:pml ucx" "Open MPI has no pml ucx"
    fi
    # Who waits for packets names whose they are.
    for when in oneshot twophase; do
        run_saying "late:timeout:$when" "$named" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
            --mca coll_mscclpp_algorithm $when "$bindir/test_late" timeout 5 later
    done
}

# MPI_Init loads UCX, which takes it some milliseconds, where it may be needed. Open MPI's own users of it stay away.
cases_init() {
    local count job=(--mca pml ob1 --mca osc '^ucx' --mca btl '^uct' "${forced[@]}")
    if [ "$ucx" = no ] || ! ldconfig -p 2>/dev/null | grep -q 'libucp\.so\.0 '; then
        skip "init:ucx" "needs UCX, in the build and on this machine"
        return
    fi
    run_saying "init:ucx:one node" '^UCX: loaded by 0 of 2 ranks$' 60 -n 2 "${job[@]}" "$bindir/test_init"
    for count in 1 2; do
        run_saying "init:ucx:nodes of $count" '^UCX: loaded by 4 of 4 ranks$' 60 -n 4 "${job[@]}" \
            --mca coll_mscclpp_ranks_per_node "$count" "$bindir/test_init"
    done
    run_saying "init:ucx:network" '^UCX: loaded by 2 of 2 ranks$' 60 -n 2 "${job[@]}" \
        --mca coll_mscclpp_transport network "$bindir/test_init"
    run_saying "init:ucx:no launcher" '^UCX: loaded by 1 of 1 ranks$' 60 -n 1 "${job[@]}" \
        env -u OMPI_COMM_WORLD_LOCAL_SIZE "$bindir/test_init"
    run_saying "init:ucx:elsewhere, too" '^UCX: loaded by 2 of 2 ranks$' 60 -n 2 "${job[@]}" \
        env OMPI_COMM_WORLD_LOCAL_SIZE=1 "$bindir/test_init"
    run_saying "init:ucx:refused" '^UCX: loaded by 0 of 2 ranks$' 60 -n 2 "${job[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport shm --mca coll_mscclpp_ucx 0 \
        "$bindir/test_init"
}

# Resting processes take no CPU time; a kernel of the twin that does not leave shows that the test would see it.
cases_idle() {
    local proxy shared=()
    [ "$MSCCLPP_TEST_DEVICE" != host ] || shared=(--mca coll_mscclpp_twin_shared_only 1)
    for proxy in progress thread; do
        run_saying "idle:$proxy" 'inter-node transport ' 60 -n 3 "${forced[@]}" --mca coll_mscclpp_proxy "$proxy" \
            --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_verbose 2 "$bindir/test_idle"
    done
    run "idle:one node" 60 -n 3 "${forced[@]}" "$bindir/test_idle"
    run "idle:linger" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_linger on "$bindir/test_idle"
    run_by "idle:engines" "$(engines_for 2)" 60 -n 2 "${forced[@]}" ${shared[@]+"${shared[@]}"} \
        --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_algorithm engines "$bindir/test_idle"
    run "idle:stage" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_idle"
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run_failing "idle:seen" 'test_idle.c:[0-9]+: after .* of CPU time' 60 -n 2 "${forced[@]}" \
            --mca coll_mscclpp_linger on --mca coll_mscclpp_linger_window 1000000 \
            --mca coll_mscclpp_linger_idle 1000000 "$bindir/test_idle"
    else
        skip "idle:seen" "a kernel that stays on a GPU takes no CPU time"
    fi
}

# Lingering kernels: calls are served without launches, and nobody waits for the kernel longer than its window. Kernels
# that hardly ever leave by themselves show who would wait for them.
cases_linger() {
    local n linger=(--mca coll_mscclpp_linger auto)
    [ "$MSCCLPP_TEST_DEVICE" = cuda ] || linger=(--mca coll_mscclpp_linger on)
    for n in 2 4; do
        run "linger:rings:$n" 120 -n "$n" "${forced[@]}" "${linger[@]}" --mca coll_mscclpp_linger_idle 100000 \
            --mca coll_mscclpp_linger_window 1000000 "$bindir/test_linger" rings
        run "linger:waits:$n" 240 -n "$n" "${forced[@]}" "${linger[@]}" "$bindir/test_linger" waits 1000
        run "linger:waits, no idle time:$n" 240 -n "$n" "${forced[@]}" "${linger[@]}" \
            --mca coll_mscclpp_linger_idle 1000000 --mca coll_mscclpp_linger_window 3000 \
            "$bindir/test_linger" waits 3000
        run "linger:gaps:$n" 120 -n "$n" "${forced[@]}" "${linger[@]}" --mca coll_mscclpp_linger_idle 3000 \
            --mca coll_mscclpp_linger_window 1000000 "$bindir/test_linger" gaps 1000
    done
    # Over several nodes.
    for n in 2 3 4; do
        run "linger:nodes:$n/1" 240 -n "$n" "${forced[@]}" "${linger[@]}" --mca coll_mscclpp_ranks_per_node 1 \
            --mca coll_mscclpp_transport network "$bindir/test_counts" quick
    done
    run "linger:nodes:5/2" 240 -n 5 "${forced[@]}" "${linger[@]}" --mca coll_mscclpp_ranks_per_node 2 \
        --mca coll_mscclpp_transport network \
        --mca coll_mscclpp_twin_blocks 3 --mca coll_mscclpp_twin_threads 2 "$bindir/test_counts"
    run "linger:nodes:rings" 120 -n 4 "${forced[@]}" "${linger[@]}" --mca coll_mscclpp_linger_idle 100000 \
        --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_linger_window 1000000 "$bindir/test_linger" rings
    run "linger:off" 120 -n 2 "${forced[@]}" --mca coll_mscclpp_linger off "$bindir/test_linger" off
}

# A rules file changes what is chosen, a bad one changes nothing, and where ranks have different ones rank 0's counts.
cases_rules() {
    local file=$scratch/rules rule="ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=1m" verbose rules each
    local builtin=scratch
    [ "$MSCCLPP_TEST_DEVICE" = host ] || builtin=oneshot
    verbose=(-n 3 "${forced[@]}" --mca coll_mscclpp_verbose 3)
    rules=("${verbose[@]}" --mca coll_mscclpp_rules "$file")
    echo "$rule algorithm=oneshot_put" >"$file"
    run_saying "rules:none" "call 1: $builtin, " 60 "${verbose[@]}" "$bindir/test_basic" served
    run_saying "rules:obeyed" 'call 1: oneshot_put, ' 60 "${rules[@]}" "$bindir/test_basic" served
    run_saying "rules:sizes by hand win" 'call 1: twophase, ' 60 "${rules[@]}" --mca coll_mscclpp_oneshot_max 1 \
        --mca coll_mscclpp_twophase_max 64k "$bindir/test_basic" served
    run_saying "rules:other ranks" "call 1: $builtin, " 60 -n 2 "${rules[@]:2}" "$bindir/test_basic" served
    printf '%s\n' "$rule algorithm=oneshot_put" "${rule/3/2} algorithm=fastest" >"$file"
    run_saying "rules:nonsense is named" 'error: rules .*rules:2: algorithm: "fastest" is not allowed; use one of' 60 \
        "${rules[@]}" "$bindir/test_basic" served
    run_saying "rules:nonsense is not used" "call 1: $builtin, " 60 "${rules[@]}" "$bindir/test_basic" served
    rm "$file"
    run_saying "rules:missing" 'error: rules .*rules: cannot be opened: No such file' 60 "${rules[@]}" \
        "$bindir/test_basic" served
    # shellcheck disable=SC2016 # each rank's own shell expands it
    each='export OMPI_MCA_coll_mscclpp_rules="$0.$OMPI_COMM_WORLD_RANK" && exec "$@"'
    echo "$rule algorithm=oneshot_put" | tee "$file.0" >"$file.2"
    echo "$rule algorithm=twophase" >"$file.1"
    run_saying "rules:rank 0's count" 'warning: .*the rules of rank 1 for 3 ranks differ from those of rank 0' 60 \
        "${verbose[@]}" sh -c "$each" "$file" "$bindir/test_basic" served
    run_never_saying "rules:on all ranks" "call 1: (twophase|$builtin), " 60 "${verbose[@]}" sh -c "$each" "$file" \
        "$bindir/test_basic" served
}

# Every list of components that a user might write.
cases_selection() {
    local list tool unsaid=idle settings widened='also loaded: tuned,libnbc,basic'
    [ "$MSCCLPP_TEST_DEVICE" = host ] || unsaid=served
    for list in mscclpp mscclpp,self self,mscclpp mscclpp,tuned mscclpp,basic mscclpp,libnbc mscclpp,libnbc,self \
        mscclpp,tuned,libnbc,self mscclpp,basic,libnbc mscclpp,basic,libnbc,self \
        mscclpp,tuned,libnbc,basic,self '^tuned'; do
        run "selection:$list" 60 -n 2 --mca coll "$list" "${device[@]}" "$bindir/test_basic" served
    done
    run "selection:mscclpp:one rank" 60 -n 1 --mca coll mscclpp "${device[@]}" "$bindir/test_basic" served
    run "selection:none" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
    run "selection:^mscclpp" 60 -n 2 --mca coll '^mscclpp' "$bindir/test_basic" absent
    run "selection:without it" 60 -n 2 --mca coll basic,libnbc,self "$bindir/test_basic" absent
    run "selection:priority -1" 60 -n 2 --mca coll_mscclpp_priority -1 "${device[@]}" "$bindir/test_basic" idle
    run "selection:enable 0" 60 -n 2 --mca coll_mscclpp_enable 0 "${device[@]}" "$bindir/test_basic" idle
    if [ "$MSCCLPP_TEST_DEVICE" = host ] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
        run "selection:device auto, no GPU" 60 -n 2 --mca coll_mscclpp_device auto "$bindir/test_basic" idle
        run "selection:mscclpp, device auto, no GPU" 60 -n 2 --mca coll mscclpp --mca coll_mscclpp_device auto \
            "$bindir/test_basic" idle
    else
        skip "selection:device auto, no GPU" "here is a GPU"
    fi
    # However the list came, and whoever came before MPI_Init.
    for tool in stay leave; do
        export MSCCLPP_TEST_TOOL=$tool
        for list in mscclpp mscclpp,self mscclpp,basic mscclpp,basic,libnbc '^tuned'; do
            run "selection:tool:$tool:$list" 60 -n 2 --mca coll "$list" "${device[@]}" "$bindir/test_basic" served
        done
        OMPI_MCA_coll=mscclpp run "selection:tool:$tool:environment" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
        run "selection:tool:$tool:none" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
        run "selection:tool:$tool:^mscclpp" 60 -n 2 --mca coll '^mscclpp' "$bindir/test_basic" absent
        run "selection:tool:$tool:comms" 120 -n 2 "${forced[@]}" "$bindir/test_comms" --spawn
    done
    MSCCLPP_TEST_TOOL=stay run "selection:tool:stay:session" 60 -n 2 "${forced[@]}" "$bindir/test_session"
    MSCCLPP_TEST_TOOL=leave run "selection:tool:leave:session" 60 -n 2 "${forced[@]}" "$bindir/test_session"
    MSCCLPP_TEST_TOOL=mscclpp run "selection:tool:writes mscclpp" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
    MSCCLPP_TEST_TOOL=^mscclpp run "selection:tool:writes ^mscclpp" 60 -n 2 "${device[@]}" "$bindir/test_basic" absent
    unset MSCCLPP_TEST_TOOL
    # Open MPI's own refusals; 5.0 prints nothing for more than one rank.
    run_failing "selection:misspelt" '' 60 -n 2 --mca coll mscclp "$bindir/test_basic" absent
    run_failing "selection:mscclpp, not widened" '' 60 -n 2 --mca coll mscclpp --mca coll_mscclpp_widen_selection 0 \
        "${device[@]}" "$bindir/test_basic" served
    # Of components that cannot do for a communicator, or are none, the default list is taken.
    for list in '' tuned tuned,libnbc 'tuned;libnbc;basic' '^tuned' mscclp; do
        run_saying "selection:bad widen_list '$list'" "widen_list: \"${list/^/\\^}\" is not allowed, .* without basic" \
            60 -n 2 "${forced[@]}" --mca coll_mscclpp_widen_list "$list" "$bindir/test_basic" served
    done
    run_saying "selection:widened" "$widened" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_verbose 2 \
        "$bindir/test_basic" served
    run_saying "selection:widened by default" "$widened" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_verbose 2 \
        --mca coll_mscclpp_widen_list libnbc "$bindir/test_basic" served
    run_never_saying "selection:own widen_list" 'not allowed|tuned' 60 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_verbose 2 --mca coll_mscclpp_widen_list basic,libnbc "$bindir/test_basic" served
    # A bad value of a parameter is named, and the job goes on as if nothing were said of it.
    run_saying "selection:bad device" 'device: "gpu" is not allowed; use one of auto\|cuda\|host' 60 -n 2 \
        --mca coll mscclpp "${device[@]:3}" --mca coll_mscclpp_device gpu "$bindir/test_basic" "$unsaid"
    # Open MPI itself reads this one as 5. Its own file may say what works on this machine.
    echo 'coll_mscclpp_max_blocks = 5foo' >"$scratch/settings"
    settings=$("$ompi_info" --path sysconfdir --parsable 2>/dev/null | sed 's/^path:sysconfdir://')
    settings=$scratch/settings,$settings/openmpi-mca-params.conf
    OMPI_MCA_mca_base_param_files=$settings run_saying "selection:bad number in a file" \
        'max_blocks: "5foo" is not allowed' 60 -n 2 --mca coll mscclpp "${device[@]}" "$bindir/test_basic" served
    # What has a choice of words is read by Open MPI, too, which takes no word for the first one.
    echo 'coll_mscclpp_linger =' >"$scratch/settings"
    OMPI_MCA_mca_base_param_files=$settings run_saying "selection:empty value in a file" \
        'linger: "" is not allowed; use one of auto\|on\|off' 60 -n 2 --mca coll mscclpp "${device[@]}" \
        "$bindir/test_basic" served
}

# Kernels, proxy and transports between processes; mscclpp_bench verifies what arrives.
cases_ports() {
    local n proxy local=shm program=$bindir/../../mscclpp_bench
    [ "$MSCCLPP_TEST_DEVICE" = host ] || local=cuda_ipc
    for proxy in progress thread; do
        for n in 2 3; do
            run_saying "port:$proxy:$n" "^# transport $local\$" 120 -n "$n" "${forced[@]}" \
                --mca coll_mscclpp_proxy "$proxy" "$program" --device "$MSCCLPP_TEST_DEVICE" --mode port \
                --min 1 --max 3m --factor 37 --iterations 3 --rounds 1 --check 3
        done
    done
}

groups=(programs stages algorithms ports nodes nodes_algorithms nodes_late mixed differs check said no_memory
    descriptors late idle init rules tune bench selection sync_copies)
if [ "$lanes" -eq 1 ] || [ "${patterns[0]:-}" = --list ]; then
    for name in "${groups[@]}"; do
        "cases_$name"
    done
else
    # The longest first, so that the lanes end together.
    run_lanes "$lanes" nodes programs tune idle nodes_algorithms algorithms stages nodes_late late mixed selection \
        differs check said bench ports rules init no_memory descriptors sync_copies
    for name in "${groups[@]}"; do
        tell "$name"
    done
fi
cases_cost
cases_linger # how long calls take is what it is about
cases_killed
[ "${patterns[0]:-}" = --list ] && exit 0
echo "$passed passed, $failed failed, $skipped skipped ($MSCCLPP_TEST_DEVICE)"
[ $failed -eq 0 ] || exit 1
[ $passed -gt 0 ] || exit 77
