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

# The twin's copies are memcpy, which shows that the test takes no right result for a wrong one. Copies that it makes
# late, as nothing is ordered behind them there, show that it would see those.
sync_copies_on_twin() {
    local path off=(--mca coll_mscclpp_linger off)
    for path in launch iallreduce iallgather allreduce_init allgather_init; do
        run "sync_copies:$path:twin" 60 -n 3 "${forced[@]}" "${off[@]}" "$bindir/test_sync_copies" "$path" 260
    done
    for path in bcast allgather alltoall; do
        run "sync_copies:$path:twin" 60 -n 3 "${forced[@]}" "${off[@]}" --mca coll_mscclpp_algorithm stage \
            "$bindir/test_sync_copies" "$path" 260
    done
    for path in launch alltoall iallgather allreduce_init; do
        run_failing "sync_copies:$path:seen" "wrong: path $path, before" 60 -n 2 "${forced[@]}" "${off[@]}" \
            "$bindir/test_sync_copies" "$path" 52 --late
    done
    skip "sync_copies:PATH:RANKS" "copies return before their end on a GPU only"
}

cases_sync_copies() {
    local n path
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
        for path in bcast allgather alltoall; do
            sync_copies "$path" "$n" --mca coll_mscclpp_algorithm stage
        done
    done
    # That these are the algorithms that serve it.
    for path in zerocopy engines scratch oneshot_put; do
        [ "$path" != engines ] || [ "$(engines_for 2)" = engines ] || continue
        run_by "sync_copies:$path:served" "$path" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_verbose 3 \
            --mca coll_mscclpp_algorithm "$path" "$bindir/test_sync_copies" "$path" 52 --kind device
    done
}
