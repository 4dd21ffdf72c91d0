#include "test/host/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/process_state.h"

#define PARTS_MAX 16

/* Prints what is wrong with an argument, and what is allowed. Returns the exit status. */
static int usage(const part_t *parts, const char *program, const char *wrong)
{
    fprintf(stderr, "%s: '%s' is not allowed; use [--quick|--long] [--timeout SECONDS] [PART]..., of", program, wrong);
    for (; parts->name != NULL; ++parts) {
        fprintf(stderr, " %s", parts->name);
    }
    fprintf(stderr, "\n");
    return 2;
}

int parts_run(const part_t *parts, int argc, char **argv, parts_options_t *options)
{
    bool chosen[PARTS_MAX] = {false}, any = false;
    char *end;
    int i, k;

    options->scale = process_state_long() ? 3 : 1;
    options->timeout = 120;
    for (i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--quick") == 0) {
            options->scale = 1;
        } else if (strcmp(argv[i], "--long") == 0) {
            options->scale = 40;
        } else if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc) {
            options->timeout = strtod(argv[++i], &end);
            if (*end != '\0' || options->timeout <= 0) {
                return usage(parts, argv[0], argv[i]);
            }
        } else {
            for (k = 0; parts[k].name != NULL && strcmp(parts[k].name, argv[i]) != 0; ++k) {
            }
            if (parts[k].name == NULL || k >= PARTS_MAX) {
                return usage(parts, argv[0], argv[i]);
            }
            any = chosen[k] = true;
        }
    }
    /* If there is a wait without a deadline, the alarm ends the program. */
    alarm(options->scale > 3 ? 7200 : 1200);
    for (k = 0; parts[k].name != NULL; ++k) {
        if (chosen[k] || !any) {
            parts[k].run(options->scale);
        }
    }
    return 0;
}
