/* Stores schedules and tries in a JSON file, with the ranks in the canonical numbering. */
#include "tools/synth/lib/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mca/common/base/file.h"
#include "mca/common/plan/json.h"
#include "tools/synth/lib/canon.h"

enum {
    MAX_SCHEDULES = 256,  /* schedules */
    MAX_TRIED = 8192,     /* tries */
    MAX_BYTES = 64 << 20, /* of a file */
    MAX_ROUNDS = 1 << 20, /* in a file */
    MAX_PASSES = 1 << 10, /* in a file */
    PATH = 4096           /* bytes of a path */
};

/* The result of searching for one instance: a schedule with these numbers of steps, chunks and rounds. */
typedef struct {
    int steps, chunks, rounds;
    int passes;         /* how many passes of the search were not cut short */
    bool is_impossible; /* it is proven that no such schedule exists */
} tried_t;

struct synth_cache {
    synth_collective_t collective;
    int root, ranks;
    synth_canon_t canon;
    int rank_at[SYNTH_MAX_RANKS]; /* [number in the canonical numbering]: the rank that has it */
    char path[PATH];
    synth_schedule_t *schedules[MAX_SCHEDULES]; /* in the canonical numbering */
    double seconds[MAX_SCHEDULES];              /* how long the search for each took */
    int schedule_count;
    tried_t *tried;
    int tried_count;
    bool is_dirty;   /* the cache has schedules or tries that are not in the file */
    int write_errno; /* errno of a write that failed; 0: none */
};

/*
 * Returns a copy of a schedule in which rank r is replaced by map[r], and each chunk by the corresponding chunk. The
 * chunks of a rank's block move with the rank. The chunks of an all-to-all also move with their receivers. A broadcast
 * has one block, whose chunks keep their numbers. The root is meaningful only if the collective has one. Returns NULL
 * if memory runs out.
 */
static synth_schedule_t *renumbered(const synth_schedule_t *schedule, const int *map)
{
    synth_schedule_t *copy = synth_schedule_copy(schedule);
    int chunks = schedule->chunks, per_receiver = chunks / schedule->ranks;

    if (copy == NULL) {
        return NULL;
    }
    copy->root = map[schedule->root];
    for (int i = 0; i < copy->send_count; ++i) {
        synth_send_t *send = &copy->sends[i];
        int block = send->chunk / chunks, index = send->chunk % chunks;

        if (schedule->collective != SYNTH_BROADCAST) {
            index = schedule->collective == SYNTH_ALLTOALL
                        ? map[index / per_receiver] * per_receiver + index % per_receiver
                        : index;
            send->chunk = map[block] * chunks + index;
        }
        send->from = map[send->from];
        send->to = map[send->to];
    }
    synth_schedule_sort(copy);
    return copy;
}

/*
 * Reads a whole number from 0 to `max`. Returns false, with the number 0, if the value is missing or is no such
 * number.
 */
static bool read_number(const mscclpp_json_t *value, int max, int *number_p)
{
    bool is_valid = value != NULL && value->type == MSCCLPP_JSON_UNSIGNED && value->number <= (uint64_t)max;

    *number_p = is_valid ? (int)value->number : 0;
    return is_valid;
}

/* Reads an array of exactly `count` numbers, number i from 0 to max[i]. Returns false if it is no such array. */
static bool read_numbers(const mscclpp_json_t *array, const int *max, int count, int *number_p)
{
    const mscclpp_json_t *item =
        array->type == MSCCLPP_JSON_ARRAY && array->count == (uint32_t)count ? array->first : NULL;
    bool is_valid = item != NULL;

    for (int i = 0; is_valid && i < count; ++i, item = item->next) {
        is_valid = read_number(item, max[i], &number_p[i]);
    }
    return is_valid;
}

/*
 * Reads one schedule and adds it to the cache. Returns false if a value is missing, of the wrong type or out of range,
 * if the cache is full, or if memory runs out. Ranks, chunks and steps are checked here, because renumbered uses them
 * as indices; the replay checks the rest. In the canonical numbering the root is always rank 0.
 */
