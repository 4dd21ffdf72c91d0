# shellcheck shell=bash
# The cases of what the component costs while nothing runs, and between calls, for run.sh, which has the functions that
# run one, and sets what these read.
# shellcheck disable=SC2154 # these

# The twin beside a communicator without the component, in one job: what slows the machine slows both.
case_pace() {
    if [ "$MSCCLPP_TEST_DEVICE" != host ] || [ "$long" != 1 ]; then
        skip "cost:pace" "measures times of the twin; set MSCCLPP_TEST_LONG=1"
        return
    fi
    run "cost:pace" 300 -n 2 "${forced[@]}" "$bindir/test_pace" 3
    # A collective that takes 16 times as long as it does is seen.
    run_failing "cost:pace:seen" 'allreduce of 65536 bytes: [0-9.]+ times as long' 300 -n 2 "${forced[@]}" \
        "$bindir/test_pace" 3 16
}

# What communicators cost, of which the runs' own lines tell more. Times have limits that a busy machine keeps, too.
cases_cost() {
    local n limit
    # Microseconds for n ranks of the twin that have a processor each; where they have not, whatever else runs counts.
    local limits=([2]=56 [3]=113 [4]=170)
    for n in 2 3 4; do
        limit=${limits[n]}
        [ "$MSCCLPP_TEST_DEVICE" = host ] && [ "$n" -le "$(nproc)" ] || limit=5000
        # Of each rank's scratch every rank maps less than 1 MiB.
        run "cost:space:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_cost" space $((n * 1024))
        run "cost:dup:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_cost" dup "$limit"
        # Of the first calls of live duplicates the quickest counts.
        [ "$n" -gt "$(nproc)" ] || run "cost:first:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_cost" first 1000
        run_saying "cost:reuse:$n" 'ready with what an ended communicator has left' 120 -n "$n" "${forced[@]}" \
            --mca coll_mscclpp_verbose 2 "$bindir/test_cost" dup 0
    done
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run "cost:memory" 240 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_cost" memory 1000
        # Over nodes on shm; other transports have memory of their own. Each communicator is connected anew.
        run "cost:memory:nodes" 240 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_transport shm \
            --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_cost" memory $((long == 1 ? 1000 : 100))
        run "cost:large" 120 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_cost" large 64
        # Over nodes, for each communicator besides: its piece of a segment over shm, of which little is touched; bounce
        # memory over ucx.
        run "cost:large:nodes:shm" 90 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_transport shm \
            --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_cost" large 64 8.2
        if [ "$ucx" = yes ]; then
            run "cost:large:nodes:ucx" 120 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" \
                --mca coll_mscclpp_transport ucx --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_cost" large 64 4.2
        else
            skip "cost:large:nodes:ucx" "built without UCX"
        fi
        run "cost:large:nodes:4/2" 90 -n 4 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_transport shm \
            --mca coll_mscclpp_ranks_per_node 2 "$bindir/test_cost" large 16 32.2
        run "cost:queued" 120 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_cost" queued 64
        run "cost:large:3" 120 -n 3 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_cost" large 12
    else
        skip "cost:memory, cost:large, cost:queued" "counts the memory of the twin"
    fi
    case_pace
    # Over nodes, what travels between them is besides.
    run "cost:space:named algorithm" 60 -n 4 "${forced[@]}" --mca coll_mscclpp_algorithm oneshot \
        --mca coll_mscclpp_bcast_algorithm packets "$bindir/test_cost" space 4096
    run "cost:space:nodes" 60 -n 4 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 \
        --mca coll_mscclpp_exchange_size 1m "$bindir/test_cost" space 8192
    # Between nodes, a duplicate takes over what the ranks have agreed on, as long as the other communicator lives.
    for n in 4/1 5/2; do
        run_saying "cost:kin:$n" 'with what a communicator of these ranks has agreed' 60 -n "${n%/*}" "${forced[@]}" \
            --mca coll_mscclpp_ranks_per_node "${n#*/}" --mca coll_mscclpp_verbose 2 "$bindir/test_basic" served
    done
    # One rank does not know any more what the others offer, among few ranks and over a tree.
    for n in 3/0 3/2 8/4 12/0 12/1 12/11; do
        run "cost:kin:gone:${n/\//:}" 60 -n "${n%/*}" "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
            --mca coll_mscclpp_timeout 20 "$bindir/test_duplicates" gone "${n#*/}"
    done
    run_never_saying "cost:dup, no reuse" 'what an ended communicator has left' 120 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_verbose 2 --mca coll_mscclpp_reuse 0 "$bindir/test_cost" dup 0
    run "cost:threads:3" 120 -n 3 "${forced[@]}" "$bindir/test_cost" threads 0
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
    local n coll linger=(--mca coll_mscclpp_linger auto) packets=()
    for coll in alltoallv allgatherv reduce_scatter; do
        packets+=(--mca "coll_mscclpp_${coll}_algorithm" packets)
    done
    [ "$MSCCLPP_TEST_DEVICE" = cuda ] || linger=(--mca coll_mscclpp_linger on)
    for n in 2 3 4; do
        if [ "$MSCCLPP_TEST_DEVICE:$n" = cuda:3 ] || [ "$MSCCLPP_TEST_DEVICE:$n" = cuda:4 ]; then
            skip "linger:wide lists:$n" "on GPUs several blocks serve lists of 2 ranks alone"
            continue
        fi
        run "linger:wide lists:$n" 120 -n "$n" "${forced[@]}" "${linger[@]}" "${packets[@]}" \
            --mca coll_mscclpp_linger_idle 100000 --mca coll_mscclpp_linger_window 1000000 "$bindir/test_linger" wide
    done
    for n in 2 4; do
        run "linger:rings:$n" 120 -n "$n" "${forced[@]}" "${linger[@]}" --mca coll_mscclpp_linger_idle 100000 \
            --mca coll_mscclpp_linger_window 1000000 "$bindir/test_linger" rings
        run "linger:lists:$n" 120 -n "$n" "${forced[@]}" "${linger[@]}" --mca coll_mscclpp_linger_idle 100000 \
            --mca coll_mscclpp_linger_window 1000000 "$bindir/test_linger" lists
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

# The counters tell collectives, and who served them, apart.
cases_counters() {
    local coll engines=() shared=() hidden=()
    [ "$MSCCLPP_TEST_DEVICE" != host ] || shared=(--mca coll_mscclpp_twin_shared_only 1)
    for coll in allgather allgatherv alltoall alltoallv alltoallw bcast gather gatherv scatter scatterv; do
        engines+=(--mca "coll_mscclpp_${coll}_algorithm" engines)
    done
    run_saying "counters:kernels" 'native: allreduce, allgather, .*; staged[a-zA-Z ]*: none of those' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_linger off --mca coll_mscclpp_verbose 2 "$bindir/test_counters" kernels
    run "counters:rung" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_linger on --mca coll_mscclpp_linger_idle 100000 \
        --mca coll_mscclpp_linger_window 1000000 "$bindir/test_counters" rung
    if [ "$(engines_for 2)" = engines ]; then
        run "counters:engines" 60 -n 2 "${forced[@]}" ${shared[@]+"${shared[@]}"} "${engines[@]}" \
            "$bindir/test_counters" engines
    fi
    run "counters:staged" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_counters" staged
    run_saying "counters:one staged" 'native: allreduce, allgather, .*; staged[a-zA-Z ]*: bcast$' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_bcast_algorithm stage --mca coll_mscclpp_verbose 2 "$bindir/test_basic" served
    # Why calls are staged, in counters and in the line at the end of a communicator.
    run_saying "counters:reasons" 'staged: 3 with an operation of the application, 20 with a type that' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_verbose 2 "$bindir/test_reasons" calls
    run "counters:reasons:stage" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_algorithm stage \
        "$bindir/test_reasons" stage
    run "counters:reasons:mixed" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_mixed_buffers 1 \
        "$bindir/test_reasons" mixed
    [ "$MSCCLPP_TEST_DEVICE" != host ] || hidden=(--mca coll_mscclpp_twin_host_ranks '0,1,2')
    run "counters:passed" 60 -n 3 "${forced[@]}" ${hidden[@]+"${hidden[@]}"} "$bindir/test_counters" passed
}
