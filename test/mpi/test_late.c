/*
 * The last rank comes late to a call.
 * Usage: test_late warn SECONDS:    the call ends well; the runner looks for the warning that names the rank
 *        test_late timeout SECONDS: coll_mscclpp_timeout is shorter: the others get an error within SECONDS, and so
 * does the late rank; the communicator, whose name has control characters, stays broken, others go on working, and so
 * do those that come after its end. A third argument "first" makes the late call the first of its communicator. A
 * fourth one names another collective than all-reduce, which is called until it fails. test_late killed SECONDS: like
 * "timeout", but the last rank ends by SIGKILL in place of the call. mpirun has to let the others go on; they say that
 * they have ended well, and leave without MPI_Finalize. test_late killed SECONDS within|amid INTS: the last rank ends
 * by SIGKILL while kernels run, "within" a call that the others have not begun, or "amid" calls back to back of so many
 * ints. The others' call must end with an error within SECONDS. Where MPS serves the ranks of a GPU, those on
 * communicators without the dead rank may end with an error, too, and nothing may hang; each rank prints what it saw.
 *        test_late killed SECONDS waiting COLLECTIVE RANK MILLISECONDS: the last rank comes late, by SECONDS, and
 * another one ends by SIGKILL after so many milliseconds, while it waits; those that are left end as with "killed
 * SECONDS". With a further argument the last rank comes after so many seconds, and then waits with the others for the
 * dead one; with the word "first" after that, in the first call of its communicator. test_late aborted SECONDS: the
 * last rank calls MPI_Abort in place of the call, after so many seconds test_late stopped SECONDS first: the last rank
 * is stopped between the two messages of a set-up over a tree, which is longer than SECONDS; rank 0, which sends it the
 * second one, must not wait for it test_late freed SECONDS: rank 0 comes so many seconds late to the last call of a
 * communicator, which is then freed; Open MPI must not take what was meant for it for messages of later, smaller
 * communicators test_late spawned SECONDS: like "timeout", with a process started anew, on several communicators, of
 * which some are left to MPI_Finalize test_late timeout SECONDS amid: the last rank stays for SECONDS amid one of many
 * calls With MSCCLPP_TEST_REVERSED in the environment, the communicator has the ranks in reverse, so its rank 0 is
 * late. If the environment has MSCCLPP_TEST_MESSAGES, all ranks together send at most so many messages about the late
 * rank.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

#define CALLS_ON_BROKEN 3
#define BROKEN_SECONDS 1.9 /* a call on a broken communicator takes less: deadlines are 2 s or more */

#define INTS 100
#define AMID_INTS (1 << 22) /* so that nearly all of the time passes within the call proper */
#define AMID_AFTER 50       /* ms */
#define UNWRITTEN (-1)      /* no sum of what the ranks send */

static const char *const colls[] = {"allreduce", "bcast",     "reduce",
                                    "gather",    "scatter",   "allgather",
                                    "alltoall",  "alltoallv", "reduce_scatter_block",
                                    "scan",      "gatherv",   "scatterv"};
enum { COLLS = sizeof(colls) / sizeof(colls[0]), RANKS_MAX = 128 };

static bool reversed; /* the communicator's rank 0 is the late one, in place of the last rank */
static int coll;      /* what is called, by number in `colls` */

