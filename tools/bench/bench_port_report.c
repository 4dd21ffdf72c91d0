/* The tables of mode port, and the same numbers as JSON. */
#include "tools/bench/bench_port.h"

static const char *const kind_names[BENCH_PORT_KINDS] = {"latency", "put", "put_both", "copy", "copy_both"};

/* Prints what is measured, where, and what the columns of the tables mean, on rank 0. */
void bench_port_report_header(const bench_report_t *report)
{
    const bench_env_t *env = report->env;

    if (0 != env->rank) {
        return;
    }
    printf("# mscclpp_bench %s: port channels, ranks in pairs, kernels of one thread\n", MSCCLPP_VERSION);
    printf("# %d ranks on %d node%s, %s\n", env->size, env->nodes, 1 == env->nodes ? "" : "s",
           env->on_twin ? "HOST TWIN: CPU threads and memory, these times say nothing about GPUs" : "CUDA");
    bench_report_places(env);
    printf("# proxy=%s, fifo_size=%d, up to %d puts before each flush\n", env->config.proxy, env->config.fifo_size,
           report->options->window);
    printf("# latency: half of the time of a put with a signal to and fro. put: bytes a second until the flush has\n"
           "# ended, one way and both ways together. copy: the same by plain copies of the GPU runtime to the peer's\n"
           "# mapped memory. Median of %d rounds of the slowest rank\n",
           report->options->rounds);
}

void bench_port_report_transport(const bench_report_t *report, const char *name)
{
    if (0 != report->env->rank) {
        return;
    }
    printf("#\n# transport %s\n# %10s %6s %10s %10s %10s %10s %10s %8s %8s\n# %10s %6s %10s %10s %10s %10s %10s %8s\n",
           name, "size", "puts", "latency", "put", "both ways", "copy", "both ways", "put/copy", "#wrong", "(B)", "",
           "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "(GB/s)", "");
    fflush(stdout);
}

/* Prints why a transport cannot be measured, and writes that to the JSON file, on rank 0. */
void bench_port_report_unusable(bench_report_t *report, const char *name, const char *reason)
{
    if (0 != report->env->rank) {
        return;
    }
    printf("#\n# transport %s cannot be used: %s\n", name, '\0' == reason[0] ? "it gave no reason" : reason);
    fflush(stdout);
    if (report->json != NULL) {
        fprintf(report->json, "%s\n    {\"transport\": \"%s\", \"unusable\": ", report->is_first_row ? "" : ",", name);
        bench_json_string(report->json, reason);
        fprintf(report->json, "}");
        report->is_first_row = false;
    }
}

/*
 * Writes one row to the JSON file, which is open. Kinds that were not measured are null, and so is the number of wrong
 * bytes if nothing was verified. A time is that of a whole round; for the latency, a round is a message to the peer and
 * one back.
 */
static void json_row(bench_report_t *report, const bench_port_row_t *row)
{
    FILE *file = report->json;

    fprintf(file, "%s\n    {\"transport\": \"%s\", \"bytes\": %zu, \"puts\": %d, \"wrong\": ",
            report->is_first_row ? "" : ",", row->transport, row->bytes, row->puts);
    report->is_first_row = false;
    if (report->options->checks > 0) {
        fprintf(file, "%llu", (unsigned long long)row->wrong);
    } else {
        fprintf(file, "null");
    }
    for (int kind = 0; kind < BENCH_PORT_KINDS; ++kind) {
        const bench_times_t *times = &row->times[kind];
        if (0 == times->rounds) {
            fprintf(file, ", \"%s\": null", kind_names[kind]);
            continue;
        }
        fprintf(file, ", \"%s\": {\"repeats\": %d, ", kind_names[kind], row->rounds[kind]);
        if (BENCH_PORT_LATENCY != kind) {
            fprintf(file, "\"GB_per_s\": %.4f, ", 1e-9 * bench_port_rate(row, (bench_port_kind_t)kind));
        }
        fprintf(file, "\"time_us\": {\"median\": %.4f, \"rounds\": [", 1e6 * bench_times_median(times));
        for (int i = 0; i < times->rounds; ++i) {
            fprintf(file, "%s%.4f", 0 == i ? "" : ", ", 1e6 * times->seconds[i]);
        }
        fprintf(file, "]}}");
    }
    fprintf(file, "}");
}

/* Prints one row of the table, and writes it to the JSON file, on rank 0. What was not measured is a dash. */
void bench_port_report_row(bench_report_t *report, const bench_port_row_t *row)
{
    const double copy_rate = bench_port_rate(row, BENCH_PORT_COPY);

    if (0 != report->env->rank) {
        return;
    }
    printf("  %10zu %6d %10.2f %10.3f %10.3f", row->bytes, row->puts,
           1e6 * bench_times_median(&row->times[BENCH_PORT_LATENCY]) / 2, 1e-9 * bench_port_rate(row, BENCH_PORT_PUT),
           1e-9 * bench_port_rate(row, BENCH_PORT_PUT_BOTH));
    if (copy_rate > 0) {
        printf(" %10.3f %10.3f %8.3f", 1e-9 * copy_rate, 1e-9 * bench_port_rate(row, BENCH_PORT_COPY_BOTH),
               bench_port_rate(row, BENCH_PORT_PUT) / copy_rate);
    } else {
        printf(" %10s %10s %8s", "-", "-", "-");
    }
    if (report->options->checks > 0) {
        printf(" %8llu\n", (unsigned long long)row->wrong);
    } else {
        printf(" %8s\n", "N/A");
    }
    fflush(stdout);
    if (report->json != NULL) {
        json_row(report, row);
    }
}
