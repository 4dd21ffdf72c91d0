/* Prints bounds, fronts and schedules, as text for people and as JSON. */
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/bounds.h"
#include "tools/synth/lib/free_roots.h"
#include "tools/synth/lib/sat.h"
#include "tools/synth/synth_tool.h"

void synth_tool_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; ++text) {
        unsigned char letter = (unsigned char)*text;

        if (letter == '"' || letter == '\\') {
            fprintf(out, "\\%c", letter);
        } else if (letter < 0x20 || letter == 0x7f) {
            fprintf(out, "\\u%04x", letter);
        } else {
            fputc(letter, out);
        }
    }
    fputc('"', out);
}

/* Prints text from a file, with ? for each control character, which could change the state of the user's terminal. */
static void print_plain(FILE *out, const char *text)
{
    for (; *text != '\0'; ++text) {
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
    }
}

/* Writes a fraction as "n" or "n/d" to `text`, and returns `text`. */
static const char *fraction_text(synth_rational_t value, char *text, size_t size)
{
    if (value.den == 1) {
        snprintf(text, size, "%lld", (long long)value.num);
    } else {
        snprintf(text, size, "%lld/%lld", (long long)value.num, (long long)value.den);
    }
    return text;
}

/* Prints the summary of a topology: its ranks, links, groups and diameter. */
static void print_summary(FILE *out, const synth_topology_t *topology)
{
    int min_capacity = 1 << 30, max_capacity = 0;

    for (int i = 0; i < topology->link_count; ++i) {
        min_capacity = topology->links[i].capacity < min_capacity ? topology->links[i].capacity : min_capacity;
        max_capacity = topology->links[i].capacity > max_capacity ? topology->links[i].capacity : max_capacity;
    }
    print_plain(out, topology->name);
    fprintf(out, ": %d ranks on %d node%s, %d links of %d", topology->ranks, topology->node_count,
            topology->node_count == 1 ? "" : "s", topology->link_count, min_capacity);
    if (max_capacity > min_capacity) {
        fprintf(out, " to %d", max_capacity);
    }
    fprintf(out, ", %d group%s, diameter %d\n", topology->group_count, topology->group_count == 1 ? "" : "s",
            synth_topology_diameter(topology));
    if (synth_topology_asymmetry(topology) > 0) {
        fprintf(out, "  not symmetric: %d pairs of ranks have another capacity in one direction than in the other\n",
                synth_topology_asymmetry(topology));
    }
}

/* Prints the ranks of a set, with spaces between them; as JSON, with commas. */
static void print_set(FILE *out, uint64_t set, bool json)
{
    bool is_first = true;

    for (int rank = 0; set != 0; ++rank, set >>= 1) {
        if ((set & 1) != 0) {
            fprintf(out, is_first ? "%d" : json ? ", %d" : " %d", rank);
            is_first = false;
        }
    }
}

/* The two bounds of all-reduce. */
typedef struct {
    int steps;
    synth_bound_t every;    /* holds for every schedule */
    synth_rational_t trees; /* for schedules that reduce and send along trees */
    bool are_trees_known;   /* computing `trees` took no longer than it may */
} allreduce_bounds_t;

/* Computes the bounds of all-reduce, the one along trees in at most `seconds`. */
static void find_allreduce_bounds(const synth_topology_t *topology, double seconds, allreduce_bounds_t *bounds)
{
    synth_free_roots_t free_roots = {.bound = {0, 1}};

    bounds->steps = synth_bound_steps(topology, SYNTH_ALLREDUCE, 0);
    bounds->are_trees_known = synth_free_roots(topology, seconds, &free_roots) == MSCCLPP_OK;
    bounds->trees = free_roots.bound;
    synth_bound_allreduce(topology, &bounds->every);
}

/*
 * Writes `separator` and the bounds of all-reduce as JSON. The second bound is null if it is unknown; otherwise it is
 * always written, even where it is lower.
 */
static void json_allreduce_bounds(FILE *out, const allreduce_bounds_t *bounds, const char *separator)
{
    const synth_bound_t *every = &bounds->every;

    fprintf(out, "%s\n    {\"collective\": \"allreduce\", \"steps\": %d, \"rounds\": %lld, \"chunks\": %lld, ",
            separator, bounds->steps, (long long)every->ratio.num, (long long)every->ratio.den);
    fprintf(out, "\"by\": \"%s\", \"along_trees\": ", every->proof);
    if (bounds->are_trees_known) {
        fprintf(out, "[%lld, %lld]}", (long long)bounds->trees.num, (long long)bounds->trees.den);
    } else {
        fprintf(out, "null}");
    }
}

