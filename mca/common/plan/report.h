/* The findings about a plan: each fault with its place, the rule that it breaks, and how it comes about. */
#ifndef MCA_COMMON_PLAN_REPORT_H
#define MCA_COMMON_PLAN_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* Ordered from mild to bad: the worst finding of a report is its verdict. */
typedef enum {
    MSCCLPP_PLAN_NOTE,     /* worth knowing; the plan is not refused for it */
    MSCCLPP_PLAN_WRONG,    /* a result that the collective must not have */
    MSCCLPP_PLAN_RACE,     /* two accesses that nothing orders */
    MSCCLPP_PLAN_INVALID,  /* a rule of the format is broken */
    MSCCLPP_PLAN_DEADLOCK, /* ranks wait for ever */
    MSCCLPP_PLAN_UNREAD    /* no file, no JSON, or no plan of this generation */
} mscclpp_plan_kind_t;

/* A place in a plan; -1 where a part does not apply. `inner` is the position in the body of a pipeline. */
typedef struct {
    int rank, block, op, inner;
    const char *name; /* of the operation, or NULL */
} mscclpp_plan_place_t;

extern const mscclpp_plan_place_t mscclpp_plan_nowhere;

typedef struct {
    mscclpp_plan_kind_t kind;
    const char *rule;           /* a word, constant */
    mscclpp_plan_place_t place; /* its `name` points to `name` below */
    char name[32];
    char *text;
    char *schedule; /* lines that tell how the fault comes about, or NULL */
} mscclpp_plan_finding_t;

enum { MSCCLPP_PLAN_FINDINGS = 16 }; /* findings that are kept; further ones are only counted */

typedef struct {
    mscclpp_plan_finding_t finding[MSCCLPP_PLAN_FINDINGS];
    int count;
    int faults; /* findings other than notes, kept or not */
    bool no_memory;
} mscclpp_plan_report_t;

void mscclpp_plan_report_init(mscclpp_plan_report_t *report);
void mscclpp_plan_report_destroy(mscclpp_plan_report_t *report);

/* Adds a finding, unless the report already has one with that rule and place. True if it was kept. */
bool mscclpp_plan_found(mscclpp_plan_report_t *report, mscclpp_plan_kind_t kind, const char *rule,
                        mscclpp_plan_place_t place, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Adds a line to the schedule of the last finding. */
void mscclpp_plan_explain(mscclpp_plan_report_t *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "ok", or the kind of the worst finding: "race", "wrong result", "deadlock", "invalid", "parse error". */
const char *mscclpp_plan_verdict(const mscclpp_plan_report_t *report);
const char *mscclpp_plan_kind_name(mscclpp_plan_kind_t kind);

/* "rank 2, block 1, operation 5 (wait)"; "the file" for nowhere. Returns `text`. */
const char *mscclpp_plan_place_text(mscclpp_plan_place_t place, char *text, size_t size);

#endif
