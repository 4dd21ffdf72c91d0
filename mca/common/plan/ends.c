/*
 * Finds out whether a plan serves messages whose blocks end within a chunk. Nothing is stored behind the end of a
 * rank's block of input or output, so the chunks of a block have different lengths. The scratch has whole chunks.
 */
#include "mca/common/plan/ends.h"

#include <stdlib.h>

#include "device/types/launch.h"
#include "mca/common/plan/visit.h"
#include "mca/common/plan/words.h"

/*
 * Takes the largest number of chunks of any rank, because a rank may leave a buffer unused. If the plan has only input
 * or only output, computes the block from that. For a collective that MPI does not have, a block is one chunk.
 */
uint32_t mscclpp_plan_block_chunks(const mscclpp_plan_t *plan)
{
    uint32_t in_chunks = 0, out_chunks = 0;

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        const mscclpp_plan_rank_t *rank = &plan->ranks[rank_number];

        in_chunks = rank->chunks[MSCCLPP_PLAN_INPUT] > in_chunks ? rank->chunks[MSCCLPP_PLAN_INPUT] : in_chunks;
        out_chunks = rank->chunks[MSCCLPP_PLAN_OUTPUT] > out_chunks ? rank->chunks[MSCCLPP_PLAN_OUTPUT] : out_chunks;
    }
    switch (plan->collective) {
    case MSCCLPP_PLAN_ALLGATHER:
        return in_chunks > 0 ? in_chunks : out_chunks / plan->rank_count;
    case MSCCLPP_PLAN_REDUCESCATTER:
        return out_chunks > 0 ? out_chunks : in_chunks / plan->rank_count;
    case MSCCLPP_PLAN_ALLTOALL:
        return (in_chunks > 0 ? in_chunks : out_chunks) / plan->rank_count;
    case MSCCLPP_PLAN_SENDRECV:
    case MSCCLPP_PLAN_TEST:
    case MSCCLPP_PLAN_CUSTOM:
        return in_chunks > 0 || out_chunks > 0 ? 1 : 0;
    case MSCCLPP_PLAN_ALLREDUCE:
    case MSCCLPP_PLAN_COLLECTIVES:
        break;
    }
    return in_chunks > 0 ? in_chunks : out_chunks;
}

enum { MAX_CHUNKS = 16 << 20, MAX_VISITS = 256 }; /* a plan beyond these limits counts as one that needs whole chunks */

#define MIXED UINT32_MAX

typedef struct {
    uint32_t block_chunks; /* of a rank's block of input or output */
    uint64_t rank_chunks;  /* the most chunks of scratch of a rank; there are as many entries again for packets */
    uint32_t *origins; /* by chunk of scratch: 1 + the position in a block that its data have; 0: unknown yet; MIXED */
    bool has_changed;  /* an entry of `origins` changed in this visit */
    bool crosses_blocks; /* an operation reaches over the end of a block */
    bool moves_chunks;   /* data of one chunk of a block may get into another one, which may be shorter */
} ends_t;

/*
 * An item, with what is known of its data: the entries of `origins` from the item's first chunk on. NULL: the item is
 * not in the scratch.
 */
typedef struct {
    const mscclpp_plan_item_t *item;
    uint32_t *origins;
} tracked_item_t;

/*
 * Returns an item with what is known of its data. Sets ends->crosses_blocks if the item is in the input or output and
 * extends past the end of a block. With `are_packets`, the item is stored as packets.
 */
static tracked_item_t track_item(ends_t *ends, mscclpp_plan_place_t place, const mscclpp_plan_item_t *item,
                                 bool are_packets)
{
    const uint64_t rank = item->where == MSCCLPP_PLAN_LOCAL ? (uint64_t)place.rank : item->rank;

    if (item->type != MSCCLPP_PLAN_SCRATCH) {
        ends->crosses_blocks =
            ends->crosses_blocks || item->index % ends->block_chunks + (uint64_t)item->size > ends->block_chunks;
        return (tracked_item_t){item, NULL};
    }
    /*
     * The scratch of several ranks at once is not tracked. If a block has several chunks, sets `moves_chunks`, which is
     * always safe.
     */
    ends->moves_chunks = ends->moves_chunks || (item->where == MSCCLPP_PLAN_MULTICAST && ends->block_chunks > 1);
    return (tracked_item_t){item, &ends->origins[(2 * rank + are_packets) * ends->rank_chunks + item->index]};
}

