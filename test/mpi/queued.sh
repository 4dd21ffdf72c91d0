# shellcheck shell=bash
# Queued calls: cases of run.sh, which sets what these read.
# shellcheck disable=SC2154 # these

cases_queued() {
    local n nodes said mapped=("${forced[@]}" --mca coll_mscclpp_twin_shared_only 1 --mca coll_mscclpp_verbose 3)
    ! few || skip "queued:N, queued:each:N, queued:refused:N and queued:neighbors:N, with all numbers of ranks" \
        "one or two stand for them with each test; set MSCCLPP_TEST_LONG=1"
    for n in 2 3 4; do
        ! among "$n" '[24]' || run "queued:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_queued"
        ! among "$n" '[23]' || run "queued:each:$n" 240 -n "$n" "${forced[@]}" "$bindir/test_queued_each"
        ! among "$n" 4 || run "queued:refused:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_queued_errors"
    done
    for n in 2 3 4; do
        ! among "$n" 3 || run "queued:neighbors:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_neighbor" queued
    done
    run_saying "queued:neighbors:nodes" \
        'neighbor_.* cannot be captured in a graph: its blocks may differ in size, and its ranks are on sev' 120 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 "$bindir/test_neighbor" waits
    run_saying "queued:refused:why" 'rank 1: all-reduce cannot be captured in a graph: no kernel knows its type or' 60 \
        -n 2 "${forced[@]}" "$bindir/test_queued_errors"
    run "queued:packets" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_oneshot_max 2k \
        --mca coll_mscclpp_twophase_max 16k "$bindir/test_queued"
    # Flags that the device renews after every few operations.
    run "queued:renewal" 240 -n 3 "${forced[@]}" --mca coll_mscclpp_oneshot_max 2k \
        --mca coll_mscclpp_epoch_limit 16 "$bindir/test_queued"
    # An algorithm by name that would need an exchange between the hosts.
    run "queued:zerocopy" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_algorithm zerocopy "$bindir/test_queued"
    run "queued:linger" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_linger on "$bindir/test_queued"
    run "queued:many" 120 -n 2 "${forced[@]}" "$bindir/test_queued_errors" --many
    # On several nodes, where a proxy's thread sends what kernels ask for.
    nodes=("${forced[@]}" --mca coll_mscclpp_ranks_per_node 2)
    run "queued:nodes:2/1" 120 -n 2 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport network "$bindir/test_queued"
    run "queued:nodes:3/2" 120 -n 3 "${nodes[@]}" "$bindir/test_queued"
    run "queued:nodes:each" 240 -n 3 "${nodes[@]}" "$bindir/test_queued_each"
    # In a ring and over trees, which the sizes here do not choose.
    run_saying "queued:nodes:passed on" '(allgather|bcast) call [0-9]+: nodes_(ring|trees), .*, queued' 120 -n 4 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_allgather_algorithm nodes_ring \
        --mca coll_mscclpp_reduce_scatter_block_algorithm nodes_ring --mca coll_mscclpp_reduce_algorithm nodes_trees \
        --mca coll_mscclpp_bcast_algorithm nodes_trees --mca coll_mscclpp_verbose 3 "$bindir/test_queued_each"
    run "queued:nodes:many" 120 -n 3 "${nodes[@]}" "$bindir/test_queued_errors" --many
    run "queued:nodes:late" 120 -n 3 "${nodes[@]}" --mca coll_mscclpp_timeout 2 "$bindir/test_queued_errors" --late
    run "queued:nodes:busy" 120 -n 2 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_timeout 20 \
        "$bindir/test_queued_errors" --busy
    run_saying "queued:nodes:pauses" '^after 200000 us: ' 60 -n 2 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport network "$bindir/test_queued" --pauses
    # Calls that are compared, and buffers of mixed kinds, are no matter.
    run "queued:check" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_check_calls 1 "$bindir/test_queued"
    run "queued:mixed" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_mixed_buffers 1 "$bindir/test_queued"
    # Threads queue in any order, so each of their streams needs a hardware queue, of which MPS gives fewer by itself.
    run "queued:threads" 120 -n 3 -x CUDA_DEVICE_MAX_CONNECTIONS=8 --mca mpi_yield_when_idle 1 "${forced[@]}" \
        "$bindir/test_queued_errors" --threads
    for n in 2 3; do
        run "queued:graphs:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_graphs"
    done
    run "queued:graphs:renewal" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_epoch_limit 16 "$bindir/test_graphs"
    run "queued:graphs:nodes" 60 -n 3 "${nodes[@]}" "$bindir/test_graphs"
    # The line comes when memory is given back, here when another communicator is made.
    run_saying "queued:graphs:freed" 'calls of this communicator, which had been freed; these calls did nothing' 60 \
        -n 3 "${forced[@]}" "$bindir/test_graphs" --freed
    run "queued:graphs:freed:nodes" 60 -n 3 "${nodes[@]}" "$bindir/test_graphs" --freed
    run "queued:graphs:modes" 120 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_graphs" --modes
    # By the buffers of all ranks, where these can be mapped: on the twin its own memory. GPUs do so for other sizes.
    said=zerocopy
    [ "$MSCCLPP_TEST_DEVICE" = host ] || said='[a-z_]+'
    for n in 2 3; do
        run_saying "queued:mapped:$n" "call [0-9]+: $said, 1200000 bytes" 60 -n "$n" "${mapped[@]}" \
            --mca mpi_yield_when_idle 1 "$bindir/test_mapped"
    done
    # Collectives other than all-reduce. The last one is seen.
    run_saying "queued:mapped:each" "exscan call [0-9]+: $said, blocks of up to [0-9]+ bytes, queued" 60 -n 3 \
        "${mapped[@]}" --mca mpi_yield_when_idle 1 "$bindir/test_mapped" --each
    # Blocks that differ in size: all ranks know those of a reduce-scatter, and agree on others if the call is captured.
    for name in allgatherv reduce_scatter alltoallv; do
        run_saying "queued:mapped:$name" "$name call [0-9]+: $said, blocks of up to [0-9]+ bytes, queued" 60 -n 3 \
            "${mapped[@]}" --mca mpi_yield_when_idle 1 "$bindir/test_mapped" --unequal
    done
    for name in gatherv alltoallv; do
        run_saying "queued:small:$name" "$name call [0-9]+: packets, blocks of up to 160 bytes, queued" 60 -n 3 \
            "${mapped[@]}" --mca mpi_yield_when_idle 1 "$bindir/test_mapped" --unequal --small
    done
    run_saying "queued:small:late" "alltoallv call [0-9]+: scratch, blocks of up to 160 bytes, queued" 60 -n 3 \
        "${mapped[@]}" --mca mpi_yield_when_idle 1 --mca coll_mscclpp_timeout 8 \
        "$bindir/test_mapped" --unequal --small --late
    run_saying "queued:mapped:graphs" "call [0-9]+: $said, 200000 bytes" 60 -n 2 "${mapped[@]}" "$bindir/test_graphs"
    run_never_saying "queued:mapped:off" 'call [0-9]+: zerocopy' 60 -n 2 "${mapped[@]}" \
        --mca coll_mscclpp_zerocopy 0 --mca mpi_yield_when_idle 1 "$bindir/test_mapped"
    run "queued:late" 120 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 "$bindir/test_queued_errors" --late
    run "queued:busy" 120 -n 2 "${forced[@]}" --mca coll_mscclpp_timeout 20 "$bindir/test_queued_errors" --busy
    run "queued:codes" 30 -n 1 "${device[@]}" "$bindir/test_codes"
    run "queued:without" 60 -n 2 --mca coll '^mscclpp' "$bindir/test_queued_errors" --without
    for n in 2 3; do
        run "queued:conditions:$n" 240 -n "$n" --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_conditions"
    done
    [ "$MSCCLPP_TEST_DEVICE" = host ] || return 0
    for n in 2 3; do
        run "queued:requests:$n" 120 -n "$n" --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_queued_requests"
    done
    # Messages that docs/gpu-synchronous.md shows.
    n=0
    for said in 'a request is NULL, or not prepared' 'an execution is under way; wait for it with MPIX_Mscclpp_wait' \
        'partitions 0 to 1; from 0 to 0 are allowed' 'psend_init: 0 partitions; a request has at least 1' \
        'precv_init: -1 partitions; a request has at least 1' \
        'partitions are marked by kernels; use MPIX_Mscclpp_attach_kernels' \
        'rank 1 has 2 partitions of 4 bytes to receive, and rank 0 has 1 of 4 to send; they must be equal'; do
        n=$((n + 1))
        run_saying "queued:requests:refused:$n" "$said" 60 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" \
            "$bindir/test_queued_requests" --refused
    done
    run "queued:requests:parts" 240 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_partitioned"
    run_saying "queued:requests:versions" 'its interface is [0-9]+, and this library needs' 60 -n 1 "${forced[@]}" \
        "$bindir/test_partitioned" versions : -n 1 -x LD_PRELOAD="$bindir/.libs/libold_api.so" "${forced[@]}" \
        "$bindir/test_partitioned" versions
    run "queued:requests:without" 60 -n 2 --mca coll '^mscclpp' "$bindir/test_queued_requests" --without
    for n in 2 3; do
        run "queued:requests:plain:$n" 60 -n "$n" --mca coll '^mscclpp' "$bindir/test_plain"
    done
    run "queued:requests:stream" 60 -n 1 "$bindir/test_release_stream"
    run "queued:requests:many" 60 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_queued_requests" --many
    run "queued:requests:freed" 60 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_queued_requests" \
        --freed
    run_saying "queued:requests:wrong" 'mpix_pready: a kernel of rank 1 marked partition 4; from 0 to 3 are allowed' \
        60 -n 3 --mca mpi_yield_when_idle 1 "${forced[@]}" "$bindir/test_queued_requests" --wrong
    run "queued:requests:none" 60 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_algorithm stage \
        "$bindir/test_queued_requests" --none
    run "queued:requests:nodes" 120 -n 2 --mca mpi_yield_when_idle 1 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 "$bindir/test_queued_requests"
    run "queued:requests:late" 60 -n 3 --mca mpi_yield_when_idle 1 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
        "$bindir/test_queued_requests" --late
    for n in 1 3; do
        if [ -x "$bindir/test_fortran" ]; then
            run "queued:fortran:$n" 60 -n "$n" "${forced[@]}" "$bindir/test_fortran"
        else
            skip "queued:fortran:$n" "no Fortran compiler for Open MPI's module mpi"
        fi
    done
    run "queued:blocks" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_threads 2 --mca coll_mscclpp_twin_blocks 2 \
        "$bindir/test_queued"
    run "queued:each:renewal" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_threads 2 \
        --mca coll_mscclpp_twin_blocks 3 --mca coll_mscclpp_epoch_limit 16 "$bindir/test_queued_each"
    run "queued:blocks:renewal" 240 -n 2 "${forced[@]}" --mca coll_mscclpp_twin_threads 2 \
        --mca coll_mscclpp_twin_blocks 3 --mca coll_mscclpp_oneshot_max 2k --mca coll_mscclpp_twophase_max 16k \
        --mca coll_mscclpp_epoch_limit 16 "$bindir/test_queued"
}
