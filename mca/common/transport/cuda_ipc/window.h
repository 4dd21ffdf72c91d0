/*
 * Windows: peers' memory, mapped by the GPU runtime for a transport. A rank describes its memory by a card, which it
 * sends; the peer opens the card and gets a window, the mapping.
 */
#ifndef MCA_COMMON_TRANSPORT_CUDA_IPC_WINDOW_H
#define MCA_COMMON_TRANSPORT_CUDA_IPC_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "mca/common/gpu/mapping.h"
#include "mca/common/transport/transport.h"

/* A kind of cards: cards of tokens, or cards of regions. A card of another kind cannot be opened. */
typedef struct {
    uint64_t magic;          /* first field of every card of this kind */
    const char *transport;   /* name of the transport, for messages */
    const char *description; /* "an address" or "a key", for messages */
} mscclpp_window_kind_t;

/* A card: the description of memory, which is sent as plain bytes. */
typedef struct {
    uint64_t magic;              /* the `magic` of the kind */
    int64_t rank;                /* rank of the sender */
    uint64_t length;             /* number of bytes from the address for which the handle was made */
    mscclpp_gpu_handle_t handle; /* zeroed if the length is 0 */
} mscclpp_window_card_t;

_Static_assert(sizeof(mscclpp_window_card_t) <= MSCCLPP_TRANSPORT_ADDRESS_MAX, "an address holds a card");
_Static_assert(sizeof(mscclpp_window_card_t) <= MSCCLPP_TRANSPORT_KEY_MAX, "a key holds a card");

/* A window: mapped memory of a peer. */
typedef struct {
    mscclpp_mapping_t *mapping;
    char *base;
    uint64_t length;  /* bytes */
    uint64_t lent_id; /* id of the buffer if it is memory of this process, used at its original address; otherwise 0 */
} mscclpp_window_t;

/*
 * Fills in the card of `length` bytes of this rank's memory; memory of 0 bytes has a card without a handle. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, unlogged, if the memory cannot be exported. Logs an error and returns MSCCLPP_ERR_INVALID
 * if it extends beyond its allocation. After a failure *card_p is unchanged.
 */
mscclpp_status_t mscclpp_window_describe(const mscclpp_transport_params_t *params, const mscclpp_window_kind_t *kind,
                                         const void *address, uint64_t length, mscclpp_window_card_t *card_p);

/*
 * Maps the memory that `peer` described. Logs an error and returns MSCCLPP_ERR_INVALID if the bytes are not a card of
 * this kind from that peer, or if the memory is not within its allocation. Fails otherwise as mscclpp_mapping_get does.
 * A card of length 0 gives an empty window. After a failure *window_p is unchanged. The caller closes the window.
 */
mscclpp_status_t mscclpp_window_open(const mscclpp_transport_params_t *params, const mscclpp_window_kind_t *kind,
                                     int peer, const void *bytes, size_t length, mscclpp_window_t *window_p);

/* Asks the runtime whether lent memory still exists. Only mscclpp_window_has_memory calls it. */
bool mscclpp_window_query_lent(const mscclpp_gpu_ops_t *gpu, const mscclpp_window_t *window);

/*
 * Returns true if the peer's memory still exists, and false if the memory is lent and its owner has freed it. A copy to
 * freed memory may kill the process, because the runtime may treat an address that it no longer knows as a host
 * address. The call is cheap if the peer is another process.
 */
static inline bool mscclpp_window_has_memory(const mscclpp_gpu_ops_t *gpu, const mscclpp_window_t *window)
{
    return window->lent_id == 0 || mscclpp_window_query_lent(gpu, window);
}

/* Gives the mapping back and zeroes the window. A zeroed window is allowed. */
void mscclpp_window_close(mscclpp_window_t *window);

#endif