/*
 * Notes that data goes from `source` to `target`. For each chunk of scratch, records the position in a block that its
 * data comes from. Sets ends->moves_chunks if data reaches an input or output at another position in the block. Sets
 * ends->has_changed if what is known of the scratch has changed.
 */
static void propagate(ends_t *ends, tracked_item_t source, tracked_item_t target)
{
    for (uint32_t i = 0; i < source.item->size && i < target.item->size; ++i) {
        const uint32_t origin =
            source.origins != NULL ? source.origins[i] : 1 + (source.item->index + i) % ends->block_chunks;

        if (origin == 0) {
            continue;
        }
        if (target.origins == NULL) {
            ends->moves_chunks = ends->moves_chunks || origin != 1 + (target.item->index + i) % ends->block_chunks;
        } else if (target.origins[i] != origin && target.origins[i] != MIXED) {
            target.origins[i] = target.origins[i] == 0 ? origin : MIXED;
            ends->has_changed = true;
        }
    }
}

/*
 * Follows the data that one operation moves (mscclpp_plan_visit_fn_t). Data goes from each source to each target, or
 * within each pair if the operation works on pairs.
 */
static void follow_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                      const mscclpp_plan_op_t *pipeline)
{
    ends_t *ends = context;
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);

    (void)pipeline;
    for (uint32_t i = 0; shape != NULL && i < op->dst_count; ++i) {
        const tracked_item_t target =
            track_item(ends, place, &op->dst[i], mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i)));

        for (uint32_t j = 0; j < op->src_count; ++j) {
            if (!shape->paired || i == j) {
                propagate(
                    ends,
                    track_item(ends, place, &op->src[j], mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, j))),
                    target);
            }
        }
    }
}

/*
 * Visits the plan until what is known of the scratch no longer changes. One visit is not enough, because blocks run at
 * the same time and the order of their operations is not known. Returns true, which is always safe, if the plan is too
 * large, if there is no memory, or if MAX_VISITS is not enough. Returns false for a plan that has neither input nor
 * output.
 */
bool mscclpp_plan_needs_whole_chunks(const mscclpp_plan_t *plan)
{
    ends_t ends = {.block_chunks = mscclpp_plan_block_chunks(plan)};
    int visits = 0;

    for (uint32_t rank = 0; rank < plan->rank_count; ++rank) {
        const uint32_t chunks = plan->ranks[rank].chunks[MSCCLPP_PLAN_SCRATCH];

        ends.rank_chunks = chunks > ends.rank_chunks ? chunks : ends.rank_chunks;
    }
    if (ends.block_chunks == 0) {
        return false;
    }
    if (2 * ends.rank_chunks * plan->rank_count < MAX_CHUNKS) {
        ends.origins = calloc(2 * ends.rank_chunks * plan->rank_count + 1, sizeof(*ends.origins));
    }
    if (ends.origins == NULL) {
        return true;
    }
    do {
        ends.has_changed = false;
        mscclpp_plan_visit(plan, follow_op, &ends);
    } while (ends.has_changed && !ends.crosses_blocks && !ends.moves_chunks && ++visits < MAX_VISITS);
    free(ends.origins);
    return ends.crosses_blocks || ends.moves_chunks || ends.has_changed;
}

bool mscclpp_plan_chunk_bytes(const mscclpp_plan_t *plan, uint64_t block_bytes, uint64_t *chunk_bytes_p)
{
    const uint32_t block_chunks = mscclpp_plan_block_chunks(plan);
    uint64_t unit_bytes = plan->alignment % MSCCLPP_DEV_UNIT == 0 ? plan->alignment : MSCCLPP_DEV_UNIT, chunk_bytes;

    if (block_chunks == 0) {
        return false;
    }
    chunk_bytes = (block_bytes + block_chunks - 1) / block_chunks;
    chunk_bytes = (chunk_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
    *chunk_bytes_p = chunk_bytes;
    return chunk_bytes * block_chunks == block_bytes || !mscclpp_plan_needs_whole_chunks(plan);
}