/* Calls the collective. Both buffers have `count` ints for each rank. */
static int call_coll(MPI_Comm comm, void *send, void *recv, int count)
{
    int counts[RANKS_MAX], firsts[RANKS_MAX], size, i;

    MPI_Comm_size(comm, &size);
    for (i = 0; i < size && i < RANKS_MAX; ++i) {
        counts[i] = count;
        firsts[i] = i * count;
    }
    switch (coll) {
    case 0:
        return MPI_Allreduce(send, recv, count, MPI_INT, MPI_SUM, comm);
    case 1:
        return MPI_Bcast(recv, count, MPI_INT, 0, comm);
    case 2:
        return MPI_Reduce(send, recv, count, MPI_INT, MPI_SUM, 0, comm);
    case 3:
        return MPI_Gather(send, count, MPI_INT, recv, count, MPI_INT, 0, comm);
    case 4:
        return MPI_Scatter(send, count, MPI_INT, recv, count, MPI_INT, size - 1, comm);
    case 5:
        return MPI_Allgather(send, count, MPI_INT, recv, count, MPI_INT, comm);
    case 6:
        return MPI_Alltoall(send, count, MPI_INT, recv, count, MPI_INT, comm);
    case 7:
        return MPI_Alltoallv(send, counts, firsts, MPI_INT, recv, counts, firsts, MPI_INT, comm);
    case 8:
        return MPI_Reduce_scatter_block(send, recv, count, MPI_INT, MPI_SUM, comm);
    case 10:
        return MPI_Gatherv(send, count, MPI_INT, recv, counts, firsts, MPI_INT, 0, comm);
    case 11:
        return MPI_Scatterv(send, counts, firsts, MPI_INT, recv, count, MPI_INT, 0, comm);
    default:
        return MPI_Scan(send, recv, count, MPI_INT, MPI_SUM, comm);
    }
}

static int reduce(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv, int count, double *seconds_p)
{
    double start = mt_now();
    int code = call_coll(comm, send->data, recv->data, count);

    *seconds_p = mt_now() - start;
    return code;
}

