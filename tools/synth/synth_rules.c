/*
 * Writes a rules file (docs/tuning.md) into the folder of the plans: which plan serves which sizes, by the cost model.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/synth_tool.h"

static const char *const devices[] = {"cuda", "host"};

/* Returns the name of a collective in a rules file, or NULL if plans serve no calls of it. */
static const char *rules_name(synth_collective_t collective)
{
    switch (collective) {
    case SYNTH_ALLGATHER:
    case SYNTH_ALLTOALL:
    case SYNTH_ALLREDUCE:
        return synth_collective_names[collective];
    case SYNTH_REDUCESCATTER:
        return "reduce_scatter_block";
    default:
        return NULL;
    }
}

/*
 * Writes the conditions that every rule of one run of this tool begins with. The collective has to have a name in
 * rules.
 */
static void write_prefix(synth_collective_t collective, int ranks, int device, char *text, size_t size)
{
    snprintf(text, size, "collective=%s ranks=%d device=%s ", rules_name(collective), ranks, devices[device]);
}

/*
 * Copies the lines of the old file to the new one, except for rules that this run replaces. These have the same
 * collective, number of ranks, and value of in_place. A rule is recognised by the prefix that write_rules writes, so
 * rules that were written in another form are kept. Returns false if the old file cannot be read to its end.
 */
static bool copy_other_rules(FILE *old, FILE *out, synth_collective_t collective, int ranks, bool in_place)
{
    char *line = NULL, prefix[96];
    size_t line_capacity = 0;
    ssize_t length;

    while ((length = getline(&line, &line_capacity, old)) > 0) {
        bool is_replaced = false;

        for (int device = 0; device < 2; ++device) {
            write_prefix(collective, ranks, device, prefix, sizeof(prefix));
            is_replaced = is_replaced || (strncmp(line, prefix, strlen(prefix)) == 0 &&
                                          (strstr(line, " in_place=yes ") != NULL) == in_place);
        }
        if (!is_replaced) {
            fputs(line, out);
        }
    }
    free(line);
    return feof(old) != 0;
}

/*
 * Returns the largest message of a plan as rules count it. Plans count all blocks of the collective; rules count the
 * bytes of one block, except for all-reduce.
 */
static uint64_t max_rule_bytes(const synth_candidate_t *candidate)
{
    const uint64_t max_of_rules = (uint64_t)1 << 40; /* the largest size that a rule may have */
    bool has_blocks = candidate->schedule->collective != SYNTH_ALLREDUCE;
    uint64_t max_of_plan =
        has_blocks ? candidate->range.max_bytes / (uint64_t)candidate->schedule->ranks : candidate->range.max_bytes;

    return max_of_plan < max_of_rules ? max_of_plan : max_of_rules;
}

/* Compares candidates by the largest message that they are the fastest for, for qsort. */
static int by_size(const void *left, const void *right)
{
    const synth_candidate_t *const *a = left, *const *b = right;

    return ((*a)->range.max_bytes > (*b)->range.max_bytes) - ((*a)->range.max_bytes < (*b)->range.max_bytes);
}

/*
 * Writes one rule for each kind of device and each plan that is the fastest for some size, in ascending order of sizes.
 * The order matters, since a rule only has the largest size that it serves, and the first rule that accepts a call
 * serves it.
 */
static void write_rules(const synth_candidate_t *candidates, int count, const synth_plan_options_t *plan_options,
                        FILE *out)
{
    const synth_candidate_t *used[SYNTH_MAX_CANDIDATES];
    int used_count = 0;

    for (int i = 0; i < count; ++i) {
        if (candidates[i].range.is_used) {
            used[used_count++] = &candidates[i];
        }
    }
    qsort(used, (size_t)used_count, sizeof(used[0]), by_size);
    for (int device = 0; device < 2; ++device) {
        uint64_t max_before = 0;

        for (int i = 0; i < used_count; ++i) {
            uint64_t max_bytes_of_plan = max_rule_bytes(used[i]);
            char name[96], prefix[96];

            if (max_bytes_of_plan == max_before) {
                continue; /* the previous rule serves all its messages, or it has only empty messages */
            }
            max_before = max_bytes_of_plan;
            write_prefix(used[i]->schedule->collective, used[i]->schedule->ranks, device, prefix, sizeof(prefix));
            synth_tool_plan_name(used[i], plan_options, name, sizeof(name));
            fprintf(out, "%sbytes<=%" PRIu64 " in_place=%s algorithm=plan:%s # model: %.3f us and %.9f us a byte\n",
                    prefix, max_bytes_of_plan, plan_options->in_place ? "yes" : "no", name, used[i]->fixed_us,
                    used[i]->us_per_byte);
        }
    }
}

/* Writes rules.new first and then renames it. If there is an old file that cannot be read, it stays as it is. */
bool synth_tool_rules(const char *folder, const synth_candidate_t *candidates, int count,
                      const synth_plan_options_t *plan_options)
{
    char path[4096], new_path[4112];
    FILE *old, *out;
    int error;
    bool ok;

    if (count == 0 || rules_name(candidates[0].schedule->collective) == NULL) {
        return true;
    }
    snprintf(path, sizeof(path), "%s/rules", folder);
    snprintf(new_path, sizeof(new_path), "%s.new", path);
    out = fopen(new_path, "w");
    ok = out != NULL;
    old = ok ? fopen(path, "r") : NULL;
    ok = ok && (old != NULL || errno == ENOENT);
    if (old != NULL) {
        ok = copy_other_rules(old, out, candidates[0].schedule->collective, candidates[0].schedule->ranks,
                              plan_options->in_place);
    }
    if (ok) {
        write_rules(candidates, count, plan_options, out);
        ok = !ferror(out);
    }
    error = ok ? 0 : errno;
    if (old != NULL) {
        (void)fclose(old);
    }
    if (out != NULL && fclose(out) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 && rename(new_path, path) != 0) {
        error = errno;
    }
    if (error != 0) {
        fprintf(stderr, "mscclpp_synth: %s: %s; the rules in it stay as they were\n", path, strerror(error));
        (void)remove(new_path);
    }
    return error == 0;
}
