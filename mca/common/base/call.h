/* The kinds of buffers that a rank may pass to a call, and the messages about calls in which ranks differ. */
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
 * Messages that several folders use. `label` is the name of the communicator, and `call` the description of the call,
 * such as "all-reduce call 7". `late` lists the ranks that have not arrived. `waited` and `timeout` are in seconds.
 */

/* Logs the error that one rank passed host buffers to a call, and another rank device buffers. */
void mscclpp_report_mixed(const char *label, const char *call, int host_rank, int device_rank);

/* Logs the warning that a rank waits for others and continues to wait. */
void mscclpp_report_late(const char *label, const char *call, int rank, double waited, const char *late);

/*
 * Logs the error that a wait ended at its deadline. `compared` says that the arguments of all ranks are known to match.
 */
void mscclpp_report_deadline(const char *label, const char *call, int rank, double timeout, const char *late,
                             bool compared);

/*
 * Adds `count` to the number of messages that this process has sent about late ranks, failures, or ranks that passed
 * different kinds of buffers. mscclpp_messages_sent returns the counter. Other threads may change it, so the caller
 * reads it atomically. Thread-safe.
 */
void mscclpp_count_messages(int count);
unsigned long long *mscclpp_messages_sent(void);

/*
 * Describes the first peer whose connection was lost, for all connections of one owner. Zeroed memory is a valid
 * initial state. It is written once, by any thread:
 * 1. The thread sets `claimed` by an atomic exchange. Only the first thread goes on, so the fields below have one
 * writer.
 * 2. It writes `peer` and `text`.
 * 3. It sets `noted` with release order. mscclpp_loss_peer loads `noted` with acquire order, so it sees complete
 *    fields.
 */
typedef struct {
    int claimed;    /* 1: a thread writes the fields below, or has written them */
    int noted;      /* 1: the fields below are complete */
    int peer;       /* rank of the lost peer */
    char text[256]; /* the message about its loss */
} mscclpp_loss_t;

/*
 * Stores that a peer is lost, unless another peer was lost before. Logs `text` as information only, because the owner
 * of `loss` decides which rank logs the error. If `loss` is NULL, stores nothing and logs the error immediately.
 */
void mscclpp_note_loss(mscclpp_loss_t *loss, int peer, const char *text);

/* Returns the lost peer, or -1 if there is none or `loss` is NULL. */
int mscclpp_loss_peer(const mscclpp_loss_t *loss);

#endif
