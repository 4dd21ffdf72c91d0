/* The tables, in the columns that users of nccl-tests know. */
#include "tools/bench/bench_report.h"

#include <stdlib.h>
#include <string.h>

/* Prints where each rank runs. Lines that are not results begin with #, here and below, so that scripts skip them. */
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

/* Prints whether the component can serve MPI's calls, or that the mode does not use it. */
static void print_component(const bench_options_t *options)
{
    bench_component_t state;
    char text[64] = "";

    if (!bench_mode_is_mpi(options->mode)) {
        printf("# served by the host library directly, not through MPI\n");
        return;
    }
    bench_component_read(&state);
    if (!state.is_loaded) {
        printf("# coll/mscclpp is NOT loaded: another component serves these calls\n");
    } else if (state.is_disabled) {
        printf("# coll/mscclpp is loaded but turned off: another component serves these calls\n");
    } else {
        bench_component_parameter("algorithm", text, sizeof(text));
        printf("# coll/mscclpp is loaded; coll_mscclpp_algorithm=%s\n", text);
    }
}

/* Says which kernels are between the calls, if any, and explains the column of what the calls add. */
static void print_between(const bench_options_t *options)
{
    const bench_between_t *between = &options->between;

    if (BENCH_KERNEL_NONE == between->kind) {
        printf("# nothing between the calls\n");
    } else if (BENCH_KERNEL_BARRIER == between->kind) {
        printf("# a turn: a barrier, 1 call\n# adds: the turn's time less that of a barrier\n");
    } else {
        printf("# a turn: ");
        if (0 != between->kernels_ahead) {
            printf("%d kernel%s queued, ", between->kernels_ahead, 1 == between->kernels_ahead ? "" : "s");
        }
        printf("%d call%s, %sa stream synchronise; kernels: %s of %g us", between->calls_in_turn,
               1 == between->calls_in_turn ? "" : "s", 0 == between->kernels_ahead ? "a kernel, " : "",
               bench_between_name(between->kind), between->microseconds);
        if (0 != between->matrix_rows) {
            printf(", %d rows", between->matrix_rows);
        }
        printf("\n# adds: the turn's time less that of one without calls, by calls\n");
    }
}

/* [--between is given][line][column]: the heads of the columns of one place, out of place or in place. */
static const char *const heads[][3][4] = {
    {{NULL}, {"time", "algbw", "busbw", "#wrong"}, {"(us)", "(GB/s)", "(GB/s)", ""}},
    {{NULL}, {"adds", "turn", "base", "#wrong"}, {"(us)", "(us)", "(us)", ""}}};

/*
 * Prints the heads of the current table's columns, in three lines: the contenders, the measured values, and the units.
 * Widths are those of print_cell and print_added. Only with --between the rival has a second column, for the difference
 * of the two times.
 */
static void print_columns(const bench_report_t *report)
{
    static const char *const keys[][4] = {
        {"", "", "", ""}, {"size", "count", "type", "op"}, {"(B)", "(elements)", "", ""}};
    const bench_options_t *options = report->options;
    const char *const rival[][3] = {{bench_compare_name(options->compare), "", "ours/"},
                                    {options->between.is_given ? "adds" : "time", "ours -", "theirs"},
                                    {"(us)", "theirs", ""}};

    printf("#\n");
    for (int line = 0; line < 3; ++line) {
        const char *const *head = heads[options->between.is_given][line];

        printf("# %10s %12s %8s %4s", keys[line][0], keys[line][1], keys[line][2], keys[line][3]);
        for (int in_place = 0; in_place < 2; ++in_place) {
            if (0 == in_place ? !report->out_of_place : !report->in_place) {
                continue;
            }
            if (0 == line) {
                printf(" | %-37s", 0 == in_place ? "out of place" : "in place");
            } else {
                printf(" | %10s %8s %8s %8s", head[0], head[1], head[2], head[3]);
            }
            if (report->has_rival) {
                printf(" %10s", rival[line][0]);
                if (options->between.is_given) {
                    printf(" %8s", rival[line][1]);
                }
                printf(" %6s", rival[line][2]);
            }
        }
        printf("\n");
    }
}

/*
 * Prints the first line: the collective, or the number of collectives, and how calls follow one another. The modes
 * port, channel and transpose print their own first line.
 */
