/*
 * Memory and channels for kernels of the application. All such objects of a communicator share one team, which is used
 * for nothing else. So the embedding runtime's calls and the application's kernels never wait for one another.
 *
 * Functions are collective over the team's ranks, which call them in the same order, unless they say "local". A
 * collective function ends in the same way on all ranks: if a rank fails, all ranks return its status, and the others
 * log which rank failed. An invalid argument is logged as an error that names the value. All other errors are logged,
 * too, except for MSCCLPP_ERR_REVOKED, which says that the team has ended. After an error of a function that creates an
 * object, nothing is left to free.
 *
 * One thread at a time calls functions on the objects of one team.
 */
#ifndef MCA_COMMON_USER_USER_H
#define MCA_COMMON_USER_USER_H

#include "device/types/user.h"
#include "mca/common/team/team.h"

typedef struct mscclpp_user mscclpp_user_t;
typedef struct mscclpp_user_memory mscclpp_user_memory_t;
typedef struct mscclpp_user_channels mscclpp_user_channels_t;
typedef struct mscclpp_user_room mscclpp_user_room_t;

/* The maximum number of channels of one object, and of blocks of a room. */
#define MSCCLPP_USER_CHANNELS_MAX 4096
#define MSCCLPP_USER_BLOCKS_MAX 1024

/*
 * Creates the parts that the objects of a team share. The team must outlive them. `config` is copied. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, which is logged as information, if a rank cannot take part. Ranks that take turns on a GPU
 * are such a case, because their kernels cannot wait for one another.
 */
mscclpp_status_t mscclpp_user_create(mscclpp_team_t *team, const mscclpp_config_t *config, mscclpp_user_t **user_p);

/*
 * Ends the use of a team's objects: makes kernels give up. The caller destroys the team only after this call.
 * Afterwards the application can only free the objects that it still has. Memory that peers may still use is never
 * freed. Local. NULL is allowed.
 */
void mscclpp_user_end(mscclpp_user_t *user);

/*
 * Returns the failure that kernels have reported: MSCCLPP_ERR_TIMEOUT, MSCCLPP_ERR_INVALID for a misuse,
 * MSCCLPP_ERR_PEER if the proxy failed, or MSCCLPP_OK if there is none. Writes the message into `text` and does not log
 * it. After an error all waits of kernels of this rank end. Local; never waits.
 */
mscclpp_status_t mscclpp_user_find_failure(mscclpp_user_t *user, char *text, size_t size);

/*
 * Shares `bytes` bytes at `base` of each rank. They must be in one allocation of device memory that can be exported. If
 * `base` is NULL, allocates zeroed memory. Sizes may differ between ranks, and may be 0. Kernels can access the memory
 * of the ranks of their node. The memory of other nodes can only be used through port channels. The memory is kept
 * until mscclpp_user_memory_free.
 */
mscclpp_status_t mscclpp_user_memory_create(mscclpp_user_t *user, void *base, uint64_t bytes,
                                            mscclpp_user_memory_t **memory_p);

/*
 * Ends the sharing, and frees the object, with its memory if mscclpp_user_memory_create has allocated it. Kernels that
 * use the memory must have ended on all ranks. Returns once no peer maps the memory any more. While channels use the
 * memory, returns MSCCLPP_ERR_INVALID at once and changes nothing. After any other error the object is gone.
 */
mscclpp_status_t mscclpp_user_memory_free(mscclpp_user_memory_t *memory);

/*
 * Return the address of this rank's memory, and the structure that kernels need to use the memory of all ranks.
 * mscclpp_user_memory_view returns MSCCLPP_ERR_REVOKED after the end of the team. Local.
 */
void *mscclpp_user_memory_base(const mscclpp_user_memory_t *memory);
mscclpp_status_t mscclpp_user_memory_view(const mscclpp_user_memory_t *memory, mscclpp_dev_user_memory_t *view);

typedef enum {
    MSCCLPP_USER_ANY_CHANNELS, /* memory channels if all ranks are on one node, else port channels */
    MSCCLPP_USER_MEMORY_CHANNELS,
    MSCCLPP_USER_PORT_CHANNELS
} mscclpp_user_kind_t;