/* Finds the collective that the command line names. */
static void find_coll(const char *name)
{
    for (coll = 0; coll < COLLS && 0 != strcmp(colls[coll], name); ++coll) {
    }
    if (COLLS == coll || mt_size > RANKS_MAX) {
        fprintf(stderr, "test_late: %s: no such collective, or more than %d ranks\n", name, RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* After that time, and each millisecond from then on. */
static void after(void (*handler)(int), int milliseconds)
{
    struct sigaction action = {.sa_handler = handler};
    struct itimerval timer = {.it_value = {.tv_sec = milliseconds / 1000, .tv_usec = 1000 * (milliseconds % 1000)},
                              .it_interval = {.tv_usec = 1000}};

    MT_CHECK(0 == sigaction(SIGALRM, &action, NULL) && 0 == setitimer(ITIMER_REAL, &timer, NULL), "no timer");
}

/* One call of a collective that moves data, with its result. */
static void move(MPI_Comm comm, int turn)
{
    const size_t ints = (size_t)INTS * (size_t)mt_size;
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(int) * ints, 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(int) * ints, 0);
    int *values = mt_host_alloc(sizeof(int) * ints);

    for (size_t i = 0; i < ints; ++i) {
        values[i] = mt_rank * 1000 + turn;
    }
    mt_buffer_put(&send, values, sizeof(int) * ints);
    MT_MPI(call_coll(comm, send.data, recv.data, INTS));
    mt_buffer_get(&recv, values, sizeof(int) * ints);
    for (size_t i = 0; i < ints; ++i) {
        const int from = reversed ? mt_size - 1 - (int)i / INTS : (int)i / INTS;
        MT_CHECK(values[i] == from * 1000 + turn, "turn %d: element %zu is %d", turn, i, values[i]);
    }
    free(values);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
}

/* Checks the number of messages that all ranks have sent about late ranks and failures, if there is a limit. */
static void check_messages(void)
{
    const char *limit = getenv("MSCCLPP_TEST_MESSAGES");
    const int own = (int)mt_counter("messages");
    int *all = mt_host_alloc(sizeof(own) * (size_t)mt_size), total = 0;

    mt_allgather(MPI_COMM_WORLD, &own, all, sizeof(own));
    for (int i = 0; i < mt_size; ++i) {
        total += all[i];
    }
    MT_CHECK(0 != mt_rank || limit == NULL || total <= atoi(limit), "%d messages, more than %s", total, limit);
    if (0 == mt_rank && limit != NULL) {
        printf("note: %d messages about late ranks\n", total);
    }
    free(all);
}

/* The last rank is late by some seconds, so that a warning names it. */
static void warn(MPI_Comm comm, int seconds)
{
    mt_call_t call = mt_call(comm, 1000, 5);

    if (mt_rank == mt_size - 1) {
        sleep((unsigned)seconds);
    }
    if (0 == coll) {
        mt_verify(&call);
    } else {
        for (int i = 0; i < 3; ++i) {
            move(comm, i);
        }
    }
}

typedef enum { COMES_LATE, STAYS_AMID, IS_KILLED } fate_t;

static unsigned comes_after;         /* seconds after which the last rank comes; 0: after those of the test */
static unsigned stays;               /* seconds */
static volatile sig_atomic_t stayed; /* the last rank has stayed */
static volatile int *written;        /* on the twin: the last rank's results */

/*
 * On the twin, waits for a moment when the first result is written and half of them are not, so that the other ranks
 * still need this one's operands. Near the end of a call, or between two calls, the others would wait in the comparison
 * of the next one. On GPUs nearly all moments are amid a call.
 */
static void stay(int signal)
{
    const struct itimerval none = {.it_value = {.tv_sec = 0}};

    (void)signal;
    if (written == NULL || (UNWRITTEN != written[0] && UNWRITTEN == written[AMID_INTS / 2])) {
        stayed = 1;
        (void)setitimer(ITIMER_REAL, &none, NULL);
        (void)sleep(stays);
    }
}

static void time_out(MPI_Comm comm, int seconds, fate_t fate)
{
    const int count = STAYS_AMID == fate ? AMID_INTS : INTS;
    const size_t blocks = 0 == coll ? 1 : (size_t)mt_size;
    const bool repeats = STAYS_AMID == fate || 0 != coll;
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(int) * (size_t)count * blocks, 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(int) * (size_t)count * blocks, 0);
    int rank, size, code;
    double took, start;
    bool late;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    late = rank == (reversed ? 0 : size - 1);
    mt_buffer_set(&send, 0);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (late && IS_KILLED == fate) {
        (void)raise(SIGKILL);
    }
    if (late && COMES_LATE == fate) {
        sleep(comes_after > 0 ? comes_after : (unsigned)seconds);
    }
    if (late && STAYS_AMID == fate) {
        stays = (unsigned)seconds;
        written = mt_twin ? (int *)(void *)recv.data : NULL;
        after(stay, AMID_AFTER);
    }
    start = mt_now();
    do {
        if (written != NULL) {
            written[0] = UNWRITTEN; /* first: between the two, no result may seem to be written */
            written[AMID_INTS / 2] = UNWRITTEN;
        }
        code = reduce(comm, &send, &recv, count, &took);
    } while (repeats && MPI_SUCCESS == code && mt_now() - start < 2 * seconds);
    written = NULL;
    MT_CHECK(!late || STAYS_AMID != fate || stayed, "the last rank was never amid a call");
    MT_CHECK((late && COMES_LATE == fate) || MPI_SUCCESS != code,
             "the call succeeded although its deadline had passed");
    MT_CHECK(took < seconds || (late && STAYS_AMID == fate), "the call took %.1f s", took);
    for (int i = 0; i < CALLS_ON_BROKEN; ++i) {
        code = reduce(comm, &send, &recv, INTS, &took);
        MT_CHECK(MPI_SUCCESS != code, "a call on the broken communicator succeeded");
        MT_CHECK(took < BROKEN_SECONDS, "a call on the broken communicator took %.1f s", took);
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
}

/* Ends the program well if all ranks of `rest` have no failures; what MPI_Finalize would wait for is dead. */
static void __attribute__((noreturn)) leave(MPI_Comm rest)
{
    int *all = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    int own = mt_failures(), rank, size, total = 0;

    MPI_Comm_rank(rest, &rank);
    MPI_Comm_size(rest, &size);
    mt_allgather(rest, &own, all, sizeof(own));
    for (int i = 0; i < size; ++i) {
        total += all[i];
    }
    if (0 == rank && 0 == total) {
        printf("all that are left have ended well\n");
    }
    fflush(stdout);
    _exit(0 != total);
}

/* Who is left goes on with communicators that the dead rank is not in. */
static void die_and_go_on(MPI_Comm comm, int seconds)
{
    mt_call_t call;
    MPI_Comm rest;

    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank == mt_size - 1, 0, &rest));
    call = mt_call(rest, 1000, 1);
    mt_verify(&call);
    time_out(comm, seconds, IS_KILLED);
    call = mt_call(rest, 1000, 2);
    mt_verify(&call);
    leave(rest);
}

