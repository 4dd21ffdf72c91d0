#include "mca/common/ctrl/ucx_queue.h"

#include <stdlib.h>

static mscclpp_ctrl_ucx_message_t *spare; /* for a message that comes while there is no memory */

bool mscclpp_ctrl_ucx_queue_reserve(void)
{
    if (spare == NULL) {
        spare = malloc(sizeof(*spare));
    }
    return spare != NULL;
}

void mscclpp_ctrl_ucx_queue_release(void)
{
    free(spare);
    spare = NULL;
}

mscclpp_ctrl_ucx_message_t *mscclpp_ctrl_ucx_queue_new(void)
{
    mscclpp_ctrl_ucx_message_t *message = malloc(sizeof(*message));

    if (message == NULL) {
        message = spare;
        spare = NULL;
    } else {
        (void)mscclpp_ctrl_ucx_queue_reserve(); /* replaces a spare message that was taken */
    }
    return message;
}

void mscclpp_ctrl_ucx_queue_push(mscclpp_ctrl_ucx_queue_t *queue, mscclpp_ctrl_ucx_message_t *message)
{
    message->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = message;
    } else {
        queue->first = message;
    }
    queue->last = message;
    ++queue->count;
}

/* In an empty queue, `first` and `last` are NULL. */
mscclpp_ctrl_ucx_message_t *mscclpp_ctrl_ucx_queue_pop(mscclpp_ctrl_ucx_queue_t *queue)
{
    mscclpp_ctrl_ucx_message_t *message = queue->first;

    if (message != NULL) {
        queue->first = message->next;
        if (queue->first == NULL) {
            queue->last = NULL;
        }
        --queue->count;
    }
    return message;
}

/*
 * Takes each message once from the front, and puts messages for others back at the end, so their order is kept. A
 * message for this rank whose sender's number is invalid is dropped.
 */
void mscclpp_ctrl_ucx_queue_claim(mscclpp_ctrl_ucx_queue_t *from, uint64_t team_id, int to, int size,
                                  mscclpp_ctrl_ucx_queue_t *queue)
{
    for (int unseen = from->count; unseen > 0; --unseen) {
        mscclpp_ctrl_ucx_message_t *message = mscclpp_ctrl_ucx_queue_pop(from);

        if (message->frame.team_id != team_id || message->frame.to != (uint32_t)to) {
            mscclpp_ctrl_ucx_queue_push(from, message);
        } else if (message->frame.rank < (uint32_t)size) {
            mscclpp_ctrl_ucx_queue_push(queue, message);
        } else {
            free(message);
        }
    }
}

void mscclpp_ctrl_ucx_queue_clear(mscclpp_ctrl_ucx_queue_t *queue)
{
    while (queue->first != NULL) {
        free(mscclpp_ctrl_ucx_queue_pop(queue));
    }
}
