/*
 * Reads, checks and simulates plans where one allocation after another fails: it must say that there is no memory, and
 * free all that it has allocated. Usage: no_memory WRONG FILE...
 * WRONG is a plan that a simulation refuses. As other communicators may use it without one, it must stay in its
 * library.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/library.h"
#include "mca/common/plan/simulate.h"
#include "test/unit/shortage.h"

char *__wrap_strdup(const char *text);

/* The linker puts it in place of the C library's, whose allocation would not count. */
char *__wrap_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);

    return copy != NULL ? memcpy(copy, text, size) : NULL;
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
    shortage_left = nth;
    status = mscclpp_plan_read(path, &report, &plan);
    is_proven = status == MSCCLPP_OK && mscclpp_plan_check(plan, &report) &&
                mscclpp_plan_simulate(plan, &options, &report, &stats);
    *reached_p = shortage_left == 0;
    shortage_left = 0;
    says_so = report.no_memory || status == MSCCLPP_ERR_NO_MEMORY;
    for (int i = 0; i < report.count; ++i) {
        shortage_held += report.findings[i].text != NULL; /* the C library has allocated it */
    }
    mscclpp_plan_free(plan);
    mscclpp_plan_report_destroy(&report);
    return *reached_p ? !is_proven && says_so : is_proven;
}

/* Refuses the plan while one allocation after another fails. Returns the number of times that this went wrong. */
static int refuse(const char *path)
{
    bool reached = true;
    int failures = 0;

    for (long nth = 1; reached && failures < 10; ++nth) {
        mscclpp_plan_library_t *library = mscclpp_plan_library_create(path);
        mscclpp_plan_file_t *file = NULL;
        const int count = mscclpp_plan_library_load(library, &file);
        const mscclpp_plan_t *plan = count == 1 ? file->plan : NULL;

        shortage_left = nth;
        if (count == 1) {
            mscclpp_plan_library_prove(file, MSCCLPP_PLAN_PROVE_ALL);
        }
        reached = shortage_left == 0;
        shortage_left = 0;
        if (plan == NULL || file->plan != plan || file->refusal == NULL) {
            printf("FAIL  %s, allocation %ld: %s\n", path, nth,
                   plan == NULL         ? "it is not read"
                   : file->plan != plan ? "the plan is gone"
                                        : "it is not refused");
            ++failures;
        }
        mscclpp_plan_library_destroy(library);
    }
    return failures;
}

int main(int argc, char **argv)
{
    int failures = argc > 1 ? refuse(argv[1]) : 1, tries = 0;

    for (int i = 2; i < argc; ++i) {
        bool reached = true;
        long before;

        (void)prove(argv[i], 0, &reached); /* what is allocated once and kept */
        before = shortage_held;
        reached = true;
        /* Each of the first ones, and then more and more seldom. */
        for (long nth = 1; reached && failures < 10; nth += 1 + nth / 100) {
            bool fine = prove(argv[i], nth, &reached);

            ++tries;
            if (!fine || shortage_held != before) {
                printf("FAIL  %s, allocation %ld: %s, %ld are held\n", argv[i], nth, fine ? "noticed" : "not noticed",
                       shortage_held - before);
                ++failures;
                before = shortage_held;
            }
        }
    }
    printf("%d allocations failed, %d wrongly\n", tries, failures);
    return failures > 0 || tries == 0 ? 1 : 0;
}
