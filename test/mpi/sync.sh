# shellcheck shell=bash
# The cases of copies that name no stream, for run.sh, which has the functions that run one, and sets what these read.
# shellcheck disable=SC2154 # these

# sync_copies PATH RANKS [mpirun argument]...: all that is copied before and after calls that take this path.
sync_copies() {
    local path=$1 n=$2 rounds=1040 limit=240
    shift 2
    if [ "$long" = 1 ]; then
        rounds=20000
        limit=1200
    fi
    run "sync_copies:$path:$n" "$limit" -n "$n" "${forced[@]}" "$@" "$bindir/test_sync_copies" "${path%:*}" "$rounds"
}

# The collectives besides all-reduce, and the ways in which kernels and copy engines serve them.
sync_collectives=(bcast allgather alltoall reduce_scatter_block)
sync_ways=(packets zerocopy engines scratch puts)

# Nonblocking and persistent calls by copy engines.
sync_engines=(iallgather_engines allgather_init_engines)

# Paths of calls that `algorithm` = `stage` leads to. The blocking all-reduce has its own case.
sync_staged=(bcast allgather alltoall stage_iallreduce stage_iallgather stage_allreduce_init stage_allgather_init)

# sync_way COLLECTIVE WAY: true if there is such a path, whose parameters are then in `way`.
sync_way() {
    way=(--mca coll_mscclpp_linger off --mca "coll_mscclpp_$1_algorithm" "$2")
    [ "$1:$2" != reduce_scatter_block:engines ] || return 1 # engines do not combine
    # Where kernels have buffers of their own to map.
    [ "$MSCCLPP_TEST_DEVICE" != host ] || way+=(--mca coll_mscclpp_twin_shared_only 1)
}

# The twin's copies are memcpy, which shows that the test takes no right result for a wrong one. Copies that it makes
# late, as nothing is ordered behind them there, show that it would see those.
sync_copies_on_twin() {
    local path coll way=() off=(--mca coll_mscclpp_linger off)
    for path in launch iallreduce iallgather allreduce_init allgather_init; do
        run "sync_copies:$path:twin" 60 -n 3 "${forced[@]}" "${off[@]}" "$bindir/test_sync_copies" "$path" 260
    done
    for path in "${sync_staged[@]}"; do
        run "sync_copies:$path:twin" 60 -n 3 "${forced[@]}" "${off[@]}" --mca coll_mscclpp_algorithm stage \
            "$bindir/test_sync_copies" "$path" 260
    done
    sync_way allgather engines
    for path in "${sync_engines[@]}"; do
        run_saying "sync_copies:$path:twin" "allgather call [0-9]+: engines, blocks of" 60 -n 3 "${forced[@]}" \
            "${way[@]}" --mca coll_mscclpp_verbose 3 "$bindir/test_sync_copies" "$path" 104
        run_failing "sync_copies:$path:seen" "wrong: path $path, before" 60 -n 2 "${forced[@]}" "${way[@]}" \
            "$bindir/test_sync_copies" "$path" 52 --late
    done
    for coll in "${sync_collectives[@]}"; do
        for path in "${sync_ways[@]}"; do
            sync_way "$coll" "$path" || continue
            run_saying "sync_copies:${coll}_$path:twin" "$coll call [0-9]+: $path, blocks of" 60 -n 3 "${forced[@]}" \
                "${way[@]}" --mca coll_mscclpp_verbose 3 "$bindir/test_sync_copies" "${coll}_$path" 104
        done
        run "sync_copies:${coll}_linger:twin" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_linger on \
            --mca coll_mscclpp_linger_idle 1000000 --mca coll_mscclpp_linger_window 1000000 \
            --mca "coll_mscclpp_${coll}_algorithm" packets "$bindir/test_sync_copies" "${coll}_linger" 104
    done
    for path in bcast_packets bcast_engines allgather_zerocopy allgather_packets alltoall_scratch alltoall_engines \
        reduce_scatter_block_packets reduce_scatter_block_zerocopy; do
        sync_way "${path%_*}" "${path##*_}"
        run_failing "sync_copies:$path:seen" "wrong: path $path, before" 60 -n 2 "${forced[@]}" "${way[@]}" \
            "$bindir/test_sync_copies" "$path" 52 --late
    done
    for path in launch alltoall iallgather allreduce_init; do
        run_failing "sync_copies:$path:seen" "wrong: path $path, before" 60 -n 2 "${forced[@]}" "${off[@]}" \
            "$bindir/test_sync_copies" "$path" 52 --late
    done
    run_failing sync_copies:stage_iallreduce:seen "wrong: path stage_iallreduce, before" 60 -n 2 "${forced[@]}" \
        "${off[@]}" --mca coll_mscclpp_algorithm stage "$bindir/test_sync_copies" stage_iallreduce 52 --late
    skip "sync_copies:PATH:RANKS" "copies return before their end on a GPU only"
}

cases_sync_copies() {
    local n path coll way=()
    if [ "$MSCCLPP_TEST_DEVICE" = host ]; then
        sync_copies_on_twin
        return
    fi
    for n in 2 4 8; do
        # The kernel outlives what is copied between calls, but not by long what waits for it.
        sync_copies linger "$n" --mca coll_mscclpp_linger on --mca coll_mscclpp_linger_idle 2000 \
            --mca coll_mscclpp_linger_window 10000
        sync_copies launch "$n" --mca coll_mscclpp_linger off
        for path in zerocopy engines scratch oneshot_put stage; do
            sync_copies "$path" "$n" --mca coll_mscclpp_linger off --mca coll_mscclpp_algorithm "$path"
        done
        for path in cuda_ipc ucx; do
            sync_copies "nodes:$path" "$n" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport "$path"
        done
        for path in iallreduce iallgather allreduce_init allgather_init; do
            sync_copies "$path" "$n"
        done
        sync_way allgather engines
        for path in "${sync_engines[@]}"; do
            sync_copies "$path" "$n" "${way[@]}"
        done
        for path in "${sync_staged[@]}"; do
            sync_copies "$path" "$n" --mca coll_mscclpp_algorithm stage
        done
        for coll in "${sync_collectives[@]}"; do
            for path in "${sync_ways[@]}"; do
                sync_way "$coll" "$path" && sync_copies "${coll}_$path" "$n" "${way[@]}"
            done
            sync_copies "${coll}_linger" "$n" --mca coll_mscclpp_linger on --mca coll_mscclpp_linger_idle 2000 \
                --mca coll_mscclpp_linger_window 10000 --mca "coll_mscclpp_${coll}_algorithm" packets
        done
    done
    # That these are the algorithms that serve it.
    for path in zerocopy engines scratch oneshot_put; do
        [ "$path" != engines ] || [ "$(engines_for 2)" = engines ] || continue
        run_by "sync_copies:$path:served" "$path" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_verbose 3 \
            --mca coll_mscclpp_algorithm "$path" "$bindir/test_sync_copies" "$path" 52 --kind device
    done
    for coll in "${sync_collectives[@]}"; do
        for path in "${sync_ways[@]}"; do
            [ "$path" != engines ] || [ "$(engines_for 2)" = engines ] || continue
            sync_way "$coll" "$path" || continue
            run_saying "sync_copies:${coll}_$path:served" "$coll call [0-9]+: $path, blocks of" 60 -n 2 "${forced[@]}" \
                "${way[@]}" --mca coll_mscclpp_verbose 3 "$bindir/test_sync_copies" "${coll}_$path" 52 --kind device
        done
    done
}