#define KILLED_AFTER 300 /* ms */
#define GOING_ON 20      /* calls of who is left */

static void kill_self(int signal)
{
    (void)signal;
    (void)kill(getpid(), SIGKILL);
}

/* The last rank comes late, so that all others wait for it; `victim` dies meanwhile. */
static void __attribute__((noreturn)) die_waiting(MPI_Comm comm, int seconds, int victim, int milliseconds)
{
    MPI_Comm rest;

    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank == victim, 0, &rest));
    mt_barrier(MPI_COMM_WORLD);
    if (mt_rank == victim) {
        after(kill_self, milliseconds);
    }
    time_out(comm, seconds, COMES_LATE);
    leave(rest);
}

typedef struct {
    mt_buffer_t send;
    mt_buffer_t recv;
    int *values;
    int count;
} busy_t;

static int call_busy(busy_t *busy, MPI_Comm comm, double *longest)
{
    double start = mt_now(), took;
    int code = MPI_Allreduce(busy->send.data, busy->recv.data, busy->count, MPI_INT, MPI_SUM, comm);

    took = mt_now() - start;
    *longest = took > *longest ? took : *longest;
    return code;
}

/* Calls of who is left, on a communicator of theirs; returns how many ended well. Their results must be right. */
static int go_on(busy_t *busy, MPI_Comm rest, double *longest)
{
    const size_t bytes = sizeof(int) * (size_t)busy->count;
    int size, i, k;

    MPI_Comm_size(rest, &size);
    for (i = 0; i < GOING_ON; ++i) {
        for (k = 0; k < busy->count; ++k) {
            busy->values[k] = i + k % 1000;
        }
        if (!mt_buffer_try_put(&busy->send, busy->values, bytes) || MPI_SUCCESS != call_busy(busy, rest, longest) ||
            !mt_buffer_try_get(&busy->recv, busy->values, bytes)) {
            break;
        }
        for (k = 0; k < busy->count && busy->values[k] == size * (i + k % 1000); ++k) {
        }
        MT_CHECK(k == busy->count, "call %d without the dead rank succeeded with a wrong element %d", i, k);
    }
    return i;
}

