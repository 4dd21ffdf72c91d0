/*
 * A shortage of memory spares the embedding runtime: its own allocations do not fail when a rank posts a message.
 */
#ifndef TEST_UNIT_SHORTAGE_POST_H
#define TEST_UNIT_SHORTAGE_POST_H

#include "mca/common/oob/oob.h"
#include "test/unit/shortage.h"

/* The runtime's own function, equal for all ranks. The test sets it before it starts ranks. */
static mscclpp_status_t (*shortage_post)(void *context, int peer, const void *message, size_t length);

/* Takes the place of oob.post_message: calls shortage_post while no allocation fails. */
static mscclpp_status_t shortage_post_spared(void *context, int peer, const void *message, size_t length)
{
    const long kept = shortage_left;
    mscclpp_status_t status;

    shortage_left = 0;
    status = shortage_post(context, peer, message, length);
    shortage_left = kept;
    return status;
}

#endif
