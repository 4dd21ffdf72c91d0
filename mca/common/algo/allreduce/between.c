#include "mca/common/algo/allreduce/between.h"

#include <stdio.h>

#include "mca/common/algo/shape/tiles.h"

/*
 * Takes the built-in figures of the team's transport, or those of verbs if the transport has none. Figures that the
 * rules file gives for the transport replace them.
 */
mscclpp_cost_figures_t mscclpp_between_figures(const mscclpp_select_input_t *input)
{
    const int transport_index = input->transport != NULL ? mscclpp_cost_transport(input->transport) : -1;
    mscclpp_cost_figures_t figures = *mscclpp_cost_builtin(transport_index >= 0 ? input->transport : "verbs");
    const mscclpp_rule_figures_t *measured = transport_index >= 0 ? &input->protocol->figures[transport_index] : NULL;

    /* A rules file can give only these four figures. The other figures keep their built-in values. */
    if (measured != NULL && measured->is_given != 0) {
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

/*
 * Replaces the size of tiles and the number of those under way by those of the kernel: each tile takes several
 * messages, and a pipeline with few or long tiles takes longer to fill. The figures stay as they are if a place holds
 * no unit, in which case mscclpp_select_shape refuses the algorithm.
 */
static void take_tiles(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern,
                       const mscclpp_schedule_t *schedule, mscclpp_cost_figures_t *figures)
{
    mscclpp_choice_t choice;
    double tile;

    if (!mscclpp_algo_allreduce_nodes.shape(input, &choice)) {
        return;
    }
    tile = (double)mscclpp_tiles_of_allreduce(input, pattern, schedule->blocks, schedule->places, choice.nblocks);
    if (tile > 0) {
        figures->tile = tile < figures->tile ? tile : figures->tile;
        figures->lanes = mscclpp_tiles_under_way(pattern, input->nodes, choice.nblocks);
    }
}

/*
 * Does what mscclpp_between_cost describes, with the tiles of the kernel if `of_kernel`, and else with those of the
 * figures. Uses the number of shards as the number of ranks of each node, because only the ranks that own a shard send
 * to other nodes.
 */
static double estimate(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern, bool of_kernel)
{
    static const mscclpp_schedule_kind_t kinds[] = {[MSCCLPP_DEV_NODES_DIRECT] = MSCCLPP_SCHEDULE_DIRECT,
                                                    [MSCCLPP_DEV_NODES_SPLIT] = MSCCLPP_SCHEDULE_SPLIT,
                                                    [MSCCLPP_DEV_NODES_RING] = MSCCLPP_SCHEDULE_RING,
                                                    [MSCCLPP_DEV_NODES_DOUBLING] = MSCCLPP_SCHEDULE_DOUBLING,
                                                    [MSCCLPP_DEV_NODES_HALVING] = MSCCLPP_SCHEDULE_HALVING,
                                                    [MSCCLPP_DEV_NODES_TREES] = MSCCLPP_SCHEDULE_TREES};
    mscclpp_cost_figures_t figures = mscclpp_between_figures(input);
    mscclpp_schedule_t schedule;

    /* All these kinds support all-reduces, so this call fails only if there are too many nodes. */
    if (!mscclpp_schedule_init(&schedule, kinds[pattern], MSCCLPP_SCHEDULE_ALLREDUCE, input->nodes, 0, 0, 0)) {
        return 0;
    }
    if (of_kernel) {
        take_tiles(input, pattern, &schedule, &figures);
    }
    return mscclpp_cost_estimate(&figures, &schedule, input->shards, input->bytes);
}

double mscclpp_between_cost(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern)
{
    return estimate(input, pattern, pattern == MSCCLPP_DEV_NODES_TREES);
}

double mscclpp_between_kernel_cost(const mscclpp_select_input_t *input, mscclpp_dev_nodes_pattern_t pattern)
{
    return estimate(input, pattern, true);
}

void mscclpp_between_print_figures(const mscclpp_select_input_t *input, const mscclpp_cost_figures_t *figures,
                                   char *text, size_t size)
{
    snprintf(text, size, " (%s: latency %.2f us, overhead %.2f us, gap %.2f us, %.1f GB/s for each of %u shards)",
             input->transport != NULL ? input->transport : "verbs", figures->latency * 1e6, figures->overhead * 1e6,
             figures->gap * 1e6, mscclpp_cost_rate(figures, input->shards) * 1e-9, input->shards);
}

/*
 * Writes the estimates of all patterns, and then the figures that they were computed with. If `size` is too small,
 * the text is truncated and the figures are left out.
 */
void mscclpp_between_explain(const mscclpp_select_input_t *input, const char *chosen, char *text, size_t size)
{
    const mscclpp_cost_figures_t figures = mscclpp_between_figures(input);
    const int used =
        snprintf(text, size,
                 "all-reduce of %llu bytes over %u nodes: %s; by the cost model nodes %.1f us, nodes_split %.1f us, "
                 "nodes_ring %.1f us, nodes_halving %.1f us, nodes_trees %.1f us, nodes_doubling %.1f us",
                 (unsigned long long)input->bytes, input->nodes, chosen,
                 mscclpp_between_cost(input, MSCCLPP_DEV_NODES_DIRECT) * 1e6,
                 mscclpp_between_cost(input, MSCCLPP_DEV_NODES_SPLIT) * 1e6,
                 mscclpp_between_cost(input, MSCCLPP_DEV_NODES_RING) * 1e6,
                 mscclpp_between_cost(input, MSCCLPP_DEV_NODES_HALVING) * 1e6,
                 mscclpp_between_cost(input, MSCCLPP_DEV_NODES_TREES) * 1e6,
                 mscclpp_between_cost(input, MSCCLPP_DEV_NODES_DOUBLING) * 1e6);

    if (used >= 0 && (size_t)used < size) {
        mscclpp_between_print_figures(input, &figures, text + used, size - (size_t)used);
    }
}
