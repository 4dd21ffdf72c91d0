/* Programs that consist of parts, each of which can be run alone and at several lengths. */
#ifndef TEST_HOST_PARTS_H
#define TEST_HOST_PARTS_H

#include <stdbool.h>

typedef struct {
    const char *name; /* NULL ends the table */
    void (*run)(int scale);
} part_t;

typedef struct {
    int scale;      /* how often: 1, 3 if MSCCLPP_TEST_LONG asks for it, or 40 with --long */
    double timeout; /* seconds for one call */
} parts_options_t;

/* Runs the parts that the command line names, or all. Returns 0, or prints one line and returns 2 for a bad option. */
int parts_run(const part_t *parts, int argc, char **argv, parts_options_t *options);

#endif
