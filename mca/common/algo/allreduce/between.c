#include "mca/common/algo/allreduce/between.h"

#include <math.h>
#include <stdio.h>

#include "mca/common/algo/shape/tiles.h"

/* A rules file can give only four figures. The other figures keep their built-in values. */
mscclpp_cost_figures_t mscclpp_between_find_figures(const mscclpp_select_input_t *input)
{
    const int transport_index = input->transport != NULL ? mscclpp_cost_find_transport(input->transport) : -1;
    const mscclpp_rule_figures_t *measured;
    mscclpp_cost_figures_t figures;

    if (transport_index < 0) {
        return *mscclpp_cost_find_builtin("verbs");
    }
    figures = *mscclpp_cost_find_builtin(input->transport);
    measured = &input->protocol->figures[transport_index];
    if (measured->is_given != 0) {
        figures.latency = measured->latency;
        figures.overhead = measured->overhead;
        figures.gap = measured->gap;
        figures.bandwidth = measured->bandwidth;
    }
    return figures;
}

bool mscclpp_between_keeps_fanout(const mscclpp_select_input_t *input, uint32_t peer_nodes)
{
    return input->protocol->nodes_fanout == 0 || peer_nodes <= input->protocol->nodes_fanout;
}

/* Tiles matter for the time: each takes several messages, and a pipeline of few or long tiles takes longer to fill. */
bool mscclpp_between_set_tiles(const mscclpp_select_input_t *input, const mscclpp_schedule_t *schedule,
                               mscclpp_dev_nodes_pattern_t exchange, uint64_t bytes, mscclpp_cost_figures_t *figures)
{
    const mscclpp_tiles_way_t way = {
        .pattern = schedule->pattern, .exchange = exchange, .parts = schedule->blocks, .places = schedule->places};
    mscclpp_tiles_t tiles;

    if (!mscclpp_tiles_find(input, &way, bytes, &tiles)) {
        return false;
    }
    if ((double)tiles.bytes < figures->tile) {
        figures->tile = (double)tiles.bytes;
    }
    figures->lanes = tiles.in_flight;
    return true;
}

/*
 * Returns the time in seconds that the cost model predicts for the call, in tiles or with packets (between.h). The
 * number of ranks of each node is the number of shards, because only ranks that own a shard send to other nodes. All
 * these kinds support all-reduces, so mscclpp_schedule_init fails only if there are too many nodes.
 */
static double estimate(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern, bool in_tiles)
{
    static const mscclpp_schedule_kind_t kinds[] = {[MSCCLPP_DEV_NODES_DIRECT] = MSCCLPP_SCHEDULE_DIRECT,
                                                    [MSCCLPP_DEV_NODES_SPLIT] = MSCCLPP_SCHEDULE_SPLIT,
                                                    [MSCCLPP_DEV_NODES_RING] = MSCCLPP_SCHEDULE_RING,
                                                    [MSCCLPP_DEV_NODES_DOUBLING] = MSCCLPP_SCHEDULE_DOUBLING,
                                                    [MSCCLPP_DEV_NODES_HALVING] = MSCCLPP_SCHEDULE_HALVING,
                                                    [MSCCLPP_DEV_NODES_TREES] = MSCCLPP_SCHEDULE_TREES};
    mscclpp_cost_figures_t figures = mscclpp_between_find_figures(input);
    mscclpp_schedule_t schedule;

    if (!mscclpp_schedule_init(&schedule, kinds[pattern], MSCCLPP_SCHEDULE_ALLREDUCE, input->nodes, 0, 0, 0)) {
        return 0;
    }
    if (in_tiles && !mscclpp_between_set_tiles(input, &schedule, pattern, input->bytes, &figures)) {
        return HUGE_VAL;
    }
    return mscclpp_cost_estimate(&figures, &schedule, input->shards, input->bytes);
}

double mscclpp_between_estimate(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern)
{
    return estimate(input, pattern, pattern != MSCCLPP_DEV_NODES_DOUBLING);
}

double mscclpp_between_estimate_packets(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern)
{
    return estimate(input, pattern, false);
}

void mscclpp_between_print_figures(const mscclpp_select_input_t *input, const mscclpp_cost_figures_t *figures,
                                   char *text, size_t size)
{
    (void)snprintf(text, size, " (%s: latency %.2f us, overhead %.2f us, gap %.2f us, %.1f GB/s for each of %u shards)",
                   input->transport != NULL ? input->transport : "verbs", figures->latency * 1e6,
                   figures->overhead * 1e6, figures->gap * 1e6, mscclpp_cost_find_rate(figures, input->shards) * 1e-9,
                   input->shards);
}

/* Writes the estimates of all patterns, and then the figures behind them. If `size` is too small, cuts the text off. */
void mscclpp_between_explain(const mscclpp_select_input_t *input, const char *chosen, bool can_double, char *text,
                             size_t size)
{
    /* Doubling may have no room for its packets, or not support the type. The time is then shown as "inf us". */
    const double doubling = can_double ? mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_DOUBLING) : HUGE_VAL;
    const mscclpp_cost_figures_t figures = mscclpp_between_find_figures(input);
    const int used =
        snprintf(text, size,
                 "all-reduce of %llu bytes over %u nodes: %s; by the cost model nodes %.1f us, nodes_split %.1f us, "
                 "nodes_ring %.1f us, nodes_halving %.1f us, nodes_trees %.1f us, nodes_doubling %.1f us",
                 (unsigned long long)input->bytes, input->nodes, chosen,
                 mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_DIRECT) * 1e6,
                 mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_SPLIT) * 1e6,
                 mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_RING) * 1e6,
                 mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_HALVING) * 1e6,
                 mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_TREES) * 1e6, doubling * 1e6);

    if (used >= 0 && (size_t)used < size) {
        mscclpp_between_print_figures(input, &figures, text + used, size - (size_t)used);
    }
}
