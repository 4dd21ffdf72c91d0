/* What mscclpp_bench reports: the tables on standard output, and the JSON file. Rank 0 writes them. */
#ifndef TOOLS_BENCH_BENCH_REPORT_H
#define TOOLS_BENCH_BENCH_REPORT_H

#include "tools/bench/bench.h"

/* Writes the text within quotes. */
void bench_json_string(FILE *file, const char *text);

/* The tables on standard output, one for each collective, and the JSON file, by rank 0. */
typedef struct {
    FILE *json;
    bool is_first_row;        /* of the JSON file: no comma goes before it */
    const bench_coll_t *coll; /* collective of the current table */
    bool has_rival;           /* the tables have columns for a rival */
    bool out_of_place;        /* the current table has columns for calls out of place */
    bool in_place;            /* the current table has columns for calls in place */
    const bench_options_t *options;
    const bench_env_t *env;
    bench_calls_t calls_before; /* numbers of queued calls before the current table */
    /* How many calls of each collective the component served. */
    struct {
        bool is_measured;
        bench_component_t component;
        bench_calls_t calls;
    } served[BENCH_MAX_COLLS];
} bench_report_t;

/* Opens the JSON file, if one is asked for. On failure prints one line, and all ranks return false. */
bool bench_report_open(bench_report_t *report, const bench_options_t *options, const bench_env_t *env);
void bench_report_places(const bench_env_t *env); /* called by rank 0: one line for each rank */

/* Prints what is measured, where and beside what. */
void bench_report_header(const bench_report_t *report);
/* Begins a collective's table: prints what a size means, and the columns. `rival` NULL: there is none. */
void bench_report_begin(bench_report_t *report, const bench_coll_t *coll, const bench_contender_t *rival);
void bench_report_row(bench_report_t *report, const bench_row_t *row);
/* Write one cell to the JSON file, which is open, and the rest of the file, which is then closed. */
void bench_json_cell(bench_report_t *report, const bench_row_t *row, const bench_cell_t *cell, bool in_place);
bool bench_json_close(bench_report_t *report, uint64_t wrong, uint64_t rival_wrong, const bench_component_t *component);

/* Ends a collective's table. `before` and `after` are readings of what the component has served. */
void bench_report_end(bench_report_t *report, const bench_component_t *before, const bench_component_t *after);
/*
 * Prints how many elements were wrong, and completes the JSON file. Returns false on rank 0 if that could not be
 * written.
 */
bool bench_report_close(bench_report_t *report, uint64_t wrong, uint64_t rival_wrong,
                        const bench_component_t *component);

#endif
