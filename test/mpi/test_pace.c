/*
 * What large collectives of 2 ranks take on ordinary memory on the twin, beside a communicator without the component.
 * Usage: test_pace RATIO [TIMES]
 *
 * Each collective takes at most RATIO times as long as without the component; the first one that does not ends the
 * test. TIMES: each call of the twin is made so many times, which shows that the limit is kept to.
 *
 * Others use the machine, too. So the two communicators call by turns, in one job, and of each turn the quickest call
 * of either counts. The median of the turns' ratios is what is compared: what slows some turns does not count, nor does
 * what slows both communicators.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/mpi/mpi_test.h"

#define MOST ((size_t)4 << 20) /* bytes of the whole message */
#define ROUNDS 15              /* calls of each kind in one turn */
#define TURNS 9

/* A call on `bytes` bytes: the whole message of an all-reduce or a broadcast, else two blocks of half of them. */
typedef struct {
    const char *name;
    void (*call)(MPI_Comm comm, const char *in, char *out, int bytes);
} collective_t;

static void allreduce(MPI_Comm comm, const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Allreduce(in, out, bytes / 4, MPI_FLOAT, MPI_SUM, comm));
}

static void bcast(MPI_Comm comm, const char *in, char *out, int bytes)
{
    (void)in;
    MT_MPI(MPI_Bcast(out, bytes / 4, MPI_FLOAT, 0, comm));
}

static void allgather(MPI_Comm comm, const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Allgather(in, bytes / 8, MPI_FLOAT, out, bytes / 8, MPI_FLOAT, comm));
}

static void reduce_scatter_block(MPI_Comm comm, const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Reduce_scatter_block(in, out, bytes / 8, MPI_FLOAT, MPI_SUM, comm));
}

static void alltoall(MPI_Comm comm, const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Alltoall(in, bytes / 8, MPI_FLOAT, out, bytes / 8, MPI_FLOAT, comm));
}

/* The ranks keep a third for themselves, and exchange the rest. */
static void alltoallw(MPI_Comm comm, const char *in, char *out, int bytes)
{
    const int kept = bytes / 12, passed = bytes / 4 - kept;
    const int counts[2] = {0 == mt_rank ? kept : passed, 0 == mt_rank ? passed : kept}, places[2] = {0, 4 * counts[0]};
    const MPI_Datatype types[2] = {MPI_FLOAT, MPI_FLOAT};

    MT_MPI(MPI_Alltoallw(in, counts, places, types, out, counts, places, types, comm));
}

static const collective_t collectives[] = {
    {"allreduce", allreduce}, {"bcast", bcast},
    {"allgather", allgather}, {"reduce_scatter_block", reduce_scatter_block},
    {"alltoall", alltoall},   {"alltoallw", alltoallw},
};

/*
 * Microseconds of one call on the slower rank. The ranks begin it together, with new operands: what does not change
 * stays in the caches of those that have read it before.
 */
static double measure(const collective_t *collective, MPI_Comm comm, int times, mt_buffer_t *in, mt_buffer_t *out,
                      int bytes)
{
    static int number;
    double took, all[2] = {0, 0};

    mt_buffer_set(in, ++number);
    mt_buffer_set(out, number); /* of a broadcast, the operand */
    mt_barrier(MPI_COMM_WORLD);
    took = mt_now();
    for (int i = 0; i < times; ++i) {
        collective->call(comm, in->data, out->data, bytes);
    }
    took = (mt_now() - took) * 1e6;
    mt_allgather(MPI_COMM_WORLD, &took, all, sizeof(took));
    return all[0] > all[1] ? all[0] : all[1];
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* What one kind of call takes on the two communicators. Both ranks have the same times, and so the same median. */
typedef struct {
    double before, took; /* microseconds of the quickest calls */
    double ratios[TURNS];
} paces_t;

static void take_turns(const collective_t *collective, MPI_Comm plain, int times, mt_buffer_t *in, mt_buffer_t *out,
                       int bytes, paces_t *paces)
{
    paces->before = paces->took = 1e9;
    for (int turn = 0; turn < TURNS; ++turn) {
        double before = 1e9, took = 1e9;

        for (int i = 0; i < ROUNDS; ++i) {
            const double one_before = measure(collective, plain, 1, in, out, bytes);
            const double one = measure(collective, MPI_COMM_WORLD, times, in, out, bytes);

            before = one_before < before ? one_before : before;
            took = one < took ? one : took;
        }
        paces->ratios[turn] = took / before;
        paces->before = before < paces->before ? before : paces->before;
        paces->took = took < paces->took ? took : paces->took;
    }
    qsort(paces->ratios, TURNS, sizeof(paces->ratios[0]), compare);
}

/*
 * One collective and size. What is too slow is measured once more before it counts. Returns false, on both ranks, if it
 * still is.
 */
static bool pace(const collective_t *collective, MPI_Comm plain, double limit, int times, mt_buffer_t *in,
                 mt_buffer_t *out, int bytes)
{
    paces_t paces;

    take_turns(collective, plain, times, in, out, bytes, &paces);
    if (paces.ratios[TURNS / 2] > limit) {
        take_turns(collective, plain, times, in, out, bytes, &paces);
    }
    MT_CHECK(paces.ratios[TURNS / 2] <= limit, "%s of %d bytes: %.2f times as long as without the component, not %.1f",
             collective->name, bytes, paces.ratios[TURNS / 2], limit);
    if (0 == mt_rank) {
        printf("%s, %d KiB: %.0f us, without the component %.0f; of %d turns %.2f times as long, %.2f to %.2f\n",
               collective->name, bytes >> 10, paces.took, paces.before, TURNS, paces.ratios[TURNS / 2], paces.ratios[0],
               paces.ratios[TURNS - 1]);
    }
    return paces.ratios[TURNS / 2] <= limit;
}

/* Returns a communicator that the component does not serve. */
static MPI_Comm make_plain(void)
{
    MPI_Comm plain;
    MPI_Info info;

    MT_MPI(MPI_Info_create(&info));
    MT_MPI(MPI_Info_set(info, "ompi_comm_coll_preference", "^mscclpp"));
    MT_MPI(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &plain));
    MT_MPI(MPI_Info_free(&info));
    return plain;
}

int main(int argc, char **argv)
{
    const double limit = argc > 1 ? strtod(argv[1], NULL) : 0;
    const int times = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1;
    mt_buffer_t in, out;
    MPI_Comm plain;
    bool keeps = true;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (2 != mt_size || limit <= 0 || times < 1) {
        fprintf(stderr, "test_pace: 2 ranks and a limit above 0 are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    plain = make_plain();
    in = mt_buffer_alloc(MT_HOST, MOST, 0);
    out = mt_buffer_alloc(MT_HOST, MOST, 0);
    for (size_t k = 0; k < sizeof(collectives) / sizeof(collectives[0]) && keeps; ++k) {
        for (size_t bytes = (size_t)64 << 10; bytes <= MOST && keeps; bytes *= 4) {
            uint64_t served = mt_counter("served");

            keeps = pace(&collectives[k], plain, limit, times, &in, &out, (int)bytes);
            served = mt_counter("served") - served;
            MT_CHECK(served == (uint64_t)(TURNS * ROUNDS * times) || served == (uint64_t)(2 * TURNS * ROUNDS * times),
                     "the twin has not served %s on one of the two communicators, and on that alone",
                     collectives[k].name);
        }
    }
    MT_MPI(MPI_Comm_free(&plain));
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    return mt_finish();
}
