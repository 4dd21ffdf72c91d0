/* Reads the values of options, and checks which fit together. */
#include "tools/sim/sim_options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/config.h"

#define US 1e-6 /* microsecond in seconds */
#define GB 1e9  /* gigabyte in bytes */

/* Sets the defaults that --help names. A figure of -1 means that the command line does not set it. */
void sim_default_arguments(sim_arguments_t *arguments)
{
    mscclpp_config_t config;
    size_t i;

    mscclpp_config_init(&config);
    *arguments = (sim_arguments_t){
        .pattern = MSCCLPP_SCHEDULE_ALLREDUCE,
        .wants_auto = true,
        .transport = "verbs",
        .nodes = {.value = {8}, .count = 1},
        .bytes = {.value = {8}, .count = 1},
        .scratch_size = config.scratch_size,
        .exchange_size = config.exchange_size,
        .run = {.ranks = 8, .group = 32, .taper = 1, .late_by = 100 * US, .dead_node = -1, .seed = 1}};
    for (i = 0; i < sizeof(arguments->figures) / sizeof(arguments->figures[0]); ++i) {
        arguments->figures[i] = -1;
    }
}

/*
 * Reads the whole number at the beginning of `text`. If `is_size`, a suffix k, m, g or t may follow and multiplies the
 * number. *end_p then points behind the number and its suffix. Returns false, without setting the results, if `text`
 * does not begin with a number or the number has more than 64 bits.
 */
static bool scan_whole(const char *text, bool is_size, uint64_t *value_p, const char **end_p)
{
    static const char suffixes[] = "kmgt";
    unsigned long long value;
    const char *suffix;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno != 0) {
        return false;
    }
    suffix = *end != '\0' && is_size ? strchr(suffixes, *end) : NULL;
    if (suffix != NULL) {
        const int shift = 10 * (int)(suffix - suffixes + 1);

        if (value > UINT64_MAX >> shift) {
            return false;
        }
        value <<= shift;
        ++end;
    }
    *value_p = value;
    *end_p = end;
    return true;
}

/*
 * Reads the value of an option that has to be a whole number from `min` to `max`. If it is not, prints a line on
 * standard error and returns false.
 */
static bool parse_whole(const char *option, const char *text, bool is_size, uint64_t min, uint64_t max,
                        uint64_t *value_p)
{
    const char *end = text;

    if (!scan_whole(text, is_size, value_p, &end) || *end != '\0' || *value_p < min || *value_p > max) {
        fprintf(stderr, "mscclpp_sim: --%s is \"%s\"; allowed are whole numbers from %llu to %llu%s\n", option, text,
                (unsigned long long)min, (unsigned long long)max, is_size ? ", also with k, m, g or t" : "");
        return false;
    }
    return true;
}

/* Reads a whole number of 32 bits without a suffix. Prints a line and returns false if the text is anything else. */
static bool parse_uint32(const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *value_p)
{
    uint64_t value;

    if (!parse_whole(option, text, false, min, max, &value)) {
        return false;
    }
    *value_p = (uint32_t)value;
    return true;
}

/*
 * Reads a list of items with commas between them. An item is a number, or FROM:TO or FROM:TO:FACTOR for a series of
 * numbers that grow by a factor, 2 by default. `min` is at least 1, so that a series grows. 1024 times `max` fits into
 * 64 bits, so that a series does not overflow. Returns false if the text is no such list, if a number is out of range,
 * or if there are more than SIM_LIST numbers.
 */
static bool scan_list(const char *text, bool is_size, uint64_t min, uint64_t max, sim_list_t *list)
{
    list->count = 0;
    for (;;) {
        uint64_t from, to, factor = 2;

        if (!scan_whole(text, is_size, &from, &text) || from < min || from > max) {
            return false;
        }
        to = from;
        if (*text == ':' && (!scan_whole(text + 1, is_size, &to, &text) || to < from || to > max)) {
            return false;
        }
        if (*text == ':' && (!scan_whole(text + 1, false, &factor, &text) || factor < 2 || factor > 1024)) {
            return false;
        }
        for (; from <= to; from *= factor) {
            if (list->count == SIM_LIST) {
                return false;
            }
            list->value[list->count++] = from;
        }
        if (*text == '\0') {
            return true;
        }
        if (*text++ != ',') {
            return false;
        }
    }
}

