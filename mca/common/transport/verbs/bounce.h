/*
 * Device memory that no HCA can register, reached through pinned host memory. Private to this folder.
 *
 * A put goes through slots. At the sender a slot takes the bytes of a bounced source, copied there by the runtime; the
 * HCA writes them to where they belong, or, for a bounced target, into the slot of the same number in the receiver's
 * landing memory, where a header and a control message follow. The receiver's progress copies them on, in the order of
 * their coming, and acknowledges what has been copied. One count of slots at the sender bounds the memory of both.
 *
 * A signal waits at its sender until all that went to landing memory is acknowledged: copied into the device memory,
 * that is, so that whoever sees the signal sees the data. Signals themselves go as ever, so that nothing but puts and
 * adds to bounced memory needs the receiver's CPU. Everything here travels on rail 0.
 */
#ifndef MCA_COMMON_TRANSPORT_VERBS_BOUNCE_H
#define MCA_COMMON_TRANSPORT_VERBS_BOUNCE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define MSCCLPP_VERBS_BOUNCE_SLOTS 8
#define MSCCLPP_VERBS_BOUNCE_BYTES 32768 /* of data in a slot */

typedef struct {
    struct {
        uint64_t to; /* address in a region of the receiver */
        uint64_t length;
        uint64_t value; /* of an add */
        uint64_t is_add;
        uint64_t reserved[4]; /* the data begins on a cache line */
    } header;
    unsigned char data[MSCCLPP_VERBS_BOUNCE_BYTES];
} mscclpp_verbs_slot_t;

/* Slots in pinned memory; NULL: not there. */
typedef struct {
    mscclpp_verbs_slot_t *slots;
    struct ibv_mr *mr;
} mscclpp_verbs_slots_t;

/* What the sender knows of a slot in use. */
typedef struct {
    uint64_t from; /* addresses of the data, and of where they go if not to landing memory */
    uint64_t to;
    uint64_t length;
    uint32_t lkey;
    uint32_t rkey;
    bool lands;      /* goes to the receiver's landing memory */
    uint64_t number; /* when free again: with the acknowledgement of this message, or the end of this work request */
} mscclpp_verbs_sent_t;

/* What a connection has of it, where one of its two sides has memory to be bounced. */
typedef struct {
    mscclpp_verbs_slots_t out;
    mscclpp_verbs_slots_t in; /* the landing memory; there if this side has memory to be bounced */
    uint64_t peer_in;         /* the peer's, 0 if it has none */
    uint32_t peer_rkey;

    /* The part of a put for which there were no slots yet. */
    struct {
        uint64_t from;
        uint64_t to;
        uint64_t length;
        uint32_t lkey;
        uint32_t rkey;
        bool copied; /* the source is bounced */
        bool lands;
    } rest;

    /* Slots ever given free again, given to the HCA, filled, and given a use. */
    uint64_t freed, posted, copied, begun;
    uint64_t messages, acknowledged; /* of those posted, what lands */
    mscclpp_verbs_sent_t sent[MSCCLPP_VERBS_BOUNCE_SLOTS];

    /* What the peer sent: come, being copied, copied, and acknowledged. */
    uint64_t arrived, issued, executed, told;
    int add_stage; /* of the add at `executed` */
} mscclpp_verbs_bounce_t;

#endif
