/*
 * A rank ends by SIGKILL while others run queued calls, or replay a graph of them, back to back. The others get an
 * error that names the rank that is gone. Calls without that rank go on.
 *
 * Usage: test_killed queued|graph SECONDS [stops|aborts]: how long after the kill the error may come. mpirun has to let
 * the others go on. They say that they have ended well, and leave without MPI_Finalize. "stops": in place of its death
 * the rank makes no more calls, and gets an error, too. "aborts": it calls MPI_Abort.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "test/mpi/mpi_queued.h"

typedef enum { KILLED, STOPS, ABORTS } fate_t;

/* What the command line says. */
typedef struct {
    bool replays; /* a graph, in place of queued calls */
    int seconds;
    fate_t fate; /* of the last rank */
} program_t;

enum { COUNT = 20000, CALLS = 3, KILLED_AFTER = 300 /* ms */ };

static void kill_self(int signal)
{
    (void)signal;
    (void)kill(getpid(), SIGKILL);
}

static void die_later(void)
{
    struct sigaction action = {.sa_handler = kill_self};
    struct itimerval timer = {.it_value = {.tv_usec = 1000 * KILLED_AFTER}};

    MT_CHECK(0 == sigaction(SIGALRM, &action, NULL) && 0 == setitimer(ITIMER_REAL, &timer, NULL), "no timer");
}

static void queue(mq_sum_t *sum, MPI_Comm comm, void *stream, int *code_p)
{
    for (int i = 0; i < CALLS && MPI_SUCCESS == *code_p; ++i) {
        *code_p =
            MPIX_Mscclpp_allreduce_enqueue(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, comm, stream);
    }
}

/* Repeats the calls until there is an error, and returns its code; MPI_SUCCESS after some time without. */
static int repeat(mq_sum_t *sum, MPI_Comm comm, void *stream, void *graph, double until, char *text, int size)
{
    int code = MPI_SUCCESS, queued = MPI_SUCCESS;

    while (MPI_SUCCESS == code && mt_now() < until) {
        if (graph != NULL) {
            mq_graph_launch(graph, stream);
        } else {
            queue(sum, comm, stream, &queued);
        }
        mq_stream_wait(stream);
        MT_MPI(MPIX_Mscclpp_get_async_error(comm, &code, text, size));
    }
    MT_CHECK(MPI_SUCCESS == queued || MPI_SUCCESS != code, "a queued call returned %d, and there is no error", queued);
    return code;
}

/*
 * Waits until the message names the dead rank. A rank may have waited for one that itself waited, and hears of that
 * when that one has told of it.
 */
static void await_name(MPI_Comm comm, double until, char *text, int size)
{
    char name[32];
    int code;

    snprintf(name, sizeof(name), "for rank %d", mt_size - 1);
    while (strstr(text, name) == NULL && mt_now() < until) {
        usleep(1000);
        MT_MPI(MPIX_Mscclpp_get_async_error(comm, &code, text, size));
    }
    MT_CHECK(strstr(text, name) != NULL, "the error does not name rank %d: %s", mt_size - 1, text);
}

/* The calls of those that are left, on a communicator of their own. */
static void go_on(MPI_Comm rest, void *stream)
{
    const bool last = mt_rank == mt_size - 1; /* alone there */
    mq_sum_t sum;

    mq_sum_make(&sum, COUNT);
    for (int salt = 1; salt < 4; ++salt) {
        mq_sum_fill(&sum, salt);
        mq_sum_queue(&sum, rest, stream);
        mq_stream_wait(stream);
        mt_buffer_get(&sum.result, sum.host, sizeof(int) * COUNT);
        for (int i = 0; i < COUNT; ++i) {
            const int expected = last ? mq_value_of(mt_rank, i, salt) : mq_sum_of(mt_size - 1, i, salt);

            MT_CHECK(sum.host[i] == expected, "without the dead rank, integer %d is %d", i, sum.host[i]);
        }
    }
    mq_sum_free(&sum);
}

