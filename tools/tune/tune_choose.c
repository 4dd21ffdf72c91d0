/* Turns measured times into rules, and decides which measurements may be skipped. */
#include "tools/tune/tune_choose.h"

#include <stdio.h>
#include <string.h>

#include "mca/common/algo/rule_names.h"
#include "mca/common/algo/rules.h"

#define PLAN_PREFIX "plan:"

/*
 * The noise: the medians of two equal runs differ by up to this fraction. If the noise is NOISE_MAX or more, no
 * algorithm counts as faster than any other.
 */
#define NOISE 0.03
#define NOISE_MAX 1e6

/*
 * An algorithm is hopeless, and not measured any more, if two conditions hold. Its time is more than HOPELESS_RATIO
 * times that of the fastest algorithm. And its time has grown by more than the fraction HOPELESS_GROWTH of the growth
 * of the size.
 */
#define HOPELESS_RATIO 2.0
#define HOPELESS_GROWTH 0.8

/*
 * If a call takes this many seconds or more, a round has the fixed number of BENCH_MIN_ITERATIONS calls. The value is
 * BENCH_ROUND_SECONDS divided by that number (tools/bench/bench.h).
 */
#define LONG_CALL 4e-3

/*
 * Fills in a table without times. Sizes are rounded down to multiples of `unit_bytes`. Sizes that are then equal count
 * once, and sizes that become 0 are left out.
 */
bool tune_table_init(tune_table_t *table, mscclpp_coll_t coll, int nodes, size_t min_bytes, size_t max_bytes,
                     double factor, size_t unit_bytes)
{
    double size;

    memset(table, 0, sizeof(*table));
    table->coll = coll;
    table->nodes = nodes;
    table->builtin_count = MSCCLPP_COLL_LAST != coll ? (nodes > 1 ? MSCCLPP_COLL_BY_END : MSCCLPP_COLL_BY_LAST)
                           : mscclpp_algo_count < TUNE_MAX_ALGOS ? mscclpp_algo_count
                                                                 : TUNE_MAX_ALGOS;
    table->algo_count = table->builtin_count;
    for (size = (double)min_bytes; size <= (double)max_bytes; size *= factor) {
        size_t bytes = (size_t)size / unit_bytes * unit_bytes;
        if (0 == bytes || (table->size_count > 0 && bytes == table->bytes[table->size_count - 1])) {
            continue;
        }
        if (TUNE_MAX_SIZES == table->size_count) {
            return false;
        }
        table->block_bytes[table->size_count] = bytes;
        table->bytes[table->size_count++] = bytes;
    }
    return table->size_count > 0;
}

bool tune_table_add_plan(tune_table_t *table, const char *name)
{
    if (TUNE_MAX_ALGOS == table->algo_count || strlen(PLAN_PREFIX) + strlen(name) >= TUNE_NAME_SIZE) {
        return false;
    }
    (void)snprintf(table->plan[table->algo_count++], TUNE_NAME_SIZE, PLAN_PREFIX "%s", name);
    return true;
}

/* Returns true if an algorithm is an execution plan, not one of the library's. */
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
    int algo = table->algo_count - 1;

    while (algo >= 0 && 0 != strcmp(tune_algo_name(table, algo), name)) {
        --algo;
    }
    return algo;
}

bool tune_algo_can_serve(const tune_table_t *table, int algo)
{
    return is_plan(table, algo) || mscclpp_rule_may_name(table->coll, table->nodes > 1, algo);
}

bool tune_is_measured(const tune_table_t *table, int size_index)
{
    for (int algo = 0; algo < table->algo_count; ++algo) {
        if (table->seconds[size_index][algo] > 0) {
            return true;
        }
    }
    return false;
}

int tune_first_missing(const tune_table_t *table)
{
    int size_index = 0;

    while (size_index < table->size_count && tune_is_measured(table, size_index)) {
        ++size_index;
    }
    return size_index;
}

int tune_fastest(const tune_table_t *table, int size_index)
{
    int best = -1;

    for (int algo = 0; algo < table->algo_count; ++algo) {
        double seconds = table->seconds[size_index][algo];
        if (seconds > 0 && (best < 0 || seconds < table->seconds[size_index][best])) {
            best = algo;
        }
    }
    return best;
}

/*
 * Compares the times at the size before. At the first two sizes every algorithm is measured, because growth can only be
 * computed from two sizes. An algorithm that was left out once stays hopeless while others serve the sizes in between.
 */
