# shellcheck shell=bash
# Channels in kernels of the application: cases of run.sh, which sets what these read.
# shellcheck disable=SC2154 # these

cases_channels() {
    local n
    for n in 2 3 4; do
        run "channels:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_channels"
    done
    # Packets that the device clears after every few all-reduces; a ring of two triggers.
    run "channels:renewal" 120 -n 3 "${forced[@]}" --mca coll_mscclpp_epoch_limit 16 \
        --mca coll_mscclpp_fifo_size 2 "$bindir/test_channels"
    # What must not be done, with the messages that docs/device-api.md shows.
    for n in 2 3; do
        run_saying "channels:refused:$n" 'cannot be shared with other processes' 60 -n "$n" "${forced[@]}" \
            "$bindir/test_channels_errors"
    done
    run_saying "channels:refused:peers" 'rank 0 names rank 2 as a peer of its channels, but rank 2 does not' 60 -n 3 \
        "${forced[@]}" "$bindir/test_channels_errors"
    run_saying "channels:refused:abi" 'handles of abi 2 are asked for; this library knows 1 to 1' 60 -n 2 \
        "${forced[@]}" "$bindir/test_channels_errors"
    run_saying "channels:late" 'a kernel of rank 0 gave up waiting for rank 2 on a channel' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_timeout 2 "$bindir/test_channels_errors" --late
    run_saying "channels:range" "rank 0 asked for 64 bytes at offset 4090 of rank 1's memory, which has 4096" 60 \
        -n 2 "${forced[@]}" "$bindir/test_channels_errors" --range
    run_saying "channels:unaligned" "offset 12 of rank 1's memory; the offset must be a multiple of 8" 60 \
        -n 2 "${forced[@]}" "$bindir/test_channels_errors" --unaligned
    run_saying "channels:block" 'block 0 of a kernel used a room of 0 blocks' 60 -n 2 "${forced[@]}" \
        "$bindir/test_channels_errors" --block
    run_saying "channels:size" 'small all-reduce of 512 bytes.*; its room takes up to 64 bytes' 60 -n 2 \
        "${forced[@]}" "$bindir/test_channels_errors" --size
    run_saying "channels:handler" 'a port channel failed' 60 -n 2 "${forced[@]}" "$bindir/test_channels_errors" \
        --handler
    run_saying "channels:gone" 'freed before 4 of its objects for kernels' 60 -n 3 "${forced[@]}" \
        "$bindir/test_channels_errors" --gone
    # Between imitated nodes, over each transport that there is here.
    run_saying "channels:nodes:shm:2" 'different nodes; use MPIX_MSCCLPP_CHANNEL_PORT' 60 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport shm "$bindir/test_channels" --nodes
    run_saying "channels:nodes:shm:3" 'a room is for ranks of one node, and these are on several' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_transport shm "$bindir/test_channels" \
        --nodes
    if [ "$ucx" = yes ]; then
        run_saying "channels:nodes:ucx" 'port channels over ucx' 60 -n 3 "${forced[@]}" \
            --mca coll_mscclpp_ranks_per_node 2 --mca coll_mscclpp_transport ucx --mca coll_mscclpp_verbose 2 \
            "$bindir/test_channels" --nodes
        run "channels:nodes:ucx:2" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 \
            --mca coll_mscclpp_transport ucx "$bindir/test_channels" --nodes
    else
        skip "channels:nodes:ucx" "built without UCX"
    fi
    run "channels:without" 60 -n 2 --mca coll '^mscclpp' "$bindir/test_channels_errors" --without
    for n in 2 3; do
        run_saying "channels:bench:$n" '^ +512 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0$' 60 -n "$n" "${forced[@]}" \
            "$bindir/../../mscclpp_bench" --mode channel --max 4k --factor 8 --rounds 2 --iterations 20 --check 2 \
            --device "$MSCCLPP_TEST_DEVICE" --json "$scratch/channels.json"
    done
    for n in 2 3; do
        run_saying "channels:bench:collectives:$n" '^# 0 wrong elements$' 60 -n "$n" "${forced[@]}" \
            "$bindir/../../mscclpp_bench" --mode channel --coll allreduce,allgather,reduce_scatter_block,alltoall \
            --min 12 --max 4k --factor 7 --rounds 2 --iterations 20 --check 2 --device "$MSCCLPP_TEST_DEVICE" \
            --json "$scratch/channel-colls.json"
        # The scripts read the files: this one says that there is nothing to compare, not that one is damaged.
        for said in channels channel-colls; do
            run_failing "channels:bench:$said:file:$n" "$said.json: made without --compare" 30 -n 1 python3 -B \
                "$(dirname "$0")/../../contrib/perf/table.py" "$scratch/$said.json"
        done
    done
    run_failing "channels:bench:a collective without a kernel" \
        "^mscclpp_bench: --coll: 'bcast' is not allowed; use allreduce, allgather, reduce_scatter_block or" 30 -n 2 \
        "$bindir/../../mscclpp_bench" --mode channel --coll allreduce,bcast
    run_failing "channels:bench:options" "^mscclpp_bench: --mode: 'channel' is not allowed; use it without --compare" \
        30 -n 2 "$bindir/../../mscclpp_bench" --mode channel --coll allreduce --type double
    run_failing "channels:bench:nodes" 'different nodes; use MPIX_MSCCLPP_CHANNEL_PORT' 60 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 "$bindir/../../mscclpp_bench" --mode channel --max 8 \
        --device "$MSCCLPP_TEST_DEVICE"
}