static void print_title(const bench_options_t *options)
{
    const bench_coll_t *coll = options->colls[0];
    char how_called[80];

    switch (options->mode) {
    case BENCH_MODE_BLOCKING:
        snprintf(how_called, sizeof(how_called), "%s, one call at a time",
                 1 == options->coll_count ? coll->function : "MPI");
        break;
    case BENCH_MODE_NONBLOCKING:
        snprintf(how_called, sizeof(how_called), "nonblocking, one call and MPI_Wait at a time");
        break;
    case BENCH_MODE_PERSISTENT:
        snprintf(how_called, sizeof(how_called), "a persistent request, one MPI_Start and MPI_Wait at a time");
        break;
    case BENCH_MODE_GRAPH:
        snprintf(how_called, sizeof(how_called), "captured in graphs, which are launched back to back");
        break;
    case BENCH_MODE_LIBRARY:
        snprintf(how_called, sizeof(how_called), "one blocking call of the host library at a time");
        break;
    default:
        snprintf(how_called, sizeof(how_called), "queued back to back in a stream, one wait at the end");
        break;
    }
    printf("# mscclpp_bench %s: ", MSCCLPP_VERSION);
    if (1 == options->coll_count) {
        printf("%s", coll->title);
    } else {
        printf("%d collectives", options->coll_count);
    }
    printf(", %s\n", how_called);
}

/* Prints what --plan and --compare name, if they are given. */
static void print_rival(const bench_options_t *options)
{
    const char *nvls = getenv("NCCL_NVLS_ENABLE");

    if (options->plan != NULL) {
        printf("# the execution plan of %s serves every call\n", options->plan);
    }
    switch (options->compare) {
    case BENCH_COMPARE_NCCL:
        printf("# beside NCCL %s (%s, NCCL_NVLS_ENABLE=%s), same buffers, alternating rounds\n", bench_nccl_version(),
               BENCH_MODE_GRAPH == options->mode  ? "in graphs as well"
               : bench_mode_queues(options->mode) ? "back to back, one wait at the end"
               : options->nccl_spin               ? "each call followed by polling its stream"
                                                  : "each call followed by a stream synchronise",
               nvls == NULL ? "unset" : nvls);
        break;
    case BENCH_COMPARE_LAUNCHED:
        printf("# beside the host library with linger=off in a team of its own, same buffers, alternating rounds\n");
        break;
    case BENCH_COMPARE_NATIVE:
        printf("# beside the host library's own algorithms, in a team of its own, same buffers, alternating rounds\n");
        break;
    case BENCH_COMPARE_STAGED:
        printf("# beside staging by the application: copy to pinned host memory, MPI's function there, copy back\n");
        break;
    case BENCH_COMPARE_COPIES:
        printf("# beside plain copies of the same bytes by the same ranks, each of which waits for its own: %s\n",
               bench_copies_describe());
        break;
    case BENCH_COMPARE_KERNEL:
        printf("# beside one kernel for each GPU, launched and waited for, that touches the bytes that its ranks "
               "must\n");
        break;
    case BENCH_COMPARE_BLOCKING:
        printf("# beside MPI's blocking function, same buffers, alternating rounds\n");
        break;
    case BENCH_COMPARE_NONE:
        break;
    }
}

/* Prints the lines before the first table, on rank 0: what is measured, where, beside what and with which buffers. */
void bench_report_header(const bench_report_t *report)
{
    const bench_options_t *options = report->options;
    const bench_env_t *env = report->env;
    bool has_library_rows = false;

    if (0 != env->rank) {
        return;
    }
    print_title(options);
    printf("# %d rank%s on %d node%s, %s\n", env->size, 1 == env->size ? "" : "s", env->nodes,
           1 == env->nodes ? "" : "s",
           env->on_twin ? "HOST TWIN: CPU threads and memory, these times say nothing about GPUs" : "CUDA");
    bench_report_places(env);
    print_component(options);
    if (BENCH_MEMORY_DEVICE != options->memory) {
        printf("# buffers: %s memory of the host%s\n", bench_memory_name(options->memory),
               env->on_twin ? ", which is what the twin takes for device memory"
                            : ", with a CUDA context in the process");
        printf("# MPI_Init took %.1f ms on the slowest rank\n", 1e3 * env->init_seconds);
    }
    for (int i = 0; i < options->type_count; ++i) {
        has_library_rows |= MPI_DATATYPE_NULL == bench_type_mpi(options->types[i]);
    }
    if (BENCH_MODE_BLOCKING == options->mode && has_library_rows) {
        printf("# MPI has no half and no bfloat16: these rows call the host library's blocking functions directly\n");
    }
    print_rival(options);
    if (options->between.is_given) {
        print_between(options);
    }
}

/*
 * Prints that the rival cannot serve a collective at all, or not in place, if this is so. No rival serves it in place
 * only.
 */
static void print_absent(const bench_report_t *report, const bench_contender_t *rival)
{
    const bool lacks_out_of_place =
        report->out_of_place && BENCH_SERVES_NOT == bench_serves(rival, report->coll, false);
    const bool lacks_in_place = report->in_place && BENCH_SERVES_NOT == bench_serves(rival, report->coll, true);

    if (lacks_out_of_place || lacks_in_place) {
        printf("# nothing like %s%s by %s: N/A\n", report->coll->name, lacks_out_of_place ? "" : " in place",
               rival->name);
    }
}

