/* A queue of received control messages, for the carrier ucx. */
#ifndef MCA_COMMON_CTRL_UCX_QUEUE_H
#define MCA_COMMON_CTRL_UCX_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/ctrl/ctrl.h"

/* A message as it is sent, as plain bytes: all ranks of one team run on machines of one kind. */
typedef struct {
    uint64_t team_id;
    uint32_t rank;   /* the sender's rank in the team */
    uint32_t to;     /* the receiver's rank, because several ranks of a team may share a process and a worker */
    uint32_t length; /* number of bytes of the payload */
    unsigned char payload[MSCCLPP_CTRL_MESSAGE_MAX];
} mscclpp_ctrl_ucx_frame_t;

typedef struct mscclpp_ctrl_ucx_message {
    struct mscclpp_ctrl_ucx_message *next;
    mscclpp_ctrl_ucx_frame_t frame;
} mscclpp_ctrl_ucx_message_t;

typedef struct {
    mscclpp_ctrl_ucx_message_t *first, *last;
    int count;
} mscclpp_ctrl_ucx_queue_t;

/*
 * Reserve and release a spare message, and return memory for one message, which the caller frees by free. If there is
 * no memory, mscclpp_ctrl_ucx_queue_new returns the reserved message, so that a notice of a failure is not lost, or
 * NULL if that is in use, too. mscclpp_ctrl_ucx_queue_reserve returns false if there is no memory. None of the
 * functions below is thread-safe.
 */
bool mscclpp_ctrl_ucx_queue_reserve(void);
void mscclpp_ctrl_ucx_queue_release(void);
mscclpp_ctrl_ucx_message_t *mscclpp_ctrl_ucx_queue_new(void);

/* Adds a message, and takes ownership of it; it must come from malloc. */
void mscclpp_ctrl_ucx_queue_push(mscclpp_ctrl_ucx_queue_t *queue, mscclpp_ctrl_ucx_message_t *message);

/* Returns the oldest message, which the caller frees; NULL if there is none. */
mscclpp_ctrl_ucx_message_t *mscclpp_ctrl_ucx_queue_pop(mscclpp_ctrl_ucx_queue_t *queue);

/*
 * Moves the messages for rank `to` of a team from one queue to another. Drops messages whose senders are not ranks of
 * the team, which has `size` ranks.
 */
void mscclpp_ctrl_ucx_queue_claim(mscclpp_ctrl_ucx_queue_t *from, uint64_t team_id, int to, int size,
                                  mscclpp_ctrl_ucx_queue_t *queue);

/* Frees all messages. */
void mscclpp_ctrl_ucx_queue_clear(mscclpp_ctrl_ucx_queue_t *queue);

#endif
