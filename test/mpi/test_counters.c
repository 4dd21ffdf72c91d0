/*
 * Of each blocking collective the counters of MPI's tool interface tell who served it, and of the others they do not.
 * Usage: test_counters kernels|engines|rung|staged|passed: so all calls are to be served.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

#define CALLS 20 /* of each: kernels linger only after the first ones */

/*
 * Elements of a block: so few that packets serve them, for which kernels linger, or so many that Open MPI makes no
 * collective of two others.
 */
#define FEW 4
#define MORE 64
static int block;

enum { KERNELS, ENGINES, RUNG, STAGED, PASSED, WAYS };
static const char *const ways[WAYS] = {"kernels", "engines", "rung", "staged", "passed"};

static const struct {
    const char *name;
    bool combines;
} collectives[] = {
    {"allreduce", true},      {"allgather", false}, {"allgatherv", false}, {"alltoall", false},
    {"alltoallv", false},     {"alltoallw", false}, {"bcast", false},      {"exscan", true},
    {"gather", false},        {"gatherv", false},   {"reduce", true},      {"reduce_scatter_block", true},
    {"reduce_scatter", true}, {"scan", true},       {"scatter", false},    {"scatterv", false},
};
#define COLLECTIVES ((int)(sizeof(collectives) / sizeof(collectives[0])))

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[COLLECTIVES][WAYS];

/* Opens the counters of MPI's tool interface. */
static void open_counters(void)
{
    int total, provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&total);
    for (int coll = 0; coll < COLLECTIVES; ++coll) {
        for (int way = 0; way < WAYS; ++way) {
            bool found = false;
            char wanted[128];

            snprintf(wanted, sizeof(wanted), "coll_mscclpp_%s_%s", collectives[coll].name, ways[way]);
            for (int index = 0; index < total && !found; ++index) {
                char name[256];
                int length = sizeof(name), verbosity, class, bind, readonly, continuous, atomic, count, unused = 0;
                MPI_Datatype type;
                MPI_T_enum words;

                found = MPI_SUCCESS == MPI_T_pvar_get_info(index, name, &length, &verbosity, &class, &type, &words,
                                                           NULL, &unused, &bind, &readonly, &continuous, &atomic) &&
                        0 == strcmp(name, wanted) &&
                        MPI_SUCCESS == MPI_T_pvar_handle_alloc(session, index, NULL, &handles[coll][way], &count);
            }
            MT_CHECK(found, "there is no counter %s", wanted);
        }
    }
}

static void read_counters(unsigned long long values[COLLECTIVES][WAYS])
{
    for (int coll = 0; coll < COLLECTIVES; ++coll) {
        for (int way = 0; way < WAYS; ++way) {
            MT_MPI(MPI_T_pvar_read(session, handles[coll][way], &values[coll][way]));
        }
    }
}

static int *counts, *places, *offsets;
static MPI_Datatype *types;

/* Makes the lists of counts and places that the collectives take. */
static void make_lists(void)
{
    counts = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    places = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    offsets = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    types = mt_host_alloc(sizeof(MPI_Datatype) * (size_t)mt_size);
    for (int i = 0; i < mt_size; ++i) {
        counts[i] = block;
        places[i] = block * i;
        offsets[i] = (int)sizeof(int) * block * i;
        types[i] = MPI_INT;
    }
}

