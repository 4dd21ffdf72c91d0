/*
 * Lingering kernels under MPI. Usage: test_linger rings|lists|wide|off, or waits|gaps MICROSECONDS.
 *
 *   rings   calls that follow closely are served without launches, by the process' counter
 *   lists   so are calls whose blocks differ in size and place, and their results are right
 *   wide    so are such calls with blocks of some KiB
 *   off     none is
 *   waits   what an application does right after a burst of calls takes at most so much longer than without them, where
 *           MICROSECONDS is the kernel's window
 *   gaps    after calls with long gaps between them no kernel stays: a synchronisation of the device takes less
 *
 * On the twin, where nothing waits for kernels, the last two only go through the calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/mpi/mpi_cuda.h"
#include "test/mpi/mpi_test.h"

#define ROUNDS 200
#define TWIN_ROUNDS 20
#define LONG_BURST 500
#define GAP_NS 5000000L
#define MARGIN 2000.0 /* microseconds */

/*
 * Calls whose blocks differ, in integers: the most of a block, or of a wide one, the distance of blocks for each rank,
 * and blocks so far from the buffer's start that one word of the bell has no room for the offset.
 */
#define LIST_CALLS 240
#define LIST_MAX 8
#define LIST_WIDE_MAX 4500
#define LIST_PITCH 4503
#define LIST_FAR 70000
#define LIST_RANKS 8
#define ROOM (LIST_FAR + LIST_PITCH * LIST_RANKS) /* of each buffer */

/* Rounds of a machine that has something else to do; a kernel that stays would delay nearly all. */
#define LATE_ROUNDS (ROUNDS / 50)

static int *buffers[2];
static mt_buffer_t memory[2];
static MPI_Comm second;
static int list_max = LIST_MAX;

typedef struct {
    const char *name;
    void (*act)(void);
    bool twin; /* the twin can do it as well */
} action_t;

static void reduce(MPI_Comm comm, int count)
{
    MT_MPI(MPI_Allreduce(buffers[0], buffers[1], count, MPI_INT, MPI_SUM, comm));
}

static void reduce_second(void)
{
    reduce(second, 1);
}

static const action_t actions[] = {
    {"cudaDeviceSynchronize", mt_cuda_synchronize, false},  {"cudaMalloc and cudaFree", mt_cuda_allocate, false},
    {"load and first launch", mt_cuda_load, false},         {"stream capture", mt_cuda_capture, false},
    {"call on a second communicator", reduce_second, true},
};

/* One block serves the first half, several the other. */
static void burst(int calls)
{
    for (int i = 0; i < calls; ++i) {
        reduce(MPI_COMM_WORLD, i % 8 < 4 ? 2 : 8192);
    }
}

