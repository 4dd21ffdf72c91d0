/* Reads the text of a plan's file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/file.h"
#include "mca/common/plan/plan.h"

/* Bytes for the text at first. They are doubled as often as the text needs more. */
#define FIRST_CAPACITY ((size_t)64 << 10)

/*
 * Reads up to the end of the file, or up to a read error, for which the caller checks with ferror. Does not ask for the
 * size of the file, because the size may change meanwhile. The caller frees *text_p, which has *size_p bytes and no
 * terminating zero. A failure is in the report, and *text_p is then unchanged.
 */
static mscclpp_status_t read_all(FILE *file, mscclpp_plan_report_t *report, char **text_p, size_t *size_p)
{
    size_t size = 0, capacity = FIRST_CAPACITY, read_size;
    char *text = malloc(capacity), *enlarged;

    while (text != NULL) {
        read_size = fread(text + size, 1, capacity - size, file);
        size += read_size;
        if (size > MSCCLPP_PLAN_MAX_BYTES) {
            free(text);
            mscclpp_plan_add_finding(report, MSCCLPP_PLAN_UNREAD, "file", mscclpp_plan_nowhere, "more than %d MiB",
                                     MSCCLPP_PLAN_MAX_BYTES >> 20);
            return MSCCLPP_ERR_INVALID;
        }
        if (read_size == 0) {
            *text_p = text;
            *size_p = size;
            return MSCCLPP_OK;
        }
        if (size == capacity) {
            capacity *= 2;
            enlarged = realloc(text, capacity);
            if (enlarged == NULL) {
                free(text);
            }
            text = enlarged;
        }
    }
    report->no_memory = true;
    return MSCCLPP_ERR_NO_MEMORY;
}

/*
 * Checks for a read error before it parses the text, because an error ends the text in the same way as the end of the
 * file. Every failure is in the report.
 */
mscclpp_status_t mscclpp_plan_read(const char *path, mscclpp_plan_report_t *report, mscclpp_plan_t **plan_p)
{
    const char *reason = NULL;
    FILE *file = mscclpp_file_open(path, O_RDONLY, &reason);
    mscclpp_status_t status;
    char *text = NULL;
    size_t size = 0;

    if (file == NULL) {
        mscclpp_plan_add_finding(report, MSCCLPP_PLAN_UNREAD, "file", mscclpp_plan_nowhere, "cannot be read: %s",
                                 reason);
        return MSCCLPP_ERR_INVALID;
    }
    status = read_all(file, report, &text, &size);
    if (status == MSCCLPP_OK && ferror(file)) {
        mscclpp_plan_add_finding(report, MSCCLPP_PLAN_UNREAD, "file", mscclpp_plan_nowhere, "cannot be read: %s",
                                 strerror(EIO));
        status = MSCCLPP_ERR_INVALID;
    }
    fclose(file);
    if (status == MSCCLPP_OK) {
        status = mscclpp_plan_parse(text, size, report, plan_p);
    }
    free(text);
    return status;
}
