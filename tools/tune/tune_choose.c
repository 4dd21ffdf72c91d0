#include "tools/tune/tune_choose.h"

#include <stdio.h>
#include <string.h>

#include "mca/common/algo/rules.h"

#define PLAN_PREFIX "plan:"

/* The noise: the medians of two equal runs differ by up to this fraction. */
#define NOISE 0.03
#define NOISE_MAX 1e6

/*
 * An algorithm is given up if its time is more than HOPELESS_RATIO times that of the best one, and has grown by more
 * than HOPELESS_GROWTH of what the size has grown by.
 */
#define HOPELESS_RATIO 2.0
#define HOPELESS_GROWTH 0.8

/* From these seconds a call on, a round has a fixed number of calls (tools/bench/bench_time.c). */
#define LONG_CALL 4e-3

bool tune_table_init(tune_table_t *table, mscclpp_coll_t coll, size_t min, size_t max, double factor, size_t unit)
{
    double size;

    memset(table, 0, sizeof(*table));
    table->coll = coll;
    table->nbuiltin = MSCCLPP_COLL_LAST != coll             ? MSCCLPP_COLL_BY_LAST
                      : mscclpp_algo_count < TUNE_MAX_ALGOS ? mscclpp_algo_count
                                                            : TUNE_MAX_ALGOS;
    table->nalgos = table->nbuiltin;
    for (size = (double)min; size <= (double)max; size *= factor) {
        size_t bytes = (size_t)size / unit * unit;
        if (0 == bytes || (table->nsizes > 0 && bytes == table->bytes[table->nsizes - 1])) {
            continue;
        }
        if (TUNE_MAX_SIZES == table->nsizes) {
            return false;
        }
        table->block[table->nsizes] = bytes;
        table->bytes[table->nsizes++] = bytes;
    }
    return table->nsizes > 0;
}

bool tune_table_add_plan(tune_table_t *table, const char *name)
{
    if (TUNE_MAX_ALGOS == table->nalgos || strlen(PLAN_PREFIX) + strlen(name) >= TUNE_NAME) {
        return false;
    }
    (void)snprintf(table->plan[table->nalgos++], TUNE_NAME, PLAN_PREFIX "%s", name);
    return true;
}

static bool is_plan(const tune_table_t *table, int algo)
{
    return '\0' != table->plan[algo][0];
}

const char *tune_algo_name(const tune_table_t *table, int algo)
{
    return is_plan(table, algo)               ? table->plan[algo]
           : MSCCLPP_COLL_LAST == table->coll ? mscclpp_algos[algo]->name
                                              : mscclpp_coll_algo_name((mscclpp_coll_algo_t)algo);
}

int tune_algo_find(const tune_table_t *table, const char *name)
{
    int algo = table->nalgos - 1;

    while (algo >= 0 && 0 != strcmp(tune_algo_name(table, algo), name)) {
        --algo;
    }
    return algo;
}

bool tune_algo_counts(const tune_table_t *table, int algo)
{
    if (is_plan(table, algo)) {
        return true;
    }
    /* Copy engines do not combine. */
    return MSCCLPP_COLL_LAST == table->coll
               ? !mscclpp_algos[algo]->spans_nodes
               : MSCCLPP_COLL_BY_ENGINES != algo || !MSCCLPP_DEV_COMBINES(mscclpp_coll_pattern(table->coll));
}

bool tune_is_measured(const tune_table_t *table, int size)
{
    for (int algo = 0; algo < table->nalgos; ++algo) {
        if (table->seconds[size][algo] > 0) {
            return true;
        }
    }
    return false;
}

int tune_next(const tune_table_t *table)
{
    int size = 0;

    while (size < table->nsizes && tune_is_measured(table, size)) {
        ++size;
    }
    return size;
}

int tune_best(const tune_table_t *table, int size)
{
    int best = -1;

    for (int algo = 0; algo < table->nalgos; ++algo) {
        double seconds = table->seconds[size][algo];
        if (seconds > 0 && (best < 0 || seconds < table->seconds[size][best])) {
            best = algo;
        }
    }
    return best;
}

bool tune_is_hopeless(const tune_table_t *table, int size, int algo)
{
    double last, before, growth;

    if (size < 2) {
        return false;
    }
    last = table->seconds[size - 1][algo];
    before = table->seconds[size - 2][algo];
    if (!(last > 0)) {
        return true;
    }
    growth = (double)table->bytes[size - 1] / (double)table->bytes[size - 2];
    return before > 0 && last > HOPELESS_RATIO * table->seconds[size - 1][tune_best(table, size - 1)] &&
           last > before * (1 + HOPELESS_GROWTH * (growth - 1));
}

/* False if there are more rules than there may be. The set then has the first of them. */
static bool make_rules(const tune_table_t *table, double noise, mscclpp_rule_set_t *set)
{
    const uint64_t most = MSCCLPP_COLL_LAST == table->coll ? MSCCLPP_RULES_MAX : TUNE_COLL_RULES;
    int next = tune_next(table), kept = -1;

    memset(set, 0, sizeof(*set));
    for (int size = 0; size < next; ++size) {
        int best = tune_best(table, size);
        double seconds = kept >= 0 ? table->seconds[size][kept] : 0;
        if (!(seconds > 0) || seconds > (1 + noise) * table->seconds[size][best]) {
            if (most == set->count) {
                return false;
            }
            kept = best;
            /* Of two sizes with blocks of one size, the larger one counts. */
            set->count += 0 == set->count || set->rule[set->count - 1].bytes < table->block[size];
            set->rule[set->count - 1].algorithm =
                is_plan(table, best) ? mscclpp_rule_by_plan(table->plan[best] + strlen(PLAN_PREFIX)) : best;
        }
        set->rule[set->count - 1].bytes = table->block[size];
    }
    return true;
}

void tune_make_rules(const tune_table_t *table, mscclpp_rule_set_t *set)
{
    double noise = NOISE;

    /* Where algorithms still follow one another when all of them count as equal, the built-in table serves the rest. */
    while (!make_rules(table, noise, set) && noise < NOISE_MAX) {
        noise *= 2;
    }
}

/* By how many seconds a byte the time of an algorithm grew from the size before to this one. */
static double find_slope(const tune_table_t *table, int size, int algo)
{
    return (table->seconds[size][algo] - table->seconds[size - 1][algo]) /
           (double)(table->bytes[size] - table->bytes[size - 1]);
}

/*
 * The cost of a size, to be compared with that of other sizes. The time of its calls is extrapolated from the three
 * sizes below `next`, so that one time that is larger by chance does not count as growth.
 */
static double weigh(const tune_table_t *table, int next, size_t bytes)
{
    double sum = 0;

    for (int algo = 0; algo < table->nalgos; ++algo) {
        double last = table->seconds[next - 1][algo];
        double slope = find_slope(table, next - 1, algo), before = find_slope(table, next - 2, algo);
        if (last > 0) {
            slope = before < slope ? before : slope;
            last += (slope > 0 ? slope : 0) * (double)(bytes - table->bytes[next - 1]);
            sum += last > LONG_CALL ? last : LONG_CALL;
        }
    }
    return sum;
}

double tune_seconds_left(const tune_table_t *table, int next, double seconds)
{
    double left = 0;

    if (next < 3) {
        return -1;
    }
    for (int size = next; size < table->nsizes; ++size) {
        left += seconds * weigh(table, next, table->bytes[size]) / weigh(table, next, table->bytes[next - 1]);
    }
    return left;
}
