# shellcheck shell=bash
# The cases of what calls compute, for run.sh, which has the functions that run one, and sets what these read.
# shellcheck disable=SC2154 # these

cases_programs() {
    local n
    ! few || skip "types_ops, counts, comms and memory:3, threads:many and threads:engines:2" \
        "other numbers of ranks stand for these; set MSCCLPP_TEST_LONG=1"
    for n in 1 2 3 4; do
        run "userop:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_userop"
        among "$n" '[124]' || continue
        run "types_ops:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_types_ops"
        run "counts:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_counts"
        # By what serves within a node, spawned processes, too.
        run_by "comms:$n" '[^n][a-z_]*' 120 -n "$n" "${forced[@]}" --mca coll_mscclpp_verbose 3 \
            "$bindir/test_comms" --spawn
        run "memory:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_memory"
    done
    # In place, in mapped buffers and through the scratch.
    local mapped=() all=()
    [ "$MSCCLPP_TEST_DEVICE" != host ] || mapped=(--mca coll_mscclpp_twin_shared_only 1)
    for n in 2 3; do
        run "in_place:$n" 120 -n "$n" "${forced[@]}" "${mapped[@]}" "$bindir/test_in_place"
    done
    # What 2 ranks send one another, 24 bytes, decides alone, in 135 calls of each: they do not agree on what each has
    # for itself.
    run_counting "pair" 270 'call [0-9]+: packets, blocks of up to 24 bytes' 120 -n 2 "${forced[@]}" "${mapped[@]}" \
        --mca coll_mscclpp_verbose 3 "$bindir/test_pair"
    run "in_place:scratch:3" 120 -n 3 "${forced[@]}" --mca coll_mscclpp_zerocopy 0 "$bindir/test_in_place"
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
        ! among "$n" '[14]' || run "threads:many:$n" 120 -n "$n" --mca mpi_yield_when_idle 1 "${forced[@]}" \
            "$bindir/test_threads" --many
    done
    # Copy engines, for calls of several threads at a time.
    local coll engines=(--mca coll_mscclpp_algorithm engines)
    for coll in allgather alltoall bcast; do
        engines+=(--mca "coll_mscclpp_${coll}_algorithm" engines)
    done
    [ "$MSCCLPP_TEST_DEVICE" != host ] || { engines+=(--mca coll_mscclpp_twin_shared_only 1) && all=(--mapped); }
    for n in 2 3; do
        if [ "$(engines_for "$n")" = engines ] && among "$n" 3; then
            run "threads:engines:$n" 240 -n "$n" --mca mpi_yield_when_idle 1 "${forced[@]}" "${engines[@]}" \
                "$bindir/test_threads" --engines
        fi
    done
    # Communicators of different ranks, whose engines share the memory of a process.
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        run_saying "comms:engines" 'bytes for copy engines, which communicators share' 120 -n 3 "${forced[@]}" \
            --mca coll_mscclpp_twin_shared_only 1 --mca coll_mscclpp_engine_min 1 --mca coll_mscclpp_verbose 3 \
            "$bindir/test_comms"
    else
        skip "comms:engines" "on GPUs, engines serve larger messages than those of this test"
    fi
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

# Nonblocking and persistent calls that copy engines serve as rules ask for it, where there may be engines at all.
cases_engine_requests() {
    local coll n by served=() all=() late='arrival of all ranks\) did not end on rank [01] .*not arrived: 2(;|$)'
    local -a engines=("${forced[@]}" --mca coll_mscclpp_rules "$scratch/engines.rules")
    for coll in allgather allgatherv alltoall alltoallv alltoallw bcast gather gatherv scatter scatterv; do
        for n in 2 3; do
            echo "collective=$coll ranks=$n device=$MSCCLPP_TEST_DEVICE bytes<=1g algorithm=engines"
        done
    done >"$scratch/engines.rules"
    [ "$MSCCLPP_TEST_DEVICE" != host ] || engines+=(--mca coll_mscclpp_twin_shared_only 1)
    for n in 2 3; do
        by=$(engines_for "$n")
        served=()
        [ "$by" != engines ] || served=(--engines)
        run_saying "request:engines:$n" "allgather call [0-9]+: ($by), blocks" 240 -n "$n" "${engines[@]}" \
            --mca coll_mscclpp_verbose 3 "$bindir/test_known" ${served[@]+"${served[@]}"}
        ! among "$n" 2 ||
            run_saying "request:hidden:engines:$n" "bcast call [0-9]+: ($by), blocks" 240 -n "$n" "${engines[@]}" \
                --mca coll_mscclpp_verbose 3 "$bindir/test_hidden" ${all[@]+"${all[@]}"}
        ! among "$n" 2 || run "request:engines:every:$n" 240 -n "$n" "${engines[@]}" "$bindir/test_stage"
        ! among "$n" 3 || run "request:engines:limited:$n" 240 -n "$n" "${engines[@]}" \
            --mca coll_mscclpp_mapping_cache_size 1 "$bindir/test_known"
    done
    run "request:hidden:engines:threads" 240 -n 2 --mca mpi_yield_when_idle 1 "${engines[@]}" "$bindir/test_hidden" \
        --threads
    run "request:engines:random" 240 -n 3 --mca mpi_yield_when_idle 1 "${engines[@]}" "$bindir/test_random" --seed 7 \
        --rounds 5 --threads 2
    run_saying "request:engines:late" "$late" 60 -n 3 "${engines[@]}" --mca coll_mscclpp_timeout 2 \
        "$bindir/test_known" --late
}

# Nonblocking calls by kernels that their callers run, and by some that run by themselves.
cases_requests() {
    local n by=zerocopy
    ! few || skip "request and persistent, with all numbers of ranks" \
        "one or two stand for them with each kind of call; set MSCCLPP_TEST_LONG=1"
    for n in 2 3 4; do
        ! among "$n" '[24]' || run "request:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_request"
        ! among "$n" '[23]' || run "persistent:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_persistent"
        ! among "$n" 3 || run "request:threads:$n" 240 -n "$n" --mca mpi_yield_when_idle 1 "${forced[@]}" \
            "$bindir/test_request" --threads
    done
    for n in 2 3; do
        ! among "$n" 3 || run "request:hidden:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_hidden"
    done
    # By the buffers of all ranks, where these can be mapped: on the twin its own memory.
    local mapped=()
    [ "$MSCCLPP_TEST_DEVICE" != host ] || { mapped=(--mca coll_mscclpp_twin_shared_only 1) && all=(--mapped); }
    for n in 2 3; do
        ! among "$n" 3 || run "request:mapped:$n" 240 -n "$n" "${forced[@]}" "${mapped[@]}" "$bindir/test_request"
        ! among "$n" 2 || run "request:hidden:mapped:$n" 240 -n "$n" "${forced[@]}" "${mapped[@]}" \
            "$bindir/test_hidden" ${all[@]+"${all[@]}"}
        ! among "$n" 3 ||
            run "persistent:mapped:$n" 240 -n "$n" "${forced[@]}" "${mapped[@]}" "$bindir/test_persistent"
        # On GPUs these blocks are as large as those that copy engines move where they can.
        [ "$MSCCLPP_TEST_DEVICE" = host ] || by=$(engines_for "$n")
        run_saying "request:known:$n" "call [0-9]+: ($by), blocks of up to [0-9]+ bytes" 240 -n "$n" \
            "${forced[@]}" "${mapped[@]}" --mca coll_mscclpp_verbose 3 "$bindir/test_known"
    done
    cases_engine_requests
    run_never_saying "request:known:off" 'call [0-9]+: zerocopy' 240 -n 2 "${forced[@]}" "${mapped[@]}" \
        --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_zerocopy 0 "$bindir/test_known"
    # Between nodes, where hosts send one another messages by UCX.
    [ "$ucx" = no ] || run "request:hidden:nodes" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 \
        "$bindir/test_hidden"
    run "request:hidden:threads" 240 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_hidden" --threads
    run "request:packets" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_oneshot_max 2k \
        --mca coll_mscclpp_twophase_max 16k "$bindir/test_request"
    run "request:renewal" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_oneshot_max 2k \
        --mca coll_mscclpp_epoch_limit 16 "$bindir/test_request"
    run "persistent:restarts" 1200 -n 2 "${forced[@]}" "$bindir/test_persistent" \
        --restarts "$([ "$long" = 1 ] && echo 1000000 || echo 20000)"
    # What a request was made from has ended; types, operations and arrays are the request's own. Starting each
    # request once takes 3 s on a GPU.
    local starts=40
    [ "$MSCCLPP_TEST_DEVICE" = host ] || starts=10
    for n in 2 3; do
        ! among "$n" 2 ||
            run "persistent:owned:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_stage" --starts "$starts"
        ! among "$n" 3 || run "persistent:owned:staged:$n" 240 -n "$n" "${forced[@]}" \
            --mca coll_mscclpp_algorithm stage "$bindir/test_stage" --starts 10
        ! among "$n" 2 || run "persistent:owned:kinds:$n" 240 -n "$n" "${forced[@]}" "${mapped[@]}" \
            --mca coll_mscclpp_algorithm stage "$bindir/test_stage" --starts 3 --kinds
        ! among "$n" 2 || run "persistent:owned:mapped:$n" 240 -n "$n" "${forced[@]}" "${mapped[@]}" \
            "$bindir/test_stage" --starts 10
    done
    run "persistent:owned:nodes" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 \
        "$bindir/test_stage" --starts "$starts"
    run "persistent:late" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 "$bindir/test_persistent" --late
    # Over several nodes: where kernels store packets for one another, and where a proxy sends them.
    run "persistent:nodes" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 "$bindir/test_persistent"
    run "request:nodes:shm" 240 -n 4 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport shm --mca coll_mscclpp_ucx 0 "$bindir/test_request"
    # Flags run out all the time, and tiles and packets take turns.
    run "request:nodes:renewal" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 \
        --mca coll_mscclpp_transport ucx --mca coll_mscclpp_epoch_limit 16 "$bindir/test_request"
    run "request:nodes:threads" 240 -n 3 --mca mpi_yield_when_idle 1 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 2 "$bindir/test_request" --threads
    run_saying "persistent:nodes:late" 'arrival of all ranks\) did not end on rank [01] .*not arrived: 2(;|$)' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_timeout 2 \
        "$bindir/test_persistent" --late
    run "persistent:linger" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_linger on "$bindir/test_persistent"
    run "request:linger" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_linger on "$bindir/test_request"
    run "request:zerocopy" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_algorithm zerocopy "$bindir/test_request"
    [ "$MSCCLPP_TEST_DEVICE" = host ] || return 0
    # Where the twin knows allocations: a start sees that those of the buffers have changed.
    run_saying "persistent:split" 'alltoallw: buffers of a persistent request are described again' 60 -n 3 \
        "${forced[@]}" "${mapped[@]}" --mca coll_mscclpp_verbose 3 "$bindir/test_persistent" --split
    run "persistent:alone" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_threads 2 --mca coll_mscclpp_twin_blocks 2 \
        "$bindir/test_persistent"
    run "request:hidden:alone" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_threads 2 \
        --mca coll_mscclpp_twin_blocks 2 "$bindir/test_hidden"
    run "request:alone" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_threads 2 --mca coll_mscclpp_twin_blocks 2 \
        "$bindir/test_request"
    run "request:alone:linger" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_threads 2 --mca coll_mscclpp_linger on \
        "$bindir/test_request"
}

# Calls of all kinds at random, on communicators that come and go. The seeds are fixed, so that the same calls pass each
# time.
cases_random() {
    local seed seeds=1 rounds=10 yields=(--mca mpi_yield_when_idle 1)
    local stays=(--mca coll_mscclpp_linger on --mca coll_mscclpp_linger_idle 20000
        --mca coll_mscclpp_linger_window 200000)
    [ "$long" != 1 ] || seeds=20 rounds=60
    [ "$long" = 1 ] || skip "random: 20 seeds each, 60 rounds" "set MSCCLPP_TEST_LONG=1"
    for seed in $(seq "$seeds"); do
        run "random:3:$seed" 600 -n 3 "${yields[@]}" "${forced[@]}" "$bindir/test_random" --seed "$seed" \
            --rounds "$rounds"
        run "random:nodes:$seed" 600 -n 4 "${yields[@]}" "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 \
            "$bindir/test_random" --seed "$seed" --rounds "$rounds"
        run "random:threads:$seed" 600 -n 3 "${yields[@]}" "${forced[@]}" "$bindir/test_random" --seed "$seed" \
            --rounds $((rounds / 3)) --threads 3
        # The parameters are the twin's.
        [ "$MSCCLPP_TEST_DEVICE" = host ] || continue
        run "random:mapped:$seed" 600 -n 3 "${yields[@]}" "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 \
            "$bindir/test_random" --seed "$seed" --rounds "$rounds"
        run "random:linger:$seed" 600 -n 4 "${yields[@]}" "${forced[@]}" "${stays[@]}" \
            --mca coll_mscclpp_twin_threads 3 --mca coll_mscclpp_epoch_limit 16 "$bindir/test_random" --seed "$seed" \
            --rounds "$rounds"
    done
}

# What is staged through host memory.
cases_stages() {
    local n staged=("${forced[@]}" --mca coll_mscclpp_algorithm stage) storm=3
    # All collectives at random. Without --long the seed is fixed, so that the same calls pass each time.
    [ "$long" != 1 ] || storm=120
    [ "$long" = 1 ] || skip "storm: for two minutes, with any seed" "set MSCCLPP_TEST_LONG=1"
    for n in 2 3; do
        if [ "$long" = 1 ]; then
            run "storm:$n" $((storm + 240)) -n "$n" "${forced[@]}" "$bindir/test_storm" $storm
        else
            run "storm:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_storm" $storm 5
        fi
    done
    ! few || skip "stage, native and their async, layout and silent cases, with all numbers of ranks" \
        "one or two stand for them with each test; set MSCCLPP_TEST_LONG=1"
    for n in 2 3 4; do
        ! among "$n" '[24]' || run "stage:$n" 240 -n "$n" "${staged[@]}" "$bindir/test_stage"
        ! among "$n" '[23]' || run "native:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_stage"
        ! among "$n" '[24]' || run "stage_async:$n" 120 -n "$n" "${staged[@]}" "$bindir/test_stage_async"
        ! among "$n" 3 ||
            run "stage_async:threads:$n" 120 -n "$n" "${staged[@]}" "$bindir/test_stage_async" --threads
        ! among "$n" '[24]' || run "stage_layout:$n" 120 -n "$n" "${staged[@]}" "$bindir/test_stage_layout"
        ! among "$n" '[34]' || run "native_layout:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_stage_layout"
        ! among "$n" 3 || run "native_layout:packets:$n" 120 -n "$n" "${forced[@]}" \
            --mca coll_mscclpp_alltoallw_algorithm packets "$bindir/test_stage_layout"
        ! among "$n" '[24]' || run "native_silent:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_silent"
    done
    for n in 1 2 3 4; do
        run "neighbor:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_neighbor"
    done
    run "neighbor:packets" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_neighbor_alltoall_algorithm packets \
        --mca coll_mscclpp_neighbor_alltoallw_algorithm scratch "$bindir/test_neighbor"
    run "neighbor:stage" 60 -n 2 "${staged[@]}" "$bindir/test_neighbor" staged
    cases_overflow
    # Where bounds are known, holes are read along; where not all memory is the device's, more bytes are looked at.
    [ "$MSCCLPP_TEST_DEVICE" = host ] || return 0
    run "neighbor:host" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 "$bindir/test_neighbor" host
    ! few || skip "native_shared, native_silent:shared and stage_shared:3" \
        "they take long, and 2 ranks do the same; set MSCCLPP_TEST_LONG=1"
    for n in 2 3; do
        among "$n" 2 || continue
        # The first rank of each call decides for all of them, whatever kinds of memory they pass; or each call agrees.
        run "native_shared:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 "$bindir/test_stage"
        run "native_shared:agreed:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 \
            --mca coll_mscclpp_mixed_buffers 1 "$bindir/test_stage"
        if [ "$long" = 1 ]; then
            run "native_shared:kinds:$n" 900 -n "$n" "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 \
                "$bindir/test_stage" --kinds
        fi
        run "native_silent:shared:$n" 120 -n "$n" "${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 \
            "$bindir/test_silent"
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

# numbers_for ALGORITHM: the numbers of ranks that it is tried with. On the twin, test_allreduce tries all algorithms
# with all numbers. Here each number meets several algorithms, and each algorithm several numbers.
numbers_for() {
    few || {
        echo 1 2 3 4 5 8
        return
    }
    case $1 in
    oneshot) echo 1 3 ;;
    scratch) echo 2 8 ;;
    oneshot-ll8 | twophase) echo 2 5 ;;
    twophase-ll128 | stage) echo 1 4 ;;
    zerocopy) echo 1 3 ;;
    engines) echo 2 3 ;;
    *) echo 2 4 ;;
    esac
}

