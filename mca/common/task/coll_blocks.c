/* The places of the blocks that a rank sends and receives: the host's version of device/kern/coll/blocks.h. */
#include "mca/common/base/numbers.h"
#include "mca/common/task/coll_task.h"

mscclpp_dev_block_t mscclpp_coll_find_part(uint64_t bytes, int index, int count)
{
    const uint64_t units = mscclpp_divide_up(bytes, MSCCLPP_DEV_UNIT);
    const uint64_t part_bytes = mscclpp_divide_up(units, (uint64_t)count) * MSCCLPP_DEV_UNIT;
    mscclpp_dev_block_t part;

    part.offset = mscclpp_min((uint64_t)index * part_bytes, bytes);
    part.bytes = mscclpp_min(bytes - part.offset, part_bytes);
    return part;
}

/* Returns true if `sender` sends a block to `receiver` in a collective whose blocks have one size. */
static bool sends(const mscclpp_coll_task_t *task, int sender, int receiver)
{
    return MSCCLPP_DEV_COLL_SENDS(task->pattern, task->root, sender, receiver);
}

/* If blocks differ in size and the list is NULL, all blocks are empty. */
mscclpp_dev_block_t mscclpp_coll_find_send_block(const mscclpp_coll_task_t *task, int peer)
{
    mscclpp_dev_block_t block = {0, 0};

    if (task->args->varied) {
        return task->args->send != NULL ? task->args->send[peer] : block;
    }
    block.bytes = sends(task, task->rank, peer) ? task->bytes : 0;
    if (MSCCLPP_DEV_COLL_SENDS_MANY(task->pattern)) {
        block.offset = (uint64_t)peer * task->stride;
    }
    return block;
}

/* As in mscclpp_coll_find_send_block, all blocks are empty if the list is NULL. */
mscclpp_dev_block_t mscclpp_coll_find_recv_block(const mscclpp_coll_task_t *task, int peer)
{
    mscclpp_dev_block_t block = {0, 0};

    if (task->args->varied) {
        return task->args->recv != NULL ? task->args->recv[peer] : block;
    }
    block.bytes = sends(task, peer, task->rank) ? task->bytes : 0;
    if (MSCCLPP_DEV_COLL_RECVS_MANY(task->pattern)) {
        block.offset = (uint64_t)peer * task->stride;
    }
    return block;
}

/* Returns 0 on a rank that gets no result: all but the root in a reduce, and rank 0 in an exclusive scan. */
uint64_t mscclpp_coll_result_bytes(const mscclpp_coll_task_t *task)
{
    const int rank = task->rank;

    if (task->args->varied) { /* a reduce-scatter, which lists the size of this rank's result for every peer */
        return mscclpp_coll_find_recv_block(task, rank).bytes;
    }
    if (task->pattern == MSCCLPP_DEV_EXSCAN) {
        return rank == 0 ? 0 : task->bytes;
    }
    return sends(task, rank, rank) ? task->bytes : 0;
}

uint64_t mscclpp_coll_exchanged_bytes(const mscclpp_coll_task_t *task)
{
    uint64_t largest = 0;
    int peer;

    for (peer = 0; peer < task->ranks; ++peer) {
        const uint64_t sent = mscclpp_coll_find_send_block(task, peer).bytes;
        const uint64_t received = mscclpp_coll_find_recv_block(task, peer).bytes;

        if (peer != task->rank) {
            largest = mscclpp_max(largest, mscclpp_max(sent, received));
        }
    }
    return largest;
}

bool mscclpp_coll_is_unsized_pair(const mscclpp_coll_task_t *task)
{
    return task->ranks == 2 && task->team->fabric == NULL && task->args->varied && !task->args->is_size_known;
}

uint64_t mscclpp_coll_common_bytes(const mscclpp_coll_task_t *task)
{
    return mscclpp_coll_is_unsized_pair(task) ? mscclpp_coll_exchanged_bytes(task) : task->bytes;
}

/*
 * Returns the end of the last block that is not empty, of those that this rank sends or, if `of_input` is false,
 * receives. If all blocks have one size, that is the end of the block with the highest number, so the search begins
 * there. If this rank exchanges blocks with the root only, no other block is examined.
 */
static uint64_t find_end_of_blocks(const mscclpp_coll_task_t *task, bool of_input)
{
    const bool is_root_only = !task->args->varied && MSCCLPP_DEV_COLL_ROOTED(task->pattern) &&
                              of_input != MSCCLPP_DEV_COLL_ONE_SENDS(task->pattern);
    const int first = is_root_only ? task->root : 0, last = is_root_only ? task->root : task->ranks - 1;
    uint64_t end = 0;
    int peer;

    for (peer = last; peer >= first; --peer) {
        const mscclpp_dev_block_t block =
            of_input ? mscclpp_coll_find_send_block(task, peer) : mscclpp_coll_find_recv_block(task, peer);

        if (block.bytes > 0) {
            end = mscclpp_max(end, block.offset + block.bytes);
            if (!task->args->varied) {
                break;
            }
        }
    }
    return end;
}

/* A scan also reads the input of the last rank, which the rank sends to nobody. A combined result begins at offset 0.
 */
uint64_t mscclpp_coll_measure_span(const mscclpp_coll_task_t *task, bool of_input)
{
    if (of_input && (task->pattern == MSCCLPP_DEV_SCAN || task->pattern == MSCCLPP_DEV_EXSCAN)) {
        return task->bytes;
    }
    if (!of_input && MSCCLPP_DEV_COMBINES(task->pattern)) {
        return mscclpp_coll_result_bytes(task);
    }
    return find_end_of_blocks(task, of_input);
}