/*
 * Creates `per_peer` channels to each of `peer_count` other ranks. If rank i names rank j, rank j must name rank i.
 * Channel k to the peer number p has the index p * per_peer + k. It is connected to that peer's channel k to this rank.
 * `kind` and `per_peer` must be equal on all ranks. A rank may name no peer. Memory channels connect ranks of one node
 * only.
 */
mscclpp_status_t mscclpp_user_channels_create(mscclpp_user_memory_t *memory, mscclpp_user_kind_t kind, int peer_count,
                                              const int *peers, int per_peer, mscclpp_user_channels_t **channels_p);

/* Frees channels, which must be closed. Kernels that use them must have ended on all ranks. */
mscclpp_status_t mscclpp_user_channels_free(mscclpp_user_channels_t *channels);

/*
 * Return the number of channels, whether they are port channels, and in *view the structure that kernels need for the
 * channel with this index, which must exist. mscclpp_user_channels_view returns MSCCLPP_ERR_REVOKED after the end of
 * the team. Local.
 */
int mscclpp_user_channels_count(const mscclpp_user_channels_t *channels);
bool mscclpp_user_channels_are_ports(const mscclpp_user_channels_t *channels);
mscclpp_status_t mscclpp_user_channels_view(const mscclpp_user_channels_t *channels, int index,
                                            mscclpp_dev_user_channel_t *view);

/*
 * Open and close port channels. Between the two, the proxy executes the triggers that kernels push. The calls nest. The
 * last close waits, up to the deadline, until all pushed triggers have been executed. Kernels that push must have ended
 * by then. After a timeout or a failure of the proxy the channels count as closed. Local.
 */
mscclpp_status_t mscclpp_user_channels_open(mscclpp_user_channels_t *channels);
mscclpp_status_t mscclpp_user_channels_close(mscclpp_user_channels_t *channels);

/*
 * Passes the triggers of a port channel to `handler`. The proxy's thread calls it in the order in which they were
 * pushed. The handler returns 0 when it is done, and 1 to be called again with the same trigger. Any other value fails
 * all channels of the object. With NULL, triggers are puts and signals again. Allowed only while the object is not
 * open. Local.
 */
typedef int (*mscclpp_user_handler_fn_t)(void *context, const mscclpp_dev_request_t *request);
mscclpp_status_t mscclpp_user_channels_set_handler(mscclpp_user_channels_t *channels, int index,
                                                   mscclpp_user_handler_fn_t handler, void *context);

/*
 * Makes the proxy execute a whole list for each trigger of a port channel. The items of the list name channels of the
 * object by their indices. An item's type is DATA, SIGNAL, both, or ADD. The next trigger is executed when the puts of
 * all items have left their sources, and a flush waits for that. The list is copied. With `count` 0, triggers are puts
 * and signals again. Allowed only while the object is not open. After an error the old list or handler remains. Local.
 */
mscclpp_status_t mscclpp_user_channels_set_list(mscclpp_user_channels_t *channels, int index, int count,
                                                const mscclpp_dev_request_t *items);

/*
 * Create, free and describe a room: memory for barriers and small all-reduces inside kernels. A block takes part
 * together with the blocks of the same number on all other ranks. A kernel may have up to `blocks` blocks, and an
 * all-reduce up to `bytes` bytes. Both must be equal on all ranks. mscclpp_user_room_create returns
 * MSCCLPP_ERR_NOT_SUPPORTED, which is logged, if the ranks are on several nodes. mscclpp_user_room_view fills in the
 * structure for kernels. It is local, and returns MSCCLPP_ERR_REVOKED after the end of the team.
 */
mscclpp_status_t mscclpp_user_room_create(mscclpp_user_t *user, int blocks, uint64_t bytes,
                                          mscclpp_user_room_t **room_p);
mscclpp_status_t mscclpp_user_room_free(mscclpp_user_room_t *room);
mscclpp_status_t mscclpp_user_room_view(const mscclpp_user_room_t *room, mscclpp_dev_user_room_t *view); /* local */

#endif