# Every algorithm by name with several numbers of ranks. Parameters that ranks must have in common come from rank 0.
cases_algorithms() {
    local algorithm n by job most
    [ "$(numbers_for any)" = '1 2 3 4 5 8' ] || skip "algorithm:all numbers of ranks" \
        "two or three stand for them with each algorithm; set MSCCLPP_TEST_LONG=1"
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
        for n in $(numbers_for "$algorithm"); do
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
        # On the twin, test_allreduce tries all types with all algorithms; MPI's types do not depend on the algorithm.
        if few && [[ $algorithm != @(oneshot|scratch|stage) ]]; then
            skip "algorithm:$algorithm:types_ops" "test_allreduce has tried them; set MSCCLPP_TEST_LONG=1"
        else
            run "algorithm:$algorithm:types_ops" 240 -n $most "${job[@]}" "$bindir/test_types_ops"
        fi
        run "algorithm:$algorithm:bitwise" 120 -n 4 "${job[@]}" "$bindir/test_bitwise"
    done
    for n in $(numbers_for oneshot-ll8); do
        run "algorithm:oneshot-ll8:$n" 240 -n "$n" "${forced[@]}" --mca coll_mscclpp_algorithm oneshot \
            --mca coll_mscclpp_packet ll8 "$bindir/test_counts" quick
    done
    for n in $(numbers_for twophase-ll128); do
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

# Kernels, proxy and transports between processes; mscclpp_bench verifies what arrives.
cases_ports() {
    local n proxy local=shm program=$bindir/../../mscclpp_bench
    [ "$MSCCLPP_TEST_DEVICE" = host ] || local=cuda_ipc
    ! few || skip "port:progress:2 and port:thread:3" "the other number of ranks does; set MSCCLPP_TEST_LONG=1"
    for proxy in progress thread; do
        for n in 2 3; do
            among "$proxy:$n" '@(progress:3|thread:2)' || continue
            run_saying "port:$proxy:$n" "^# transport $local\$" 120 -n "$n" "${forced[@]}" \
                --mca coll_mscclpp_proxy "$proxy" "$program" --device "$MSCCLPP_TEST_DEVICE" --mode port \
                --min 1 --max 3m --factor 37 --iterations 3 --rounds 1 --check 3
        done
    done
}
