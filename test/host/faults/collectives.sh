# shellcheck shell=bash
# Faults in the collectives other than all-reduce.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

# Collectives other than all-reduce.
coll=device/kern/coll
plant coll-tiles-barrier collectives "$coll/tiles.h" "$launcher" \
    's/^        mscclpp_dev_barrier\(ctx, common, \+\+\*barriers\);/++*barriers;/'
plant coll-tiles-half collectives "$coll/tiles.h" "$launcher" 's/turn->number % 2\) \*/0) */'
plant coll-puts-early collectives "$coll/puts.h" "$launcher" \
    's/mscclpp_dev_put_await\(.*turn\.number\)/!ctx->failed/'
plant coll-puts-count collectives "$coll/puts.h" "$launcher" 's/^        count = turn\.number;//'
plant coll-puts-late collectives "$coll/puts.h" "$launcher" \
    's/^    turn\.number = count_before \+ 1;/turn.number = count_before;/'
plant unsized-own-largest unsized "$coll/unsized.h" "$launcher" \
    's/has_large = has_large \|\| largest_bytes > packets_max;//'
plant unsized-turns unsized "$coll/unsized.h" "$launcher" \
    's/largest_bytes = peer_largest_bytes > largest_bytes \? peer_largest_bytes : largest_bytes;//'
plant unsized-head unsized "$coll/unsized.h" "$launcher" 's/(COLL_HEAD_UNITS) 1$/\1 0/'
plant unsized-twice unsized "$coll/unsized.h" "$launcher" \
    's/coll, args, args->packets_max\);/coll, args, 0);/'
plant coll-direct-begin collectives "$coll/direct.h" "$launcher" \
    's/^    mscclpp_dev_barrier\(ctx, common, barriers_before \+ 1\);//'
plant coll-direct-end collectives "$coll/direct.h" "$launcher" \
    's/^    mscclpp_dev_barrier\(ctx, args, barriers_before \+ 2\);//'
plant coll-swap-both collectives_in_place mca/common/task/coll_direct.c mca/common/task/coll_direct.c \
    's/team->group.rank < peer \? 0 : 1, 2\)/0, 1)/'
plant coll-home-early collectives_in_place mca/common/task/coll_direct.c mca/common/task/coll_direct.c \
    's/direct->to\[0\] = task->out;/direct->to[0] = task->final_result != NULL ? task->final_result : task->out;/'
plant coll-home-others collectives_in_place "$coll/direct.h" "$launcher" \
    '/direct_copy_home\(/,/^}/s/(is_aligned|bytes), thread, threads/\1, (thread + 1) % threads, threads/'
plant coll-home-unmapped collectives_in_place mca/common/task/coll_buffers.c mca/common/task/coll_buffers.c \
    's/^        task->out = task->final_result;//'
plant coll-engines-end collectives mca/common/task/coll_engines.c mca/common/task/coll_engines.c \
    's/status = mscclpp_coll_meet\(task, "end of copies"\);//'
plant coll-engines-unawaited known mca/common/task/coll_engines.c mca/common/task/coll_engines.c \
    's/status = await_copies\(&engines\);//'
plant coll-nodes-rows collectives_nodes device/types/coll_nodes.h "$launcher" \
    's/(COLL_NODES_SETS) 3u/\1 2u/'
plant coll-nodes-relay collectives_nodes "$coll/nodes.h" "$launcher" \
    's/^        mscclpp_dev_barrier\(ctx, &nodes->common, \+\+state->barriers\);//'
plant coll-nodes-await collectives_nodes "$coll/nodes_windows.h" "$launcher" 's/\? turn->index \+ 1$/? turn->index/'
plant coll-nodes-begin collectives_nodes "$coll/nodes.h" "$launcher" \
    's/^        mscclpp_dev_barrier\(ctx, common, \+\+state\.barriers\);//'
plant coll-nodes-silent-near collectives_storm "$coll/nodes_packets.h" "$launcher" \
    '/receive_all_packets\(/,/^}/s/ctx->tid == 0; \+\+i\)/false; ++i)/'
plant coll-nodes-one-row collectives_storm "$coll/nodes_rows.h" "$launcher" 's/\? args->nodes\.largest_node$/? 0/'
plant coll-kept-size collectives_storm mca/common/task/coll_choose.c mca/common/task/coll_choose.c \
    's/kept->block_bytes == block_bytes \&\&//'
plant coll-nodes-all-hand-out collectives_rounds "$coll/nodes_packets.h" "$launcher" \
    's/nodes->node \+ nodes->nnodes - epoch->scheme\.root\) %/nodes->node + nodes->nnodes - 1) %/'
plant coll-nodes-silent-far collectives_storm "$coll/nodes_packets.h" "$launcher" \
    's/ctx->tid == 0 && !epoch->in_rounds\) \{/false) {/'
plant coll-nodes-packets-sync collectives_storm "$coll/nodes_packets.h" "$launcher" \
    's/^    ctx->failed = mscclpp_dev_block_sync_or\(ctx, ctx->failed\);//'