static bool read_point(synth_cache_t *cache, const mscclpp_json_t *point)
{
    const mscclpp_json_t *rounds = mscclpp_json_get(point, "rounds"), *sends = mscclpp_json_get(point, "sends");
    int chunks, steps, milliseconds, step = 0;
    bool ok = point->type == MSCCLPP_JSON_OBJECT && cache->schedule_count < MAX_SCHEDULES &&
              read_number(mscclpp_json_get(point, "chunks"), SYNTH_MAX_CHUNKS, &chunks) &&
              read_number(mscclpp_json_get(point, "steps"), SYNTH_MAX_STEPS, &steps) &&
              read_number(mscclpp_json_get(point, "milliseconds"), 1 << 30, &milliseconds) && chunks > 0 &&
              chunks % synth_min_chunks(cache->collective, cache->ranks) == 0 && rounds != NULL &&
              rounds->type == MSCCLPP_JSON_ARRAY && rounds->count == (uint32_t)steps && sends != NULL &&
              sends->type == MSCCLPP_JSON_ARRAY;
    synth_schedule_t *schedule;

    if (!ok) {
        return false;
    }
    schedule = synth_schedule_new(cache->collective, cache->ranks, 0, chunks);
    if (schedule == NULL) {
        return false;
    }
    schedule->steps = steps;
    for (const mscclpp_json_t *item = rounds->first; ok && item != NULL; item = item->next) {
        ok = read_number(item, MAX_ROUNDS, &schedule->rounds[step++]);
    }
    for (const mscclpp_json_t *item = sends->first; ok && item != NULL; item = item->next) {
        int max[4] = {schedule->total_chunks - 1, cache->ranks - 1, cache->ranks - 1, steps - 1};
        int send[4]; /* chunk, from, to, step */

        ok =
            read_numbers(item, max, 4, send) && synth_schedule_add(schedule, send[0], send[1], send[2], send[3], false);
    }
    if (!ok) {
        synth_schedule_free(schedule);
        return false;
    }
    cache->seconds[cache->schedule_count] = milliseconds / 1000.0;
    cache->schedules[cache->schedule_count++] = schedule;
    return true;
}

/*
 * Adds the contents of a file, whose JSON is `root`, to the cache. Returns false if the file is for another topology or
 * is not valid. Some of its contents may then have been added.
 */
static bool read_entry(synth_cache_t *cache, const mscclpp_json_t *root)
{
    const mscclpp_json_t *text = mscclpp_json_get(root, "topology"), *points = mscclpp_json_get(root, "schedules");
    const mscclpp_json_t *tried = mscclpp_json_get(root, "tried");
    int version;

    if (root->type != MSCCLPP_JSON_OBJECT || !read_number(mscclpp_json_get(root, "version"), 1, &version) ||
        version != 1 || text == NULL || text->type != MSCCLPP_JSON_STRING ||
        strcmp(text->text, cache->canon.text) != 0 || points == NULL || points->type != MSCCLPP_JSON_ARRAY ||
        tried == NULL || tried->type != MSCCLPP_JSON_ARRAY) {
        return false;
    }
    for (const mscclpp_json_t *point = points->first; point != NULL; point = point->next) {
        if (!read_point(cache, point)) {
            return false;
        }
    }
    for (const mscclpp_json_t *item = tried->first; item != NULL; item = item->next) {
        int max[5] = {SYNTH_MAX_STEPS, SYNTH_MAX_CHUNKS, MAX_ROUNDS, MAX_PASSES, 1};
        int numbers[5]; /* steps, chunks, rounds, passes, is_impossible */

        if (!read_numbers(item, max, 5, numbers)) {
            return false;
        }
        synth_cache_try(cache, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] != 0);
    }
    return true;
}

/* Empties the cache in memory, and frees its schedules. */
static void clear(synth_cache_t *cache)
{
    for (int i = 0; i < cache->schedule_count; ++i) {
        synth_schedule_free(cache->schedules[i]);
    }
    cache->schedule_count = 0;
    cache->tried_count = 0;
}

/*
 * Reads the file if it exists. Returns false if it is no entry for this topology, is too large, or cannot be read, or
 * if memory runs out. Some of its contents may then have been added to the cache.
 */
