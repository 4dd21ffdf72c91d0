/*
 * Serves a collective by NCCL, by the function with the same meaning if there is one. A reduce-scatter of unequal
 * blocks becomes a reduction to each rank; all others become a group of sends and receives.
 */
#include "tools/bench/bench_nccl.h"

/*
 * Returns whether NCCL can serve a collective. NCCL has no scans, and it cannot exchange in place, because its receives
 * would overwrite blocks that have not been sent yet.
 */
bench_serves_t bench_nccl_serves(const bench_coll_t *coll, bool in_place)
{
    if (MSCCLPP_COLL_SCAN == coll->coll || MSCCLPP_COLL_EXSCAN == coll->coll ||
        (in_place && BENCH_EXCHANGES == coll->blocks)) {
        return BENCH_SERVES_NOT;
    }
    /* In place, NCCL writes a rank's result at the rank's block of the buffer, and MPI at the buffer's beginning. */
    return in_place && coll->reduces && BENCH_SCATTERS == coll->blocks ? BENCH_SERVES_TIME : BENCH_SERVES;
}

/* Returns the address of rank `rank`'s block in a buffer of this rank. *count_p is its number of elements. */
static char *block_at(const bench_operation_t *operation, char *buffer, int rank, size_t *count_p)
{
    const bench_layout_t *layout = operation->layout;

    *count_p = bench_layout_block_size(layout, layout->rank, rank);
    return buffer + bench_layout_displacement(layout, layout->rank, rank) * operation->type->size;
}

/*
 * Returns the address of the elements that this rank sends to `peer`, and their number in *count_p. The number is 0 if
 * this rank sends nothing. This is so if it has no operand, if `peer` is not the root that gathers, or if the block is
 * this rank's own one in place.
 */
static const char *find_sent(const bench_operation_t *operation, int peer, size_t *count_p)
{
    const bench_layout_t *layout = operation->layout;
    const bench_coll_t *coll = layout->coll;
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    char *buffer = input.in_recv ? operation->recv : operation->send;
    const bool is_receiver = !coll->has_root || BENCH_GATHERS != coll->blocks || peer == layout->root;

    *count_p = 0;
    if (0 == input.count || !is_receiver || (operation->in_place && peer == layout->rank)) {
        return buffer;
    }
    if (BENCH_GATHERS == coll->blocks) {
        *count_p = input.count;
        return buffer + input.first * operation->type->size;
    }
    return block_at(operation, buffer, peer, count_p);
}

/*
 * Returns the address at which this rank receives the block from `peer`, and the number of its elements in *count_p.
 * The number is 0 if this rank receives nothing. This is so if the block is its own one in place, if `peer` is not the
 * root that scatters, or if this rank is not the root that gathers. These cases match those of find_sent, so each send
 * has a receive of as many elements.
 */
static char *find_received(const bench_operation_t *operation, int peer, size_t *count_p)
{
    const bench_layout_t *layout = operation->layout;
    const bench_coll_t *coll = layout->coll;
    const bool scatters = BENCH_SCATTERS == coll->blocks;

    *count_p = 0;
    if ((operation->in_place && peer == layout->rank) ||
        (coll->has_root && (scatters ? peer : layout->rank) != layout->root)) {
        return operation->recv;
    }
    if (scatters) {
        *count_p = bench_layout_block_size(layout, layout->rank, layout->rank);
        return operation->recv;
    }
    return block_at(operation, operation->recv, peer, count_p);
}

/*
 * Serves a collective that NCCL lacks by a group of sends and receives. NCCL starts all of them when the group ends, so
 * their order does not matter. The group is ended even after an error. Returns NCCL's first error, or 0.
 */
static int send_and_receive(const nccl_functions_t *functions, const bench_operation_t *operation, nccl_comm_t comm,
                            void *stream)
{
    const int type = operation->type->nccl;
    int result = functions->group_start(), end_result;
    size_t count;

    if (0 != result) {
        return result;
    }
    for (int peer = 0; 0 == result && peer < operation->layout->size; ++peer) {
        const char *from = find_sent(operation, peer, &count);
        if (count > 0) {
            result = functions->send(from, count, type, peer, comm, stream);
        }
        char *to = find_received(operation, peer, &count);
        if (0 == result && count > 0) {
            result = functions->recv(to, count, type, peer, comm, stream);
        }
    }
    end_result = functions->group_end();
    return 0 != result ? result : end_result;
}

/*
 * Serves a reduce-scatter of unequal blocks, which NCCL lacks, by a group of reductions: block r is reduced to rank r.
 * In place, a rank's result replaces its own block of the operand. The group is ended even after an error. Returns
 * NCCL's first error, or 0.
 */
static int reduce_each(const nccl_functions_t *functions, const bench_operation_t *operation, nccl_comm_t comm,
                       void *stream)
{
    char *operand = operation->in_place ? operation->recv : operation->send;
    int result = functions->group_start(), end_result;

    if (0 != result) {
        return result;
    }
    for (int root = 0; 0 == result && root < operation->layout->size; ++root) {
        size_t count;
        char *from = block_at(operation, operand, root, &count);
        if (count > 0) {
            result = functions->reduce(from, operation->in_place ? from : operation->recv, count, operation->type->nccl,
                                       operation->op->nccl, root, comm, stream);
        }
    }
    end_result = functions->group_end();
    return 0 != result ? result : end_result;
}

/*
 * Queues NCCL's calls for one operation, for which bench_nccl_serves must not be BENCH_SERVES_NOT. In place, NCCL
 * stores a reduce-scatter's result in this rank's block of the buffer, whereas MPI stores it at the beginning. `block`
 * is only used for equal blocks. Ranks other than the root also pass a receive buffer to a reduction; NCCL ignores it.
 */
int bench_nccl_call(const nccl_functions_t *functions, const bench_operation_t *operation, nccl_comm_t comm,
                    void *stream)
{
    const bench_layout_t *layout = operation->layout;
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    const size_t count = layout->count, block = count / (size_t)layout->size, size = operation->type->size;
    const char *send = (input.in_recv ? operation->recv : operation->send) + input.first * size;
    const int type = operation->type->nccl, op = operation->op->nccl;

    switch (layout->coll->coll) {
    case MSCCLPP_COLL_LAST:
        return functions->all_reduce(send, operation->recv, count, type, op, comm, stream);
    case MSCCLPP_COLL_ALLGATHER:
        return functions->all_gather(send, operation->recv, block, type, comm, stream);
    case MSCCLPP_COLL_REDUCE_SCATTER_BLOCK:
        return functions->reduce_scatter(
            send, operation->recv + (operation->in_place ? (size_t)layout->rank * block * size : 0), block, type, op,
            comm, stream);
    case MSCCLPP_COLL_REDUCE_SCATTER:
        return reduce_each(functions, operation, comm, stream);
    case MSCCLPP_COLL_BCAST:
        return functions->broadcast(operation->recv, operation->recv, count, type, layout->root, comm, stream);
    case MSCCLPP_COLL_REDUCE:
        return functions->reduce(send, operation->recv, count, type, op, layout->root, comm, stream);
    default:
        return send_and_receive(functions, operation, comm, stream);
    }
}