/* Prints the bounds of all-reduce. Leaves the second one out if it is unknown or no higher than the first one. */
static void text_allreduce_bounds(FILE *out, const allreduce_bounds_t *bounds)
{
    const synth_bound_t *every = &bounds->every;
    char text[64], tree_text[64];

    fprintf(out, "  %-14s %8d  %-10s by %s", "allreduce", bounds->steps,
            fraction_text(every->ratio, text, sizeof(text)), every->proof);
    if (every->cut != 0) {
        fprintf(out, " around ");
        print_set(out, every->cut, false);
    }
    if (bounds->are_trees_known && synth_compare(every->ratio, bounds->trees) < 0) {
        fprintf(out, "; %s if it is reduced and sent along trees (linear program)",
                fraction_text(bounds->trees, tree_text, sizeof(tree_text)));
    }
    fputc('\n', out);
}

/* Divides the time equally among the collectives. */
void synth_tool_bounds(FILE *out, const synth_topology_t *topology, int root, double seconds, bool json)
{
    const char *separator = "";
    allreduce_bounds_t allreduce;
    char text[64];

    if (json) {
        fprintf(out, "{\n  \"topology\": ");
        synth_tool_string(out, topology->name);
        fprintf(out, ", \"ranks\": %d, \"links\": %d, \"groups\": %d, \"nodes\": %d, \"diameter\": %d,",
                topology->ranks, topology->link_count, topology->group_count, topology->node_count,
                synth_topology_diameter(topology));
        fprintf(out, " \"asymmetric_pairs\": %d, \"root\": %d,\n  \"bounds\": [", synth_topology_asymmetry(topology),
                root);
    } else {
        print_summary(out, topology);
        fprintf(out, "  %-14s %8s  %-18s\n", "collective", "steps", "rounds for each chunk");
    }
    for (int i = 0; i < SYNTH_ALLREDUCE; ++i) { /* all other collectives; all-reduce has different bounds */
        synth_bound_t bound;
        int steps = synth_bound_steps(topology, i, root);

        if (synth_bound_rounds(topology, i, root, seconds / SYNTH_COLLECTIVES, &bound) != MSCCLPP_OK) {
            continue; /* memory ran out: this collective is left out */
        }
        if (json) {
            fprintf(
                out,
                "%s\n    {\"collective\": \"%s\", \"steps\": %d, \"rounds\": %lld, \"chunks\": %lld, \"by\": \"%s\"",
                separator, synth_collective_names[i], steps, (long long)bound.ratio.num, (long long)bound.ratio.den,
                bound.proof);
            separator = ",";
            if (bound.cut != 0) {
                fprintf(out, ", \"cut\": [");
                print_set(out, bound.cut, true);
                fputc(']', out);
            }
            fputc('}', out);
            continue;
        }
        fprintf(out, "  %-14s %8d  %-10s by %s", synth_collective_names[i], steps,
                fraction_text(bound.ratio, text, sizeof(text)), bound.proof);
        if (bound.cut != 0) {
            fprintf(out, " around ");
            print_set(out, bound.cut, false);
        }
        fputc('\n', out);
    }
    find_allreduce_bounds(topology, seconds / SYNTH_COLLECTIVES, &allreduce);
    if (json) {
        json_allreduce_bounds(out, &allreduce, separator);
        fprintf(out, "\n  ]\n}\n");
    } else {
        text_allreduce_bounds(out, &allreduce);
        fprintf(out, "No schedule has fewer steps, or fewer rounds for each chunk.\n");
    }
}

/*
 * Prints one schedule of the front as JSON, with all its sends. "bound" is null if no bound is known for its number of
 * steps.
 */
static void print_point_json(FILE *out, const synth_point_t *point)
{
    const synth_schedule_t *schedule = point->schedule;

    fprintf(
        out,
        "    {\"chunks\": %d, \"steps\": %d, \"rounds\": %d, \"label\": \"%s\", \"by\": \"%s\", \"seconds\": %.3f,\n"
        "     \"bound\": ",
        schedule->chunks, schedule->steps, synth_schedule_rounds(schedule), synth_label_names[point->label],
        point->method, point->seconds);
    if (point->bound.num != 0) {
        fprintf(out, "[%lld, %lld]", (long long)point->bound.num, (long long)point->bound.den);
    } else {
        fprintf(out, "null");
    }
    fprintf(out, ", \"rounds_of_steps\": [");
    for (int step = 0; step < schedule->steps; ++step) {
        fprintf(out, step > 0 ? ", %d" : "%d", schedule->rounds[step]);
    }
    fprintf(out, "], \"whole_inputs\": %s,\n     \"sends\": [", schedule->sends_whole_inputs ? "true" : "false");
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        fprintf(out, "%s[%d, %d, %d, %d, %d]", i > 0 ? ", " : "", send->chunk, send->from, send->to, send->step,
                send->adds);
    }
    fprintf(out, "]}");
}

