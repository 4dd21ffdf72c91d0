/*
 * The work of each rank in a collective whose buffers are all mapped: which bytes the rank reads and writes. Each byte
 * crosses a link as few times as possible.
 */
#include "mca/common/task/coll_task.h"

/*
 * Adds a copy of `bytes` bytes to the lists. Leaves out an empty copy. The lists have room for one copy for each rank
 * of a node, and no rank has more copies.
 */
static void add_copy(mscclpp_dev_direct_args_t *direct, const char *from, char *to, uint64_t bytes)
{
    if (bytes > 0) {
        direct->from[direct->count] = from;
        direct->to[direct->count] = to;
        direct->bytes[direct->count++] = bytes;
    }
}

/*
 * Fills in the work of all patterns without a function of their own below. Each rank writes its blocks to the outputs
 * of their receivers. It begins with the next rank, so that ranks write to different receivers at first. Its own block
 * comes last, unless the call is in place.
 */
static void fill_pairs(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    int i;

    direct->mode = MSCCLPP_DEV_DIRECT_PAIRS;
    for (i = 1; i <= team->group.size; ++i) {
        const int peer = (team->group.rank + i) % team->group.size;
        const mscclpp_dev_block_t block = mscclpp_coll_find_send_block(task, peer);

        if (block.bytes == 0 || (peer == team->group.rank && task->in_place)) {
            continue;
        }
        if (peer == team->group.rank) {
            add_copy(direct, task->in + block.offset, task->out + mscclpp_coll_find_recv_block(task, peer).offset,
                     block.bytes);
        } else {
            add_copy(direct, task->in + block.offset, task->peer_out[peer] + task->place[peer].offset, block.bytes);
        }
    }
}

/*
 * Fills in the work of an all-to-all in place. Each two ranks swap their blocks directly. Each of them swaps one half.
 * So no byte is accessed by both, and each byte crosses the link only once.
 */
static void fill_swaps(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    int i;

    direct->mode = MSCCLPP_DEV_DIRECT_SWAP;
    for (i = 1; i < team->group.size; ++i) {
        const int peer = (team->group.rank + i) % team->group.size;
        const mscclpp_dev_block_t block = mscclpp_coll_find_recv_block(task, peer);
        const mscclpp_dev_block_t half = mscclpp_coll_find_part(block.bytes, team->group.rank < peer ? 0 : 1, 2);

        add_copy(direct, task->out + block.offset + half.offset,
                 task->peer_out[peer] + task->place[peer].offset + half.offset, half.bytes);
    }
}

/*
 * Fills in the work of a broadcast. Each rank but the root reads its part of the root's block, and writes the part to
 * all ranks but the root. So the root's link carries the block only once.
 */
static void fill_bcast(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    const int part_index = team->group.rank - (team->group.rank > task->root ? 1 : 0); /* the root has no part */
    mscclpp_dev_block_t part;
    int rank;

    /* Stores cross a link faster than loads, so a root with only one peer writes the block itself. */
    if (team->group.size == 2) {
        direct->mode = MSCCLPP_DEV_DIRECT_PAIRS;
        if (team->group.rank == task->root) {
            add_copy(direct, task->in, task->peer_out[1 - task->root], task->bytes);
        }
        return;
    }
    direct->mode = MSCCLPP_DEV_DIRECT_FAN;
    direct->common.bytes = 0;
    if (team->group.rank == task->root) {
        return;
    }
    part = mscclpp_coll_find_part(task->bytes, part_index, team->group.size - 1);
    direct->common.bytes = part.bytes;
    /* The root shares its input in place of an output. */
    direct->from[0] = task->peer_out[task->root] + part.offset;
    for (rank = 0; rank < team->group.size; ++rank) {
        if (rank != task->root) {
            direct->to[direct->count++] = task->peer_out[rank] + part.offset;
        }
    }
}

/*
 * Fills in the work of a reduce and the scans. Each rank combines its part of all ranks' blocks. In a reduce, it writes
 * the result to the root; in a scan, it writes each rank's prefix to that rank. In an exclusive scan, rank 0 gets no
 * result; its entry stays NULL, because the caller has zeroed the lists.
 */
