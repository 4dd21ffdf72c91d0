/*
 * Divides a collective among ranks whose buffers are all mapped: which rank reads and writes which bytes. Each byte
 * crosses links as seldom as possible.
 */
#include "mca/common/task/coll_task.h"

/*
 * Adds a copy of `bytes` bytes to the lists, unless it is empty. The lists have room for one copy for each rank of a
 * node, and no rank makes more.
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
 * Serves all patterns that have no function of their own below. Each rank writes its blocks to the outputs of their
 * receivers. It begins with the next rank, so that ranks write to different receivers at first. Its own block is the
 * last one, and is skipped if the call is in place.
 */
static void fill_pairs(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    int i;

    direct->mode = MSCCLPP_DEV_DIRECT_PAIRS;
    for (i = 1; i <= team->group.size; ++i) {
        const int peer = (team->group.rank + i) % team->group.size;
        const mscclpp_dev_block_t block = mscclpp_coll_send_block(task, peer);

        if (block.bytes == 0 || (peer == team->group.rank && task->in_place)) {
            continue;
        }
        if (peer == team->group.rank) {
            add_copy(direct, task->in + block.offset, task->out + mscclpp_coll_recv_block(task, peer).offset,
                     block.bytes);
        } else {
            add_copy(direct, task->in + block.offset, task->peer_out[peer] + task->place[peer].offset, block.bytes);
        }
    }
}

/*
 * Serves an all-to-all in place. Every two ranks swap their blocks directly. Each of the two ranks swaps one half, so
 * that no byte is accessed by both, and each byte crosses the link only once.
 */
static void fill_swaps(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    int i;

    direct->mode = MSCCLPP_DEV_DIRECT_SWAP;
    for (i = 1; i < team->group.size; ++i) {
        const int peer = (team->group.rank + i) % team->group.size;
        const mscclpp_dev_block_t block = mscclpp_coll_recv_block(task, peer);
        const mscclpp_dev_block_t half = mscclpp_coll_part(block.bytes, team->group.rank < peer ? 0 : 1, 2);

        add_copy(direct, task->out + block.offset + half.offset,
                 task->peer_out[peer] + task->place[peer].offset + half.offset, half.bytes);
    }
}

/*
 * Serves a broadcast. Each rank except the root reads its part of the root's block, and writes it to all ranks except
 * the root. So the root's link carries the block only once, however many ranks there are.
 */
static void fill_bcast(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    const int part_index =
        team->group.rank - (team->group.rank > task->root); /* this rank's among those but the root */
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
    part = mscclpp_coll_part(task->bytes, part_index, team->group.size - 1);
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
 * Serves a reduce and the scans. Each rank combines its part of all ranks' blocks. It writes the result to the root, or
 * each rank's prefix to that rank. In an exclusive scan, rank 0 gets no result; its entry stays NULL, because the
 * caller has set all entries to 0.
 */
static void fill_combined(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    const bool scans = task->pattern == MSCCLPP_DEV_SCAN || task->pattern == MSCCLPP_DEV_EXSCAN;
    const mscclpp_dev_block_t part = mscclpp_coll_part(task->bytes, team->group.rank, team->group.size);
    int rank;

    direct->mode = task->pattern == MSCCLPP_DEV_SCAN     ? MSCCLPP_DEV_DIRECT_SCAN
                   : task->pattern == MSCCLPP_DEV_EXSCAN ? MSCCLPP_DEV_DIRECT_EXSCAN
                                                         : MSCCLPP_DEV_DIRECT_REDUCE;
    direct->common.bytes = part.bytes;
    for (rank = 0; rank < team->group.size; ++rank) {
        direct->from[rank] = task->peer_in[rank] + part.offset;
        if (scans && (rank > 0 || task->pattern == MSCCLPP_DEV_SCAN)) {
            direct->to[rank] = task->peer_out[rank] + part.offset;
        }
    }
    direct->count = scans ? (uint32_t)team->group.size : 1;
    if (!scans) {
        direct->to[0] = task->peer_out[task->root] + part.offset;
    }
}

/*
 * Serves a reduce-scatter. Each rank reads its own block of all ranks' inputs, and combines the blocks to its result.
 */
static void fill_reduce_scatter(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = task->team;
    const mscclpp_dev_block_t own_block = mscclpp_coll_send_block(task, team->group.rank);
    int rank;

    direct->mode = MSCCLPP_DEV_DIRECT_REDUCE;
    direct->common.bytes = own_block.bytes;
    direct->count = 1;
    direct->to[0] = task->out;
    direct->home = task->home;
    for (rank = 0; rank < team->group.size; ++rank) {
        direct->from[rank] = task->peer_in[rank] + own_block.offset;
    }
}

/* Dispatches by pattern. Only an all-to-all in place swaps blocks (`swaps`). */
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
 * Adds a block for which each side has a list of runs. Divides the block into segments that are within one run on both
 * sides. The segments are as long as possible, so that there are few of them. Leaves out an empty block.
 *
 * Both sides must have the same number of bytes, as MPI requires. args->block has room for one block for each rank:
 * mscclpp_coll_agree_size lets no larger team move blocks in this way.
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
    /*
     * The number of bytes that a thread moves at once: the largest power of two, up to 16, that divides all of these.
     */
    block->width = 16;
    while (alignment_bits % block->width != 0) {
        block->width /= 2;
    }
    ++args->count;
}

/*
 * Begins with the next rank and ends with this rank itself, so that the ranks do not all write to the same peer at
 * once.
 */
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