bool tune_is_hopeless(const tune_table_t *table, int size_index, int algo)
{
    double seconds, seconds_before, size_growth;

    if (size_index < 2 || tune_fastest(table, size_index - 1) < 0) {
        return false;
    }
    seconds = table->seconds[size_index - 1][algo];
    seconds_before = table->seconds[size_index - 2][algo];
    if (!(seconds > 0)) {
        return true;
    }
    size_growth = (double)table->bytes[size_index - 1] / (double)table->bytes[size_index - 2];
    return seconds_before > 0 &&
           seconds > HOPELESS_RATIO * table->seconds[size_index - 1][tune_fastest(table, size_index - 1)] &&
           seconds > seconds_before * (1 + HOPELESS_GROWTH * (size_growth - 1));
}

/*
 * Makes rules as tune_make_rules describes. `noise` is the fraction by which another algorithm has to be faster to
 * replace the current one. The field `bytes` of a rule is the largest block that the rule serves. Each size either
 * extends the last rule to its own block, or begins a new rule. The first size always begins a rule, since there is no
 * current algorithm before it. Returns false if there are more rules than the set may have; the set then holds the
 * first of them.
 */
static bool make_rules(const tune_table_t *table, double noise, mscclpp_rule_set_t *set)
{
    const uint64_t max_rules = MSCCLPP_COLL_LAST == table->coll ? MSCCLPP_RULES_MAX : TUNE_MAX_COLL_RULES;
    int measured = tune_first_missing(table), current = -1;

    memset(set, 0, sizeof(*set));
    for (int size_index = 0; size_index < measured; ++size_index) {
        int best = tune_fastest(table, size_index);
        /* 0: the current algorithm was not measured at this size, so a new rule begins. */
        double current_seconds = current >= 0 ? table->seconds[size_index][current] : 0;
        if (!(current_seconds > 0) || current_seconds > (1 + noise) * table->seconds[size_index][best]) {
            if (max_rules == set->count) {
                return false;
            }
            current = best;
            /*
             * If two sizes have equally large blocks, the larger size determines the rule: its rule replaces the rule
             * of the smaller size.
             */
            set->count += 0 == set->count || set->rules[set->count - 1].bytes < table->block_bytes[size_index];
            set->rules[set->count - 1].algorithm =
                is_plan(table, best) ? mscclpp_rule_hash_plan(table->plan[best] + strlen(PLAN_PREFIX)) : best;
        }
        set->rules[set->count - 1].bytes = table->block_bytes[size_index];
    }
    return true;
}

void tune_make_rules(const tune_table_t *table, mscclpp_rule_set_t *set)
{
    double noise = NOISE;

    /*
     * An algorithm that is not measured at a size starts a new rule whatever the noise is. So there may be too many
     * rules even at NOISE_MAX. Sizes beyond the last rule are then served by the built-in thresholds.
     */
    while (!make_rules(table, noise, set) && noise < NOISE_MAX) {
        noise *= 2;
    }
}

/* Returns the seconds per byte by which the time of an algorithm grew from the size before to this one. */
static double find_slope(const tune_table_t *table, int size_index, int algo)
{
    return (table->seconds[size_index][algo] - table->seconds[size_index - 1][algo]) /
           (double)(table->bytes[size_index] - table->bytes[size_index - 1]);
}

/*
 * Returns how long it takes to measure a size of `bytes` bytes, in a unit that is the same for all sizes. The time of
 * each algorithm's call is extrapolated from the three sizes below `next`. Of the two slopes between these three sizes,
 * the smaller one is used, so that a time that is larger by chance does not count as growth. Algorithms that were left
 * out cost nothing. The caller makes sure that at least three sizes are below `next`, and that all of these are
 * measured.
 */
static double relative_cost(const tune_table_t *table, int next, size_t bytes)
{
    double total = 0;

    for (int algo = 0; algo < table->algo_count; ++algo) {
        double seconds = table->seconds[next - 1][algo];
        double slope = find_slope(table, next - 1, algo), slope_before = find_slope(table, next - 2, algo);
        if (seconds > 0) {
            slope = slope_before < slope ? slope_before : slope;
            seconds += (slope > 0 ? slope : 0) * (double)(bytes - table->bytes[next - 1]);
            total += seconds > LONG_CALL ? seconds : LONG_CALL;
        }
    }
    return total;
}

/*
 * Estimates the seconds for the sizes from `next` on. The size before `next` took `seconds`, and the other sizes are
 * assumed to take time in proportion to their relative costs.
 */
double tune_seconds_left(const tune_table_t *table, int next, double seconds)
{
    double seconds_left = 0;

    if (next < 3) {
        return -1;
    }
    for (int size_index = next; size_index < table->size_count; ++size_index) {
        seconds_left += seconds * relative_cost(table, next, table->bytes[size_index]) /
                        relative_cost(table, next, table->bytes[next - 1]);
    }
    return seconds_left;
}
