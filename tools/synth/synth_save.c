/* Files: the front, and a plan of each of its points. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/synth/lib/lower.h"
#include "tools/synth/synth_tool.h"

static bool wrong(const char *path)
{
    fprintf(stderr, "mscclpp_synth: %s: %s\n", path, strerror(errno));
    return false;
}

/* Plans that others beat for every size go to where nobody takes them by themselves. */
static bool save_plan(const char *folder, const synth_topology_t *topology, const synth_point_t *point, int instances,
                      const synth_range_t *range, FILE *say)
{
    const synth_schedule_t *schedule = point->schedule;
    char name[80], path[4096], why[512] = "no memory";
    const synth_range_t all = {true, 0, UINT64_MAX};
    bool checked = false, fine;
    size_t size = 0;
    char *text;
    FILE *file;

    snprintf(name, sizeof(name), "synth_%s_%d_%d_%d_%d", synth_collective_names[schedule->collective], schedule->ranks,
             schedule->chunks, schedule->steps, synth_schedule_rounds(schedule));
    snprintf(path, sizeof(path), "%s/%s%s.json", folder, range->any ? "" : "found/", name);
    text = synth_lower(topology, schedule, name, instances, range->any ? range : &all, &size);
    if (text == NULL || !synth_prove(text, size, &checked, why, sizeof(why))) {
        fprintf(stderr, "mscclpp_synth: the plan %s is not proven, so it is not written: %s\n", name, why);
        free(text);
        return false;
    }
    file = fopen(path, "w");
    fine = file != NULL && fwrite(text, 1, size, file) == size;
    if (file != NULL && fclose(file) != 0) {
        fine = false;
    }
    free(text);
    if (!fine) {
        return wrong(path);
    }
    fprintf(say, "%s: proven, three launches", path);
    if (!checked) {
        fprintf(say, "; the format has no name for the collective, so its results were replayed on the schedule only");
    } else if (!range->any) {
        fprintf(say, "; others are faster for every size");
    } else if (range->most == UINT64_MAX) {
        fprintf(say, "; for messages of %" PRIu64 " bytes and more", range->least);
    } else {
        fprintf(say, "; for messages of %" PRIu64 " to %" PRIu64 " bytes", range->least, range->most);
    }
    fputc('\n', say);
    return true;
}

static bool save_topology(const char *folder, const synth_topology_t *topology)
{
    char path[4096];
    FILE *file;
    bool fine;

    snprintf(path, sizeof(path), "%s/found/topology_%d.json", folder, topology->ranks);
    file = fopen(path, "w");
    if (file == NULL) {
        return wrong(path);
    }
    synth_topology_write(topology, file);
    fine = !ferror(file);
    return (fclose(file) == 0 && fine) || wrong(path);
}

bool synth_tool_save(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                     const synth_options_t *options, const synth_front_t *front, double seconds, int instances,
                     FILE *say)
{
    synth_range_t range[SYNTH_MAX_POINTS];
    char path[4096];
    bool fine = true;
    FILE *file;

    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return wrong(folder);
    }
    snprintf(path, sizeof(path), "%s/found", folder); /* coll_mscclpp_plans takes what lies beside it for plans */
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return wrong(path);
    }
    if (!save_topology(folder, topology)) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/found/%s_%d.json", folder, synth_collective_names[collective], topology->ranks);
    file = fopen(path, "w");
    if (file == NULL) {
        return wrong(path);
    }
    synth_tool_front(file, topology, collective, options, front, seconds, true);
    if (fclose(file) != 0) {
        return wrong(path);
    }
    synth_ranges(topology, front, range);
    for (int i = 0; i < front->count; ++i) {
        fine = save_plan(folder, topology, &front->point[i], instances, &range[i], say) && fine;
    }
    return fine;
}
