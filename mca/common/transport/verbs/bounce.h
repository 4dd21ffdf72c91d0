/*
 * Bounces device memory that no HCA can register through pinned host memory. Private to this folder.
 *
 * A put is sent through slots. If its source is bounced, the runtime copies the bytes into a slot of the sender. The
 * HCA writes them to their target. If the target is bounced, the HCA writes them into the next slot of the receiver.
 * These slots are used in turn, and are the receiver's landing memory. A header and a control message follow the bytes
 * there. The receiver's progress copies the bytes to their target, in the order of arrival, and acknowledges them. The
 * sender counts the slots in use, which limits the memory on both sides.
 *
 * A signal waits at its sender until all data in landing memory is acknowledged. The data is then in device memory, so
 * a kernel that sees the signal also sees the data. Signals themselves are sent as usual, so only puts and adds to
 * bounced memory need the receiver's CPU. All of this uses rail 0.
 */
#ifndef MCA_COMMON_TRANSPORT_VERBS_BOUNCE_H
#define MCA_COMMON_TRANSPORT_VERBS_BOUNCE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define MSCCLPP_VERBS_BOUNCE_SLOTS 8     /* slots of a connection, for each direction */
#define MSCCLPP_VERBS_BOUNCE_BYTES 32768 /* bytes of data in a slot */

typedef struct {
    struct {
        uint64_t to; /* address in a region of the receiver */
        uint64_t length;
        uint64_t value;       /* the value to add */
        uint64_t is_add;      /* 1: an add to the word at `to`; 0: data of a put */
        uint64_t reserved[4]; /* padding, so that the data begins on a cache line */
    } header;
    unsigned char data[MSCCLPP_VERBS_BOUNCE_BYTES];
} mscclpp_verbs_slot_t;

/* Slots in pinned memory; NULL if there are none. */
typedef struct {
    mscclpp_verbs_slot_t *slots;
    struct ibv_mr *mr; /* their registration on rail 0 */
} mscclpp_verbs_slots_t;

/* The sender's state of a slot in use. */
typedef struct {
    uint64_t from;   /* address of the data: in the slot, or of the source if the HCA can read it */
    uint64_t to;     /* address of the target; not used if the data goes to landing memory */
    uint64_t length; /* number of bytes of data; 0: an add */
    uint32_t lkey;
    uint32_t rkey;
    bool to_landing;   /* the data goes to the receiver's landing memory */
    uint64_t freed_by; /* number of the message (to_landing) or else the work request whose end frees the slot */
} mscclpp_verbs_sent_t;

/* The progress of an add to bounced memory. A value stays after its copy has ended, until the next step. */
enum {
    MSCCLPP_VERBS_ADD_NONE,  /* no copy has begun */
    MSCCLPP_VERBS_ADD_READS, /* the word is copied to the slot */
    MSCCLPP_VERBS_ADD_WRITES /* the sum is copied from the slot to the word */
};

/* The bounce state of a connection with bounced memory on at least one side. */
typedef struct {
    mscclpp_verbs_slots_t out; /* slots for data that this side sends */
    mscclpp_verbs_slots_t in;  /* the landing memory; only if this side has bounced memory */
    uint64_t peer_in;          /* address of the peer's landing memory; 0 if it has none */
    uint32_t peer_rkey;        /* key of the peer's landing memory */

    /* The part of a put that still waits for slots. */
    struct {
        uint64_t from;
        uint64_t to;
        uint64_t length;
        uint32_t lkey;
        uint32_t rkey;
        bool is_from_bounced; /* the source is bounced, so the bytes are copied to slots first */
        bool to_landing;
    } waiting;

    /*
     * The numbers of slots of `out` so far that were freed, handed to the HCA, filled, and taken. Each count is at
     * least the previous one, and `begun` is at most freed + MSCCLPP_VERBS_BOUNCE_SLOTS.
     */
    uint64_t freed, posted, copied, begun;
    uint64_t messages, acknowledged; /* numbers of messages sent to landing memory, and acknowledged */
    mscclpp_verbs_sent_t sent[MSCCLPP_VERBS_BOUNCE_SLOTS];

    /*
     * The numbers of the peer's messages so far that have arrived, begun to be copied, been executed, and been
     * acknowledged.
     */
    uint64_t arrived, issued, executed, acknowledged_to_peer;
    int add_stage; /* MSCCLPP_VERBS_ADD_...: progress of the add in message `executed` */
} mscclpp_verbs_bounce_t;

#endif