static void __attribute__((noreturn)) die_while_busy(MPI_Comm comm, int seconds, bool within, int count)
{
    const size_t bytes = sizeof(int) * (size_t)count;
    busy_t busy = {.count = count, .values = mt_host_alloc(bytes)};
    char text[MPI_MAX_ERROR_STRING];
    double start, since, longest = 0, longest_rest = 0;
    int calls = 0, code, going, length;
    MPI_Comm rest;

    busy.send = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    busy.recv = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    mt_buffer_set(&busy.send, 0);
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank == mt_size - 1, 0, &rest));
    MT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MT_MPI(MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN));
    (void)call_busy(&busy, comm, &longest);
    MT_CHECK(GOING_ON == go_on(&busy, rest, &longest), "a call failed while all ranks were alive");
    mt_barrier(MPI_COMM_WORLD);
    longest = 0;
    start = mt_now();
    if (mt_rank == mt_size - 1) {
        after(kill_self, KILLED_AFTER);
    } else if (within) {
        usleep(2 * 1000 * KILLED_AFTER);
    }
    do {
        code = call_busy(&busy, comm, &longest);
        ++calls;
    } while (MPI_SUCCESS == code && mt_now() - start < seconds);
    since = mt_now() - start - 1e-3 * KILLED_AFTER;
    MT_CHECK(MPI_SUCCESS != code, "%d calls have succeeded, the last of them long after a rank was killed", calls);
    MT_CHECK(longest < seconds, "a call took %.1f s", longest);
    MPI_Error_string(code, text, &length);
    longest = 0;
    MT_CHECK(MPI_SUCCESS != call_busy(&busy, comm, &longest), "a call on the broken communicator succeeded");
    MT_CHECK(longest < BROKEN_SECONDS, "a call on the broken communicator took %.1f s", longest);
    mt_barrier(rest); /* so that nobody is late */
    going = go_on(&busy, rest, &longest_rest);
    MT_CHECK(mt_under_mps() || GOING_ON == going, "only %d of %d calls without the dead rank succeeded", going,
             GOING_ON);
    MT_CHECK(longest_rest < seconds, "a call without the dead rank took %.1f s", longest_rest);
    printf("note: rank %d: call %d failed %.1f s after the kill: %s; then %d of %d calls without the dead rank "
           "succeeded\n",
           mt_rank, calls, since, text, going, GOING_ON);
    leave(rest);
}

/* The last rank calls MPI_Abort while the others wait for it in a call, which must not end before they are ended. */
static void abort_job(MPI_Comm comm, int seconds)
{
    mt_call_t call = mt_call(comm, 1000, 2);

    if (mt_rank == mt_size - 1) {
        (void)sleep((unsigned)seconds);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    mt_verify(&call);
    MT_CHECK(false, "the call has ended");
}

/*
 * The last rank, a child of rank 0 in the tree, has sent its part, and is stopped while rank 0 still waits for rank 1.
 * Rank 1 lets it go on once the deadline of all others has passed.
 */
static void stop_child(MPI_Comm comm, int seconds)
{
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(int) * INTS, 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(int) * INTS, 0);
    int *pids = mt_host_alloc(sizeof(int) * (size_t)mt_size), own = (int)getpid(), code;
    const double start = mt_now();
    double took;

    MT_CHECK(9 == mt_size, "%d ranks; this test takes 9", mt_size);
    MT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    mt_buffer_set(&send, 0);
    mt_allgather(MPI_COMM_WORLD, &own, pids, sizeof(own));
    if (1 == mt_rank) {
        (void)sleep(1);
        MT_CHECK(0 == kill(pids[mt_size - 1], SIGSTOP), "rank %d cannot be stopped", mt_size - 1);
        (void)sleep(1);
    }
    code = reduce(comm, &send, &recv, INTS, &took);
    MT_CHECK(MPI_SUCCESS != code, "the call succeeded without a rank");
    MT_CHECK(took < seconds || mt_size - 1 == mt_rank, "the call took %.1f s", took);
    if (1 == mt_rank) {
        while (mt_now() - start < seconds + 3) {
            (void)usleep(100000);
        }
        MT_CHECK(0 == kill(pids[mt_size - 1], SIGCONT), "rank %d cannot go on", mt_size - 1);
    }
    free(pids);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
}

#define DUPLICATES 3

/* What was given up holds up nobody who disconnects from the other job, which MPI_Finalize does of itself. */
static void with_other_job(MPI_Comm inter, int high, int seconds)
{
    MPI_Comm merged, comms[DUPLICATES];

    MT_MPI(MPI_Intercomm_merge(inter, high, &merged));
    for (int i = 0; i < DUPLICATES; ++i) {
        MT_MPI(MPI_Comm_dup(merged, &comms[i]));
    }
    for (int i = 0; i < DUPLICATES; ++i) {
        time_out(comms[i], seconds, COMES_LATE);
        mt_barrier(merged);
    }
    MT_MPI(MPI_Comm_free(&comms[0]));
    MT_MPI(MPI_Comm_free(&comms[1]));
}