plant rounds-one-set collectives_rounds "$coll/nodes_packets.h" "$launcher" \
    's/MSCCLPP_DEV_NODES_PACKET_SET\(epoch\.flag, .*\) \*/0 */'
plant rounds-partner collectives_rounds device/lib/nodes_rounds.h "$launcher" \
    's/scheme->node \+ distance\) % scheme->nnodes/scheme->node + distance + (scheme->node == 1)) % scheme->nnodes/'
plant rounds-two-roots collectives_rounds "$coll/nodes_rounds.h" "$launcher" \
    's/args->place\[args->root\]\.node/(epoch->scheme.node == 2 ? 2 : args->place[args->root].node)/'
plant rounds-silent collectives_rounds "$coll/nodes_rounds.h" "$launcher" \
    's/message\.count == 0 && ctx->tid == 0/false/'
plant rounds-sync collectives_rounds "$coll/nodes_rounds.h" "$launcher" \
    '/void mscclpp_dev_coll_nodes_rounds_run\(/,/^}/s/^ {8}ctx->failed = mscclpp_dev_block_sync_or\(.*;//'
plant sparse-unfreed collectives_sparse "$coll/nodes_rounds.h" "$launcher" \
    's/^ {4}sparse->units \+= .*;//'
plant sparse-freed-early collectives_sparse mca/common/fabric/run.c mca/common/fabric/run.c \
    's/if \(args->tile == 0\) \{/if (args->tile == 0 \&\& args->pattern != MSCCLPP_DEV_GATHER) {/'
plant sparse-one-set collectives_sparse device/types/nodes.h "$launcher" \
    's/\(flag_\) \+ \(calls_\)\) \& 1/(flag_) + (calls_) * 0) \& 1/'
plant sparse-uncounted collectives_sparse "$coll/nodes_packets.h" "$launcher" \
    's/(epoch\.state\.is_owner) \&\& ctx->tid == 0\)/\1 \&\& epoch.has_data \&\& ctx->tid == 0)/'
plant sparse-left-out collectives_sparse "$coll/nodes_rounds.h" "$launcher" \
    's/message\.distance != 0 \&\& message\.count != 0\)/message.count > (epoch->is_sparse * epoch->scheme.node == 5))/'
plant sparse-two-roots collectives_sparse "$coll/nodes_rounds.h" "$launcher" \
    's/args->place\[args->root\]\.node/(args->sparse \&\& args->nodes.node == 2 ? 2 : args->place[args->root].node)/'
plant prefixes-order collectives_prefixes "$coll/nodes_rounds.h" "$launcher" \
    's/\? count - i : 1;/? i + 1 : 1;/'
plant prefixes-stale collectives_prefixes device/lib/nodes_rounds.h "$launcher" \
    's/(COLL_SCANS\(scheme->pattern\)) +\? changes/\1 ? 0/'
ring=$coll/nodes_ring.h
plant coll-ring-own-unawaited collectives_ring "$ring" "$launcher" \
    's/return turn->index \+ 1 \+/return turn->index +/'
plant coll-ring-early collectives_ring "$ring" "$launcher" \
    's/passed_on_per_turn \+ step - 1;/passed_on_per_turn + step - 2;/'
plant coll-ring-sync collectives_ring "$ring" "$launcher" \
    's/^    ctx->failed = mscclpp_dev_block_sync_or\(ctx, ctx->failed\);//'
plant coll-ring-few-sets collectives_ring "$coll/nodes_turn.h" "$launcher" 's/% MSCCLPP_DEV_NODES_SETS/% 2/'
plant coll-ring-uncounted collectives_ring device/types/coll_nodes.h "$launcher" 's/\? \(nnodes_\)-1 /? 1 /'
plant coll-merging-unawaited collectives_merging "$ring" "$launcher" \
    's/^        ctx->failed = mscclpp_dev_block_sync_or\(ctx, ctx->failed\);//'
plant coll-merging-early collectives_merging "$ring" "$launcher" 's/^        mscclpp_dev_block_sync\(ctx\);//'
plant coll-merging-alone collectives_merging "$ring" "$launcher" \
    's/nodes->exchange \+ arrived, NULL\)/NULL, NULL)/'
plant coll-merging-other collectives_merging "$ring" "$launcher" \
    's/NODES_BEHIND\(nodes->nnodes, source, 1\)/NODES_BEHIND(nodes->nnodes, source, 1 + (step == 2))/'
plant coll-merging-few-sets collectives_merging "$coll/nodes_turn.h" "$launcher" 's/% MSCCLPP_DEV_NODES_SETS/% 2/'
halving=$coll/nodes_halving.h
plant coll-halving-partner collectives_halving "$halving" "$launcher" \
    's/rounds_behind\(&scheme, message\.distance\)/rounds_behind(\&scheme, message.distance + (round == 1))/'
plant coll-halving-unawaited collectives_halving "$halving" "$launcher" \
    's/^    ctx->failed = mscclpp_dev_block_sync_or\(ctx, ctx->failed\);//'
