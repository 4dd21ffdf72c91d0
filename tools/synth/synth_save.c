/* Files: the front, and a plan of each of its points. */
#include <errno.h>
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

static bool save_plan(const char *folder, const synth_point_t *point, int instances, FILE *say)
{
    const synth_schedule_t *schedule = point->schedule;
    char name[80], path[4096], why[512] = "no memory";
    bool checked = false, fine;
    size_t size = 0;
    char *text;
    FILE *file;

    snprintf(name, sizeof(name), "synth_%s_%d_%d_%d", synth_collective_names[schedule->collective], schedule->chunks,
             schedule->steps, synth_schedule_rounds(schedule));
    snprintf(path, sizeof(path), "%s/%s.json", folder, name);
    text = synth_lower(schedule, name, instances, &size);
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
    fprintf(say, "%s: proven, three launches%s\n", path,
            checked ? ""
                    : "; the format has no name for the collective, so its results were replayed on the schedule only");
    return true;
}

static bool save_topology(const char *folder, const synth_topology_t *topology)
{
    char path[4096];
    FILE *file;
    bool fine;

    snprintf(path, sizeof(path), "%s/found/topology.json", folder);
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
    snprintf(path, sizeof(path), "%s/found/%s.json", folder, synth_collective_names[collective]);
    file = fopen(path, "w");
    if (file == NULL) {
        return wrong(path);
    }
    synth_tool_front(file, topology, collective, options, front, seconds, true);
    if (fclose(file) != 0) {
        return wrong(path);
    }
    for (int i = 0; i < front->count; ++i) {
        fine = save_plan(folder, &front->point[i], instances, say) && fine;
    }
    return fine;
}
