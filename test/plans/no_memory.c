/*
 * Reads, checks and simulates plans where one allocation after another fails: it must say that there is no memory, and
 * free all that it has allocated. Usage: no_memory FILE...
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/simulate.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

static long left; /* allocations until one fails; 0: none does */
static long held; /* allocations that are not freed */

static bool is_due(void)
{
    return left > 0 && --left == 0;
}

static void *count(void *memory)
{
    held += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return is_due() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t elements, size_t size)
{
    return is_due() ? NULL : count(__real_calloc(elements, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (is_due()) {
        return NULL;
    }
    return memory == NULL ? count(__real_malloc(size)) : __real_realloc(memory, size);
}

void __wrap_free(void *memory)
{
    held -= memory != NULL;
    __real_free(memory);
}

/* Proves a plan while allocation number `nth` fails. Returns whether that is told or, if none failed, it is proven. */
static bool prove(const char *path, long nth, bool *reached_p)
{
    const mscclpp_plan_sim_options_t options = {2, 1};
    mscclpp_plan_sim_stats_t stats;
    mscclpp_plan_report_t report;
    mscclpp_plan_t *plan = NULL;
    mscclpp_status_t status;
    bool is_proven, says_so;

    mscclpp_plan_report_init(&report);
    left = nth;
    status = mscclpp_plan_read(path, &report, &plan);
    is_proven = status == MSCCLPP_OK && mscclpp_plan_check(plan, &report) &&
                mscclpp_plan_simulate(plan, &options, &report, &stats);
    *reached_p = left == 0;
    left = 0;
    says_so = report.no_memory || status == MSCCLPP_ERR_NO_MEMORY;
    for (int i = 0; i < report.count; ++i) {
        held += report.finding[i].text != NULL; /* the C library has allocated it */
    }
    mscclpp_plan_free(plan);
    mscclpp_plan_report_destroy(&report);
    return *reached_p ? !is_proven && says_so : is_proven;
}

int main(int argc, char **argv)
{
    int failures = 0, tries = 0;

    for (int i = 1; i < argc; ++i) {
        bool reached = true;
        long before;

        (void)prove(argv[i], 0, &reached); /* what is allocated once and kept */
        before = held;
        reached = true;
        /* Each of the first ones, and then more and more seldom. */
        for (long nth = 1; reached && failures < 10; nth += 1 + nth / 100) {
            bool fine = prove(argv[i], nth, &reached);

            ++tries;
            if (!fine || held != before) {
                printf("FAIL  %s, allocation %ld: %s, %ld are held\n", argv[i], nth, fine ? "noticed" : "not noticed",
                       held - before);
                ++failures;
                before = held;
            }
        }
    }
    printf("%d allocations failed, %d wrongly\n", tries, failures);
    return failures > 0 || tries == 0 ? 1 : 0;
}
