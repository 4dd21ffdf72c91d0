/* The table, in the columns that users of nccl-tests know, and the same numbers with their environment as JSON. */
#include "tools/bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static double bus_factor(const bench_env_t *env)
{
    return 2.0 * (env->size - 1) / env->size;
}

void bench_report_places(const bench_env_t *env)
{
    for (int i = 0; i < env->size; ++i) {
        const bench_place_t *place = &env->places[i];
        if (place->on_cuda) {
            printf("#   rank %d on %s pid %ld: GPU %d %s\n", i, place->host, place->pid, place->device,
                   place->device_name);
        } else {
            printf("#   rank %d on %s pid %ld: host twin\n", i, place->host, place->pid);
        }
    }
}

static void print_component(const bench_options_t *options)
{
    bench_component_t state;
    char text[64] = "";

    if (BENCH_MODE_BLOCKING != options->mode) {
        printf("# served by the host library directly, not through MPI\n");
        return;
    }
    bench_component_read(&state);
    if (!state.loaded) {
        printf("# coll/mscclpp is NOT loaded: another component serves these calls\n");
    } else if (state.disabled) {
        printf("# coll/mscclpp is loaded but turned off: another component serves these calls\n");
    } else {
        bench_component_parameter("algorithm", text, sizeof(text));
        printf("# coll/mscclpp is loaded; coll_mscclpp_algorithm=%s\n", text);
    }
}

static void print_between(const bench_options_t *options)
{
    const bench_between_t *between = &options->between;

    if (BENCH_KERNEL_NONE == between->kind) {
        printf("# nothing between the calls\n");
    } else {
        printf("# a turn: ");
        if (0 != between->ahead) {
            printf("%d kernel%s queued, ", between->ahead, 1 == between->ahead ? "" : "s");
        }
        printf("%d call%s, %sa stream synchronise; kernels: %s of %g us", between->calls,
               1 == between->calls ? "" : "s", 0 == between->ahead ? "a kernel, " : "",
               bench_between_name(between->kind), between->microseconds);
        if (0 != between->matrix) {
            printf(", %d rows", between->matrix);
        }
        printf("\n# adds: the turn's time less that of one without calls, by calls\n");
    }
    printf("# times in us, median of %d rounds of the slowest rank's average\n", options->rounds);
}

/* What stands above the columns of one place, in three lines. */
static const char *const heads[][3][4] = {
    {{NULL}, {"time", "algbw", "busbw", "#wrong"}, {"(us)", "(GB/s)", "(GB/s)", ""}},
    {{NULL}, {"adds", "turn", "base", "#wrong"}, {"(us)", "(us)", "(us)", ""}}};

static void print_columns(const bench_report_t *report)
{
    static const char *const keys[][4] = {
        {"", "", "", ""}, {"size", "count", "type", "op"}, {"(B)", "(elements)", "", ""}};
    const bench_options_t *options = report->options;
    const char *const rival[][3] = {{bench_compare_name(options->compare), "", "ours/"},
                                    {options->between.given ? "adds" : "time", "ours -", "theirs"},
                                    {"(us)", "theirs", ""}};

    printf("#\n");
    for (int line = 0; line < 3; ++line) {
        const char *const *head = heads[options->between.given][line];

        printf("# %10s %12s %8s %4s", keys[line][0], keys[line][1], keys[line][2], keys[line][3]);
        for (int i = 0; i < 2; ++i) {
            if (0 == i ? !options->out_of_place : !options->in_place) {
                continue;
            }
            if (0 == line) {
                printf(" | %-37s", 0 == i ? "out of place" : "in place");
            } else {
                printf(" | %10s %8s %8s %8s", head[0], head[1], head[2], head[3]);
            }
            if (report->rival) {
                printf(" %10s", rival[line][0]);
                if (options->between.given) {
                    printf(" %8s", rival[line][1]);
                }
                printf(" %6s", rival[line][2]);
            }
        }
        printf("\n");
    }
}