plant coll-halving-early collectives_halving "$halving" "$launcher" 's/^        mscclpp_dev_block_sync\(ctx\);//'
plant coll-halving-alone collectives_halving "$halving" "$launcher" \
    's/if \(has_own_results\)/if (has_own_results \&\& position == 0)/'
plant coll-halving-uncounted collectives_halving device/types/coll_nodes.h "$launcher" \
    's/\(\(distance_\)-1\)\) == 0\)/((distance_)-1)) == 0 ? 2 : 0)/'
windows=$coll/nodes_windows.h
plant coll-windows-credits collectives_windows "$windows" "$launcher" \
    's/mscclpp_dev_windows_credit_number\(&windows, to_node, turn->index\)/0/'
plant coll-windows-credit-early collectives_windows device/lib/nodes_windows.h "$launcher" \
    '/windows_credit_number\(/,/^}/s/(count_credits\(windows, from, turn)\)/\1 - 1)/'
plant coll-windows-unflushed collectives_windows "$windows" "$launcher" \
    's/if \(old_distance > 0 \&\& old_distance < earlier\.distances_end\)/if (false)/'
plant coll-windows-few-sets collectives_windows "$coll/nodes_turn.h" "$launcher" \
    's/index % MSCCLPP_DEV_COLL_NODES_WINDOW_SETS/index % 2/'
plant coll-windows-unmet-before collectives_windows "$windows" "$launcher" \
    's/(is_end \? mscclpp_dev_windows_count_signals\(&windows, from\)) : 1\)/\1 : 0)/'
plant coll-windows-unmet-after collectives_windows "$windows" "$launcher" \
    's/is_end \? mscclpp_dev_windows_count_signals\(&windows, from\) : 1\)/is_end ? 0 : 1)/'
plant coll-windows-uncounted collectives_windows device/lib/nodes_windows.h "$launcher" \
    's/mscclpp_dev_windows_count_credits\(windows, from, UINT64_MAX\);/0;/'
plant coll-windows-partner collectives_windows device/lib/nodes_windows.h "$launcher" \
    's/distance \/ MSCCLPP_DEV_COLL_NODES_WINDOW;/(distance + 1) \/ MSCCLPP_DEV_COLL_NODES_WINDOW;/'
trees=$coll/nodes_trees.h
plant coll-trees-credits collectives_trees "$trees" "$launcher" 's/turn->index \+ 2 - MSCCLPP_DEV_NODES_SETS\)/0)/'
plant coll-trees-two-roots collectives_ring "$coll/nodes_turn.h" "$launcher" \
    's/place\.root = .*/place.root = args->nodes.node == 2 ? 2 : args->place[args->root].node;/'
plant coll-reduce-one-place collectives_reduce "$coll/nodes_turn.h" "$launcher" \
    's/1 \+ mscclpp_dev_trees_child_index\(&child\)/1/'
plant coll-trees-partner collectives_ring device/lib/nodes_trees.h "$launcher" \
    's/: number \+ distance;/: number + distance + (number == 2);/'
plant coll-reduce-credits collectives_reduce "$trees" "$launcher" 's/turn->index \+ 1 - MSCCLPP_DEV_NODES_SETS\)/0)/'
plant coll-reduce-early collectives_reduce "$trees" "$launcher" \
    '/trees_send_combined\(/,/^}/s/^    mscclpp_dev_block_sync\(ctx\);//'
plant coll-reduce-unawaited collectives_reduce "$trees" "$launcher" \
    '/trees_collect\(/,/^}/s/^    ctx->failed = mscclpp_dev_block_sync_or\(ctx, ctx->failed\);//'
plant coll-reduce-one-branch collectives_reduce "$trees" "$launcher" 's/second == MSCCLPP_DEV_TREES_NONE$/true/'
plant coll-packets-silent collectives "$coll/packets.h" "$launcher" 's/units == 0 \&\& packets->lane == 0/false/'
plant coll-pair-own pair mca/common/task/coll_blocks.c mca/common/task/coll_blocks.c \
    's/if \(peer != task->rank\)/if (true)/'
plant coll-pair-brief pair mca/common/task/coll_launch.c mca/common/task/coll_launch.c \
    's/(largest_block = )task->own_bytes > task->largest_block \?.*;/\1task->largest;/'
plant coll-strided-end strided "$coll/direct.h" "$launcher" \
    's/^    mscclpp_dev_barrier\(ctx, args, barriers_before \+ 2\);//'
plant coll-strided-runs strided "$coll/strided.h" "$launcher" 's/\(segment % run_segments \* size\)/(0 * size)/'
plant coll-strided-lanes strided "$coll/strided.h" "$launcher" 's/thread % lanes, lanes\)/0, lanes)/'
plant coll-strided-batch strided "$coll/strided.h" "$launcher" \
    's/item \+= MSCCLPP_DEV_STRIDED_BATCH \* lanes/item += 5 * lanes/'
plant coll-strided-segments strided mca/common/task/coll_direct.c mca/common/task/coll_direct.c \
    's/block->to_run = target->length/block->to_run = source->length/'
