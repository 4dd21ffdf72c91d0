# shellcheck shell=bash
# Faults in the all-reduce over several nodes.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

nodes=device/kern/allreduce/allreduce_nodes.h
tile=device/kern/allreduce/allreduce_nodes_tile.h
plant nodes-one-set nodes "$tile" "$launcher" 's/% MSCCLPP_DEV_NODES_SETS/% 1/'
plant nodes-few-sets nodes "$tile" "$launcher" 's/% MSCCLPP_DEV_NODES_SETS/% 2/'
plant nodes-early-push nodes "$nodes" "$launcher" \
    '/mscclpp_dev_nodes_give\(/,/^}/s/^ *mscclpp_dev_block_sync\(ctx\);$//'
plant nodes-early-join nodes "$nodes" "$launcher" \
    '/mscclpp_dev_nodes_join\(/,/^}/s/^ *mscclpp_dev_block_sync\(ctx\);$//'
plant nodes-split-one-area nodes "$nodes" "$launcher" \
    's/tile->set \+ MSCCLPP_DEV_NODES_SPLIT_ROOM\(.*\) \+/tile->set +/'
plant nodes-no-wait nodes "$nodes" "$launcher" '/mscclpp_dev_nodes_await\(/,/^}/s/distance < end/distance < 1/'
plant nodes-join-unawaited nodes "$nodes" "$launcher" 's/return tile->index == 0 \? 1 : 2 \* tile->index/return 1/'
plant nodes-first-barrier nodes "$nodes" "$launcher" '0,/mscclpp_dev_barrier\(ctx, args, \+\+block->barriers\);/s///'
plant nodes-second-barrier nodes "$nodes" "$launcher" \
    '/mscclpp_dev_barrier\(ctx, args, \+\+block->barriers\);/{x;s/^/x/;/^xx$/{x;s/mscclpp_dev_barrier.*//;b};x}'
plant nodes-one-scratch nodes "$tile" "$launcher" 's/ \+ tile->index % 2\)/)/'
ring=device/kern/allreduce/allreduce_nodes_ring.h
plant ring-no-wait ring device/lib/nodes_ring.h "$launcher" '/void mscclpp_dev_ring_await\(/,/^}/s/, number\);/, 0);/'
plant ring-own-part-unawaited ring "$ring" "$launcher" 's/(ring_signals_before\(block, turn - 1\)) \+ 1;/\1;/'
plant ring-result-unawaited ring "$ring" "$launcher" \
    's/(is_gather \? mscclpp_dev_ring_signals_before\(block, turn\))/\1 - 1/'
plant ring-gather-too-early ring "$ring" "$launcher" 's/\(is_gather \? reduces : 0\)/0/'
plant ring-wrong-part ring "$ring" "$launcher" \
    's/RING_REDUCED\(nnodes, nodes->node, step\)/RING_REDUCED(nnodes, nodes->node + 1, step)/'
plant ring-early-push ring "$ring" "$launcher" \
    '/mscclpp_dev_ring_reduce\(/,/^}/s/^    mscclpp_dev_block_sync\(ctx\);$//'
plant ring-end-of-turn ring "$ring" "$launcher" '/mscclpp_dev_ring_turn\(/,/^}/s/^    ctx->failed = .*//'
plant ring-one-area ring "$ring" "$launcher" 's/tile->set \+ MSCCLPP_DEV_NODES_RING_ROOM.*/tile->set;/'
plant ring-few-sets ring "$tile" "$launcher" 's/% MSCCLPP_DEV_NODES_SETS/% 3/'
plant ring-announcement-uncounted ring device/types/nodes.h "$launcher" 's/(: )\(uint64_t\)\(first_\)\)/\10)/'
packets=device/kern/allreduce/allreduce_nodes_packets.h
plant packets-one-set packets "$packets" "$launcher" \
    '/nodes_packet_slot_offset\(const/,/^}/s/= epoch->set \*/= 0 */'
plant packets-early-push packets "$packets" "$launcher" \
    '/void mscclpp_dev_nodes_exchange_direct\(/,/^}/s/^ *mscclpp_dev_block_sync\(ctx\);$//'
plant packets-stored-together packets "$packets" "$launcher" \
    '/nodes_send_far\(/,/^}/s/1 \+ nodes->node : 0/1 : 0/'
plant packets-no-wait packets "$packets" "$launcher" 's/if \(!has_arrived\[i\]\)/if (false)/'
plant doubling-one-set doubling "$packets" "$launcher" \
    '/nodes_step_offset\(const/,/^}/s/\(epoch->set \*/(0 */'
plant doubling-early-push doubling "$packets" "$launcher" \
    '/void mscclpp_dev_nodes_step_send\(/,/^}/s/^ *mscclpp_dev_block_sync\(ctx\);$//'