/* The number of unequal blocks whose proportions are printed. */
#define SHOWN_BLOCKS 8

/* Prints the proportions of unequal blocks, and how a block's proportion is found. */
static void print_blocks(const bench_report_t *report)
{
    const bench_coll_t *coll = report->coll;
    const int size = report->env->size;

    printf("; blocks in the proportions ");
    for (int i = 0; i < size && i < SHOWN_BLOCKS; ++i) {
        printf("%s%d", 0 == i ? "" : ":", bench_coll_weight(i));
    }
    printf("%s%s", size > SHOWN_BLOCKS ? ":..." : "",
           coll->is_of_neighbors && BENCH_EXCHANGES == coll->blocks ? ", of rank s and edge e by s + e"
           : coll->is_of_neighbors                                  ? ", of rank s by s"
           : BENCH_EXCHANGES == coll->blocks                        ? ", of ranks s and d by s + d modulo n"
                                                                    : "");
}

/*
 * Prints the head of a collective's table, and decides which columns it has. All ranks decide, because they measure
 * only what has a column; only rank 0 prints.
 * - In place: none if the collective does not allow it.
 * - Out of place: none if the collective has one buffer. It counts as in place, whatever the options say.
 * - None at all in mode graph, if the collective cannot be captured.
 */
void bench_report_begin(bench_report_t *report, const bench_coll_t *coll, const bench_contender_t *rival)
{
    const bench_options_t *options = report->options;
    const bool is_left_out = BENCH_MODE_GRAPH == options->mode && !bench_queued_captures(report->env, coll);

    report->coll = coll;
    report->in_place = !coll->is_of_neighbors && (options->in_place || !coll->in_place);
    report->out_of_place = options->out_of_place && coll->in_place;
    if (is_left_out) {
        report->in_place = report->out_of_place = false;
    }
    report->calls_before = bench_queued_calls(report->env);
    if (0 != report->env->rank) {
        return;
    }
    if (options->coll_count > 1) {
        printf("#\n# %s: %s\n", coll->name, BENCH_MODE_BLOCKING == options->mode ? coll->function : coll->title);
    }
    if (is_left_out) {
        printf("# %s cannot be captured in a graph; left out\n", coll->name);
        return;
    }
    printf("# size: %s", coll->sized_buffer);
    if (coll->has_root) {
        printf("; root %d", options->root);
    }
    if (coll->has_unequal_blocks) {
        print_blocks(report);
    }
    if (coll->is_of_neighbors) {
        printf("; each rank's neighbours are the ranks before and after it, in a ring");
    }
    if (!coll->in_place) {
        printf("; there is one buffer, so in place");
    }
    printf("\n# times in us, median of %d rounds of the slowest rank's average", options->rounds);
    if (!options->between.is_given) {
        printf("; busbw = algbw * %.4g", bench_coll_bus_factor(coll, report->env->size));
    }
    printf("\n");
    if (rival != NULL) {
        print_absent(report, rival);
    }
    print_columns(report);
    fflush(stdout);
}

/*
 * Prints the columns of one place with --between. They are the time that a call adds to the loop of kernels, the times
 * from which it is computed, and the same times of the rival. Prints N/A if the rival was not measured, and in place of
 * the ratio if one of the added times is not positive. `wrong` is the text of the column of wrong elements.
 */
static void print_added(const bench_report_t *report, const bench_cell_t *cell, const char *wrong)
{
    const bench_between_t *between = &report->options->between;
    bench_times_t times = bench_between_added(between, &cell->ours, &cell->base);
    double ours = bench_times_median(&times), rival; /* seconds that a call adds */

    printf(" | %10.2f %8.2f %8.2f %8s", 1e6 * ours, 1e6 * bench_times_median(&cell->ours),
           1e6 * bench_times_median(&cell->base), wrong);
    if (!report->has_rival) {
        return;
    }
    if (0 == cell->rival.rounds) {
        printf(" %10s %8s %6s", "N/A", "N/A", "N/A");
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

/* Prints the columns of one place, out of place or in place. */
static void print_cell(const bench_report_t *report, const bench_row_t *row, const bench_cell_t *cell)
{
    double time = bench_times_median(&cell->ours), rival = bench_times_median(&cell->rival);
    double algbw = 1e-9 * (double)row->bytes / time;
    char wrong[24] = "N/A";

    if (report->options->checks > 0) {
        snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)cell->wrong);
    }
    if (report->options->between.is_given) {
        print_added(report, cell, wrong);
        return;
    }
    printf(" | %10.2f %8.2f %8.2f %8s", 1e6 * time, algbw,
           algbw * bench_coll_bus_factor(report->coll, report->env->size), wrong);
    if (report->has_rival && 0 == cell->rival.rounds) {
        printf(" %10s %6s", "N/A", "N/A");
    } else if (report->has_rival) {
        printf(" %10.2f %6.2f", 1e6 * rival, time / rival);
    }
}

