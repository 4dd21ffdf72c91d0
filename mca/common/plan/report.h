/* The findings about a plan: each fault with its place, the rule that it breaks, and how it happens. */
#ifndef MCA_COMMON_PLAN_REPORT_H
#define MCA_COMMON_PLAN_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* The kinds of findings, from the mildest to the worst. The worst finding of a report is its verdict. */
typedef enum {
    MSCCLPP_PLAN_NOTE,     /* useful to know; the plan is not refused because of it */
    MSCCLPP_PLAN_WRONG,    /* a wrong result of the collective */
    MSCCLPP_PLAN_RACE,     /* two accesses that are not ordered */
    MSCCLPP_PLAN_INVALID,  /* a rule of the format is broken */
    MSCCLPP_PLAN_DEADLOCK, /* ranks wait forever */
    MSCCLPP_PLAN_UNREAD    /* no file, no JSON, or no plan of this generation */
} mscclpp_plan_kind_t;

/* A place in a plan. A number is -1 where it does not apply. */
typedef struct {
    int rank, block;
    int op;           /* position in the block's list of operations */
    int inner;        /* if the operation is a pipeline: position in its body */
    const char *name; /* name of the operation, or NULL */
} mscclpp_plan_place_t;

extern const mscclpp_plan_place_t mscclpp_plan_nowhere; /* the plan as a whole */

/* One fault or note. */
typedef struct {
    mscclpp_plan_kind_t kind;
    const char *rule;           /* the rule's name in docs/plans.md, a constant */
    mscclpp_plan_place_t place; /* its `name` points to `name` below */
    char name[32];
    char *text;     /* description of the fault in one line; NULL: there was no memory for it */
    char *schedule; /* lines that show how the fault happens, or NULL */
} mscclpp_plan_finding_t;

/* The maximum number of stored findings. In a full report faults replace notes; further faults are only counted. */
enum { MSCCLPP_PLAN_FINDINGS = 16 };

typedef struct {
    mscclpp_plan_finding_t findings[MSCCLPP_PLAN_FINDINGS];
    int count;
    int faults;     /* number of findings other than notes, stored or not */
    bool no_memory; /* the work was given up, or a text was lost, because there was no memory */
} mscclpp_plan_report_t;

void mscclpp_plan_report_init(mscclpp_plan_report_t *report);
void mscclpp_plan_report_destroy(mscclpp_plan_report_t *report);

/*
 * Adds a finding. Returns true if the finding was stored. It is not stored if the report already has a finding of that
 * kind, rule and place, or if the report is full; in a full report a fault is still stored if it can replace a note. A
 * fault is counted unless the report has it already. `rule` must be a constant. The text may have words from the file;
 * control characters are replaced. place.name is copied.
 */
bool mscclpp_plan_add_finding(mscclpp_plan_report_t *report, mscclpp_plan_kind_t kind, const char *rule,
                              mscclpp_plan_place_t place, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/*
 * Adds a line to the schedule of the last finding. Must be called only directly after mscclpp_plan_add_finding has
 * returned true. If there is no memory, only the new line is lost, and report->no_memory is set.
 */
void mscclpp_plan_explain(mscclpp_plan_report_t *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * These functions return the verdict on a plan, and the name of a kind. The verdict is "ok", or the kind of the worst
 * finding: "race", "wrong result", "deadlock", "invalid", "parse error".
 */
const char *mscclpp_plan_verdict(const mscclpp_plan_report_t *report);
const char *mscclpp_plan_kind_name(mscclpp_plan_kind_t kind);

/* Writes the text of a place, such as "rank 2, block 1, operation 5 (wait)"; "the file" for nowhere. Returns `text`. */
const char *mscclpp_plan_place_text(mscclpp_plan_place_t place, char *text, size_t size);

#endif