static void fill_combined(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    const bool scans = task->pattern == MSCCLPP_DEV_SCAN || task->pattern == MSCCLPP_DEV_EXSCAN;
    const mscclpp_dev_block_t part = mscclpp_coll_find_part(task->bytes, team->group.rank, team->group.size);
    int rank;

    direct->common.bytes = part.bytes;
    for (rank = 0; rank < team->group.size; ++rank) {
        direct->from[rank] = task->peer_in[rank] + part.offset;
    }
    if (!scans) {
        direct->mode = MSCCLPP_DEV_DIRECT_REDUCE;
        direct->count = 1;
        direct->to[0] = task->peer_out[task->root] + part.offset;
        return;
    }
    direct->mode = task->pattern == MSCCLPP_DEV_SCAN ? MSCCLPP_DEV_DIRECT_SCAN : MSCCLPP_DEV_DIRECT_EXSCAN;
    direct->count = (uint32_t)team->group.size;
    for (rank = task->pattern == MSCCLPP_DEV_SCAN ? 0 : 1; rank < team->group.size; ++rank) {
        direct->to[rank] = task->peer_out[rank] + part.offset;
    }
}

/* Fills in the work of a reduce-scatter. Each rank reads its block of all ranks' inputs, and combines the blocks. */
static void fill_reduce_scatter(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    const mscclpp_dev_block_t own_block = mscclpp_coll_find_send_block(task, team->group.rank);
    int rank;

    direct->mode = MSCCLPP_DEV_DIRECT_REDUCE;
    direct->common.bytes = own_block.bytes;
    direct->count = 1;
    direct->to[0] = task->out;
    direct->home = task->final_result;
    for (rank = 0; rank < team->group.size; ++rank) {
        direct->from[rank] = task->peer_in[rank] + own_block.offset;
    }
}

void mscclpp_coll_fill_direct(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    direct->count = 0;
    switch (task->pattern) {
    case MSCCLPP_DEV_BCAST:
        fill_bcast(task, direct);
        break;
    case MSCCLPP_DEV_REDUCE:
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        fill_combined(task, direct);
        break;
    case MSCCLPP_DEV_REDUCE_SCATTER:
        fill_reduce_scatter(task, direct);
        break;
    default:
        if (task->swaps) {
            fill_swaps(task, direct);
        } else {
            fill_pairs(task, direct);
        }
        break;
    }
}

/* Returns the greatest common divisor. `a` and `b` are not both 0. */
static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t remainder = a % b;

        a = b;
        b = remainder;
    }
    return a;
}

/*
 * Adds a block that has runs of one length on each side. Divides the block into segments, each of which is within one
 * run on both sides. The segments are as long as possible, so that there are few of them. Leaves out an empty block.
 *
 * Both sides must have the same number of bytes, as MPI requires. args->blocks has room for one block for each rank,
 * because mscclpp_coll_agree_size lets no larger team move blocks in this way.
 */
static void add_strided(mscclpp_dev_strided_args_t *args, const char *from, const mscclpp_dev_runs_t *source, char *to,
                        const mscclpp_dev_runs_t *target)
{
    mscclpp_dev_strided_t *block = &args->blocks[args->count];
    uint64_t alignment_bits;

    if (source->length == 0 || target->length == 0) {
        return;
    }
    block->from = from + source->offset;
    block->to = to + target->offset;
    block->size = gcd(source->length, target->length);
    block->segments = source->length / block->size * source->count;
    block->from_run = source->length / block->size;
    block->to_run = target->length / block->size;
    block->from_stride = source->count > 1 ? source->stride : 0;
    block->to_stride = target->count > 1 ? target->stride : 0;
    alignment_bits = (uint64_t)(uintptr_t)block->from | (uint64_t)(uintptr_t)block->to | block->size |
                     (uint64_t)block->from_stride | (uint64_t)block->to_stride;
    /* A thread moves this number of bytes at once: the largest power of two that divides all addresses and lengths. */
    block->width = MSCCLPP_DEV_UNIT;
    while (alignment_bits % block->width != 0) {
        block->width /= 2;
    }
    ++args->count;
}

/* Begins with the next rank and ends with this rank itself, so that ranks write to different peers at first. */
void mscclpp_coll_fill_strided(const mscclpp_coll_task_t *task, mscclpp_dev_strided_args_t *strided)
{
    const mscclpp_team_t *team = task->team;
    const mscclpp_coll_args_t *args = task->args;
    int i;

    strided->count = 0;
    for (i = 1; i <= team->group.size; ++i) {
        const int peer = (team->group.rank + i) % team->group.size;

        if (peer == team->group.rank) {
            add_strided(strided, task->in, &args->send_runs[peer], task->out, &args->recv_runs[peer]);
        } else {
            add_strided(strided, task->in, &args->send_runs[peer], task->peer_out[peer], &task->place[peer]);
        }
    }
}