/* Prints the front as one JSON object: what was asked for, the bounds, how the search ended, and each point. */
static void print_front_json(FILE *out, const synth_topology_t *topology, synth_collective_t collective,
                             const synth_options_t *options, const synth_front_t *front, double seconds)
{
    fprintf(out, "{\n  \"topology\": ");
    synth_tool_string(out, topology->name);
    fprintf(out, ", \"ranks\": %d, \"collective\": \"%s\", \"root\": %d,\n", topology->ranks,
            synth_collective_names[collective], options->root);
    fprintf(out, "  \"least_steps\": %d, \"least_ratio\": [%lld, %lld], \"least_by\": \"%s\",\n", front->min_steps,
            (long long)front->min_ratio.num, (long long)front->min_ratio.den,
            front->min_ratio_proof != NULL ? front->min_ratio_proof : "");
    fprintf(out, "  \"seconds\": %.3f, \"stopped\": %s, \"complete\": %s,\n", seconds,
            front->was_stopped ? "true" : "false", front->is_complete ? "true" : "false");
    fprintf(out, "  \"send\": [\"chunk\", \"from\", \"to\", \"step\", \"adds\"],\n  \"front\": [");
    for (int i = 0; i < front->count; ++i) {
        fprintf(out, i > 0 ? ",\n" : "\n");
        print_point_json(out, &front->points[i]);
    }
    fprintf(out, "\n  ]\n}\n");
}

void synth_tool_front(FILE *out, const synth_topology_t *topology, synth_collective_t collective,
                      const synth_options_t *options, const synth_front_t *front, double seconds, bool json)
{
    char ratio[64], bound[64], ratio_bound[64];

    if (json) {
        print_front_json(out, topology, collective, options, front, seconds);
        return;
    }
    print_summary(out, topology);
    fprintf(out, "%s: at least %d step%s, and %s rounds for each chunk (%s)\n", synth_collective_names[collective],
            front->min_steps, front->min_steps == 1 ? "" : "s",
            fraction_text(front->min_ratio, ratio_bound, sizeof(ratio_bound)),
            front->min_ratio_proof != NULL ? front->min_ratio_proof : "");
    if (front->count > 0) {
        fprintf(out, "  %6s %6s %6s  %-13s %-10s %-28s %8s\n", "chunks", "steps", "rounds", "rounds/chunks", "", "by",
                "seconds");
    }
    for (int i = 0; i < front->count; ++i) {
        const synth_point_t *point = &front->points[i];

        fprintf(out, "  %6d %6d %6d  %-13s %-10s %-28s %8.3f", point->schedule->chunks, point->schedule->steps,
                synth_schedule_rounds(point->schedule), fraction_text(point->ratio, ratio, sizeof(ratio)),
                synth_label_names[point->label], point->method, point->seconds);
        if (point->label != SYNTH_PROVEN && point->bound.num != 0) {
            fprintf(out, "  bound %s", fraction_text(point->bound, bound, sizeof(bound)));
        }
        fputc('\n', out);
    }
    if (front->count == 0) {
        fprintf(out, "  no schedule found\n");
    }
    fprintf(out, "%.3f seconds%s%s\n", seconds, front->was_stopped ? "; stopped before the search was over" : "",
            options->searches && !synth_sat_available()
                ? "; built without CaDiCaL, so that only polynomial methods were tried (Debian: libcadical-dev)"
                : "");
}

/*
 * Prints in one line the chunks that one rank sends to another one in a step, beginning with send `first`. Sends are
 * sorted by step and ranks, so these sends are neighbours. A new line begins if only one of two neighbours is added at
 * its receiver. Returns the index of the first send that was not printed.
 */
static int print_sends(FILE *out, const synth_schedule_t *schedule, int first)
{
    const synth_send_t *send = &schedule->sends[first];
    int end = first;

    fprintf(out, "    rank %d sends rank %d chunk", send->from, send->to);
    while (end < schedule->send_count && schedule->sends[end].step == send->step &&
           schedule->sends[end].from == send->from && schedule->sends[end].to == send->to &&
           schedule->sends[end].adds == send->adds) {
        fprintf(out, "%s %d", end > first ? "," : "", schedule->sends[end].chunk);
        ++end;
    }
    fprintf(out, send->adds ? ", to be added\n" : "\n");
    return end;
}

void synth_tool_steps(FILE *out, const synth_front_t *front)
{
    for (int i = 0; i < front->count; ++i) {
        const synth_schedule_t *schedule = front->points[i].schedule;
        int next_send = 0;

        fprintf(out, "\n%d chunks in %d steps:\n", schedule->chunks, schedule->steps);
        for (int step = 0; step < schedule->steps; ++step) {
            fprintf(out, "  step %d, %d round%s\n", step, schedule->rounds[step],
                    schedule->rounds[step] > 1 ? "s" : "");
            while (next_send < schedule->send_count && schedule->sends[next_send].step == step) {
                next_send = print_sends(out, schedule, next_send);
            }
        }
    }
}
