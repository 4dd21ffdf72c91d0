/* Memory objects of the application: each rank's memory, shared with all ranks. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/user/internal.h"

mscclpp_status_t mscclpp_user_memory_create(mscclpp_user_t *user, void *base, uint64_t bytes,
                                            mscclpp_user_memory_t **memory_p)
{
    mscclpp_user_memory_t *memory = calloc(1, sizeof(*memory));
    mscclpp_user_share_t share;
    mscclpp_status_t status = MSCCLPP_OK;

    if (memory == NULL) {
        mscclpp_error("%s: no memory to register %llu bytes", user->oob.label, (unsigned long long)bytes);
        status = MSCCLPP_ERR_NO_MEMORY;
    } else if (bytes > MSCCLPP_DEV_PORT_REGION_MAX) {
        mscclpp_error("%s: rank %d: %llu bytes of memory for channels; at most %llu are allowed", user->oob.label,
                      user->oob.rank, (unsigned long long)bytes, (unsigned long long)MSCCLPP_DEV_PORT_REGION_MAX);
        status = MSCCLPP_ERR_INVALID;
    }
    /* The call is made after a failure, too, because the other ranks are in it and learn about the failure there. */
    status = mscclpp_user_share_create(user, base, bytes, status, "memory for channels", &share);
    if (status != MSCCLPP_OK) {
        free(memory);
        return status;
    }
    memory->user = user;
    memory->share = share;
    memory->next = user->memories;
    user->memories = memory;
    ++user->unfreed;
    *memory_p = memory;
    return MSCCLPP_OK;
}

/* Removes the memory from the list of its team. The memory must be in the list of its team. */
static void unlink_memory(mscclpp_user_memory_t *memory)
{
    mscclpp_user_memory_t **link = &memory->user->memories;

    while (*link != memory) {
        link = &(*link)->next;
    }
    *link = memory->next;
}

/*
 * Returns MSCCLPP_ERR_INVALID, with nothing changed, if channels use the memory. If the vote of all ranks fails,
 * returns its error; the object is then freed, but its memory is kept. After the end of the team only the object is
 * left, because mscclpp_user_memory_end has removed it from the list and dropped its share.
 */
mscclpp_status_t mscclpp_user_memory_free(mscclpp_user_memory_t *memory)
{
    mscclpp_user_t *user = memory->user;
    mscclpp_status_t status = MSCCLPP_OK;

    if (!user->has_ended) {
        if (memory->channel_sets > 0) {
            mscclpp_error("%s: rank %d: memory is freed while %d sets of channels use it; free these first",
                          user->oob.label, user->oob.rank, memory->channel_sets);
            return MSCCLPP_ERR_INVALID;
        }
        unlink_memory(memory);
        status = mscclpp_user_share_free(user, &memory->share);
    }
    free(memory);
    mscclpp_user_leave(user);
    return status;
}

void mscclpp_user_memory_end(mscclpp_user_memory_t *memory)
{
    unlink_memory(memory);
    mscclpp_user_share_drop(memory->user, &memory->share);
}

void *mscclpp_user_memory_base(const mscclpp_user_memory_t *memory)
{
    return memory->share.own_memory;
}

/* The table in device memory has the addresses of all ranks' memory, followed by the sizes (share.c). */
mscclpp_status_t mscclpp_user_memory_view(const mscclpp_user_memory_t *memory, mscclpp_dev_user_memory_t *view)
{
    const size_t ranks = (size_t)memory->user->oob.size;

    if (memory->user->has_ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    memset(view, 0, sizeof(*view));
    mscclpp_user_watch(memory->user, &view->watch);
    view->own = memory->share.own_memory;
    view->bytes = memory->share.bytes;
    view->peers = memory->share.table;
    view->sizes = (const uint64_t *)(const void *)((const char *)memory->share.table + ranks * sizeof(char *));
    return MSCCLPP_OK;
}
