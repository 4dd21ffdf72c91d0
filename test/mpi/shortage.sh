# shellcheck shell=bash
# The cases of too little memory and too few file descriptors, for run.sh, which has the functions that run one, and
# sets what these read.
# shellcheck disable=SC2154 # these

# On each allocation that fails all ranks end alike. The errors that these jobs print are theirs to print.
# Plans whose memory joins nodes: a rank, or several at once, cannot make it.
cases_no_memory_of_plans() {
    local plans=$scratch/no_memory.plans job
    if [ "${patterns[0]:-}" != --list ]; then
        grep -aqs yajl_parse "$component_dir/mca_coll_mscclpp.so" || {
            skip "no_memory:plans" "built without yajl, which reads plans"
            return 0
        }
        python3 "$(dirname "$0")/plans.py" "$plans" 2 >"$log" 2>&1 || {
            report_failure "no_memory:plans" "plans.py writes no plans"
            return 0
        }
    fi
    job=(-n 2 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport "$transport"
        --mca coll_mscclpp_reuse 0 --mca coll_mscclpp_plans "$plans/nodes/allreduce_hierarchical.json")
    run "no_memory:plans:device" 240 "${job[@]}" "$bindir/test_no_memory" gpu 1000
    if [ "${MSCCLPP_TEST_LONG:-0}" = 1 ]; then
        run "no_memory:plans" 240 "${job[@]}" "$bindir/test_no_memory"
    else
        skip "no_memory:plans" "set MSCCLPP_TEST_LONG=1"
    fi
}

cases_no_memory() {
    local n per who transport=shm # UCX 1.13 aborts where a connection ends that is still being wired up
    local -a init=("${forced[@]}") shared=()
    [ "$MSCCLPP_TEST_DEVICE" != host ] || shared=(--mca coll_mscclpp_twin_shared_only 1)
    if [ "$MSCCLPP_TEST_DEVICE" = cuda ]; then
        transport=cuda_ipc
        # Asked for by name, CUDA would begin in MPI_Init, and its runtime does not survive there without memory.
        init=(--mca coll mscclpp --mca coll_mscclpp_device auto "${device[@]:3}")
    fi
    for n in 2 3; do
        run "no_memory:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory"
    done
    # Calls whose sizes ranks agree on, of types whose parts are looked up; calls that are compared. A call that fails
    # before it reaches the team must not fail the one before it, in which peers may still be.
    run_never_saying "no_memory:exchange:3" 'failed in its call 0:' 240 -n 3 "${forced[@]}" --mca coll_mscclpp_reuse 0 \
        "$bindir/test_no_memory" exchange
    run "no_memory:exchange:nodes" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport "$transport" --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory" exchange
    run "no_memory:check" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_check_calls 1 --mca coll_mscclpp_reuse 0 \
        "$bindir/test_no_memory"
    # Of calls with blocks for each rank, a rank may lack the memory to describe its own.
    run "no_memory:check:exchange" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_check_calls 1 \
        --mca coll_mscclpp_timeout 30 --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory" exchange
    # A peer that was not told would wait for the deadline.
    run_saying "no_memory:compared" 'not compared, as rank 1 has no memory' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_check_calls 1 --mca coll_mscclpp_timeout 30 "$bindir/test_no_memory" compared
    # A rank that cannot answer a question in the set-up must not end the set-up.
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run "no_memory:queued" 120 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_reuse 0 \
            "$bindir/test_no_memory" queued
        run "no_memory:queued:map" 60 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_timeout 20 \
            "$bindir/test_no_map"
        run "no_memory:queued:device" 120 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_reuse 0 \
            "$bindir/test_no_memory" gpu 1000 queued
    fi
    run_saying "no_memory:answer" 'rank 0: memory was refused' 60 -n 10 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport "$transport" "$bindir/test_no_memory" answer
    cases_no_memory_of_plans
    run "no_memory:stage" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_no_memory" stage
    # The same for what is taken of the device.
    ! few || skip "no_memory:device:large:3" "2 ranks do the same; set MSCCLPP_TEST_LONG=1"
    for n in 2 3; do
        run "no_memory:device:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory" gpu 1
        among "$n" 2 || continue
        run "no_memory:device:large:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_reuse 0 \
            ${shared[@]+"${shared[@]}"} "$bindir/test_no_memory" gpu 100000
    done
    run "no_memory:device:engines" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_reuse 0 ${shared[@]+"${shared[@]}"} \
        --mca coll_mscclpp_algorithm engines "$bindir/test_no_memory" gpu 100000
    run "no_memory:device:stage" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_reuse 0 \
        --mca coll_mscclpp_algorithm stage "$bindir/test_no_memory" gpu 100000
    for per in 1 2; do
        run "no_memory:device:nodes:3/$per" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node "$per" \
            --mca coll_mscclpp_transport "$transport" --mca coll_mscclpp_reuse 0 "$bindir/test_no_memory" gpu 100000
    done
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