void bench_report_header(const bench_report_t *report)
{
    const bench_options_t *options = report->options;
    const bench_env_t *env = report->env;
    bool mpi_hidden = false;

    if (0 != env->rank) {
        return;
    }
    printf("# mscclpp_bench %s: all-reduce, %s\n", MSCCLPP_VERSION,
           BENCH_MODE_STREAM == options->mode     ? "queued back to back in a stream, one wait at the end"
           : BENCH_MODE_BLOCKING == options->mode ? "MPI_Allreduce, one call at a time"
                                                  : "one blocking call of the host library at a time");
    printf("# %d rank%s on %d node%s, %s\n", env->size, 1 == env->size ? "" : "s", env->nodes,
           1 == env->nodes ? "" : "s",
           env->on_host ? "HOST TWIN: CPU threads and memory, these times say nothing about GPUs" : "CUDA");
    bench_report_places(env);
    print_component(options);
    if (BENCH_MEMORY_DEVICE != options->memory) {
        printf("# buffers: %s memory of the host%s\n", bench_memory_name(options->memory),
               env->on_host ? ", which is what the twin takes for device memory"
                            : ", with a CUDA context in the process");
        printf("# MPI_Init took %.1f ms on the slowest rank\n", 1e3 * env->init);
    }
    for (int i = 0; i < options->ntypes; ++i) {
        mpi_hidden |= MPI_DATATYPE_NULL == bench_type_mpi(options->types[i]);
    }
    if (BENCH_MODE_BLOCKING == options->mode && mpi_hidden) {
        printf("# MPI has no half and no bfloat16: these rows call the host library's blocking all-reduce directly\n");
    }
    if (BENCH_COMPARE_NCCL == options->compare) {
        const char *nvls = getenv("NCCL_NVLS_ENABLE");
        printf("# beside NCCL %s (%s, NCCL_NVLS_ENABLE=%s), same buffers, alternating rounds\n", bench_nccl_version(),
               BENCH_MODE_STREAM == options->mode ? "back to back, one wait at the end"
               : options->nccl_spin               ? "each call followed by polling its stream"
                                                  : "each call followed by a stream synchronise",
               NULL == nvls ? "unset" : nvls);
    } else if (BENCH_COMPARE_LAUNCHED == options->compare) {
        printf("# beside the host library with linger=off in a team of its own, same buffers, alternating rounds\n");
    } else if (BENCH_COMPARE_STAGED == options->compare) {
        printf("# beside staging by the application: copy to pinned host memory, MPI_Allreduce there, copy back\n");
    }
    if (options->between.given) {
        print_between(options);
    } else {
        printf("# times in us, median of %d rounds of the slowest rank's average; busbw = algbw * %.4g\n",
               options->rounds, bus_factor(env));
    }
    print_columns(report);
    fflush(stdout);
}

void bench_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; '\0' != *text; ++text) {
        unsigned char c = (unsigned char)*text;
        if ('"' == c || '\\' == c) {
            fprintf(file, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(file, "\\u%04x", c);
        } else {
            fputc(c, file);
        }
    }
    fputc('"', file);
}

static void json_member(FILE *file, const char *name, const char *value)
{
    fprintf(file, "  \"%s\": ", name);
    bench_json_string(file, value);
    fprintf(file, ",\n");
}

static void json_between(FILE *file, const bench_between_t *between)
{
    fprintf(file, "  \"between\": {\"kind\": \"%s\", \"microseconds\": %.4g, \"calls\": %d, \"ahead\": %d",
            bench_between_name(between->kind), between->microseconds, between->calls, between->ahead);
    if (0 != between->matrix) {
        fprintf(file, ", \"matrix\": %d", between->matrix);
    }
    fprintf(file, "},\n");
}

static void json_environment(FILE *file, const bench_options_t *options, const bench_env_t *env)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    bench_component_t state;
    bool first = true;
    int length;

    fprintf(file, "{\n");
    json_member(file, "program", "mscclpp_bench");
    json_member(file, "version", MSCCLPP_VERSION);
    json_member(file, "mode", bench_mode_name(options->mode));
    json_member(file, "device", env->gpu->name);
    json_member(file, "buffers", bench_memory_name(options->memory));
    if (BENCH_MEMORY_DEVICE != options->memory) {
        fprintf(file, "  \"mpi_init_us\": %.1f,\n", 1e6 * env->init);
    }
    json_member(file, "compare", bench_compare_name(options->compare));
    if (BENCH_COMPARE_NCCL == options->compare) {
        const char *nvls = getenv("NCCL_NVLS_ENABLE");
        json_member(file, "nccl_version", bench_nccl_version());
        json_member(file, "nccl_nvls_enable", NULL == nvls ? "" : nvls);
        json_member(file, "nccl_wait",
                    BENCH_MODE_STREAM == options->mode ? "end"
                    : options->nccl_spin               ? "spin"
                                                       : "sync");
    }
    if (options->between.given) {
        json_between(file, &options->between);
    }
    MPI_Get_library_version(text, &length);
    json_member(file, "mpi", text);
    bench_component_read(&state);
    json_member(file, "component", !state.loaded ? "not loaded" : state.disabled ? "disabled" : "loaded");
    fprintf(file, "  \"parameters\": {");
    for (int i = 0; i < mscclpp_param_count; ++i) {
        if (bench_component_parameter(mscclpp_params[i].name, text, sizeof(text))) {
            fprintf(file, "%s\n    ", first ? "" : ",");
            bench_json_string(file, mscclpp_params[i].name);
            fprintf(file, ": ");
            bench_json_string(file, text);
            first = false;
        }
    }
    fprintf(file, "\n  },\n  \"nodes\": %d,\n  \"ranks\": [", env->nodes);
    for (int i = 0; i < env->size; ++i) {
        fprintf(file, "%s\n    {\"rank\": %d, \"host\": ", 0 == i ? "" : ",", i);
        bench_json_string(file, env->places[i].host);
        fprintf(file, ", \"device\": %d, \"device_name\": ", env->places[i].device);
        bench_json_string(file, env->places[i].device_name);
        fprintf(file, "}");
    }
    fprintf(file, "\n  ],\n  \"warmup\": %d,\n  \"rounds\": %d,\n  \"checks\": %d,\n  \"results\": [", options->warmup,
            options->rounds, options->checks);
}

