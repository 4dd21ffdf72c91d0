/* The end of a team, and what then happens to the objects that the application has not freed. */
#include <stdlib.h>

#include "mca/common/base/log.h"
#include "mca/common/user/internal.h"

/*
 * The words that kernels read are freed only if the application has freed all objects. Otherwise kernels that use an
 * object may still read the words, and the host cannot tell when these kernels end.
 */
void mscclpp_user_end(mscclpp_user_t *user)
{
    mscclpp_user_memory_t *memory;
    mscclpp_user_channels_t *channels;
    mscclpp_user_room_t *room;

    if (user == NULL) {
        return;
    }
    __atomic_store_n(&user->words->mailbox.abort, 1, __ATOMIC_RELAXED);
    if (user->unfreed > 0) {
        mscclpp_warn("%s: rank %d: the communicator is freed before %d of its objects for kernels (memory, channels, "
                     "rooms); free them first: their memory stays taken",
                     user->oob.label, user->oob.rank, user->unfreed);
    }
    /* Channels come first, because they use memory objects. */
    while ((channels = user->channels) != NULL) {
        mscclpp_user_channels_end(channels);
    }
    while ((room = user->rooms) != NULL) {
        mscclpp_user_room_end(room);
    }
    while ((memory = user->memories) != NULL) {
        mscclpp_user_memory_end(memory);
    }
    if (user->unfreed == 0) {
        user->gpu->host_free(user->words);
    }
    user->words = NULL;
    user->has_ended = true;
    if (user->unfreed == 0) {
        free(user->node_of);
        free(user);
    }
}
