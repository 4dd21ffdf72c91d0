/* The JSON file: the numbers of the tables, and the environment. Rank 0 writes it. */
#include "tools/bench/bench_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Writes a text within quotes, and escapes what JSON does not allow there. */
void bench_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; '\0' != *text; ++text) {
        unsigned char character = (unsigned char)*text;
        if ('"' == character || '\\' == character) {
            fprintf(file, "\\%c", character);
        } else if (character < 0x20) {
            fprintf(file, "\\u%04x", character);
        } else {
            fputc(character, file);
        }
    }
    fputc('"', file);
}

/* Writes a member of the outermost object whose value is a string. */
static void write_member(FILE *file, const char *name, const char *value)
{
    fprintf(file, "  \"%s\": ", name);
    bench_json_string(file, value);
    fprintf(file, ",\n");
}

/* Writes the member "between": the kernels between the calls, with the size of their matrices if they have any. */
static void write_between(FILE *file, const bench_between_t *between)
{
    fprintf(file, "  \"between\": {\"kind\": \"%s\", \"microseconds\": %.4g, \"calls\": %d, \"ahead\": %d",
            bench_between_name(between->kind), between->microseconds, between->calls_in_turn, between->kernels_ahead);
    if (0 != between->matrix_rows) {
        fprintf(file, ", \"matrix\": %d", between->matrix_rows);
    }
    fprintf(file, "},\n");
}

/* Writes what NCCL's times depend on: its version, its setting of NVLS, and how the program waits for its calls. */
static void write_nccl(FILE *file, const bench_options_t *options)
{
    const char *nvls = getenv("NCCL_NVLS_ENABLE");

    write_member(file, "nccl_version", bench_nccl_version());
    write_member(file, "nccl_nvls_enable", nvls == NULL ? "" : nvls);
    write_member(file, "nccl_wait",
                 BENCH_MODE_GRAPH == options->mode  ? "graph"
                 : bench_mode_queues(options->mode) ? "end"
                 : options->nccl_spin               ? "spin"
                                                    : "sync");
}

/* Writes the component's parameters, with the values in force. Without the component the object is empty. */
static void write_parameters(FILE *file)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *separator = "";

    fprintf(file, "  \"parameters\": {");
    for (int i = 0; i < mscclpp_param_count; ++i) {
        if (bench_component_parameter(mscclpp_params[i].name, text, sizeof(text))) {
            fprintf(file, "%s\n    ", separator);
            bench_json_string(file, mscclpp_params[i].name);
            fprintf(file, ": ");
            bench_json_string(file, text);
            separator = ",";
        }
    }
    fprintf(file, "\n  },\n");
}

/* Writes the number of nodes, and the host and the GPU of each rank. */
static void write_ranks(FILE *file, const bench_env_t *env)
{
    fprintf(file, "  \"nodes\": %d,\n  \"ranks\": [", env->nodes);
    for (int i = 0; i < env->size; ++i) {
        fprintf(file, "%s\n    {\"rank\": %d, \"host\": ", 0 == i ? "" : ",", i);
        bench_json_string(file, env->places[i].host);
        fprintf(file, ", \"device\": %d, \"device_name\": ", env->places[i].device);
        bench_json_string(file, env->places[i].device_name);
        fprintf(file, "}");
    }
    fprintf(file, "\n  ],\n");
}

/* Writes everything before the results: the program, what it compares, where it runs and with which parameters. */
static void write_environment(FILE *file, const bench_options_t *options, const bench_env_t *env)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    bench_component_t state;
    int length;

    fprintf(file, "{\n");
    write_member(file, "program", "mscclpp_bench");
    write_member(file, "version", MSCCLPP_VERSION);
    write_member(file, "mode", bench_mode_name(options->mode));
    write_member(file, "device", env->gpu->name);
    write_member(file, "buffers", bench_memory_name(options->memory));
    if (BENCH_MEMORY_DEVICE != options->memory) {
        fprintf(file, "  \"mpi_init_us\": %.1f,\n", 1e6 * env->init_seconds);
    }
    write_member(file, "compare", bench_compare_name(options->compare));
    if (env->plan != NULL) {
        write_member(file, "plan", env->plan);
    }
    if (BENCH_COMPARE_COPIES == options->compare) {
        write_member(file, "copies", bench_copies_describe());
    }
    if (BENCH_COMPARE_NCCL == options->compare) {
        write_nccl(file, options);
    }
    if (options->between.is_given) {
        write_between(file, &options->between);
    }
    MPI_Get_library_version(text, &length);
    write_member(file, "mpi", text);
    bench_component_read(&state);
    write_member(file, "component", !state.is_loaded ? "not loaded" : state.is_disabled ? "disabled" : "loaded");
    write_parameters(file);
    write_ranks(file, env);
    fprintf(file, "  \"warmup\": %d,\n  \"rounds\": %d,\n  \"checks\": %d,\n  \"results\": [", options->warmup,
            options->rounds, options->checks);
}