/*
 * Reads the value of an option that has to be a list of numbers from `min` to `max`. If it is not, prints a line on
 * standard error and returns false.
 */
static bool parse_list(const char *option, const char *text, bool is_size, uint64_t min, uint64_t max,
                       sim_list_t *list_p)
{
    if (!scan_list(text, is_size, min, max, list_p)) {
        fprintf(stderr,
                "mscclpp_sim: --%s is \"%s\"; allowed are up to %d numbers from %llu to %llu%s, as 8,64 or 8:512 or "
                "8:512:8\n",
                option, text, SIM_LIST, (unsigned long long)min, (unsigned long long)max,
                is_size ? ", also with k, m, g or t" : "");
        return false;
    }
    return true;
}

/*
 * Reads the value of an option that has to be a number from `min` to `max`, with a fraction or without. If it is not,
 * prints a line on standard error and returns false.
 */
static bool parse_decimal(const char *option, const char *text, double min, double max, double *value_p)
{
    char *end = NULL;
    const double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= min && value <= max)) {
        fprintf(stderr, "mscclpp_sim: --%s is \"%s\"; allowed are numbers from %g to %g\n", option, text, min, max);
        return false;
    }
    *value_p = value;
    return true;
}

/*
 * Reads the value of --algorithm: names with commas between them. Prints a line on standard error and returns false if
 * a name is unknown or empty. A name that is too long for `name` is treated as an empty name.
 */
static bool parse_algorithms(sim_arguments_t *arguments, const char *text)
{
    const char *item = text;
    int kind;

    arguments->wants_auto = false;
    memset(arguments->kinds, 0, sizeof(arguments->kinds));
    while (*item != '\0') {
        const size_t length = strcspn(item, ",");
        char name[32];

        snprintf(name, sizeof(name), "%.*s", length < sizeof(name) ? (int)length : 0, item);
        kind = (int)mscclpp_schedule_find_kind(name);
        if (strcmp(name, "auto") == 0) {
            arguments->wants_auto = true;
        } else if (strcmp(name, "all") == 0) {
            memset(arguments->kinds, 1, sizeof(arguments->kinds));
        } else if (kind < MSCCLPP_SCHEDULE_LAST) {
            arguments->kinds[kind] = true;
        } else {
            break;
        }
        item += length + (item[length] == ',' && item[length + 1] != '\0');
    }
    if (*item == '\0' && *text != '\0') {
        return true;
    }
    fprintf(stderr, "mscclpp_sim: --algorithm is \"%s\"; allowed are auto, all", text);
    for (kind = 0; kind < MSCCLPP_SCHEDULE_LAST; ++kind) {
        fprintf(stderr, ", %s", mscclpp_schedule_kind_name((mscclpp_schedule_kind_t)kind));
    }
    fputc('\n', stderr);
    return false;
}

/* Reads the value of --network. If it is unknown, prints a line on standard error and returns false. */
static bool parse_network(sim_arguments_t *arguments, const char *text)
{
    int kind;

    for (kind = 0; kind < SIM_NETWORKS; ++kind) {
        if (strcmp(text, sim_network_names[kind]) == 0) {
            arguments->run.network = (sim_network_kind_t)kind;
            return true;
        }
    }
    fprintf(stderr, "mscclpp_sim: --network is \"%s\"; allowed are full, fat-tree and dragonfly\n", text);
    return false;
}

/* Reads the value of --coll. Prints a line and returns false if it is unknown. */
static bool parse_collective(sim_arguments_t *arguments, const char *text)
{
    if (sim_pattern_find(text, &arguments->pattern)) {
        return true;
    }
    fprintf(stderr,
            "mscclpp_sim: --coll is \"%s\"; allowed are allreduce, allgather, alltoall, bcast, gather, scatter, "
            "reduce, reduce_scatter, scan and exscan\n",
            text);
    return false;
}

