/* What the two parts of mode channel share: messages in pairs, and collectives. */
#ifndef TOOLS_BENCH_BENCH_CHANNEL_REPORT_H
#define TOOLS_BENCH_BENCH_CHANNEL_REPORT_H

#include "tools/bench/bench_channel.h"
#include "tools/bench/bench_report.h"

/* The results for one size. */
typedef struct {
    size_t bytes;
    int rounds[BENCH_CHANNEL_WAYS];          /* number of rounds in one timed kernel */
    bench_times_t times[BENCH_CHANNEL_WAYS]; /* seconds of one round: a message to the peer and one back, or a call */
    uint64_t wrong;                          /* number of wrong bytes, or elements, on all ranks */
} bench_channel_row_t;

#define BENCH_CHANNEL_MIN_ROUNDS 2

/* Returns true if `code` is 0; otherwise prints a line that names the function, and returns false. */
bool bench_channel_succeeded(const char *function, int code);

/*
 * Returns how many rounds to time in one kernel, if one round takes `seconds`: as the options say, or as many as take a
 * time that is long beside that of the clock.
 */
int bench_channel_rounds(const bench_options_t *options, double seconds);

/* Returns the number of threads of a block on CUDA that moves `bytes` bytes: whole warps. */
unsigned bench_channel_threads(size_t bytes);

/*
 * Waits for a kernel whose launch has returned `code`. If that or the kernel failed, prints a line and returns false. A
 * kernel that failed has left *elapsed_ns at 0.
 */
bool bench_channel_wait(const bench_env_t *env, int code, const uint64_t *elapsed_ns);

/*
 * Print the head of the table and a row, on rank 0; the row goes to the JSON file, too. If `coll` is NULL, ranks
 * exchange messages in pairs, and half of a round's time is shown.
 */
void bench_channel_report_header(const bench_report_t *report, const bench_coll_t *coll);
void bench_channel_report_row(bench_report_t *report, const bench_coll_t *coll, const bench_channel_row_t *row);

/* bench_channel_coll.c: returns true if mode channel has kernels for a collective. */
bool bench_channel_has_coll(const bench_coll_t *coll);

/*
 * bench_channel_coll.c: verifies and measures a collective that kernels of the application make over channels: one that
 * bench_channel_has_coll knows. Adds the number of wrong elements to *wrong_p. Returns false on all ranks if they get
 * no channels.
 */
bool bench_channel_measure_coll(bench_env_t *env, const bench_options_t *options, const bench_coll_t *coll,
                                bench_report_t *report, uint64_t *wrong_p);

#endif