static bool read_file(synth_cache_t *cache, char *reason, size_t reason_size)
{
    const char *open_reason = "";
    FILE *file = mscclpp_file_open(cache->path, O_RDONLY, &open_reason);
    mscclpp_plan_arena_t *arena = file != NULL ? mscclpp_plan_arena_new() : NULL;
    struct stat status;
    mscclpp_json_t *root = NULL;
    char *text = NULL;
    bool ok = false;

    if (file == NULL) { /* a missing file is no error: nothing was searched yet */
        return access(cache->path, F_OK) != 0;
    }
    if (arena != NULL && fstat(fileno(file), &status) == 0 && status.st_size <= MAX_BYTES) {
        size_t size = (size_t)status.st_size;

        text = malloc(size + 1);
        ok = text != NULL && fread(text, 1, size, file) == size &&
             mscclpp_json_parse(arena, text, size, reason, reason_size, &root) == MSCCLPP_OK && read_entry(cache, root);
    }
    free(text);
    mscclpp_plan_arena_free(arena);
    fclose(file);
    return ok;
}

/*
 * Makes a folder and the folders above it, unless they exist. The name has to be shorter than PATH. Returns false, with
 * the reason in errno, if the folder cannot be made. Failures for the folders above are ignored, because the last call
 * then fails, too.
 */
