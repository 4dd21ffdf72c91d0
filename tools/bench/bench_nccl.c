/* NCCL, opened at run time: the few prototypes and numbers of its stable interface that are needed. */
#include "tools/bench/bench.h"
#include "tools/bench/bench_nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/status.h"

/* As in nccl.h: ncclUniqueId. */
typedef struct {
    char bytes[128];
} nccl_id_t;

static struct {
    void *library;
    nccl_comm_t comm;
    char version[32];
    int (*get_version)(int *version);
    int (*get_unique_id)(nccl_id_t *id);
    int (*comm_init_rank)(nccl_comm_t *comm, int size, nccl_id_t id, int rank);
    int (*comm_destroy)(nccl_comm_t comm);
    nccl_functions_t call;
    const char *(*get_error_string)(int result);
} nccl;

const char *bench_nccl_version(void)
{
    return nccl.version;
}

/* Returns true if the call has succeeded. Otherwise prints a line. */
static bool succeeded(const char *name, int result)
{
    if (0 != result) {
        fprintf(stderr, "mscclpp_bench: NCCL: %s: %s\n", name, nccl.get_error_string(result));
    }
    return 0 == result;
}

/* Finds a function of NCCL and stores it at `function_p`. If there is none, prints a line and returns false. */
static bool find_function(void *function_p, const char *name)
{
    void *symbol = dlsym(nccl.library, name);

    if (symbol == NULL) {
        fprintf(stderr, "mscclpp_bench: NCCL has no %s\n", name);
        return false;
    }
    memcpy(function_p, &symbol, sizeof(symbol));
    return true;
}

/*
 * Opens NCCL's library, and finds its functions and version. Returns false on failure. If the library cannot be opened,
 * only a rank with `prints` prints a line. If a function is missing, or ncclGetVersion fails, each rank prints a line,
 * and the library stays open.
 */
static bool load_library(const char *library, bool prints)
{
    int version;

    nccl.library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (nccl.library == NULL) {
        if (prints) {
            fprintf(stderr, "mscclpp_bench: --compare nccl: %s\n", dlerror());
        }
        return false;
    }
    if (!find_function(&nccl.get_version, "ncclGetVersion") || !find_function(&nccl.get_unique_id, "ncclGetUniqueId") ||
        !find_function(&nccl.comm_init_rank, "ncclCommInitRank") ||
        !find_function(&nccl.comm_destroy, "ncclCommDestroy") ||
        !find_function(&nccl.get_error_string, "ncclGetErrorString") ||
        !find_function(&nccl.call.all_reduce, "ncclAllReduce") ||
        !find_function(&nccl.call.all_gather, "ncclAllGather") ||
        !find_function(&nccl.call.reduce_scatter, "ncclReduceScatter") ||
        !find_function(&nccl.call.broadcast, "ncclBroadcast") || !find_function(&nccl.call.reduce, "ncclReduce") ||
        !find_function(&nccl.call.send, "ncclSend") || !find_function(&nccl.call.recv, "ncclRecv") ||
        !find_function(&nccl.call.group_start, "ncclGroupStart") ||
        !find_function(&nccl.call.group_end, "ncclGroupEnd") ||
        !succeeded("ncclGetVersion", nccl.get_version(&version))) {
        return false;
    }
    if (version < 10000) { /* before 2.9, a version had four digits */
        snprintf(nccl.version, sizeof(nccl.version), "%d.%d.%d", version / 1000, version / 100 % 10, version % 100);
    } else {
        snprintf(nccl.version, sizeof(nccl.version), "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    }
    return true;
}

/*
 * Waits for the end of the calls: synchronises with the stream or, with --nccl-wait spin, polls the stream. Returns
 * false if the stream failed, without a line.
 */
static bool finish(bench_contender_t *contender)
{
    const bench_env_t *env = contender->env;
    mscclpp_status_t status;

    if (!contender->spins) {
        status = env->gpu->stream_sync(env->stream);
    } else {
        do {
            status = env->gpu->stream_query(env->stream);
        } while (MSCCLPP_IN_PROGRESS == status);
    }
    return MSCCLPP_OK == status;
}

/* Makes the contender's call: queues one call of NCCL, and waits for it if the contender waits. */
static bool call_nccl(bench_contender_t *contender, const bench_operation_t *operation)
{
    const char *function = operation->layout->coll->function;

    return succeeded(function, bench_nccl_call(&nccl.call, operation, nccl.comm, contender->env->native_stream)) &&
           (!contender->waits || finish(contender));
}

/* Returns what NCCL can do with a collective, for bench_contender_t. */
static bench_serves_t serves(const bench_contender_t *contender, const bench_coll_t *coll, bool in_place)
{
    (void)contender;
    return bench_nccl_serves(coll, in_place);
}

/*
 * Loads NCCL, and makes a communicator of all ranks, whose identifier rank 0 generates. All ranks call this function
 * and return the same. Before ncclCommInitRank all ranks agree that the earlier steps have succeeded, because
 * ncclCommInitRank waits for all of them. After a failure nothing is freed, because the program ends.
 */
bool bench_nccl_open(bench_env_t *env, const char *library, bool waits, bool spins, bench_contender_t *contender_p)
{
    nccl_id_t id, *ids;
    bool ok = true;

    if (env->on_twin || env->has_shared_gpu) {
        if (0 == env->rank) {
            fprintf(stderr, "mscclpp_bench: --compare nccl: %s\n",
                    env->on_twin ? "NCCL needs GPUs, and this is the host twin"
                                 : "NCCL needs a GPU for each rank, and here several ranks share one");
        }
        return false;
    }
    /*
     * Multicast is disabled by default, because not every host's fabric supports it. A user who wants it sets the
     * variable, whose value the header prints.
     */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    if (!bench_all(env->control, load_library(library, 0 == env->rank))) {
        return false;
    }
    ids = calloc((size_t)env->size, sizeof(ids[0]));
    memset(&id, 0, sizeof(id));
    if (0 == env->rank) {
        ok = succeeded("ncclGetUniqueId", nccl.get_unique_id(&id));
    }
    if (!bench_all(env->control, ok && ids != NULL)) {
        free(ids);
        return false;
    }
    bench_allgather(env->control, &id, ids, sizeof(id));
    id = ids[0];
    free(ids);
    if (!bench_all(env->control,
                   succeeded("ncclCommInitRank", nccl.comm_init_rank(&nccl.comm, env->size, id, env->rank)))) {
        return false;
    }
    *contender_p = (bench_contender_t){.name = "NCCL",
                                       .env = env,
                                       .call = call_nccl,
                                       .finish = waits ? NULL : finish,
                                       .serves = serves,
                                       .waits = waits,
                                       .spins = spins};
    return true;
}

void bench_nccl_close(void)
{
    if (nccl.comm != NULL) {
        nccl.comm_destroy(nccl.comm);
        nccl.comm = NULL;
    }
}