/* Checks the sum of all ranks. */
static void check_sum(void)
{
    int own = mt_rank + 1, sum = 0;

    mt_buffer_put(&memory[0], &own, sizeof(own));
    reduce(MPI_COMM_WORLD, 1);
    mt_buffer_get(&memory[1], &sum, sizeof(sum));
    MT_CHECK(mt_size * (mt_size + 1) / 2 == sum, "the sum is %d", sum);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Microseconds of each round, ascending. The burst before it is of `calls` calls at most; 0: none, and no kernel. */
static void measure(const action_t *action, int calls, int rounds, double *times)
{
    const struct timespec gap = {0, GAP_NS};

    for (int i = 0; i < rounds; ++i) {
        if (0 == calls) {
            nanosleep(&gap, NULL);
            mt_barrier(MPI_COMM_WORLD);
        } else {
            burst(1 + (int)(mt_mix((uint64_t)i, (uint64_t)calls, 7) % (uint64_t)calls));
        }
        double start = mt_now();
        action->act();
        times[i] = 1e6 * (mt_now() - start);
    }
    qsort(times, (size_t)rounds, sizeof(times[0]), compare);
}

static void test_waits(double window)
{
    const int rounds = mt_twin ? TWIN_ROUNDS : ROUNDS;
    double without[ROUNDS], with[ROUNDS];

    for (size_t a = 0; a < sizeof(actions) / sizeof(actions[0]); ++a) {
        const action_t *action = &actions[a];
        if (mt_twin && !action->twin) {
            continue;
        }
        action->act();
        measure(action, 0, rounds, without);
        measure(action, 20, rounds, with);
        check_sum();
        if (mt_twin) {
            continue;
        }
        double limit = without[rounds / 2] + window + MARGIN;
        if (0 == mt_rank) {
            printf("%s: %.0f us (%.0f at most), after calls %.0f us (%.0f at most), allowed %.0f us\n", action->name,
                   without[rounds / 2], without[rounds - 1], with[rounds / 2], with[rounds - 1], limit);
        }
        MT_CHECK(with[rounds - 1 - LATE_ROUNDS] <= limit,
                 "%s takes %.0f us right after calls, %.0f us at other times; the window is %.0f us", action->name,
                 with[rounds - 1 - LATE_ROUNDS], without[rounds / 2], window);
    }
    MT_CHECK(mt_twin || mt_rung(MPI_COMM_WORLD) > 0, "no kernel lingered, so nothing is shown");
}

static void test_gaps(double allowed)
{
    const struct timespec gap = {0, GAP_NS};
    double times[ROUNDS];
    uint64_t before;

    burst(10);
    before = mt_rung(MPI_COMM_WORLD);
    for (int i = 0; i < 4; ++i) {
        nanosleep(&gap, NULL);
        reduce(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < ROUNDS; ++i) {
        nanosleep(&gap, NULL);
        reduce(MPI_COMM_WORLD, 1);
        double start = mt_now();
        if (!mt_twin) {
            mt_cuda_synchronize();
        }
        times[i] = 1e6 * (mt_now() - start);
    }
    qsort(times, ROUNDS, sizeof(times[0]), compare);
    MT_CHECK(times[ROUNDS - 1 - LATE_ROUNDS] <= allowed,
             "a synchronisation after a call takes %.0f us, more than %.0f: kernels linger in spite of the gaps",
             times[ROUNDS - 1 - LATE_ROUNDS], allowed);
    /* On the twin kernels stay after every call, and leave when they get a processor. */
    MT_CHECK(mt_twin || mt_rung(MPI_COMM_WORLD) - before <= 2, "%llu calls with long gaps between them were rung for",
             (unsigned long long)(mt_rung(MPI_COMM_WORLD) - before));
    check_sum();
}

static void test_rings(bool on)
{
    uint64_t rung;

    burst(LONG_BURST);
    check_sum();
    rung = mt_rung(MPI_COMM_WORLD);
    if (0 == mt_rank) {
        printf("%llu of %d calls without a launch\n", (unsigned long long)rung, LONG_BURST + 1);
    }
    MT_CHECK(on ? rung > LONG_BURST / 4 : 0 == rung, "%llu of %d calls were rung for", (unsigned long long)rung,
             LONG_BURST + 1);
    MT_CHECK(rung <= mt_served(MPI_COMM_WORLD), "more calls were rung for than served");
}

/* How many integers a rank has for another in a call. */
static int count_of(int call, int from, int to)
{
    return (int)(mt_mix((uint64_t)call, (uint64_t)from, (uint64_t)to) % (uint64_t)(list_max + 1));
}

/* Integer `i` of a rank's input. */
static int value_of(int call, int from, int i)
{
    return call * 100000 + from * 1000 + i % 997;
}

/* The calls are by turns all-to-alls, all-gathers and reduce-scatters; the places of blocks are `skip` and more. */
static void make_call(int call, int skip)
{
    int send[LIST_RANKS], recv[LIST_RANKS], places[LIST_RANKS];

    for (int rank = 0; rank < mt_size; ++rank) {
        send[rank] = 2 == call % 3 ? count_of(call, 0, rank) : count_of(call, mt_rank, rank);
        recv[rank] = 1 == call % 3 ? count_of(call, rank, 0) : count_of(call, rank, mt_rank);
        places[rank] = skip + LIST_PITCH * rank;
    }
    if (0 == call % 3) {
        MT_MPI(MPI_Alltoallv(buffers[0], send, places, MPI_INT, buffers[1], recv, places, MPI_INT, MPI_COMM_WORLD));
    } else if (1 == call % 3) {
        MT_MPI(MPI_Allgatherv(buffers[0], count_of(call, mt_rank, 0), MPI_INT, buffers[1], recv, places, MPI_INT,
                              MPI_COMM_WORLD));
    } else {
        MT_MPI(MPI_Reduce_scatter(buffers[0], buffers[1], send, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    }
}

/* Writes what the call has to store into the image of the output. */
static void store_wanted(int call, int skip, int *output)
{
    int begin = 0;

    for (int rank = 0; rank < mt_rank; ++rank) {
        begin += count_of(call, 0, rank);
    }
    for (int rank = 0; rank < mt_size; ++rank) {
        const int count = 0 == call % 3   ? count_of(call, rank, mt_rank)
                          : 1 == call % 3 ? count_of(call, rank, 0)
                                          : count_of(call, 0, mt_rank);
        for (int i = 0; i < count; ++i) {
            if (2 == call % 3) {
                output[i] = (0 == rank ? 0 : output[i]) + value_of(call, rank, begin + i);
            } else {
                output[skip + LIST_PITCH * rank + i] =
                    value_of(call, rank, 0 == call % 3 ? skip + LIST_PITCH * mt_rank + i : i);
            }
        }
    }
}

static void test_lists(void)
{
    static int input[ROOM], output[ROOM], wanted[ROOM];
    const uint64_t before = mt_rung(MPI_COMM_WORLD);

    for (int call = 0; call < LIST_CALLS; ++call) {
        const int skip = 0 == call / 3 % 3 ? LIST_FAR : 0;

        for (int i = 0; i < ROOM; ++i) {
            input[i] = value_of(call, mt_rank, i);
        }
        memset(wanted, -1, sizeof(wanted));
        mt_buffer_put(&memory[0], input, sizeof(input));
        mt_buffer_put(&memory[1], wanted, sizeof(wanted));
        make_call(call, skip);
        store_wanted(call, skip, wanted);
        mt_buffer_get(&memory[1], output, sizeof(output));
        MT_CHECK(0 == memcmp(output, wanted, sizeof(output)), "the output of call %d is wrong", call);
    }
    MT_CHECK(mt_rung(MPI_COMM_WORLD) - before > LIST_CALLS / 4, "%llu of %d calls were rung for",
             (unsigned long long)(mt_rung(MPI_COMM_WORLD) - before), LIST_CALLS);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    double limit = argc > 2 ? atof(argv[2]) : 0;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (0 != strcmp(what, "off") && mt_too_crowded(1)) {
        (void)mt_finish();
        return MT_SKIPPED;
    }
    for (int i = 0; i < 2; ++i) {
        memory[i] = mt_buffer_alloc(MT_DEVICE, ROOM * sizeof(int), 0);
        mt_buffer_set(&memory[i], 0);
        buffers[i] = (int *)(void *)memory[i].data;
    }
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    if (0 == strcmp(what, "waits") && limit > 0) {
        test_waits(limit);
    } else if (0 == strcmp(what, "gaps") && limit > 0) {
        test_gaps(limit);
    } else if (0 == strcmp(what, "rings") || 0 == strcmp(what, "off")) {
        test_rings(0 == strcmp(what, "rings"));
    } else if (0 == strcmp(what, "lists") || 0 == strcmp(what, "wide")) {
        list_max = 0 == strcmp(what, "wide") ? LIST_WIDE_MAX : LIST_MAX;
        test_lists();
    } else {
        MT_CHECK(false, "usage: test_linger rings|lists|wide|off, or waits|gaps MICROSECONDS");
    }
    MT_MPI(MPI_Comm_free(&second));
    for (int i = 0; i < 2; ++i) {
        mt_buffer_free(&memory[i], "buffer");
    }
    return mt_finish();
}