static int spawned(const char *program, MPI_Comm parents, int seconds)
{
    char option[] = "spawned", number[16];
    char *arguments[] = {option, number, NULL};
    int error;

    snprintf(number, sizeof(number), "%d", seconds);
    if (MPI_COMM_NULL == parents) {
        MT_MPI(MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parents, &error));
        with_other_job(parents, 0, seconds);
    } else {
        with_other_job(parents, 1, seconds);
    }
    return mt_finish();
}

/*
 * Rank 0 comes late to the last call of a communicator. The next communicators have the same number in Open MPI, and
 * fewer ranks.
 */
static void free_at_once(int seconds)
{
    MPI_Comm comm, part;
    mt_call_t call;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    call = mt_call(comm, 1, 4);
    mt_verify(&call);
    mt_barrier(MPI_COMM_WORLD);
    if (0 == mt_rank) {
        (void)sleep((unsigned)seconds);
    }
    mt_verify(&call);
    MT_MPI(MPI_Comm_free(&comm));
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank < 2 ? 0 : 1, 0, &part));
    mt_barrier(part);
    MT_MPI(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    MPI_Comm parents;
    bool first = (argc > 3 && 0 == strcmp(argv[3], "first")) || (argc > 8 && 0 == strcmp(argv[8], "first")), waits;
    int seconds = argc > 2 ? atoi(argv[2]) : 3;
    mt_call_t call;
    MPI_Comm comm;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_get_parent(&parents);
    if (argc > 1 && 0 == strcmp(argv[1], "spawned")) {
        return spawned(argv[0], parents, seconds);
    }
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    reversed = getenv("MSCCLPP_TEST_REVERSED") != NULL;
    (void)mt_counter("messages"); /* from now on */
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, reversed ? -mt_rank : mt_rank, &comm));
    MT_MPI(MPI_Comm_set_name(comm, "\033[31mred\a"));
    call = mt_call(first ? MPI_COMM_WORLD : comm, 1000, 1);
    mt_verify(&call);
    waits = argc > 6 && 0 == strcmp(argv[3], "waiting");
    comes_after = waits && argc > 7 ? (unsigned)atoi(argv[7]) : 0;
    if (argc > 4 && (0 != strcmp(argv[1], "killed") || 0 == strcmp(argv[3], "first") || waits)) {
        find_coll(argv[4]);
    }
    if (argc > 1 && 0 == strcmp(argv[1], "timeout")) {
        time_out(comm, seconds, argc > 3 && 0 == strcmp(argv[3], "amid") ? STAYS_AMID : COMES_LATE);
    } else if (waits) {
        die_waiting(comm, seconds, atoi(argv[5]), atoi(argv[6]));
    } else if (argc > 4 && 0 == coll && 0 == strcmp(argv[1], "killed")) {
        die_while_busy(comm, seconds, 0 == strcmp(argv[3], "within"), atoi(argv[4]));
    } else if (argc > 1 && 0 == strcmp(argv[1], "killed")) {
        die_and_go_on(comm, seconds);
    } else if (argc > 1 && 0 == strcmp(argv[1], "freed")) {
        free_at_once(seconds);
    } else if (argc > 1 && 0 == strcmp(argv[1], "aborted")) {
        abort_job(comm, seconds);
    } else if (argc > 1 && 0 == strcmp(argv[1], "stopped")) {
        stop_child(comm, seconds);
    } else {
        warn(comm, seconds);
    }
    mt_barrier(MPI_COMM_WORLD);
    check_messages();
    call = mt_call(MPI_COMM_WORLD, 1000, 2);
    mt_verify(&call);
    MT_MPI(MPI_Comm_free(&comm));
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    call = mt_call(comm, 1000, 3);
    mt_verify(&call);
    MT_MPI(MPI_Comm_free(&comm));
    return mt_finish();
}
