/* Prints rows as a table and as JSON, and knows the names of the collectives. */
#include <string.h>

#include "tools/sim/sim.h"

static const struct {
    const char *name;
    int pattern;
} patterns[] = {
    {"allreduce", MSCCLPP_SCHEDULE_ALLREDUCE},
    {"allgather", MSCCLPP_DEV_ALLGATHER},
    {"alltoall", MSCCLPP_DEV_ALLTOALL},
    {"bcast", MSCCLPP_DEV_BCAST},
    {"gather", MSCCLPP_DEV_GATHER},
    {"scatter", MSCCLPP_DEV_SCATTER},
    {"reduce", MSCCLPP_DEV_REDUCE},
    {"reduce_scatter", MSCCLPP_DEV_REDUCE_SCATTER},
    {"scan", MSCCLPP_DEV_SCAN},
    {"exscan", MSCCLPP_DEV_EXSCAN},
};

enum { PATTERNS = sizeof(patterns) / sizeof(patterns[0]) };

const char *sim_pattern_name(int pattern)
{
    int i = 0;

    while (i + 1 < PATTERNS && patterns[i].pattern != pattern) {
        ++i;
    }
    return patterns[i].name;
}

bool sim_pattern_find(const char *name, int *pattern_p)
{
    int i;

    for (i = 0; i < PATTERNS; ++i) {
        if (strcmp(name, patterns[i].name) == 0) {
            *pattern_p = patterns[i].pattern;
            return true;
        }
    }
    return false;
}

void sim_print_head(FILE *out)
{
    fprintf(out,
            "# bound: the larger one of log2 steps and of the rails' time; rails: their share of the time;\n"
            "# model: what the cost model says; *: what it prefers\n"
            "%6s %13s %-10s %12s %12s %7s %7s %12s %12s  %s\n",
            "nodes", "bytes", "algorithm", "time us", "bound us", "ratio", "rails", "model us", "messages", "");
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Prints how many nodes wait if a node died and others never end: the comparison with the bound then has no meaning. */
void sim_print_row(FILE *out, const sim_row_t *row)
{
    const sim_result_t *result = &row->result;
    const double bound = larger(row->bound.steps, row->bound.rails);

    fprintf(out, "%6u %13llu %-10s %12.2f %12.2f", row->run.schedule.nodes, (unsigned long long)row->run.bytes,
            mscclpp_schedule_kind_name(row->run.schedule.kind), result->time * 1e6, bound * 1e6);
    if (bound > 0 && result->stuck_nodes == 0) {
        fprintf(out, " %7.2f %6.1f%%", result->time / bound, 100 * row->bound.rails / result->time);
    } else {
        fprintf(out, " %7s %7s", "-", "-");
    }
    fprintf(out, " %12.2f %12llu  %s", row->modelled * 1e6, (unsigned long long)result->messages,
            row->is_preferred ? "*" : "");
    if (result->stuck_nodes > 0) {
        fprintf(out, " %u nodes do not end; %u of them wait for node %lld itself, the last one from %.2f us on",
                result->stuck_nodes, result->waits_for_dead, (long long)row->run.dead_node,
                result->last_wait_begin * 1e6);
    }
    fputc('\n', out);
}

/* Leaves out classes without links. */
void sim_print_traffic(FILE *out, const sim_row_t *row)
{
    int i;

    for (i = 0; i < SIM_CLASSES; ++i) {
        const sim_traffic_t *traffic = &row->result.traffic[i];

        if (traffic->links > 0) {
            fprintf(out, "#   %-9s %llu links, bytes: %.0f to %.0f, mean %.0f; the busiest %.1f%% of the time\n",
                    sim_class_names[i], (unsigned long long)traffic->links, traffic->min_bytes, traffic->max_bytes,
                    traffic->mean_bytes, 100 * traffic->busy_fraction);
        }
    }
}

/* Prints the traffic of each class that has links as JSON. "busiest" is a fraction from 0 to 1, not in percent. */
static void print_traffic_json(FILE *out, const sim_result_t *result)
{
    const char *separator = "";
    int i;

    fprintf(out, "\"traffic\": {");
    for (i = 0; i < SIM_CLASSES; ++i) {
        const sim_traffic_t *traffic = &result->traffic[i];

        if (traffic->links > 0) {
            fprintf(out,
                    "%s\"%s\": {\"links\": %llu, \"least_bytes\": %.0f, \"mean_bytes\": %.1f, \"most_bytes\": %.0f, "
                    "\"busiest\": %.6f}",
                    separator, sim_class_names[i], (unsigned long long)traffic->links, traffic->min_bytes,
                    traffic->mean_bytes, traffic->max_bytes, traffic->busy_fraction);
            separator = ", ";
        }
    }
    fprintf(out, "}");
}

/*
 * Times are in seconds. The names of the keys are part of the documented output, so they do not follow the names of the
 * fields.
 */
void sim_print_json(FILE *out, const sim_row_t *rows, size_t count)
{
    size_t i;

    fprintf(out, "[");
    for (i = 0; i < count; ++i) {
        const sim_row_t *row = &rows[i];
        const sim_run_t *run = &row->run;
        const sim_result_t *result = &row->result;

        fprintf(out, "%s\n  {\"collective\": \"%s\", \"algorithm\": \"%s\", \"nodes\": %u, \"ranks_per_node\": %u, ",
                i > 0 ? "," : "", sim_pattern_name(run->schedule.pattern),
                mscclpp_schedule_kind_name(run->schedule.kind), run->schedule.nodes, run->ranks);
        fprintf(out, "\"bytes\": %llu, \"tile_bytes\": %llu, \"lanes\": %u, \"network\": \"%s\", \"seed\": %llu,\n   ",
                (unsigned long long)run->bytes, (unsigned long long)run->tile_bytes, run->lanes,
                sim_network_names[run->network], (unsigned long long)run->seed);
        fprintf(out, "\"seconds\": %.12g, \"first_seconds\": %.12g, \"model_seconds\": %.12g, \"chosen\": %s, ",
                result->time, result->first_end, row->modelled, row->is_preferred ? "true" : "false");
        fprintf(out, "\"log2_steps_seconds\": %.12g, \"least_latency_seconds\": %.12g, \"rails_seconds\": %.12g,\n   ",
                row->bound.steps, row->min_latency, row->bound.rails);
        fprintf(out, "\"messages\": %llu, \"events\": %llu, \"planes\": %u, \"one_node_for_all\": %s, ",
                (unsigned long long)result->messages, (unsigned long long)result->events, result->planes,
                result->is_one_for_all ? "true" : "false");
        fprintf(out, "\"stuck_nodes\": %u, \"wait_for_the_dead\": %u, \"last_begins_to_wait_seconds\": %.12g,\n   ",
                result->stuck_nodes, result->waits_for_dead, result->last_wait_begin);
        print_traffic_json(out, result);
        fprintf(out, "}");
    }
    fprintf(out, "\n]\n");
}
