/* A rules file (docs/tuning.md) beside the plans: which of them serves which sizes, as the cost model says. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/synth_tool.h"

static const char *const devices[] = {"cuda", "host"};

/* The name of a collective in a rules file; NULL if no plan serves it. */
static const char *keyword(synth_collective_t collective)
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

/* Writes the conditions that begin every rule of one run of this tool. */
static void rule_prefix(synth_collective_t collective, int ranks, int device, char *text, size_t size)
{
    snprintf(text, size, "collective=%s ranks=%d device=%s ", keyword(collective), ranks, devices[device]);
}

/* Copies the rules of other runs to the new file. Rules of this collective and number of ranks are left out, if they
 * are in place as this run's plans are. */
static void keep_others(FILE *old, FILE *out, synth_collective_t collective, int ranks, bool in_place)
{
    char *line = NULL, prefix[96];
    size_t room = 0;
    ssize_t length;

    while ((length = getline(&line, &room, old)) > 0) {
        bool is_replaced = false;

        for (int device = 0; device < 2; ++device) {
            rule_prefix(collective, ranks, device, prefix, sizeof(prefix));
            is_replaced = is_replaced || (strncmp(line, prefix, strlen(prefix)) == 0 &&
                                          (strstr(line, " in_place=yes ") != NULL) == in_place);
        }
        if (!is_replaced) {
            fputs(line, out);
        }
    }
    free(line);
}

/* The largest message of a plan, as rules count it: for collectives other than all-reduce, the bytes of one block;
 * plans count all blocks. */
static uint64_t most_bytes(const synth_candidate_t *candidate)
{
    const uint64_t all = (uint64_t)1 << 40; /* what a rule may say */
    bool blocks = candidate->schedule->collective != SYNTH_ALLREDUCE;
    uint64_t most = blocks ? candidate->range.most / (uint64_t)candidate->schedule->ranks : candidate->range.most;

    return most < all ? most : all;
}

/* For qsort: candidates by the largest message that they are the fastest for. */
static int by_size(const void *left, const void *right)
{
    const synth_candidate_t *const *a = left, *const *b = right;

    return ((*a)->range.most > (*b)->range.most) - ((*a)->range.most < (*b)->range.most);
}

/* Writes one rule for each kind of device and each plan that is the fastest for some size. */
static void write_rules(const synth_candidate_t *candidates, int count, const synth_making_t *making, FILE *out)
{
    const synth_candidate_t *used[SYNTH_MAX_CANDIDATES];
    int uses = 0;

    for (int i = 0; i < count; ++i) {
        if (candidates[i].range.any) {
            used[uses++] = &candidates[i];
        }
    }
    qsort(used, (size_t)uses, sizeof(used[0]), by_size);
    for (int device = 0; device < 2; ++device) {
        uint64_t before = 0;

        for (int i = 0; i < uses; ++i) {
            uint64_t most = most_bytes(used[i]);
            char name[96], first[96];

            if (most == before) {
                continue; /* no message is so small that it would be chosen */
            }
            before = most;
            rule_prefix(used[i]->schedule->collective, used[i]->schedule->ranks, device, first, sizeof(first));
            synth_tool_plan_name(used[i], making, name, sizeof(name));
            fprintf(out, "%sbytes<=%" PRIu64 " in_place=%s algorithm=plan:%s # model: %.3f us and %.9f us a byte\n",
                    first, most, making->in_place ? "yes" : "no", name, used[i]->fixed, used[i]->slope);
        }
    }
}

bool synth_tool_rules(const char *folder, const synth_candidate_t *candidates, int count, const synth_making_t *making)
{
    char path[4096], fresh[4112];
    FILE *old, *out;
    bool fine;

    if (count == 0 || keyword(candidates[0].schedule->collective) == NULL) {
        return true;
    }
    snprintf(path, sizeof(path), "%s/rules", folder);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    out = fopen(fresh, "w");
    fine = out != NULL;
    old = fine ? fopen(path, "r") : NULL;
    if (old != NULL) {
        keep_others(old, out, candidates[0].schedule->collective, candidates[0].schedule->ranks, making->in_place);
        fclose(old);
    }
    if (fine) {
        write_rules(candidates, count, making, out);
        fine = !ferror(out);
        fine = fclose(out) == 0 && fine && rename(fresh, path) == 0;
    }
    if (!fine) {
        fprintf(stderr, "mscclpp_synth: %s: %s\n", path, strerror(errno));
    }
    return fine;
}
