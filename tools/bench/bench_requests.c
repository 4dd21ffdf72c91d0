/* MPI's nonblocking and persistent collectives, one at a time: started, and waited for at once. */
#include "tools/bench/bench_mpi_calls.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT(Name_, name_) MPIX_##Name_##_init
#else
#define PERSISTENT(Name_, name_) MPI_##Name_##_init
#endif
#define NONBLOCKING(Name_, name_) MPI_I##name_

/* Makes the contender's call: starts a nonblocking call, and waits for it. Returns false if MPI reports an error. */
static bool call_nonblocking(bench_contender_t *contender, const bench_operation_t *operation)
{
    const bench_mpi_args_t args = bench_mpi_args(operation);
    const MPI_Comm comm = bench_mpi_comm(contender->env, operation->layout->coll);
    MPI_Request request = MPI_REQUEST_NULL;
    int result = MPI_ERR_OTHER;

    if (operation->layout->coll->is_of_neighbors) {
        BENCH_MPI_NEIGHBOR_CALL(result, args, NONBLOCKING, comm, &request);
    } else {
        BENCH_MPI_CALL(result, args, NONBLOCKING, comm, &request);
    }
    return MPI_SUCCESS == result && MPI_SUCCESS == MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/*
 * Makes the contender's call: starts the persistent request, and waits for it. If there is none, makes it first. An
 * existing request belongs to the same operation, because bench_measure calls reset() before another operation.
 * Returns false if MPI reports an error.
 */
static bool call_persistent(bench_contender_t *contender, const bench_operation_t *operation)
{
    const MPI_Comm comm = bench_mpi_comm(contender->env, operation->layout->coll);
    int result = MPI_SUCCESS;

    if (MPI_REQUEST_NULL == contender->request) {
        const bench_mpi_args_t args = bench_mpi_args(operation);

        if (operation->layout->coll->is_of_neighbors) {
            BENCH_MPI_NEIGHBOR_CALL(result, args, PERSISTENT, comm, MPI_INFO_NULL, &contender->request);
        } else {
            BENCH_MPI_CALL(result, args, PERSISTENT, comm, MPI_INFO_NULL, &contender->request);
        }
    }
    return MPI_SUCCESS == result && MPI_SUCCESS == MPI_Start(&contender->request) &&
           MPI_SUCCESS == MPI_Wait(&contender->request, MPI_STATUS_IGNORE);
}

/* Frees the persistent request, if there is one, so that the next call makes another one. */
static bool free_request(bench_contender_t *contender)
{
    return MPI_REQUEST_NULL == contender->request || MPI_SUCCESS == MPI_Request_free(&contender->request);
}

/* Its name is in static memory, which the next one overwrites. */
bench_contender_t bench_contender_requests(bench_env_t *env, const bench_coll_t *coll, bool is_persistent)
{
    static char name[64];
    bench_contender_t contender = {.name = name,
                                   .env = env,
                                   .call = is_persistent ? call_persistent : call_nonblocking,
                                   .reset = is_persistent ? free_request : NULL,
                                   .request = MPI_REQUEST_NULL};

    if (is_persistent) {
        snprintf(name, sizeof(name), "%s_init, MPI_Start, MPI_Wait", coll->function);
    } else {
        snprintf(name, sizeof(name), "MPI_I%s, MPI_Wait", coll->name);
    }
    return contender;
}