bool bench_report_open(bench_report_t *report, const bench_options_t *options, const bench_env_t *env)
{
    bool ok = true;

    *report = (bench_report_t){
        .first_row = true, .rival = BENCH_COMPARE_NONE != options->compare, .options = options, .env = env};
    if (0 == env->rank && NULL != options->json) {
        report->json = fopen(options->json, "w");
        if (NULL == report->json) {
            fprintf(stderr, "mscclpp_bench: --json: cannot write '%s': %s\n", options->json, strerror(errno));
            ok = false;
        } else {
            json_environment(report->json, options, env);
        }
    }
    return bench_all(env->control, ok);
}

static void json_times(FILE *file, const bench_times_t *times)
{
    double min = times->round[0], max = times->round[0];

    for (int i = 1; i < times->rounds; ++i) {
        min = times->round[i] < min ? times->round[i] : min;
        max = times->round[i] > max ? times->round[i] : max;
    }
    fprintf(file, "{\"median\": %.4f, \"min\": %.4f, \"max\": %.4f, \"rounds\": [", 1e6 * bench_times_median(times),
            1e6 * min, 1e6 * max);
    for (int i = 0; i < times->rounds; ++i) {
        fprintf(file, "%s%.4f", 0 == i ? "" : ", ", 1e6 * times->round[i]);
    }
    fprintf(file, "]}");
}

/* A ratio of what may be nothing, or less, says nothing. */
static void json_ratio(FILE *file, double ours, double rival)
{
    if (ours > 0 && rival > 0) {
        fprintf(file, ", \"ratio\": %.4f", ours / rival);
    } else {
        fprintf(file, ", \"ratio\": null");
    }
}

static void json_added(const bench_report_t *report, const bench_cell_t *cell)
{
    const bench_between_t *between = &report->options->between;
    bench_times_t ours = bench_between_added(between, &cell->ours, &cell->base), rival, difference;
    FILE *file = report->json;

    fprintf(file, ", \"added_us\": ");
    json_times(file, &ours);
    fprintf(file, ", \"turn_us\": ");
    json_times(file, &cell->ours);
    if (0 != cell->base.rounds) {
        fprintf(file, ", \"base_us\": ");
        json_times(file, &cell->base);
    }
    if (report->rival) {
        rival = bench_between_added(between, &cell->rival, &cell->base);
        difference = bench_between_added(between, &cell->ours, &cell->rival);
        fprintf(file, ", \"rival_added_us\": ");
        json_times(file, &rival);
        fprintf(file, ", \"rival_turn_us\": ");
        json_times(file, &cell->rival);
        fprintf(file, ", \"difference_us\": ");
        json_times(file, &difference);
        json_ratio(file, bench_times_median(&ours), bench_times_median(&rival));
    }
    fprintf(file, "}");
}

static void json_cell(bench_report_t *report, const bench_row_t *row, const bench_cell_t *cell, bool in_place)
{
    FILE *file = report->json;
    double time = bench_times_median(&cell->ours);

    fprintf(file,
            "%s\n    {\"bytes\": %zu, \"count\": %zu, \"type\": \"%s\", \"op\": \"%s\", \"in_place\": %s, "
            "\"path\": \"%s\", \"algorithm\": ",
            report->first_row ? "" : ",", row->bytes, row->count, row->type->name, row->op->name,
            in_place ? "true" : "false", row->path);
    report->first_row = false;
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
    if (report->options->between.given) {
        json_added(report, cell);
        return;
    }
    fprintf(file, ", \"algbw\": %.4f, \"busbw\": %.4f, \"time_us\": ", 1e-9 * (double)row->bytes / time,
            1e-9 * (double)row->bytes / time * bus_factor(report->env));
    json_times(file, &cell->ours);
    if (report->rival) {
        fprintf(file, ", \"rival_time_us\": ");
        json_times(file, &cell->rival);
        fprintf(file, ", \"ratio\": %.4f", time / bench_times_median(&cell->rival));
    }
    fprintf(file, "}");
}