static bool make_folder(const char *folder)
{
    char path[PATH];

    snprintf(path, sizeof(path), "%s", folder);
    for (char *cursor = path + 1; *cursor != '\0'; ++cursor) {
        if (*cursor == '/') {
            *cursor = '\0';
            (void)mkdir(path, 0777);
            *cursor = '/';
        }
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* Names the file by the digest of the canonical text and by the collective. */
synth_cache_t *synth_cache_open(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                                int root, char *reason, size_t reason_size)
{
    synth_cache_t *cache = calloc(1, sizeof(*cache));
    char digest[SYNTH_DIGEST];

    reason[0] = '\0';
    if (cache == NULL) {
        return NULL;
    }
    cache->collective = collective;
    cache->root = root;
    cache->ranks = topology->ranks;
    cache->tried = malloc(sizeof(*cache->tried) * MAX_TRIED);
    if (cache->tried == NULL || !synth_canon_find(topology, root, &cache->canon)) {
        free(cache->tried);
        free(cache);
        return NULL;
    }
    for (int rank = 0; rank < topology->ranks; ++rank) {
        cache->rank_at[cache->canon.numbering[rank]] = rank;
    }
    synth_canon_digest(&cache->canon, digest);
    if (snprintf(cache->path, sizeof(cache->path), "%s/%s-%s.json", folder, digest,
                 synth_collective_names[collective]) >= (int)sizeof(cache->path)) {
        cache->write_errno = ENAMETOOLONG;
    } else if (!make_folder(folder)) {
        cache->write_errno = errno;
    } else if (!read_file(cache, reason, reason_size)) {
        clear(cache);
        snprintf(reason, reason_size, "%.160s is no entry of the cache, and is written anew", cache->path);
    } else {
        reason[0] = '\0';
    }
    cache->is_dirty = false; /* tries that were read from the file need not be written */
    return cache;
}

int synth_cache_count(const synth_cache_t *cache)
{
    return cache->schedule_count;
}

synth_schedule_t *synth_cache_schedule(const synth_cache_t *cache, int i, double *seconds_p)
{
    synth_schedule_t *schedule = renumbered(cache->schedules[i], cache->rank_at);

    *seconds_p = cache->seconds[i];
    if (schedule != NULL) {
        schedule->root = cache->root < 0 ? 0 : cache->root;
    }
    return schedule;
}

/*
 * Writes all schedules and tries as JSON. The text of the topology has no characters that JSON would have to escape.
 * The caller checks for errors with ferror.
 */
static void write_entry(const synth_cache_t *cache, FILE *out)
{
    fprintf(out, "{\"version\": 1, \"collective\": \"%s\",\n \"topology\": \"%s\",\n \"schedules\": [",
            synth_collective_names[cache->collective], cache->canon.text);
    for (int i = 0; i < cache->schedule_count; ++i) {
        const synth_schedule_t *schedule = cache->schedules[i];

        fprintf(out, "%s\n  {\"chunks\": %d, \"steps\": %d, \"milliseconds\": %d, \"rounds\": [", i > 0 ? "," : "",
                schedule->chunks, schedule->steps, (int)(cache->seconds[i] * 1000));
        for (int step = 0; step < schedule->steps; ++step) {
            fprintf(out, step > 0 ? ", %d" : "%d", schedule->rounds[step]);
        }
        fprintf(out, "],\n   \"sends\": [");
        for (int j = 0; j < schedule->send_count; ++j) {
            const synth_send_t *send = &schedule->sends[j];

            fprintf(out, "%s[%d, %d, %d, %d]", j > 0 ? ", " : "", send->chunk, send->from, send->to, send->step);
        }
        fprintf(out, "]}");
    }
    fprintf(out, "],\n \"tried\": [");
    for (int i = 0; i < cache->tried_count; ++i) {
        const tried_t *tried = &cache->tried[i];

        fprintf(out, "%s[%d, %d, %d, %d, %d]", i > 0 ? ", " : "", tried->steps, tried->chunks, tried->rounds,
                tried->passes, tried->is_impossible);
    }
    fprintf(out, "]}\n");
}

/*
 * Writes the file under another name first and then renames it, so that no process reads an incomplete file. On failure
 * it sets `write_errno`; further calls then do nothing.
 */
static void write_file(synth_cache_t *cache)
{
    char path[PATH + 32];
    FILE *file;
    bool ok;

    if (cache->write_errno != 0) {
        return;
    }
    snprintf(path, sizeof(path), "%s.%ld", cache->path, (long)getpid());
    file = fopen(path, "w");
    if (file == NULL) {
        cache->write_errno = errno;
        return;
    }
    write_entry(cache, file);
    ok = !ferror(file);
    ok = fclose(file) == 0 && ok;
    if (!ok || rename(path, cache->path) != 0) {
        cache->write_errno = errno != 0 ? errno : EIO;
        (void)unlink(path);
        return;
    }
    cache->is_dirty = false;
}

void synth_cache_keep(synth_cache_t *cache, const synth_schedule_t *schedule, double seconds)
{
    synth_schedule_t *copy =
        cache->schedule_count < MAX_SCHEDULES ? renumbered(schedule, cache->canon.numbering) : NULL;

    if (copy != NULL) {
        cache->seconds[cache->schedule_count] = seconds;
        cache->schedules[cache->schedule_count++] = copy;
        write_file(cache);
    }
}

/* Returns the entry of an instance; NULL if it was not tried. */
static tried_t *find_tried(const synth_cache_t *cache, int steps, int chunks, int rounds)
{
    for (int i = 0; i < cache->tried_count; ++i) {
        tried_t *tried = &cache->tried[i];

        if (tried->steps == steps && tried->chunks == chunks && tried->rounds == rounds) {
            return tried;
        }
    }
    return NULL;
}

int synth_cache_tried(const synth_cache_t *cache, int steps, int chunks, int rounds, bool *is_impossible_p)
{
    const tried_t *tried = find_tried(cache, steps, chunks, rounds);

    *is_impossible_p = tried != NULL && tried->is_impossible;
    return tried != NULL ? tried->passes : 0;
}

void synth_cache_try(synth_cache_t *cache, int steps, int chunks, int rounds, int passes, bool is_impossible)
{
    tried_t *tried = find_tried(cache, steps, chunks, rounds);

    if (tried == NULL && cache->tried_count < MAX_TRIED) {
        tried = &cache->tried[cache->tried_count++];
        *tried = (tried_t){.steps = steps, .chunks = chunks, .rounds = rounds};
    }
    if (tried != NULL) {
        tried->passes = passes > tried->passes ? passes : tried->passes;
        tried->is_impossible = tried->is_impossible || is_impossible;
        cache->is_dirty = true;
    }
}

bool synth_cache_close(synth_cache_t *cache, char *reason, size_t reason_size)
{
    int error;

    if (cache->is_dirty) {
        write_file(cache);
    }
    error = cache->write_errno;
    if (error != 0) {
        snprintf(reason, reason_size, "the cache %.160s is not written: %s", cache->path, strerror(error));
    }
    clear(cache);
    synth_canon_free(&cache->canon);
    free(cache->tried);
    free(cache);
    return error == 0;
}
