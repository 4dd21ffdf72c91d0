/*
 * Tells which bytes a rank sends to its peers, and where it receives theirs: the host's version of
 * device/kern/coll/blocks.h.
 */
#include "mca/common/task/coll_task.h"

mscclpp_dev_block_t mscclpp_coll_part(uint64_t bytes, int index, int count)
{
    const uint64_t units = (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    const uint64_t part_bytes = (units + (uint64_t)count - 1) / (uint64_t)count * MSCCLPP_DEV_UNIT;
    const uint64_t begin = (uint64_t)index * part_bytes;
    mscclpp_dev_block_t part;

    part.offset = begin < bytes ? begin : bytes;
    part.bytes = bytes - part.offset < part_bytes ? bytes - part.offset : part_bytes;
    return part;
}

/* Returns true if `sender` sends a block to `receiver` in a collective whose blocks have one size. */
static bool sends(const mscclpp_coll_task_t *task, int sender, int receiver)
{
    return MSCCLPP_DEV_COLL_SENDS(task->pattern, task->root, sender, receiver);
}

/*
 * Returns the block that this rank sends to a peer. If blocks differ in size and the list is NULL, all blocks are
 * empty.
 */
mscclpp_dev_block_t mscclpp_coll_send_block(const mscclpp_coll_task_t *task, int peer)
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

/* As mscclpp_coll_send_block, for the block that this rank receives. */
mscclpp_dev_block_t mscclpp_coll_recv_block(const mscclpp_coll_task_t *task, int peer)
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
        return mscclpp_coll_recv_block(task, rank).bytes;
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
        const uint64_t sent = mscclpp_coll_send_block(task, peer).bytes;
        const uint64_t received = mscclpp_coll_recv_block(task, peer).bytes;

        if (peer != task->rank) {
            largest = sent > largest ? sent : largest;
            largest = received > largest ? received : largest;
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
 * Returns the bytes from the start of the buffer to the end of its last block. Empty blocks do not count. The output of
 * a collective that combines blocks is a single result. Looks at the last blocks first: if all blocks have one size,
 * the first one that is not empty ends last. If this rank exchanges blocks with the root only, looks at no others.
 */
uint64_t mscclpp_coll_span(const mscclpp_coll_task_t *task, bool of_input)
{
    const bool combines = MSCCLPP_DEV_COMBINES(task->pattern);
    uint64_t span = !of_input && combines ? mscclpp_coll_result_bytes(task) : 0; /* a result begins with the output */
    const bool root_only = !task->args->varied && MSCCLPP_DEV_COLL_ROOTED(task->pattern) &&
                           of_input != MSCCLPP_DEV_COLL_ONE_SENDS(task->pattern);
    const int first = root_only ? task->root : 0;
    bool is_found = false;
    int peer;

    for (peer = root_only ? first : task->ranks - 1; peer >= first && !is_found && (of_input || !combines); --peer) {
        const mscclpp_dev_block_t block =
            of_input ? mscclpp_coll_send_block(task, peer) : mscclpp_coll_recv_block(task, peer);

        if (block.bytes > 0 && block.offset + block.bytes > span) {
            span = block.offset + block.bytes;
            is_found = !task->args->varied;
        }
    }
    if (of_input && (task->pattern == MSCCLPP_DEV_SCAN || task->pattern == MSCCLPP_DEV_EXSCAN)) {
        span = task->bytes; /* the input of the last rank is read, too */
    }
    return span;
}
