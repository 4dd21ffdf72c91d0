/*
 * What large collectives of 2 ranks take on ordinary memory, in two runs: without the component, and on the twin.
 * Usage:
 *   test_pace keep FILE    writes to FILE what the quickest call of each collective and size takes
 *   test_pace RATIO FILE   each takes at most RATIO times what FILE says
 * Others use the machine, too, so what is too slow is measured again before it counts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "test/mpi/mpi_test.h"

#define MOST ((size_t)4 << 20) /* bytes of the whole message */
#define ROUNDS 60
#define TRIES 12

/* A call on `bytes` bytes: the whole message of an all-reduce or a broadcast, else two blocks of half of them. */
typedef struct {
    const char *name;
    void (*call)(const char *in, char *out, int bytes);
} collective_t;

static void allreduce(const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Allreduce(in, out, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
}

static void bcast(const char *in, char *out, int bytes)
{
    (void)in;
    MT_MPI(MPI_Bcast(out, bytes / 4, MPI_FLOAT, 0, MPI_COMM_WORLD));
}

static void allgather(const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Allgather(in, bytes / 8, MPI_FLOAT, out, bytes / 8, MPI_FLOAT, MPI_COMM_WORLD));
}

static void reduce_scatter_block(const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Reduce_scatter_block(in, out, bytes / 8, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
}

static void alltoall(const char *in, char *out, int bytes)
{
    MT_MPI(MPI_Alltoall(in, bytes / 8, MPI_FLOAT, out, bytes / 8, MPI_FLOAT, MPI_COMM_WORLD));
}

/* The ranks keep a third for themselves, and exchange the rest. */
static void alltoallw(const char *in, char *out, int bytes)
{
    const int kept = bytes / 12, passed = bytes / 4 - kept;
    const int counts[2] = {0 == mt_rank ? kept : passed, 0 == mt_rank ? passed : kept}, places[2] = {0, 4 * counts[0]};
    const MPI_Datatype types[2] = {MPI_FLOAT, MPI_FLOAT};

    MT_MPI(MPI_Alltoallw(in, counts, places, types, out, counts, places, types, MPI_COMM_WORLD));
}

static const collective_t collectives[] = {
    {"allreduce", allreduce}, {"bcast", bcast},
    {"allgather", allgather}, {"reduce_scatter_block", reduce_scatter_block},
    {"alltoall", alltoall},   {"alltoallw", alltoallw},
};

/*
 * Microseconds of the quickest of some calls on this rank. The ranks begin each call together, with new operands: what
 * does not change stays in the caches of those that have read it before.
 */
static double measure(const collective_t *collective, mt_buffer_t *in, mt_buffer_t *out, int bytes)
{
    double best = 1e9;

    for (int i = 0; i < ROUNDS; ++i) {
        double took = 0;

        mt_buffer_set(in, i);
        mt_buffer_set(out, i); /* of a broadcast, the operand */
        mt_barrier(MPI_COMM_WORLD);
        took = mt_now();
        collective->call(in->data, out->data, bytes);
        took = (mt_now() - took) * 1e6;
        best = took < best ? took : best;
    }
    return best;
}

/*
 * Measures until no rank takes more than `most` microseconds, up to TRIES times, or twice if that is 0. Returns the
 * slower rank's best.
 */
static double try_to_keep(const collective_t *collective, mt_buffer_t *in, mt_buffer_t *out, int bytes, double most)
{
    double best = 1e9, all[2] = {1e9, 1e9};

    for (int i = 0; i < (most > 0 ? TRIES : 2) && (all[0] > most || all[1] > most); ++i) {
        const double took = measure(collective, in, out, bytes);

        best = took < best ? took : best;
        mt_allgather(MPI_COMM_WORLD, &best, all, sizeof(best));
    }
    return all[0] > all[1] ? all[0] : all[1];
}

/* One collective and size. `limit` 0: writes the time to `file`; else compares it with the next one there. */
static void pace(const collective_t *collective, mt_buffer_t *in, mt_buffer_t *out, int bytes, double limit, FILE *file)
{
    double before = 0, took;

    if (limit > 0) {
        MT_CHECK(1 == fscanf(file, "%lf", &before), "the file has too few times");
    }
    took = try_to_keep(collective, in, out, bytes, limit * before);
    if (limit > 0) {
        MT_CHECK(took <= limit * before, "%s of %d bytes: %.0f us are more than %.1f times %.0f", collective->name,
                 bytes, took, limit, before);
    } else if (0 == mt_rank) {
        fprintf(file, "%.1f\n", took);
    }
    if (0 == mt_rank) {
        printf("%s, %d KiB: %.0f us, before %.0f\n", collective->name, bytes >> 10, took, before);
    }
}

int main(int argc, char **argv)
{
    const double limit = argc > 2 ? strtod(argv[1], NULL) : 0;
    mt_buffer_t in, out;
    FILE *file = NULL;
    uint64_t served = 0;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc > 2) {
        file = fopen(argv[2], limit > 0 ? "re" : 0 == mt_rank ? "we" : "ae");
    }
    if (2 != mt_size || file == NULL) {
        fprintf(stderr, "test_pace: 2 ranks and a file are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    in = mt_buffer_alloc(MT_HOST, MOST, 0);
    out = mt_buffer_alloc(MT_HOST, MOST, 0);
    mt_buffer_set(&in, 0);
    mt_buffer_set(&out, 0);
    for (size_t k = 0; k < sizeof(collectives) / sizeof(collectives[0]); ++k) {
        served = limit > 0 ? mt_counter("served") : 0;
        for (size_t bytes = (size_t)64 << 10; bytes <= MOST; bytes *= 4) {
            pace(&collectives[k], &in, &out, (int)bytes, limit, file);
        }
        MT_CHECK(limit <= 0 || mt_counter("served") >= served + 4 * (uint64_t)ROUNDS, "the twin has not served %s",
                 collectives[k].name);
    }
    fclose(file);
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    return mt_finish();
}
