/*
 * Marks of partitions, with the device functions of the installed headers: threads of blocks fill and mark parts, a
 * thread in place of the request's stream doubles them, and the blocks take them. So ThreadSanitizer sees both sides of
 * each access.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "test/unit/unit.h"

#define PARTS 4
#define PART 37
#define TURNS 60
#define BLOCKS 2
#define THREADS 3

typedef struct {
    mpix_partitions_t request;
    uint64_t abort;
    uint64_t report[MPIX_MSCCLPP_REPORT_WORDS];
    uint64_t marks[PARTS];
    uint64_t done[PARTS];
    long values[PARTS * PART];
    unsigned wrong;
    unsigned failed;
} work_t;

static long value_of(int turn, int i)
{
    return 1000 * turn + i;
}

static bool is_mine(const mpix_group_t *block, mpix_u32 part)
{
    return part % block->blocks == block->block;
}

static void kernel(mpix_group_t *block, void *argument)
{
    work_t *work = argument;

    for (int turn = 1; turn <= TURNS; ++turn) {
        for (mpix_u32 k = 0; k < PARTS; ++k) {
            const mpix_u32 part = (k + (mpix_u32)turn) % PARTS;

            if (is_mine(block, part)) {
                for (mpix_u32 i = block->index; i < PART; i += block->size) {
                    work->values[part * PART + i] = value_of(turn, (int)i);
                }
                mpix_pready(block, &work->request, part);
            }
        }
        for (mpix_u32 part = 0; part < PARTS; ++part) {
            if (!is_mine(block, part)) {
                continue;
            }
            if (turn % 2 == 0) {
                while (!mpix_parrived(block, &work->request, part)) {
                    mpix_pause(block);
                }
            } else if (mpix_await(block, &work->request, part) != 0) {
                __atomic_fetch_add(&work->failed, 1, __ATOMIC_RELAXED);
                return;
            }
            for (mpix_u32 i = block->index; i < PART; i += block->size) {
                const mpix_u32 other = (i + 5) % PART;

                if (work->values[part * PART + other] != 2 * value_of(turn, (int)other)) {
                    __atomic_fetch_add(&work->wrong, 1, __ATOMIC_RELAXED);
                }
            }
        }
        mpix_sync(block);
    }
}

/* As the request's stream does: waits for the mark, combines, tells. */
static void *stream(void *argument)
{
    work_t *work = argument;

    for (uint64_t turn = 1; turn <= TURNS; ++turn) {
        for (int part = 0; part < PARTS; ++part) {
            while (__atomic_load_n(&work->marks[part], __ATOMIC_ACQUIRE) < turn) {
                (void)sched_yield();
            }
            for (int i = part * PART; i < (part + 1) * PART; ++i) {
                work->values[i] *= 2;
            }
            __atomic_store_n(&work->done[part], turn, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

static void begin(work_t *work)
{
    memset(work, 0, sizeof(*work));
    work->request.head.abort = &work->abort;
    work->request.head.report = work->report;
    work->request.marks = work->marks;
    work->request.done = work->done;
    work->request.partitions = PARTS;
}

static void test_turns(void)
{
    work_t work;
    mpix_host_kernel_t call = {kernel, &work, BLOCKS, THREADS, 0};
    pthread_t thread;

    begin(&work);
    CHECK_EQ(pthread_create(&thread, NULL, stream, &work), 0);
    mpix_host_run(&call);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(call.error, 0);
    CHECK_EQ(work.wrong, 0);
    CHECK_EQ(work.failed, 0);
}

static void misused(mpix_group_t *block, void *argument)
{
    work_t *work = argument;

    mpix_pready(block, &work->request, PARTS);
    if (!mpix_failed(block)) {
        __atomic_fetch_add(&work->wrong, 1, __ATOMIC_RELAXED);
    }
    mpix_pready(block, &work->request, 1); /* the group has failed, so its data do not count as ready */
}

static void given_up(mpix_group_t *block, void *argument)
{
    work_t *work = argument;

    mpix_trigger(block, &work->request);
    if (mpix_await(block, &work->request, 0) == 0) {
        __atomic_fetch_add(&work->wrong, 1, __ATOMIC_RELAXED);
    }
}

/* A partition that is not there, and a request that is given up. */
static void test_ends(void)
{
    work_t work;
    mpix_host_kernel_t call = {misused, &work, 1, THREADS, 0};

    begin(&work);
    mpix_host_run(&call);
    CHECK_EQ(work.wrong, 0);
    CHECK_EQ(work.report[MPIX_MSCCLPP_REPORT_MISUSE], MPIX_MSCCLPP_MISUSE_MEMORY);
    CHECK_EQ(work.report[MPIX_MSCCLPP_REPORT_OFFSET], PARTS);
    CHECK_EQ(work.marks[1], 0);
    begin(&work);
    work.abort = 1;
    call.function = given_up;
    mpix_host_run(&call);
    CHECK_EQ(work.wrong, 0);
    CHECK_EQ(work.marks[0], 1);
}

int main(void)
{
    unit_begin();
    test_turns();
    test_ends();
    return unit_end();
}