/* Makes one call of collective number `coll`. Returns its error code. */
static int call(int coll, int *in, int *out)
{
    const MPI_Comm comm = MPI_COMM_WORLD;

    switch (coll) {
    case 0:
        return MPI_Allreduce(in, out, block, MPI_INT, MPI_SUM, comm);
    case 1:
        return MPI_Allgather(in, block, MPI_INT, out, block, MPI_INT, comm);
    case 2:
        return MPI_Allgatherv(in, block, MPI_INT, out, counts, places, MPI_INT, comm);
    case 3:
        return MPI_Alltoall(in, block, MPI_INT, out, block, MPI_INT, comm);
    case 4:
        return MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, comm);
    case 5:
        return MPI_Alltoallw(in, counts, offsets, types, out, counts, offsets, types, comm);
    case 6:
        return MPI_Bcast(out, block, MPI_INT, 0, comm);
    case 7:
        return MPI_Exscan(in, out, block, MPI_INT, MPI_SUM, comm);
    case 8:
        return MPI_Gather(in, block, MPI_INT, out, block, MPI_INT, 0, comm);
    case 9:
        return MPI_Gatherv(in, block, MPI_INT, out, counts, places, MPI_INT, 0, comm);
    case 10:
        return MPI_Reduce(in, out, block, MPI_INT, MPI_SUM, 0, comm);
    case 11:
        return MPI_Reduce_scatter_block(in, out, block, MPI_INT, MPI_SUM, comm);
    case 12:
        return MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
    case 13:
        return MPI_Scan(in, out, block, MPI_INT, MPI_SUM, comm);
    case 14:
        return MPI_Scatter(in, block, MPI_INT, out, block, MPI_INT, 0, comm);
    default:
        return MPI_Scatterv(in, counts, places, MPI_INT, out, block, MPI_INT, 0, comm);
    }
}

/* What the counters of one collective, and no other, have to say of so many calls. */
static void check(int coll, int way, unsigned long long before[COLLECTIVES][WAYS],
                  unsigned long long after[COLLECTIVES][WAYS])
{
    for (int other = 0; other < COLLECTIVES; ++other) {
        for (int k = 0; k < WAYS; ++k) {
            const unsigned long long more = after[other][k] - before[other][k];
            unsigned long long wanted = other == coll && (k == way || (RUNG == way && KERNELS == k)) ? CALLS : 0;

            if (RUNG == k) {
                /* A kernel may have stayed unasked, and the first calls are launched. */
                MT_CHECK(other == coll ? more <= CALLS && (RUNG != way || more > 0) : 0 == more,
                         "%d calls of %s: counter %s_rung has gone up by %llu", CALLS, collectives[coll].name,
                         collectives[other].name, more);
                continue;
            }
            MT_CHECK(more == wanted, "%d calls of %s: counter %s_%s has gone up by %llu and not %llu", CALLS,
                     collectives[coll].name, collectives[other].name, ways[k], more, wanted);
        }
    }
}

int main(int argc, char **argv)
{
    static unsigned long long before[COLLECTIVES][WAYS], after[COLLECTIVES][WAYS];
    mt_buffer_t in, out;
    size_t bytes;
    int way = 0;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    while (way < WAYS && 0 != strcmp(argc > 1 ? argv[1] : "", ways[way])) {
        ++way;
    }
    MT_CHECK(way<WAYS, "\"%s\" is not allowed; use kernels, engines, rung, staged or passed", argc> 1 ? argv[1] : "");
    block = RUNG == way ? FEW : MORE;
    bytes = sizeof(int) * (size_t)block * (size_t)mt_size;
    /* The component of a twin looks upon memory as the device's but for ranks that are said to pass host memory. */
    in = mt_buffer_alloc(PASSED == way && !mt_twin ? MT_HOST : MT_DEVICE, bytes, 0);
    out = mt_buffer_alloc(PASSED == way && !mt_twin ? MT_HOST : MT_DEVICE, bytes, 0);
    mt_buffer_set(&in, 0);
    mt_buffer_set(&out, 0);
    make_lists();
    open_counters();
    for (int coll = 0; coll < COLLECTIVES && way < WAYS && 0 == mt_failures(); ++coll) {
        if (ENGINES == way && collectives[coll].combines) {
            continue;
        }
        read_counters(before);
        for (int i = 0; i < CALLS; ++i) {
            MT_MPI(call(coll, (int *)(void *)in.data, (int *)(void *)out.data));
        }
        read_counters(after);
        check(coll, way, before, after);
    }
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    free(counts);
    free(places);
    free(offsets);
    free(types);
    return mt_finish();
}