/*
 * Parses and stores the value of one option. Times and bandwidths are stored as the command line gives them, in
 * microseconds and GB/s, and converted by sim_check_arguments. Only --jitter and --late are converted here.
 */
bool sim_store_option(sim_arguments_t *arguments, int option, const char *value)
{
    static const char *const names[] = {
#define NAME(name_, id_) [SIM_OPTION_##id_ - SIM_OPTION_FIRST] = name_,
        SIM_OPTIONS(NAME)
#undef NAME
    };
    const char *name = option > SIM_OPTION_FIRST && option < SIM_WHOLE ? names[option - SIM_OPTION_FIRST] : "";
    sim_run_t *run = &arguments->run;
    uint64_t dead_node;
    uint32_t rails;

    switch (option) {
    case 'c':
        return parse_collective(arguments, value);
    case 'n':
        return parse_list("nodes", value, false, 1, SIM_MAX_NODES, &arguments->nodes);
    case 'p':
        return parse_uint32("ranks-per-node", value, 1, SIM_MAX_RANKS, &run->ranks);
    case 'b':
        return parse_list("bytes", value, true, 1, (uint64_t)1 << 40, &arguments->bytes);
    case 'a':
        return parse_algorithms(arguments, value);
    case 'w':
        return parse_network(arguments, value);
    case SIM_OPTION_ROOT:
        return parse_uint32(name, value, 0, SIM_MAX_NODES - 1, &arguments->root);
    case SIM_OPTION_RADIX:
        return parse_uint32(name, value, 2, MSCCLPP_SCHEDULE_MAX_RADIX, &arguments->radix);
    case SIM_OPTION_FANOUT:
        return parse_uint32(name, value, 0, SIM_MAX_NODES, &arguments->fanout);
    case SIM_OPTION_TILE:
        return parse_whole(name, value, true, MSCCLPP_DEV_UNIT, (uint64_t)1 << 40, &arguments->tile_bytes);
    case SIM_OPTION_LANES:
        return parse_uint32(name, value, 1, 16, &arguments->lanes);
    case SIM_OPTION_SCRATCH:
        return parse_whole(name, value, true, (uint64_t)1 << 20, (uint64_t)1 << 30, &arguments->scratch_size);
    case SIM_OPTION_EXCHANGE:
        return parse_whole(name, value, true, (uint64_t)1 << 16, (uint64_t)1 << 30, &arguments->exchange_size);
    case SIM_OPTION_GROUP:
        return parse_uint32(name, value, 1, SIM_MAX_NODES, &run->group);
    case SIM_OPTION_TAPER:
        arguments->has_taper = true;
        return parse_decimal(name, value, 0.01, 1000, &run->taper);
    case SIM_OPTION_RAILS:
        if (!parse_uint32(name, value, 1, SIM_MAX_RANKS, &rails)) {
            return false;
        }
        arguments->figures[option] = rails;
        return true;
    case SIM_OPTION_LATENCY:
    case SIM_OPTION_OVERHEAD:
    case SIM_OPTION_GAP:
    case SIM_OPTION_NODE_LATENCY:
        return parse_decimal(name, value, 0, 1e6, &arguments->figures[option]);
    case SIM_OPTION_BANDWIDTH:
    case SIM_OPTION_NODE_BANDWIDTH:
        return parse_decimal(name, value, 0.001, 1e6, &arguments->figures[option]);
    case SIM_OPTION_TRANSPORT:
        arguments->transport = value;
        return true;
    case SIM_OPTION_FIGURES:
        arguments->figures_path = value;
        return true;
    case SIM_OPTION_JITTER:
    case SIM_OPTION_LATE:
        if (!parse_decimal(name, value, 0, 1e6, option == SIM_OPTION_JITTER ? &run->jitter : &run->late_by)) {
            return false;
        }
        *(option == SIM_OPTION_JITTER ? &run->jitter : &run->late_by) *= US;
        return true;
    case SIM_OPTION_STRAGGLERS:
        return parse_uint32(name, value, 0, SIM_MAX_NODES, &run->stragglers);
    case SIM_OPTION_DEAD:
        if (!parse_whole(name, value, false, 0, SIM_MAX_NODES - 1, &dead_node)) {
            return false;
        }
        run->dead_node = (int64_t)dead_node;
        return true;
    case SIM_OPTION_DEAD_STEP:
        return parse_whole(name, value, false, 0, UINT32_MAX, &run->dead_step);
    case SIM_OPTION_SEED:
        return parse_whole(name, value, false, 0, UINT64_MAX, &run->seed);
    case SIM_OPTION_SVG:
        arguments->picture_path = value;
        return true;
    case SIM_WHOLE:
        run->simulates_all_nodes = true;
        return true;
    case SIM_TRAFFIC:
        arguments->prints_traffic = true;
        return true;
    default: /* SIM_JSON */
        arguments->prints_json = true;
        return true;
    }
}