/* Ends the program well if no rank that is left has failures. */
static void __attribute__((noreturn)) leave(MPI_Comm rest)
{
    const int own = mt_failures();
    int *all = mt_host_alloc(sizeof(own) * (size_t)mt_size), failures = 0;

    mt_allgather(rest, &own, all, sizeof(own));
    for (int i = 0; i < mt_size - 1; ++i) {
        failures += all[i];
    }
    if (0 == mt_rank && 0 == failures) {
        printf("all that are left have ended well\n");
    }
    fflush(stdout);
    _exit(failures > 0);
}

/*
 * Repeats calls until they fail, and looks at the error. The last rank does its part: it dies, stops, or aborts all.
 */
static void fail(const program_t *program, MPI_Comm comm, void *stream, void *graph, mq_sum_t *sum)
{
    const bool last = mt_rank == mt_size - 1;
    const double start = mt_now(), killed = start + 1e-3 * KILLED_AFTER;
    const double until = last ? killed : start + 3 * program->seconds;
    char text[320] = "";
    double took;
    int code;

    if (last && KILLED == program->fate) {
        die_later();
    }
    code = repeat(sum, comm, stream, graph, last && KILLED == program->fate ? start + 60 : until, text, sizeof(text));
    if (last && ABORTS == program->fate) {
        printf("note: rank %d aborts\n", mt_rank);
        fflush(stdout);
        MPI_Abort(comm, 1);
    }
    while (MPI_SUCCESS == code && mt_now() < start + 3 * program->seconds) {
        MT_MPI(MPIX_Mscclpp_get_async_error(comm, &code, text, sizeof(text)));
        usleep(1000);
    }
    took = mt_now() - killed;
    MT_CHECK(MPI_SUCCESS != code, "no error long after a rank was killed");
    MT_CHECK(took < program->seconds, "the error came after %.1f s", took);
    await_name(comm, mt_now() + program->seconds, text, sizeof(text));
    printf("note: rank %d, %.1f s after the kill: %s\n", mt_rank, took, text);
}

int main(int argc, char **argv)
{
    const program_t program = {.replays = argc > 1 && 0 == strcmp(argv[1], "graph"),
                               .seconds = argc > 2 ? atoi(argv[2]) : 10,
                               .fate = argc <= 3                       ? KILLED
                                       : 0 == strcmp(argv[3], "stops") ? STOPS
                                                                       : ABORTS};
    void *stream, *graph = NULL;
    int code = MPI_SUCCESS;
    MPI_Comm comm, rest;
    mq_sum_t sum;
    double start;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(3)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    stream = mq_stream_make();
    mq_sum_make(&sum, COUNT);
    mq_sum_fill(&sum, 1);
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank == mt_size - 1, 0, &rest));
    go_on(rest, stream);
    mq_sum_queue(&sum, comm, stream);
    mq_stream_wait(stream);
    mq_sum_check(&sum, 1, "while all ranks are alive");
    if (!mt_twin && mq_asked(comm, MPIX_MSCCLPP_QUERY_QUEUED) == 0) { /* they take turns on a GPU */
        printf("skipped: calls of these ranks are not queued\n");
        MPI_Finalize();
        return MT_SKIPPED;
    }
    if (program.replays) {
        mq_capture_begin(stream);
        queue(&sum, comm, stream, &code);
        graph = mq_capture_end(stream);
    }
    MT_MPI(code);
    mt_barrier(MPI_COMM_WORLD);
    fail(&program, comm, stream, graph, &sum);
    start = mt_now();
    if (program.replays) { /* what is repeated once more ends at once */
        mq_graph_launch(graph, stream);
        mq_stream_wait(stream);
    }
    code = MPIX_Mscclpp_allreduce_enqueue(sum.send.data, sum.recv.data, 1, MPI_INT, MPI_SUM, comm, stream);
    MT_CHECK(MPI_SUCCESS != code, "a call on the failed communicator succeeded");
    MT_CHECK(mt_now() - start < 2, "calls on the failed communicator took %.1f s", mt_now() - start);
    mt_barrier(rest); /* so that nobody is late */
    go_on(rest, stream);
    if (KILLED == program.fate) {
        leave(rest);
    }
    return mt_finish();
}
