#include "mca/common/run/repeats.h"

#include <stdlib.h>
#include <string.h>

/*
 * So many launches with the same arguments come before one is prepared, as preparing takes as long as several launches.
 */
#define SEEN_BEFORE 4u

static bool is_same(const mscclpp_dev_launch_t *a, const mscclpp_dev_launch_t *b)
{
    return a->kernel == b->kernel && a->nblocks == b->nblocks && a->nthreads == b->nthreads &&
           memcmp(a->args, b->args, mscclpp_dev_args_size(a->kernel)) == 0;
}

/* Destroys the prepared launch of an entry, and empties the entry. */
static void clear_entry(mscclpp_repeat_t *entry, const mscclpp_gpu_ops_t *gpu)
{
    if (entry->prepared != NULL) {
        gpu->prepared_destroy(entry->prepared);
    }
    free((void *)entry->launch.args);
    memset(entry, 0, sizeof(*entry));
}

/*
 * Finds the entry of a launch. If there is none, makes one in place of the least recently used entry. NULL: no memory.
 */
static mscclpp_repeat_t *find_or_make(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu,
                                      const mscclpp_dev_launch_t *launch)
{
    mscclpp_repeat_t *oldest = &repeats->entries[0];
    const size_t size = mscclpp_dev_args_size(launch->kernel);
    void *args;
    int i;

    for (i = 0; i < MSCCLPP_REPEATS; ++i) {
        mscclpp_repeat_t *entry = &repeats->entries[i];

        if (entry->launch.args != NULL && is_same(&entry->launch, launch)) {
            return entry;
        }
        oldest = entry->used < oldest->used ? entry : oldest;
    }
    args = malloc(size);
    if (args == NULL) {
        return NULL;
    }
    memcpy(args, launch->args, size);
    clear_entry(oldest, gpu);
    oldest->launch = *launch;
    oldest->launch.args = args;
    return oldest;
}

mscclpp_status_t mscclpp_repeats_launch(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu, int device,
                                        mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    mscclpp_repeat_t *entry = NULL;

    if (gpu->launch_prepare != NULL && !repeats->refused) {
        entry = find_or_make(repeats, gpu, launch);
    }
    if (entry == NULL) {
        return gpu->launch(stream, launch);
    }
    entry->used = ++repeats->clock;
    if (entry->prepared == NULL && ++entry->seen > SEEN_BEFORE &&
        gpu->launch_prepare(device, launch, &entry->prepared) != MSCCLPP_OK) {
        repeats->refused = true;
    }
    return entry->prepared != NULL ? gpu->launch_prepared(stream, entry->prepared) : gpu->launch(stream, launch);
}

void mscclpp_repeats_clear(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu)
{
    int i;

    for (i = 0; i < MSCCLPP_REPEATS; ++i) {
        clear_entry(&repeats->entries[i], gpu);
    }
}
