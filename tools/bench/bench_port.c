/* Mode port: latency and bandwidth of puts over port channels, transport by transport, beside plain copies. */
#include "tools/bench/bench_port.h"

#include <stdlib.h>
#include <string.h>

/* How long a measurement should take, in seconds, and the limits of its number of rounds. */
#define ROUND_SECONDS 0.02
#define MIN_ROUNDS 2
#define MAX_ROUNDS 5000

/*
 * A window of large messages has no more than WINDOW_BYTES, but at least WINDOW_MIN puts. It fills a link anyway, and a
 * slow transport would need hours for more.
 */
#define WINDOW_BYTES ((size_t)1 << 30)
#define WINDOW_MIN 4

/* Returns true for measurements by plain copies, not by kernels that put. */
static bool is_copy(int kind)
{
    return BENCH_PORT_COPY == kind || BENCH_PORT_COPY_BOTH == kind;
}

/* Returns true if both ranks of a pair send at once. */
static bool goes_both_ways(int kind)
{
    return BENCH_PORT_PUT_BOTH == kind || BENCH_PORT_COPY_BOTH == kind;
}

double bench_port_rate(const bench_port_row_t *row, bench_port_kind_t kind)
{
    double seconds = bench_times_median(&row->times[kind]);

    return seconds > 0 ? (goes_both_ways(kind) ? 2.0 : 1.0) * row->puts * (double)row->bytes / seconds : 0;
}

/* Returns this rank's role in a measurement by kernels: even ranks begin or send. */
static uint32_t role_of(const bench_pair_t *pair, int kind)
{
    const bool is_even = pair->env->rank % 2 == 0;

    switch (kind) {
    case BENCH_PORT_LATENCY:
        return is_even ? MSCCLPP_DEV_PAIR_FIRST : MSCCLPP_DEV_PAIR_SECOND;
    case BENCH_PORT_PUT:
        return is_even ? MSCCLPP_DEV_PAIR_SENDER : MSCCLPP_DEV_PAIR_RECEIVER;
    default:
        return MSCCLPP_DEV_PAIR_BOTH;
    }
}

/*
 * Runs `rounds` rounds of a BENCH_PORT_ kind on all pairs, after all ranks are ready. Returns the seconds of one round
 * on the slowest rank. A rank that takes no part counts as 0: a rank without a peer and, for copies in one direction,
 * the odd ranks. If a rank fails, its peer would wait forever, so the program ends.
 */
static double time_rounds(bench_pair_t *pair, int kind, size_t bytes, int rounds, int puts)
{
    const bench_env_t *env = pair->env;
    double seconds = 0;
    bool ok = true;

    bench_all(env->control, true); /* a barrier */
    if (pair->peer >= 0 && is_copy(kind)) {
        ok = (!goes_both_ways(kind) && env->rank % 2 != 0) || bench_pair_copy(pair, bytes, rounds, puts, &seconds);
    } else if (pair->peer >= 0) {
        ok = bench_pair_run(pair, role_of(pair, kind), bytes, rounds, puts, &seconds);
    }
    if (!ok) {
        MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
    }
    return bench_max(env->control, seconds);
}

/*
 * Sends messages of known contents, alternately back and forth and in both directions at once. Returns the number of
 * wrong bytes on all ranks. The contents change from one message to the next, so that an old message is never taken for
 * a new one. If a copy fails, the program ends.
 */
static uint64_t check_size(bench_pair_t *pair, const bench_options_t *options, size_t bytes)
{
    static const int kinds[] = {BENCH_PORT_LATENCY, BENCH_PORT_PUT_BOTH};
    uint64_t total = 0;

    for (int i = 0; i < 2 * options->checks; ++i) {
        uint64_t wrong = 0;
        bool ok = pair->peer < 0 || bench_pair_fill(pair, bytes, i);
        if (ok) {
            /* Some calls of time_rounds make several rounds, and several puts in a round. */
            time_rounds(pair, kinds[i % 2], bytes, 1 + i % 2, 1 + i % 3);
            ok = pair->peer < 0 || bench_pair_verify(pair, bytes, i, &wrong);
        }
        if (!ok) {
            fprintf(stderr, "mscclpp_bench: rank %d: verifying %zu bytes over %s failed\n", pair->env->rank, bytes,
                    pair->ops->name);
            MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
        }
        total += wrong;
    }
    return bench_sum(pair->env->control, total);
}