/*
 * Writes an object for each collective that was measured. It has the values that its rows have in common, and how many
 * of this rank's calls the component served and staged. These two are null if it has no counters. "blocks" lists the
 * weights of ranks 0, 1, 2 and so on.
 */
static void write_collectives(const bench_report_t *report)
{
    const char *separator = "";
    FILE *file = report->json;

    fprintf(file, "  \"collectives\": [");
    for (int i = 0; i < bench_coll_count; ++i) {
        const bench_coll_t *coll = &bench_colls[i];
        const bench_component_t *component = &report->served[i].component;
        if (!report->served[i].is_measured) {
            continue;
        }
        fprintf(file, "%s\n    {\"coll\": \"%s\", \"bus_factor\": %.4f, ", separator, coll->name,
                bench_coll_bus_factor(coll, report->env->size));
        separator = ",";
        if (coll->has_root) {
            fprintf(file, "\"root\": %d, ", report->options->root);
        }
        if (coll->has_unequal_blocks) {
            fprintf(file, "\"blocks\": [");
            for (int j = 0; j < report->env->size; ++j) {
                fprintf(file, "%s%d", 0 == j ? "" : ", ", bench_coll_weight(j));
            }
            fprintf(file, "], ");
        }
        if (BENCH_MODE_QUEUED == report->options->mode || BENCH_MODE_GRAPH == report->options->mode) {
            fprintf(file, "\"queued\": %llu, \"waited\": %llu, ", (unsigned long long)report->served[i].calls.queued,
                    (unsigned long long)report->served[i].calls.waited);
        }
        if (component->has_counters) {
            fprintf(file, "\"served\": %llu, \"staged\": %llu}", (unsigned long long)component->served,
                    (unsigned long long)component->staged);
        } else {
            fprintf(file, "\"served\": null, \"staged\": null}");
        }
    }
    fprintf(file, "\n  ],\n");
}

/*
 * Writes the rest of the file after the rows, and closes the file in any case. If a write to the file has failed so
 * far, or the close fails, prints a line and returns false. `component`: the component's state after all calls.
 */
bool bench_json_close(bench_report_t *report, uint64_t wrong, uint64_t rival_wrong, const bench_component_t *component)
{
    bool ok;

    fprintf(report->json, "\n  ],\n");
    write_collectives(report);
    fprintf(report->json, "  \"wrong\": %llu,\n  \"rival_wrong\": %llu,\n  \"served\": ", (unsigned long long)wrong,
            (unsigned long long)rival_wrong);
    if (component->has_counters) {
        fprintf(report->json, "%llu,\n  \"staged\": %llu\n}\n", (unsigned long long)component->served,
                (unsigned long long)component->staged);
    } else {
        fprintf(report->json, "null,\n  \"staged\": null\n}\n");
    }
    ok = 0 == ferror(report->json);
    ok = 0 == fclose(report->json) && ok;
    report->json = NULL;
    if (!ok) {
        fprintf(stderr, "mscclpp_bench: --json: writing '%s' failed\n", report->options->json);
    }
    return ok;
}

/*
 * Prepares the report. If --json asks for a file, rank 0 opens it and writes its beginning. If it cannot be opened,
 * rank 0 prints a line, and all ranks return false.
 */
bool bench_report_open(bench_report_t *report, const bench_options_t *options, const bench_env_t *env)
{
    bool ok = true;

    *report = (bench_report_t){
        .is_first_row = true, .has_rival = BENCH_COMPARE_NONE != options->compare, .options = options, .env = env};
    if (0 == env->rank && options->json != NULL) {
        report->json = fopen(options->json, "w");
        if (report->json == NULL) {
            fprintf(stderr, "mscclpp_bench: --json: cannot write '%s': %s\n", options->json, strerror(errno));
            ok = false;
        } else {
            write_environment(report->json, options, env);
        }
    }
    return bench_all(env->control, ok);
}

