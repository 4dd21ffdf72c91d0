/* Writes the files of --output: the topology, the front, and plans of its points. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/synth/lib/lower.h"
#include "tools/synth/synth_tool.h"

enum { MAX_UNUSED = 1024 }; /* a schedule that is the fastest for no size becomes a plan only up to this many sends */

/* Prints why a file could not be written (errno). Returns false, so that the caller can return it. */
static bool report_errno(const char *path)
{
    fprintf(stderr, "mscclpp_synth: %s: %s\n", path, strerror(errno));
    return false;
}

/* Closes a file after writing to it. If a write or the close has failed, prints a message and returns false. */
static bool close_written(FILE *file, const char *path)
{
    const bool is_written = !ferror(file);

    return (fclose(file) == 0 && is_written) || report_errno(path);
}

void synth_tool_plan_name(const synth_candidate_t *candidate, const synth_plan_options_t *plan_options, char *name,
                          size_t size)
{
    static const char *const kinds[SYNTH_MANNERS] = {"", "_packets", "_pipeline"};
    const synth_schedule_t *schedule = candidate->schedule;

    snprintf(name, size, "synth_%s_%d_%d_%d_%d%s%s%s", synth_collective_names[schedule->collective], schedule->ranks,
             schedule->chunks, schedule->steps, synth_schedule_rounds(schedule), kinds[candidate->manner],
             plan_options->in_place ? "_in_place" : "", plan_options->gpus_suffix);
}

/*
 * Stores in `path` the path of a plan's file. A plan that is the fastest for no size goes to the subfolder "found",
 * from which the component does not load plans.
 */
static void plan_path(const char *folder, const synth_candidate_t *candidate, const synth_plan_options_t *plan_options,
                      char *path, size_t size)
{
    char name[96];

    synth_tool_plan_name(candidate, plan_options, name, sizeof(name));
    snprintf(path, size, "%s/%s%s.json", folder, candidate->range.is_used ? "" : "found/", name);
}

/* Writes the text of a plan to a file. Returns false after a message; no part of the text is left in the file then. */
static bool write_plan(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    bool ok = file != NULL && fwrite(text, 1, size, file) == size;

    if (file != NULL && fclose(file) != 0) {
        ok = false;
    }
    if (!ok) {
        report_errno(path);
        if (file != NULL) {
            (void)unlink(path);
        }
    }
    return ok;
}

/*
 * Proves a plan, writes it, and reports it in `messages`. If memory runs out, the plan is not proven, or the file
 * cannot be written, prints a message on standard error and returns false.
 */
static bool save_plan(const char *folder, const synth_topology_t *topology, const synth_candidate_t *candidate,
                      const synth_plan_options_t *plan_options, FILE *messages)
{
    const synth_range_t all_sizes = {.is_used = true, .max_bytes = UINT64_MAX}, *range = &candidate->range;
    synth_lowering_t lowering = {.manner = candidate->manner,
                                 .in_place = plan_options->in_place,
                                 .instances = plan_options->instances,
                                 .range = range->is_used ? *range : all_sizes};
    char name[96], path[4096], reason[512] = "no memory";
    bool checked = false, is_written;
    size_t size = 0;
    char *text;

    synth_tool_plan_name(candidate, plan_options, name, sizeof(name));
    lowering.name = name;
    plan_path(folder, candidate, plan_options, path, sizeof(path));
    text = synth_lower(topology, candidate->schedule, &lowering, &size);
    if (text == NULL || !synth_prove(text, size, &checked, reason, sizeof(reason))) {
        fprintf(stderr, "mscclpp_synth: the plan %s is not proven, so it is not written: %s\n", name, reason);
        free(text);
        return false;
    }
    is_written = write_plan(path, text, size);
    free(text);
    if (!is_written) {
        return false;
    }
    fprintf(messages, "%s: proven, three launches", path);
    if (!checked) {
        fprintf(messages,
                "; the format has no name for the collective, so its results were replayed on the schedule only");
    } else if (!range->is_used) {
        fprintf(messages, "; others are faster for every size");
    } else if (range->max_bytes == UINT64_MAX) {
        fprintf(messages, "; for messages of %" PRIu64 " bytes and more", range->min_bytes);
    } else {
        fprintf(messages, "; for messages of %" PRIu64 " to %" PRIu64 " bytes", range->min_bytes, range->max_bytes);
    }
    fputc('\n', messages);
    return true;
}

/*
 * Saves the plan of candidate `index`. Stores in `saved` which plans are saved. Returns false after a message if the
 * plan of this candidate is not saved.
 *
 * If that fails, another candidate gets its sizes, so that every size has a plan. A file contains the sizes of its
 * plan. So the other candidate's plan is saved again if it was already saved; otherwise it will be saved later. If
 * saving it again fails, its file, which has too few sizes, is removed, and the next candidate gets the sizes of both.
 */
static bool save_or_replace(const char *folder, const synth_topology_t *topology, synth_candidate_t *candidates,
                            int count, int index, bool *saved, const synth_plan_options_t *plan_options, FILE *messages)
{
    int current = index, replacement;
    char path[4096];

    saved[index] = save_plan(folder, topology, &candidates[index], plan_options, messages);
    while (!saved[current] && candidates[current].range.is_used) {
        replacement = synth_reassign_range(candidates, count, current);
        if (replacement < 0 || !saved[replacement]) {
            break;
        }
        saved[replacement] = save_plan(folder, topology, &candidates[replacement], plan_options, messages);
        if (!saved[replacement]) {
            plan_path(folder, &candidates[replacement], plan_options, path, sizeof(path));
            (void)unlink(path);
        }
        current = replacement;
    }
    return saved[index];
}

/* Writes the topology to the subfolder "found". If that fails, prints a message and returns false. */
static bool save_topology(const char *folder, const synth_topology_t *topology)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/found/topology_%d.json", folder, topology->ranks);
    file = fopen(path, "w");
    if (file == NULL) {
        return report_errno(path);
    }
    synth_topology_write(topology, file);
    return close_written(file, path);
}

/* Writes the topology and the front first, then the plans, and at last the rules. */
bool synth_tool_save(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                     const synth_options_t *options, const synth_front_t *front, double seconds,
                     const synth_plan_options_t *plan_options, FILE *messages)
{
    synth_candidate_t candidate[SYNTH_MAX_CANDIDATES];
    bool saved[SYNTH_MAX_CANDIDATES] = {false};
    char path[4096];
    bool ok = true;
    FILE *file;
    int count;

    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return report_errno(folder);
    }
    /* coll_mscclpp_plans treats all files next to this folder as plans */
    snprintf(path, sizeof(path), "%s/found", folder);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return report_errno(path);
    }
    if (!save_topology(folder, topology)) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/found/%s_%d.json", folder, synth_collective_names[collective], topology->ranks);
    file = fopen(path, "w");
    if (file == NULL) {
        return report_errno(path);
    }
    synth_tool_front(file, topology, collective, options, front, seconds, true);
    if (!close_written(file, path)) {
        return false;
    }
    count = synth_candidates(topology, front, plan_options->in_place, plan_options->instances, candidate);
    for (int i = 0; i < count; ++i) {
        if (!candidate[i].range.is_used && candidate[i].schedule->send_count > MAX_UNUSED) {
            continue; /* the proof would take long, and no call uses the plan */
        }
        ok = save_or_replace(folder, topology, candidate, count, i, saved, plan_options, messages) && ok;
    }
    return synth_tool_rules(folder, candidate, count, plan_options) && ok;
}
