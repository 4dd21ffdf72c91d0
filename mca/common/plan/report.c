#include "mca/common/plan/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mscclpp_plan_place_t mscclpp_plan_nowhere = {.rank = -1, .block = -1, .op = -1, .inner = -1};

void mscclpp_plan_report_init(mscclpp_plan_report_t *report)
{
    memset(report, 0, sizeof(*report));
}

void mscclpp_plan_report_destroy(mscclpp_plan_report_t *report)
{
    for (int i = 0; i < report->count; ++i) {
        free(report->findings[i].text);
        free(report->findings[i].schedule);
    }
    mscclpp_plan_report_init(report);
}

/* Returns true if the report has this finding already. The texts are not compared. */
static bool is_known(const mscclpp_plan_report_t *report, mscclpp_plan_kind_t kind, const char *rule,
                     mscclpp_plan_place_t place)
{
    for (int i = 0; i < report->count; ++i) {
        const mscclpp_plan_finding_t *other = &report->findings[i];

        if (other->kind == kind && strcmp(other->rule, rule) == 0 && other->place.rank == place.rank &&
            other->place.block == place.block && other->place.op == place.op && other->place.inner == place.inner) {
            return true;
        }
    }
    return false;
}

/* Replaces control characters, which words of a file may contain and a terminal would obey. `text` may be NULL. */
static void make_printable(char *text)
{
    for (; text != NULL && *text != '\0'; ++text) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}

/* Drops the last note to make room for a fault. Returns false if there is no note. */
static bool drop_note(mscclpp_plan_report_t *report)
{
    int index = report->count - 1;

    while (index >= 0 && report->findings[index].kind != MSCCLPP_PLAN_NOTE) {
        --index;
    }
    if (index < 0) {
        return false;
    }
    free(report->findings[index].text);
    free(report->findings[index].schedule);
    --report->count;
    for (; index < report->count; ++index) {
        mscclpp_plan_finding_t *finding = &report->findings[index];

        *finding = report->findings[index + 1];
        finding->place.name = finding->place.name != NULL ? finding->name : NULL; /* it points into the finding */
    }
    return true;
}

/*
 * Counts a fault before it looks for room, so that the plan is refused in any case. Without memory, the finding is kept
 * without its text, and report->no_memory is set.
 */
bool mscclpp_plan_add_finding(mscclpp_plan_report_t *report, mscclpp_plan_kind_t kind, const char *rule,
                              mscclpp_plan_place_t place, const char *format, ...)
{
    mscclpp_plan_finding_t *finding;
    va_list arguments;
    char *text = NULL;

    if (is_known(report, kind, rule, place)) {
        return false;
    }
    if (kind != MSCCLPP_PLAN_NOTE) {
        ++report->faults;
    }
    if (report->count == MSCCLPP_PLAN_FINDINGS && (kind == MSCCLPP_PLAN_NOTE || !drop_note(report))) {
        return false;
    }
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        report->no_memory = true;
        text = NULL;
    }
    va_end(arguments);
    make_printable(text);
    finding = &report->findings[report->count++];
    *finding = (mscclpp_plan_finding_t){.kind = kind, .rule = rule, .place = place, .text = text};
    if (place.name != NULL) {
        snprintf(finding->name, sizeof(finding->name), "%s", place.name);
        make_printable(finding->name);
        finding->place.name = finding->name;
    }
    return true;
}

void mscclpp_plan_explain(mscclpp_plan_report_t *report, const char *format, ...)
{
    mscclpp_plan_finding_t *finding;
    va_list arguments;
    char *line = NULL, *all = NULL;

    if (report->count == 0) {
        return;
    }
    finding = &report->findings[report->count - 1];
    va_start(arguments, format);
    if (vasprintf(&line, format, arguments) < 0) {
        line = NULL;
    }
    va_end(arguments);
    if (line == NULL || asprintf(&all, "%s%s\n", finding->schedule != NULL ? finding->schedule : "", line) < 0) {
        report->no_memory = true;
        free(line);
        return;
    }
    free(line);
    free(finding->schedule);
    finding->schedule = all;
}

const char *mscclpp_plan_kind_name(mscclpp_plan_kind_t kind)
{
    static const char *const names[] = {"note", "wrong result", "race", "invalid", "deadlock", "parse error"};

    return names[kind];
}

/*
 * Returns the name of the worst kind of stored finding, or "ok" if only notes are stored: a fault replaces a note in a
 * full report. The kinds are in ascending order of severity.
 */
const char *mscclpp_plan_verdict(const mscclpp_plan_report_t *report)
{
    mscclpp_plan_kind_t worst = MSCCLPP_PLAN_NOTE;

    for (int i = 0; i < report->count; ++i) {
        if (report->findings[i].kind > worst) {
            worst = report->findings[i].kind;
        }
    }
    return worst != MSCCLPP_PLAN_NOTE ? mscclpp_plan_kind_name(worst) : "ok";
}

/*
 * Composes the text piece by piece. snprintf returns the length that the whole text would have. So `used` may exceed
 * `size`, and then nothing more is appended.
 */
const char *mscclpp_plan_place_text(mscclpp_plan_place_t place, char *text, size_t size)
{
    int used = 0;

    if (place.rank < 0) {
        snprintf(text, size, "the file");
        return text;
    }
    used += snprintf(text, size, "rank %d", place.rank);
    if (place.block >= 0 && (size_t)used < size) {
        used += snprintf(text + used, size - (size_t)used, ", block %d", place.block);
    }
    if (place.op >= 0 && (size_t)used < size) {
        used += snprintf(text + used, size - (size_t)used, ", operation %d", place.op);
    }
    if (place.inner >= 0 && (size_t)used < size) {
        used += snprintf(text + used, size - (size_t)used, ".%d", place.inner);
    }
    if (place.name != NULL && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used, " (%.24s)", place.name);
    }
    return text;
}