/* Prints one row on rank 0, and writes it to the JSON file, if there is one. */
void bench_report_row(bench_report_t *report, const bench_row_t *row)
{
    const bench_cell_t *cells[] = {&row->out_of_place, &row->in_place};

    if (0 != report->env->rank) {
        return;
    }
    printf("  %10zu %12zu %8s %4s", row->bytes, row->layout->count, row->type->name,
           report->coll->reduces ? row->op->name : "none");
    for (int in_place = 0; in_place < 2; ++in_place) {
        if (cells[in_place]->is_measured) {
            print_cell(report, row, cells[in_place]);
            if (report->json != NULL) {
                bench_json_cell(report, row, cells[in_place], 1 == in_place);
            }
        }
    }
    printf("\n");
    fflush(stdout);
}

/*
 * Prints how many calls of a collective the component served. The collective is named only if there are several. Prints
 * nothing if the component is not loaded or is disabled, because the header has said so.
 */
static void print_served(const bench_report_t *report, const bench_component_t *component)
{
    const bool has_several = report->options->coll_count > 1;
    const char *name = has_several ? report->coll->name : "", *colon = has_several ? ": " : "";

    if (!component->is_loaded || component->is_disabled) {
        return;
    }
    if (!component->has_counters) {
        printf("# %s%sthis coll/mscclpp has no counters: which of the calls it served is not known\n", name, colon);
    } else if (0 == component->served) {
        printf("# %s%scoll/mscclpp served NONE of these calls with a kernel (%llu staged through host memory)\n", name,
               colon, (unsigned long long)component->staged);
    } else {
        printf("# %s%scoll/mscclpp served %llu calls of rank 0 with kernels and staged %llu through host memory\n",
               name, colon, (unsigned long long)component->served, (unsigned long long)component->staged);
    }
}

/* Prints how many calls of a collective were queued, or captured, and how many waited. */
static void print_queued(const bench_report_t *report, const bench_calls_t *calls)
{
    const bool has_several = report->options->coll_count > 1;

    printf("# %s%s%llu calls of rank 0 were queued%s, and %llu waited for the stream and for MPI\n",
           has_several ? report->coll->name : "", has_several ? ": " : "", (unsigned long long)calls->queued,
           BENCH_MODE_GRAPH == report->options->mode ? " or captured" : "", (unsigned long long)calls->waited);
}

/*
 * Stores the numbers of calls that the component served between the two readings, for the JSON file, and prints them on
 * rank 0. Queued calls have separate counters. Called once for each collective for which bench_report_begin has printed
 * columns.
 */
void bench_report_end(bench_report_t *report, const bench_component_t *before, const bench_component_t *after)
{
    const int index = (int)(report->coll - bench_colls);
    bench_component_t *component = &report->served[index].component;

    *component = *after;
    component->served -= before->served;
    component->staged -= before->staged;
    report->served[index].is_measured = true;
    if (BENCH_MODE_QUEUED == report->options->mode || BENCH_MODE_GRAPH == report->options->mode) {
        const bench_calls_t calls = bench_queued_calls(report->env);
        report->served[index].calls =
            (bench_calls_t){calls.queued - report->calls_before.queued, calls.waited - report->calls_before.waited};
        if (0 == report->env->rank) {
            print_queued(report, &report->served[index].calls);
        }
    } else if (0 == report->env->rank && bench_mode_is_mpi(report->options->mode)) {
        print_served(report, component);
    }
}

/*
 * Prints how many elements were wrong, and completes the JSON file, on rank 0. Other ranks do nothing and return true.
 */
bool bench_report_close(bench_report_t *report, uint64_t wrong, uint64_t rival_wrong,
                        const bench_component_t *component)
{
    if (0 != report->env->rank) {
        return true;
    }
    if (0 == report->options->checks) {
        printf("# nothing was verified (--check 0)\n");
    } else {
        printf("# %llu wrong element%s\n", (unsigned long long)wrong, 1 == wrong ? "" : "s");
    }
    if (0 != rival_wrong) {
        printf("# %llu wrong element%s of %s: its times are no measure\n", (unsigned long long)rival_wrong,
               1 == rival_wrong ? "" : "s", bench_compare_name(report->options->compare));
    }
    return report->json == NULL || bench_json_close(report, wrong, rival_wrong, component);
}
