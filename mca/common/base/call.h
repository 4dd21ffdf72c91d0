/* The kinds of buffers that a rank may pass to a call, and the messages for calls that not all ranks make alike. */
#ifndef MCA_COMMON_BASE_CALL_H
#define MCA_COMMON_BASE_CALL_H

#include <stdbool.h>

typedef enum {
    MSCCLPP_CALL_NONE = 0, /* no call has been announced */
    MSCCLPP_CALL_DEVICE = 1,
    MSCCLPP_CALL_HOST = 2,
    MSCCLPP_CALL_EITHER = 3 /* the rank passes no buffer, and follows the other ranks */
} mscclpp_call_kind_t;

/*
 * Messages that several folders use. `label` names the communicator, and `call` the call, such as "all-reduce call 7".
 * `late` lists the ranks that have not arrived. `waited` and `timeout` are in seconds.
 */

/* Logs the error that one rank passed host buffers to a call, and another rank device buffers. */
void mscclpp_report_mixed(const char *label, const char *call, int host_rank, int device_rank);

/* Logs the warning that a rank waits for others and goes on waiting. */
void mscclpp_report_late(const char *label, const char *call, int rank, double waited, const char *late);

/* Logs the error that a wait ended at its deadline. `compared`: the arguments of all ranks are known to match. */
void mscclpp_report_deadline(const char *label, const char *call, int rank, double timeout, const char *late,
                             bool compared);

/*
 * The first peer that the connections of one owner have lost. Zeroed at first. Connections write it from any thread;
 * the others read it with mscclpp_loss_peer.
 */
typedef struct {
    int claimed;    /* a connection writes the fields below, or has done so */
    int noted;      /* they are complete */
    int peer;       /* rank of the lost peer */
    char text[256]; /* the message about its loss */
} mscclpp_loss_t;

/*
 * Notes that a peer is lost, unless one was lost before. Logs `text` at the level of information only: whoever owns
 * `loss` decides which rank logs the error. NULL: notes nothing, and logs the error at once.
 */
void mscclpp_note_loss(mscclpp_loss_t *loss, int peer, const char *text);

/* Returns the peer that is lost; -1: none, or `loss` is NULL. */
int mscclpp_loss_peer(const mscclpp_loss_t *loss);

#endif