/* Returns how many rounds to time: as the options say, or as many as take ROUND_SECONDS if one takes `seconds`. */
static int choose_rounds(const bench_options_t *options, double seconds)
{
    double rounds = ROUND_SECONDS / (seconds > 1e-9 ? seconds : 1e-9); /* `seconds` may be 0 */

    if (0 != options->iterations) {
        return options->iterations;
    }
    return rounds < MIN_ROUNDS ? MIN_ROUNDS : rounds > MAX_ROUNDS ? MAX_ROUNDS : (int)rounds;
}

/*
 * Verifies and measures puts of row->bytes bytes and, if `has_copies`, plain copies beside them. The kinds of copies
 * are the last ones. A window has as many puts as fit into WINDOW_BYTES, at least WINDOW_MIN, but never more than
 * --window says. All ranks choose the same numbers, because time_rounds returns the same on all.
 */
static void measure_size(bench_pair_t *pair, const bench_options_t *options, bool has_copies, bench_port_row_t *row)
{
    const size_t window_puts = WINDOW_BYTES / row->bytes;
    const int kinds = has_copies ? BENCH_PORT_KINDS : BENCH_PORT_COPY;

    row->puts = window_puts < WINDOW_MIN                ? WINDOW_MIN
                : window_puts < (size_t)options->window ? (int)window_puts
                                                        : options->window;
    row->puts = row->puts < options->window ? row->puts : options->window;
    row->wrong = check_size(pair, options, row->bytes);
    for (int kind = 0; kind < kinds; ++kind) {
        /* One window of puts is enough to warm up, because it has many of them. */
        const int warmup = BENCH_PORT_LATENCY == kind ? options->warmup : options->warmup > 0;
        if (warmup > 0) {
            time_rounds(pair, kind, row->bytes, warmup, row->puts);
        }
        row->rounds[kind] = choose_rounds(options, time_rounds(pair, kind, row->bytes, MIN_ROUNDS, row->puts));
    }
    /* The kinds take turns, so that a drift of the machine affects all of them. */
    for (int i = 0; i < options->rounds; ++i) {
        for (int kind = 0; kind < kinds; ++kind) {
            bench_times_t *times = &row->times[kind];
            times->seconds[times->rounds++] = time_rounds(pair, kind, row->bytes, row->rounds[kind], row->puts);
        }
    }
}

/*
 * Measures and prints all sizes over one transport. Returns the number of wrong bytes on all ranks. Copies are measured
 * only if every rank that has a peer has mapped the peer's memory. Sizes that are rounded to the same number of bytes
 * are measured once.
 */
static uint64_t measure_transport(bench_pair_t *pair, const bench_options_t *options, bench_report_t *report)
{
    const bool has_copies = bench_all(pair->env->control, pair->mapped != NULL || pair->peer < 0);
    size_t previous = 0;
    uint64_t wrong = 0;

    bench_port_report_transport(report, pair->ops->name);
    for (double size = (double)options->min_bytes; size <= (double)options->max_bytes; size *= options->factor) {
        bench_port_row_t row = {.transport = pair->ops->name, .bytes = (size_t)size};
        if (row.bytes != previous) {
            measure_size(pair, options, has_copies, &row);
            bench_port_report_row(report, &row);
            wrong += row.wrong;
        }
        previous = row.bytes;
    }
    return wrong;
}

/*
 * Runs mode port. A transport that cannot be used is reported and left out. It is a failure if no transport can be
 * measured, if bytes were wrong, or if the JSON file cannot be written. If a kernel or a copy fails, the program ends.
 */
bool bench_port_measure(bench_env_t *env, const bench_options_t *options)
{
    bench_component_t component;
    bench_report_t report;
    uint64_t wrong = 0;
    int usable_count = 0;

    if (env->size < 2) {
        fprintf(stderr, "mscclpp_bench: --mode port needs two ranks\n");
        return false;
    }
    if (!bench_report_open(&report, options, env)) {
        return false;
    }
    bench_port_report_header(&report);
    for (int i = 0; i < mscclpp_transport_count; ++i) {
        const mscclpp_transport_ops_t *ops = mscclpp_transports[i];
        char reason[BENCH_PAIR_REASON];
        bench_pair_t pair;

        if (0 != strcmp(options->transport, "all") && 0 != strcmp(options->transport, ops->name)) {
            continue;
        }
        if (!bench_pair_open(&pair, env, ops, options->max_bytes, reason)) {
            bench_port_report_unusable(&report, ops->name, reason);
            continue;
        }
        wrong += measure_transport(&pair, options, &report);
        bench_pair_close(&pair);
        ++usable_count;
    }
    bench_component_read(&component);
    if (0 == usable_count && 0 == env->rank) {
        fprintf(stderr, "mscclpp_bench: no transport could be measured\n");
    }
    return bench_all(env->control, bench_report_close(&report, wrong, 0, &component) && 0 == wrong && usable_count > 0);
}
