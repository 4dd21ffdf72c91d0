/* MPI's arguments of an operation, and its blocking functions. */
#include "tools/bench/bench_mpi_calls.h"

/*
 * Returns MPI's arguments of a call. Counts are cast to int: if MPI serves our calls, run_size skips sizes that do not
 * fit. own_count is the number of elements that a rank sends if blocks are gathered, and that it receives if they are
 * scattered.
 */
bench_mpi_args_t bench_mpi_args(const bench_operation_t *operation)
{
    const bench_layout_t *layout = operation->layout;
    const bool in_place = operation->in_place, root_in_place = in_place && layout->rank == layout->root;
    const int block_count = layout->coll->is_of_neighbors ? (int)(layout->count / BENCH_NEIGHBORS)
                                                          : (int)(layout->count / (size_t)layout->size);
    /* In place, only the root of a rooted collective passes MPI_IN_PLACE, because its own part is in its result. */
    const bench_mpi_args_t args = {.layout = layout,
                                   .type = bench_type_mpi(operation->type),
                                   .op = bench_op_mpi(operation->op),
                                   .whole_count = (int)layout->count,
                                   .block_count = block_count,
                                   .own_count = layout->coll->is_of_neighbors
                                                    ? (int)bench_layout_block_size(layout, layout->rank, 0)
                                                : layout->counts != NULL ? layout->counts[layout->rank]
                                                                         : block_count,
                                   .operand_to_root = root_in_place ? MPI_IN_PLACE : operation->send,
                                   .send = in_place ? MPI_IN_PLACE : operation->send,
                                   .scatter_send = operation->send,
                                   .recv = operation->recv,
                                   .scatter_recv = root_in_place ? MPI_IN_PLACE : operation->recv};

    return args;
}

/* Returns env->comm, or for neighbours the ring, which is made when it is first needed. */
MPI_Comm bench_mpi_comm(bench_env_t *env, const bench_coll_t *coll)
{
    bench_layout_t layout = {.rank = env->rank, .size = env->size};
    int sources[BENCH_NEIGHBORS], targets[BENCH_NEIGHBORS], weights[BENCH_NEIGHBORS];

    if (!coll->is_of_neighbors) {
        return env->comm;
    }
    if (MPI_COMM_NULL == env->ring) {
        for (int i = 0; i < BENCH_NEIGHBORS; ++i) {
            sources[i] = bench_layout_source(&layout, i);
            targets[i] = bench_layout_target(&layout, i);
            weights[i] = 1;
        }
        MPI_Dist_graph_create_adjacent(env->comm, BENCH_NEIGHBORS, sources, weights, BENCH_NEIGHBORS, targets, weights,
                                       MPI_INFO_NULL, 0, &env->ring);
    }
    return env->ring;
}

#define BLOCKING(Name_, name_) MPI_##Name_

/*
 * Calls MPI's blocking function on the operation's buffers. Returns false if it fails, or if neither of the two lists
 * of functions has the collective.
 */
bool bench_call_mpi(const bench_operation_t *operation, MPI_Comm comm)
{
    const bench_mpi_args_t args = bench_mpi_args(operation);
    int result = MPI_ERR_OTHER;

    if (operation->layout->coll->is_of_neighbors) {
        BENCH_MPI_NEIGHBOR_CALL(result, args, BLOCKING, comm);
    } else {
        BENCH_MPI_CALL(result, args, BLOCKING, comm);
    }
    return MPI_SUCCESS == result;
}