/* Replaces a figure by the value of an option, times `scale`, if the option was given. */
static void override_figure(const sim_arguments_t *arguments, int option, double scale, double *figure)
{
    if (arguments->figures[option] >= 0) {
        *figure = arguments->figures[option] * scale;
    }
}

/*
 * Checks that the transport is known, that the figures file can be read, and that --root and --dead name nodes that
 * even the smallest network has.
 */
bool sim_check_arguments(sim_arguments_t *arguments)
{
    const mscclpp_cost_figures_t *builtin = mscclpp_cost_find_builtin(arguments->transport);
    mscclpp_cost_figures_t *figures = &arguments->run.figures;
    size_t i;

    if (builtin == NULL) {
        fprintf(stderr, "mscclpp_sim: --transport is \"%s\"; allowed are verbs, ucx, shm and cuda_ipc\n",
                arguments->transport);
        return false;
    }
    *figures = *builtin;
    if (arguments->figures_path != NULL && !sim_read_figures(arguments->figures_path, arguments->transport, figures)) {
        return false;
    }
    override_figure(arguments, SIM_OPTION_LATENCY, US, &figures->latency);
    override_figure(arguments, SIM_OPTION_OVERHEAD, US, &figures->overhead);
    override_figure(arguments, SIM_OPTION_GAP, US, &figures->gap);
    override_figure(arguments, SIM_OPTION_BANDWIDTH, GB, &figures->bandwidth);
    override_figure(arguments, SIM_OPTION_NODE_LATENCY, US, &figures->node_latency);
    override_figure(arguments, SIM_OPTION_NODE_BANDWIDTH, GB, &figures->node_bandwidth);
    if (arguments->figures[SIM_OPTION_RAILS] >= 0) {
        figures->rails = (uint32_t)arguments->figures[SIM_OPTION_RAILS];
    }
    /* The default is 2 for a fat tree and 1 for other networks, as --help says. */
    if (arguments->run.network == SIM_FAT_TREE && !arguments->has_taper) {
        arguments->run.taper = 2;
    }
    for (i = 0; i < arguments->nodes.count; ++i) {
        const uint64_t nodes = arguments->nodes.value[i];

        if (arguments->root >= nodes) {
            fprintf(stderr, "mscclpp_sim: --root is %u; allowed with %llu nodes are 0 to %llu\n", arguments->root,
                    (unsigned long long)nodes, (unsigned long long)nodes - 1);
            return false;
        }
        if (arguments->run.dead_node >= (int64_t)nodes) {
            fprintf(stderr, "mscclpp_sim: --dead is %lld; allowed with %llu nodes are 0 to %llu\n",
                    (long long)arguments->run.dead_node, (unsigned long long)nodes, (unsigned long long)nodes - 1);
            return false;
        }
    }
    return true;
}