static void print_added(const bench_report_t *report, const bench_cell_t *cell, const char *wrong)
{
    const bench_between_t *between = &report->options->between;
    bench_times_t times = bench_between_added(between, &cell->ours, &cell->base);
    double ours = bench_times_median(&times), rival;

    printf(" | %10.2f %8.2f %8.2f %8s", 1e6 * ours, 1e6 * bench_times_median(&cell->ours),
           1e6 * bench_times_median(&cell->base), wrong);
    if (!report->rival) {
        return;
    }
    times = bench_between_added(between, &cell->rival, &cell->base);
    rival = bench_times_median(&times);
    times = bench_between_added(between, &cell->ours, &cell->rival);
    printf(" %10.2f %8.2f", 1e6 * rival, 1e6 * bench_times_median(&times));
    if (ours > 0 && rival > 0) {
        printf(" %6.2f", ours / rival);
    } else {
        printf(" %6s", "N/A");
    }
}

static void print_cell(const bench_report_t *report, const bench_row_t *row, const bench_cell_t *cell)
{
    double time = bench_times_median(&cell->ours), rival = bench_times_median(&cell->rival);
    double algbw = 1e-9 * (double)row->bytes / time;
    char wrong[24] = "N/A";

    if (report->options->checks > 0) {
        snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)cell->wrong);
    }
    if (report->options->between.given) {
        print_added(report, cell, wrong);
        return;
    }
    printf(" | %10.2f %8.2f %8.2f %8s", 1e6 * time, algbw, algbw * bus_factor(report->env), wrong);
    if (report->rival) {
        printf(" %10.2f %6.2f", 1e6 * rival, time / rival);
    }
}

void bench_report_row(bench_report_t *report, const bench_row_t *row)
{
    const bench_cell_t *cells[] = {&row->out_of_place, &row->in_place};

    if (0 != report->env->rank) {
        return;
    }
    printf("  %10zu %12zu %8s %4s", row->bytes, row->count, row->type->name, row->op->name);
    for (int i = 0; i < 2; ++i) {
        if (cells[i]->measured) {
            print_cell(report, row, cells[i]);
            if (NULL != report->json) {
                json_cell(report, row, cells[i], 1 == i);
            }
        }
    }
    printf("\n");
    fflush(stdout);
}

static void print_served(const bench_component_t *component)
{
    if (!component->loaded || component->disabled) {
        return;
    }
    if (!component->counters) {
        printf("# this coll/mscclpp has no counters: which of the calls it served is not known\n");
    } else if (0 == component->served) {
        printf("# coll/mscclpp served NONE of these calls with a kernel (%llu staged through host memory)\n",
               (unsigned long long)component->staged);
    } else {
        printf("# coll/mscclpp served %llu calls of rank 0 with kernels and staged %llu through host memory\n",
               (unsigned long long)component->served, (unsigned long long)component->staged);
    }
}

bool bench_report_close(bench_report_t *report, uint64_t wrong, const bench_component_t *component)
{
    bool ok = true;

    if (0 != report->env->rank) {
        return true;
    }
    if (BENCH_MODE_BLOCKING == report->options->mode) {
        print_served(component);
    }
    if (0 == report->options->checks) {
        printf("# nothing was verified (--check 0)\n");
    } else {
        printf("# %llu wrong element%s\n", (unsigned long long)wrong, 1 == wrong ? "" : "s");
    }
    if (NULL != report->json) {
        fprintf(report->json, "\n  ],\n  \"wrong\": %llu,\n  \"served\": ", (unsigned long long)wrong);
        if (component->counters) {
            fprintf(report->json, "%llu,\n  \"staged\": %llu\n}\n", (unsigned long long)component->served,
                    (unsigned long long)component->staged);
        } else {
            fprintf(report->json, "null,\n  \"staged\": null\n}\n");
        }
        ok = 0 == ferror(report->json);
        ok = 0 == fclose(report->json) && ok;
        if (!ok) {
            fprintf(stderr, "mscclpp_bench: --json: writing '%s' failed\n", report->options->json);
        }
    }
    return ok;
}
