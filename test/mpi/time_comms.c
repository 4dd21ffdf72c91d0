/*
 * What communicators cost: the time of MPI_Comm_dup, of the first two all-reduces of a device buffer and of
 * MPI_Comm_free, and what the process holds besides while they are there. Usage: time_comms [COUNT], 8 by default.
 *
 * Where ranks outnumber the processors, or share them with other jobs, the processors' time tells more than the time
 * that passes: it is what all ranks take together, waits included. Page faults do not depend on other jobs at all.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tools/bench/bench_cuda.h"
#include "test/mpi/mpi_test.h"

#define COUNT_MAX 1024

typedef enum { DUP, FIRST, SECOND, FREE, PHASES } phase_t;

typedef struct {
    long descriptors;
    long kib;        /* resident, that of other processes included where it is shared */
    long device_kib; /* of the device, used by whomever */
} usage_t;

static long status_line(const char *key)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long value = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            value = strtol(line + strlen(key), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

static usage_t measure(void)
{
    typedef int (*memory_fn_t)(size_t * free_p, size_t * total_p);
    usage_t usage = {0, status_line("VmRSS:"), 0};
    DIR *directory = opendir("/proc/self/fd");
    size_t free_bytes = 0, total = 0;

    while (directory != NULL && readdir(directory) != NULL) {
        ++usage.descriptors;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (!mt_twin) {
        memory_fn_t memory = (memory_fn_t)bench_cuda_find("cuMemGetInfo_v2");
        MT_CHECK(memory != NULL && memory(&free_bytes, &total) == 0,
                 "the driver does not tell how much memory is free");
        usage.device_kib = (long)((total - free_bytes) / 1024);
    }
    return usage;
}

/*
 * What a phase takes: milliseconds of the slowest rank and, for each rank on average, milliseconds of a processor and
 * page faults that read no file.
 */
enum { SLOWEST, PROCESSOR, FAULTS, MEASURES };
typedef struct {
    double of[MEASURES];
} spent_t;

static double processor_time(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns what this rank has spent so far; of the time, only differences mean something. */
static spent_t spent_so_far(void)
{
    struct rusage usage = {.ru_minflt = 0};

    (void)getrusage(RUSAGE_SELF, &usage);
    return (spent_t){{1e3 * mt_now(), 1e3 * processor_time(), (double)usage.ru_minflt}};
}

/* Begins to measure: *started becomes what spent_since starts from. */
static void begin(spent_t *started)
{
    mt_barrier(MPI_COMM_WORLD);
    *started = spent_so_far();
}

/* What a phase has taken since `started`. Asks no collective, which would set MPI_COMM_WORLD up on the twin. */
static spent_t spent_since(const spent_t *started)
{
    spent_t own = spent_so_far(), all = {{0}};
    spent_t *each = mt_host_alloc((size_t)mt_size * sizeof(*each));

    for (int i = 0; i < MEASURES; ++i) {
        own.of[i] -= started->of[i];
    }
    mt_allgather(MPI_COMM_WORLD, &own, each, sizeof(own));
    for (int rank = 0; rank < mt_size; ++rank) {
        const double *of = each[rank].of;

        all.of[SLOWEST] = of[SLOWEST] > all.of[SLOWEST] ? of[SLOWEST] : all.of[SLOWEST];
        all.of[PROCESSOR] += of[PROCESSOR] / mt_size;
        all.of[FAULTS] += of[FAULTS] / mt_size;
    }
    free(each);
    return all;
}

/* Adds 1 / count of what has been spent. */
static void add(spent_t *sum_p, const spent_t *spent, long count)
{
    for (int i = 0; i < MEASURES; ++i) {
        sum_p->of[i] += spent->of[i] / (double)count;
    }
}

/*
 * One line of the table for the first communicator, and one for the others. Times come with the ratio that says what a
 * first call takes; MPI_Comm_dup may have no page fault to compare with.
 */
static void print(const char *title, const spent_t *first, const spent_t *rest, int measure)
{
    const spent_t *const rows[] = {first, rest};
    static const char *const names[] = {"first communicator", "the others"};

    printf("%-24s     dup   first call   second call   free%s\n", title,
           measure == FAULTS ? "" : "   first call / dup");
    for (int i = 0; i < 2; ++i) {
        double value[PHASES];

        for (int phase = DUP; phase < PHASES; ++phase) {
            value[phase] = rows[i][phase].of[measure];
        }
        printf("%-20s   %9.2f   %10.2f   %11.3f   %6.2f", names[i], value[DUP], value[FIRST], value[SECOND],
               value[FREE]);
        if (measure != FAULTS) {
            printf("   %16.1f", value[FIRST] / value[DUP]);
        }
        printf("\n");
    }
}

static void sum(MPI_Comm comm, mt_buffer_t *buffer)
{
    double value = 1.0;

    mt_buffer_put(buffer, &value, sizeof(value));
    MT_MPI(MPI_Allreduce(MPI_IN_PLACE, buffer->data, 1, MPI_DOUBLE, MPI_SUM, comm));
    mt_buffer_get(buffer, &value, sizeof(value));
    MT_CHECK(value == mt_size, "the sum of %d ones is %g", mt_size, value);
}

int main(int argc, char **argv)
{
    static MPI_Comm comms[COUNT_MAX];
    spent_t took[PHASES], first[PHASES], rest[PHASES] = {{{0}}}, start;
    mt_buffer_t buffer;
    usage_t before, after;
    long count = 8;

    if (argc > 1) {
        char *end;
        errno = 0;
        count = strtol(argv[1], &end, 10);
        if (*end != '\0' || errno != 0 || count < 2 || count > COUNT_MAX) {
            fprintf(stderr, "time_comms: \"%s\" is not allowed; use 2 to %d\n", argv[1], COUNT_MAX);
            return 2;
        }
    }
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    buffer = mt_buffer_alloc(MT_DEVICE, sizeof(double), 0);
    before = measure();
    for (long i = 0; i < count; ++i) {
        begin(&start);
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        took[DUP] = spent_since(&start);
        for (int phase = FIRST; phase <= SECOND; ++phase) {
            begin(&start);
            sum(comms[i], &buffer);
            took[phase] = spent_since(&start);
        }
        for (int phase = DUP; phase <= SECOND; ++phase) {
            if (i == 0) {
                first[phase] = took[phase];
            } else {
                add(&rest[phase], &took[phase], count - 1);
            }
        }
        if (i == 0) {
            after = measure();
            if (mt_rank == 0) {
                printf("the first communicator: %ld descriptors, %ld KiB resident, %ld KiB of the device\n",
                       after.descriptors - before.descriptors, after.kib - before.kib,
                       after.device_kib - before.device_kib);
            }
            before = after;
        }
    }
    after = measure();
    for (long i = 0; i < count; ++i) {
        begin(&start);
        MT_MPI(MPI_Comm_free(&comms[i]));
        took[FREE] = spent_since(&start);
        if (i == 0) {
            first[FREE] = took[FREE];
        } else {
            add(&rest[FREE], &took[FREE], count - 1);
        }
    }
    if (mt_rank == 0) {
        printf("each further one: %.1f descriptors, %.0f KiB resident, %.0f KiB of the device\n",
               (double)(after.descriptors - before.descriptors) / (double)(count - 1),
               (double)(after.kib - before.kib) / (double)(count - 1),
               (double)(after.device_kib - before.device_kib) / (double)(count - 1));
        print("ms of the slowest rank", first, rest, SLOWEST);
        print("ms of a processor a rank", first, rest, PROCESSOR);
        print("page faults of a rank", first, rest, FAULTS);
    }
    MT_CHECK(mt_served(MPI_COMM_WORLD) > 0, "kernels served no call");
    mt_buffer_free(&buffer, "time_comms");
    return mt_finish();
}