steps=device/kern/allreduce/allreduce_nodes_steps.h
plant halving-no-wait halving "$steps" "$launcher" 's/tile->index \* step->total \+ step->number\)/0)/'
plant halving-first-tile-only halving "$steps" "$launcher" \
    's/tile->index \* step->total \+ step->number\)/step->number)/'
plant halving-early-push halving "$steps" "$launcher" \
    '/void mscclpp_dev_steps_turn\(/,/^}/s/^        mscclpp_dev_block_sync\(ctx\);$//'
plant halving-received-offset halving "$steps" "$launcher" 's/\(unit - first_unit\) \*/unit */'
plant halving-few-sets halving "$tile" "$launcher" 's/% MSCCLPP_DEV_NODES_SETS/% 2/'
plant halving-uncounted halving "$steps" "$launcher" 's/block->tiles \* step->total;/block->tiles;/'
plant halving-partner halving mca/common/fabric/steps.c mca/common/fabric/steps.c \
    's/\.peer = step\.peer/.peer = step.peer ^ (schedule.nodes > 2)/'
plant doubling-partner doubling mca/common/fabric/steps.c mca/common/fabric/steps.c \
    's/\.peer = step\.peer/.peer = step.peer ^ (schedule.nodes > 2)/'
trees=device/kern/allreduce/allreduce_nodes_trees.h
plant trees-first-tile-only trees "$trees" "$launcher" \
    's/^( +)tile->index \+ 1\);$/\11);/'
plant trees-one-place trees "$trees" "$launcher" 's/mscclpp_dev_trees_child_index\(&place\)/0/'
plant trees-few-sets trees "$tile" "$launcher" 's/% MSCCLPP_DEV_NODES_TREES_WINDOW/% 2/'
plant trees-early-push trees "$trees" "$launcher" \
    '/void mscclpp_dev_trees_go_up\(/,/^}/s/^        mscclpp_dev_block_sync\(ctx\);$//'
plant trees-uncounted trees "$trees" "$launcher" 's/expected \+= signals;/expected += 0 * signals;/'
plant trees-two-roots trees "$trees" "$launcher" 's/place\.root = 0;/place.root = nodes->node == 2 ? 2 : 0;/'
plant packets-no-clearing storms mca/common/fabric/run.c mca/common/fabric/run.c \
    '/mscclpp_fabric_renew\(/,/^}/s/status == MSCCLPP_OK && fabric->is_owner/false/'
plant packets-no-meeting storms mca/common/fabric/run.c mca/common/fabric/run.c \
    's/\? mscclpp_fabric_meet\(fabric, protocol, NULL\) : status/? MSCCLPP_OK : status/'
# The flags of the packets first, then their data.
plant packets-torn packets mca/common/base/words.h mca/common/transport/shm.c \
    '/__atomic_store_n\(/s/.*/        ((volatile uint32_t *)target)[2 * i + 1] = ((const uint32_t *)from)[2 * i + 1];\
    }\
    for (i = 0; i < words; ++i) {\
        ((volatile uint32_t *)target)[2 * i] = ((const uint32_t *)from)[2 * i];/'
plant nodes-unbounded fanout "$nodes" "$launcher" 's/nodes->nnodes - begin < nodes->fanout/true/'
plant collectives-unbounded fanout device/kern/coll/nodes_windows.h "$launcher" \
    's/turn->distances_end - begin < nodes->fanout/true/'
# Areas that grow: the proxy and the kernels must use the larger ones.
channel=mca/common/port/channel.c
plant area-old-remote area "$channel" "$channel" 's/channel->params\.remote = remote;/(void)remote;/'
plant area-old-region area "$channel" "$channel" 's/channel->params\.region = region;/(void)region;/'
plant area-old-stores area mca/common/fabric/area.c mca/common/fabric/area.c \
    's/mscclpp_fabric_choose_packet_mover\(fabric, false\);/;/'
# Ranks that fall silent after they have come cost a second deadline; and ranks that live are taken for silent.
signs=mca/common/group/signs.c
watch=mca/common/group/watch.c
plant dead-second-deadline dead_node "$signs" "$signs" \
    's/return group->timeout > 0 \&\& silence_of/return false \&\& silence_of/'
plant dead-second-deadline-nodes dead_nodes "$signs" "$signs" \
    's/return group->timeout > 0 \&\& silence_of/return false \&\& silence_of/'
plant dead-node-unwatched dead_whole_node "$watch" "$watch" 's/is_gone = waits \&\& .*/is_gone = waits \&\& false;/'
plant dead-works dead_left "$signs" "$signs" '/hide_sign\(/,/^}/s/mscclpp_board_store.*//'
plant dead-works-untold dead_left_nodes "$watch" "$watch" 's/if \(watch->watcher >= 0\)/if (false)/'
plant dead-away dead_away "$signs" "$signs" 's/if \(mscclpp_fiber_inside\(\)\)/if (false)/'
plant dead-away-nodes dead_away_nodes "$signs" "$signs" 's/if \(mscclpp_fiber_inside\(\)\)/if (false)/'
