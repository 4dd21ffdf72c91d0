/*
 * Files of figures: lines of a name, "=", and a number; "#" begins a comment. Times are in microseconds, rates in 10^9
 * bytes a second.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim_options.h"

static const struct {
    const char *name;
    size_t offset;
    double unit, least;
} known[] = {
    {"latency", offsetof(mscclpp_cost_figures_t, latency), 1e-6, 0},
    {"overhead", offsetof(mscclpp_cost_figures_t, overhead), 1e-6, 0},
    {"gap", offsetof(mscclpp_cost_figures_t, gap), 1e-6, 0},
    {"bandwidth", offsetof(mscclpp_cost_figures_t, bandwidth), 1e9, 0.001},
    {"node_latency", offsetof(mscclpp_cost_figures_t, node_latency), 1e-6, 0},
    {"node_bandwidth", offsetof(mscclpp_cost_figures_t, node_bandwidth), 1e9, 0.001},
    {"combining", offsetof(mscclpp_cost_figures_t, combining), 1e9, 0.001},
    {"crossing", offsetof(mscclpp_cost_figures_t, crossing), 1, 0},
};

enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static bool take_line(const char *path, int number, char *line, mscclpp_cost_figures_t *figures)
{
    char *name = line + strspn(line, " \t"), *equals = strchr(name, '='), *end = NULL;
    size_t i, length;
    double value;

    if (equals == NULL) {
        fprintf(stderr, "mscclpp_sim: %s, line %d: \"%s\"; allowed are lines NAME = NUMBER\n", path, number, name);
        return false;
    }
    length = strcspn(name, " \t=");
    for (i = 0; i < KNOWN && (strncmp(name, known[i].name, length) != 0 || known[i].name[length] != '\0'); ++i) {
    }
    if (i == KNOWN) {
        fprintf(stderr,
                "mscclpp_sim: %s, line %d: \"%.*s\"; allowed are latency, overhead, gap, bandwidth, node_latency, "
                "node_bandwidth, combining and crossing\n",
                path, number, (int)length, name);
        return false;
    }
    value = strtod(equals + 1, &end);
    if (end == equals + 1 || end[strspn(end, " \t")] != '\0' || !(value >= known[i].least && value <= 1e6)) {
        fprintf(stderr, "mscclpp_sim: %s, line %d: %s is \"%s\"; allowed are numbers from %g to 1000000\n", path,
                number, known[i].name, equals + 1 + strspn(equals + 1, " \t"), known[i].least);
        return false;
    }
    *(double *)(void *)((char *)figures + known[i].offset) = value * known[i].unit;
    return true;
}

bool sim_read_figures(const char *path, mscclpp_cost_figures_t *figures)
{
    FILE *file = fopen(path, "r");
    char line[256];
    bool fine = file != NULL;
    int number = 0;

    while (fine && fgets(line, sizeof(line), file) != NULL) {
        ++number;
        line[strcspn(line, "#\r\n")] = '\0';
        if (line[strspn(line, " \t")] != '\0' && !take_line(path, number, line, figures)) {
            fclose(file);
            return false;
        }
    }
    fine = fine && ferror(file) == 0;
    if (!fine) {
        fprintf(stderr, "mscclpp_sim: cannot read %s: %s\n", path, strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    return fine;
}
