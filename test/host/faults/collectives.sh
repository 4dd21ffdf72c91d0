# shellcheck shell=bash
# Faults in the collectives other than all-reduce.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

# Collectives other than all-reduce.
coll=device/kern/coll
plant coll-tiles-barrier collectives "$coll/tiles.h" "$launcher" \
    's/^        mscclpp_dev_barrier\(ctx, common, \+\+barriers\);/++barriers;/'
plant coll-direct-begin collectives "$coll/direct.h" "$launcher" \
    's/^    mscclpp_dev_barrier\(ctx, common, before \+ 1\);//'
plant coll-direct-end collectives "$coll/direct.h" "$launcher" 's/^    mscclpp_dev_barrier\(ctx, args, before \+ 2\);//'
plant coll-engines-end collectives mca/common/task/coll_engines.c mca/common/task/coll_engines.c \
    's/status = mscclpp_coll_meet\(task, "end of copies"\);//'
plant coll-nodes-rows collectives_nodes device/types/coll_nodes.h "$launcher" \
    's/(COLL_NODES_SETS) 3u/\1 2u/'
plant coll-nodes-relay collectives_nodes "$coll/nodes.h" "$launcher" \
    's/^        mscclpp_dev_barrier\(ctx, &nodes->common, \+\+b->barriers\);//'
plant coll-nodes-await collectives_nodes "$coll/nodes.h" "$launcher" 's/turn->index \+ 1\);/turn->index);/'
plant coll-nodes-begin collectives_nodes "$coll/nodes.h" "$launcher" \
    's/^        mscclpp_dev_barrier\(ctx, common, \+\+b\.barriers\);//'
plant coll-nodes-silent-near collectives_storm "$coll/nodes_packets.h" "$launcher" \
    's/args->place\[a\].node == args->nodes.node && ctx->tid == 0/false/'
plant coll-nodes-silent-far collectives_storm "$coll/nodes_packets.h" "$launcher" \
    's/^        if \(ctx->tid == 0\) \{$/        if (false) {/'
plant coll-nodes-packets-sync collectives_storm "$coll/nodes_packets.h" "$launcher" \
    's/^    ctx->failed = mscclpp_dev_block_sync_or\(ctx, ctx->failed\);//'
plant coll-packets-silent collectives "$coll/packets.h" "$launcher" 's/units == 0 \&\& p->lane == 0/false/'
