/*
 * A process without a collective in flight uses no CPU time, whatever its communicators have set up: before the first
 * call, after calls of several sizes on two communicators, after nonblocking ones, and after their end.
 * Usage: test_idle [SECONDS]: how long each of these rests takes (default 1)
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

/* Of the rest. A thread that polls takes its share of a processor; one that wakes up now and then stays below. */
#define CPU_SHARE_MAX 0.01

/* Kernels that linger leave within this time. */
#define SETTLE_NS 50000000

static double cpu_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void pause_for(double seconds)
{
    struct timespec rest = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};

    while (0 != nanosleep(&rest, &rest)) {
    }
}

/* First line of a file of this process' thread `name`; empty where there is none. */
static void read_line(const char *name, const char *file, char *line, int length)
{
    char path[512];
    FILE *stream;

    snprintf(path, sizeof(path), "/proc/self/task/%s/%s", name, file);
    line[0] = '\0';
    stream = fopen(path, "r");
    if (stream != NULL) {
        if (fgets(line, length, stream) == NULL) {
            line[0] = '\0';
        }
        line[strcspn(line, "\n")] = '\0';
        fclose(stream);
    }
}

/* Tells what each thread has taken so far, for whoever has to find the one that does not sleep. */
static void print_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    char name[64], time[128];
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if ('.' != entry->d_name[0]) {
            read_line(entry->d_name, "comm", name, sizeof(name));
            read_line(entry->d_name, "schedstat", time, sizeof(time));
            fprintf(stderr, "rank %d: thread %s \"%s\" has run %.1f ms\n", mt_rank, entry->d_name, name,
                    1e-6 * strtod(time, NULL));
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* Where nodes exchange and the parameter asks for it, a thread moves the proxy on, and else there is none. */
static void check_proxy(void)
{
    const bool expected = mt_parameter_is("proxy", "thread") && !mt_parameter_is("ranks_per_node", "0");
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    bool found = false;
    char name[64];

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        read_line(entry->d_name, "comm", name, sizeof(name));
        found = found || 0 == strcmp(name, "mscclpp-proxy");
    }
    if (folder != NULL) {
        closedir(folder);
    }
    MT_CHECK(expected == found, "a proxy's thread is %s", found ? "there" : "missing");
}

static void rest(double seconds, const char *when)
{
    double used;

    mt_barrier(MPI_COMM_WORLD);
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
    used = cpu_seconds();
    pause_for(seconds);
    used = cpu_seconds() - used;
    MT_CHECK(used <= CPU_SHARE_MAX * seconds, "%s: %.1f ms of CPU time in %.1f s of sleep", when, 1e3 * used, seconds);
    if (used > CPU_SHARE_MAX * seconds) {
        print_threads();
    }
    if (0 == mt_rank) {
        printf("%s: %.2f ms of CPU time in %.1f s of sleep\n", when, 1e3 * used, seconds);
    }
}

/* Calls that return before their end. */
static void start_and_end(MPI_Comm comm)
{
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, 4096, 0), recv = mt_buffer_alloc(MT_DEVICE, 4096, 0);
    MPI_Request request;

    mt_buffer_set(&send, 1);
    for (int i = 0; i < 3; ++i) {
        MT_MPI(MPI_Iallreduce(send.data, recv.data, 1024, MPI_INT, MPI_MAX, comm, &request));
        MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    mt_buffer_free(&send, "operand");
    mt_buffer_free(&recv, "result");
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 1000, 100000, 3000000};
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1.0;
    MPI_Comm comms[2];

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (!(seconds > 0)) {
        MT_CHECK(false, "\"%s\" is not allowed; use a number of seconds above 0", argv[1]);
        return mt_finish();
    }
    rest(seconds, "before the first call");
    for (int i = 0; i < 2; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        for (int k = 0; k < 4; ++k) {
            mt_call_t call = mt_call(comms[i], counts[k], i + k);
            mt_verify(&call);
        }
        /* Small ones last, so that a kernel lingers. */
        for (int k = 0; k < 20; ++k) {
            mt_call_t call = mt_call(comms[i], 10, k);
            mt_verify(&call);
        }
    }
    MT_CHECK(1 == mt_size || mt_served(comms[0]) > 0 || mt_staged(comms[0]) > 0, "the component served no call");
    check_proxy();
    rest(seconds, "after blocking calls");
    start_and_end(comms[1]);
    rest(seconds, "after nonblocking calls");
    MT_MPI(MPI_Comm_free(&comms[0]));
    MT_MPI(MPI_Comm_free(&comms[1]));
    rest(seconds, "after the communicators");
    return mt_finish();
}
