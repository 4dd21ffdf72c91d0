/* A plan from a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/file.h"
#include "mca/common/plan/plan.h"

static mscclpp_status_t read_all(FILE *file, mscclpp_plan_report_t *report, char **text_p, size_t *size_p)
{
    size_t size = 0, room = 64 << 10, got;
    char *text = malloc(room), *larger;

    while (text != NULL) {
        got = fread(text + size, 1, room - size, file);
        size += got;
        if (size > MSCCLPP_PLAN_MAX_BYTES) {
            free(text);
            mscclpp_plan_found(report, MSCCLPP_PLAN_UNREAD, "file", mscclpp_plan_nowhere, "more than %d MiB",
                               MSCCLPP_PLAN_MAX_BYTES >> 20);
            return MSCCLPP_ERR_INVALID;
        }
        if (got == 0) {
            *text_p = text;
            *size_p = size;
            return MSCCLPP_OK;
        }
        if (size == room) {
            room *= 2;
            larger = realloc(text, room);
            if (larger == NULL) {
                free(text);
            }
            text = larger;
        }
    }
    report->no_memory = true;
    return MSCCLPP_ERR_NO_MEMORY;
}

mscclpp_status_t mscclpp_plan_read(const char *path, mscclpp_plan_report_t *report, mscclpp_plan_t **plan_p)
{
    const char *reason = NULL;
    FILE *file = mscclpp_file_open(path, O_RDONLY, &reason);
    mscclpp_status_t status;
    char *text = NULL;
    size_t size = 0;

    if (file == NULL) {
        mscclpp_plan_found(report, MSCCLPP_PLAN_UNREAD, "file", mscclpp_plan_nowhere, "cannot be read: %s", reason);
        return MSCCLPP_ERR_INVALID;
    }
    status = read_all(file, report, &text, &size);
    if (status == MSCCLPP_OK && ferror(file)) {
        mscclpp_plan_found(report, MSCCLPP_PLAN_UNREAD, "file", mscclpp_plan_nowhere, "cannot be read: %s",
                           strerror(EIO));
        status = MSCCLPP_ERR_INVALID;
    }
    fclose(file);
    if (status == MSCCLPP_OK) {
        status = mscclpp_plan_parse(text, size, report, plan_p);
        free(text);
    }
    return status;
}
