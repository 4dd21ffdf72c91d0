#include "mca/common/run/repeats.h"

#include <stdlib.h>
#include <string.h>

/*
 * A launch is prepared after this many ordinary launches with the same arguments, because preparing it takes as long as
 * several launches.
 */
#define LAUNCHES_BEFORE_PREPARING 4u

/* Returns true if the two launches have the same kernel, grid and arguments. */
static bool is_same(const mscclpp_dev_launch_t *first, const mscclpp_dev_launch_t *second)
{
    return first->kernel == second->kernel && first->nblocks == second->nblocks &&
           first->nthreads == second->nthreads &&
           memcmp(first->args, second->args, mscclpp_dev_args_size(first->kernel)) == 0;
}

/* Frees what the entry has prepared. The kernel of the entry's launch must have ended. */
static void clear_entry(mscclpp_repeat_t *entry, const mscclpp_gpu_ops_t *gpu)
{
    if (entry->prepared != NULL) {
        gpu->prepared_destroy(entry->prepared);
    }
    free((void *)entry->launch.args);
    memset(entry, 0, sizeof(*entry));
}

/*
 * Returns the entry of launches with the same kernel, grid and arguments. If there is none, makes one in place of the
 * least recently used entry, whose kernel has ended: each kernel of the team ends before the next launch. Returns NULL,
 * with nothing changed, if there is no memory for a copy of the arguments.
 */
static mscclpp_repeat_t *find_or_make(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu,
                                      const mscclpp_dev_launch_t *launch)
{
    mscclpp_repeat_t *replaced = &repeats->entries[0];
    const size_t size = mscclpp_dev_args_size(launch->kernel);
    void *args;
    int i;

    for (i = 0; i < MSCCLPP_REPEATS; ++i) {
        mscclpp_repeat_t *entry = &repeats->entries[i];

        if (entry->launch.args != NULL && is_same(&entry->launch, launch)) {
            return entry;
        }
        replaced = entry->last_use < replaced->last_use ? entry : replaced;
    }
    args = malloc(size);
    if (args == NULL) {
        return NULL;
    }
    memcpy(args, launch->args, size);
    clear_entry(replaced, gpu);
    replaced->launch = *launch;
    replaced->launch.args = args;
    return replaced;
}

/* If a launch cannot be prepared, this launch and all later launches are ordinary (`has_failed`). */
mscclpp_status_t mscclpp_repeats_launch(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *gpu, int device,
                                        mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    mscclpp_repeat_t *entry = NULL;

    if (gpu->launch_prepare != NULL && !repeats->has_failed) {
        entry = find_or_make(repeats, gpu, launch);
    }
    if (entry == NULL) {
        return gpu->launch(stream, launch);
    }
    entry->last_use = ++repeats->clock;
    if (entry->prepared == NULL && ++entry->launches > LAUNCHES_BEFORE_PREPARING &&
        gpu->launch_prepare(device, launch, &entry->prepared) != MSCCLPP_OK) {
        repeats->has_failed = true;
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