/* Writes the median, the least and the largest time of rounds, and the rounds themselves, in microseconds. */
static void write_times(FILE *file, const bench_times_t *times)
{
    double min = times->seconds[0], max = times->seconds[0];

    for (int i = 1; i < times->rounds; ++i) {
        min = times->seconds[i] < min ? times->seconds[i] : min;
        max = times->seconds[i] > max ? times->seconds[i] : max;
    }
    fprintf(file, "{\"median\": %.4f, \"min\": %.4f, \"max\": %.4f, \"rounds\": [", 1e6 * bench_times_median(times),
            1e6 * min, 1e6 * max);
    for (int i = 0; i < times->rounds; ++i) {
        fprintf(file, "%s%.4f", 0 == i ? "" : ", ", 1e6 * times->seconds[i]);
    }
    fprintf(file, "]}");
}

/* Writes the ratio of two times, or null if one is not positive: what a call adds may be zero or negative. */
static void write_ratio(FILE *file, double ours, double rival)
{
    if (ours > 0 && rival > 0) {
        fprintf(file, ", \"ratio\": %.4f", ours / rival);
    } else {
        fprintf(file, ", \"ratio\": null");
    }
}

/*
 * Writes the time that the calls add to the loop of kernels, and the times from which it is computed, and ends the row.
 * If there are no kernels (--between none), the base has no rounds, and the added time is the time of a call. The
 * difference is below 0 if our calls add less than the rival's. The values of a rival that was not measured are null.
 */
static void write_added(const bench_report_t *report, const bench_cell_t *cell)
{
    const bench_between_t *between = &report->options->between;
    bench_times_t ours = bench_between_added(between, &cell->ours, &cell->base), rival, difference;
    FILE *file = report->json;

    fprintf(file, ", \"added_us\": ");
    write_times(file, &ours);
    fprintf(file, ", \"turn_us\": ");
    write_times(file, &cell->ours);
    if (0 != cell->base.rounds) {
        fprintf(file, ", \"base_us\": ");
        write_times(file, &cell->base);
    }
    if (report->has_rival && 0 == cell->rival.rounds) {
        fprintf(file, ", \"rival_added_us\": null, \"rival_turn_us\": null, \"difference_us\": null, "
                      "\"ratio\": null");
    } else if (report->has_rival) {
        rival = bench_between_added(between, &cell->rival, &cell->base);
        difference = bench_between_added(between, &cell->ours, &cell->rival);
        fprintf(file, ", \"rival_added_us\": ");
        write_times(file, &rival);
        fprintf(file, ", \"rival_turn_us\": ");
        write_times(file, &cell->rival);
        fprintf(file, ", \"difference_us\": ");
        write_times(file, &difference);
        write_ratio(file, bench_times_median(&ours), bench_times_median(&rival));
    }
    fprintf(file, "}");
}

/*
 * Writes one row of results: the cell of a size, out of place or in place. Values that were not measured are null. Our
 * own times always exist, because callers skip cells without a measurement.
 */
void bench_json_cell(bench_report_t *report, const bench_row_t *row, const bench_cell_t *cell, bool in_place)
{
    FILE *file = report->json;
    double time = bench_times_median(&cell->ours);

    fprintf(file,
            "%s\n    {\"coll\": \"%s\", \"bytes\": %zu, \"count\": %zu, \"type\": \"%s\", \"op\": \"%s\", "
            "\"in_place\": %s, "
            "\"path\": \"%s\", \"algorithm\": ",
            report->is_first_row ? "" : ",", report->coll->name, row->bytes, row->layout->count, row->type->name,
            report->coll->reduces ? row->op->name : "none", in_place ? "true" : "false", row->path);
    report->is_first_row = false;
    if ('\0' == cell->algorithm[0]) {
        fprintf(file, "null");
    } else {
        bench_json_string(file, cell->algorithm);
    }
    fprintf(file, ", \"iterations\": %d, \"wrong\": ", cell->iterations);
    if (report->options->checks > 0) {
        fprintf(file, "%llu", (unsigned long long)cell->wrong);
    } else {
        fprintf(file, "null");
    }
    if (report->options->between.is_given) {
        write_added(report, cell);
        return;
    }
    fprintf(file, ", \"algbw\": %.4f, \"busbw\": %.4f, \"time_us\": ", 1e-9 * (double)row->bytes / time,
            1e-9 * (double)row->bytes / time * bench_coll_bus_factor(report->coll, report->env->size));
    write_times(file, &cell->ours);
    if (report->has_rival && 0 == cell->rival.rounds) {
        fprintf(file, ", \"rival_time_us\": null, \"ratio\": null");
    } else if (report->has_rival) {
        fprintf(file, ", \"rival_time_us\": ");
        write_times(file, &cell->rival);
        fprintf(file, ", \"ratio\": %.4f", time / bench_times_median(&cell->rival));
    }
    fprintf(file, "}");
}
