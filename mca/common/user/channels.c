/* Channels between pairs of ranks: who is connected to whom, and memory channels. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/user/internal.h"

/* The distance between two counters, in words, so that peers write to different cache lines. */
#define COUNTER_STEP 16u

/* The channels that a rank asks for. Each rank sends its card to all others. */
typedef struct {
    uint64_t peers; /* a bit for each peer's rank: such communicators have at most MSCCLPP_DEV_MAX_RANKS ranks */
    int32_t is_port;
    int32_t per_peer;
    int64_t status; /* mscclpp_status_t of the check of the rank's arguments */
} card_t;

_Static_assert(MSCCLPP_DEV_MAX_RANKS <= 64, "a word has a bit for each rank of a node");

/*
 * Checks the arguments of this rank, and adds the peers to the card. Returns MSCCLPP_ERR_INVALID, which is logged, if
 * an argument is wrong. Only the comparison of all cards can tell whether the peers also name this rank.
 */
static mscclpp_status_t check_arguments(const mscclpp_user_t *user, int peer_count, const int *peers, int per_peer,
                                        card_t *card)
{
    int i;

    if (peer_count < 0 || peer_count >= user->oob.size || per_peer < 1 ||
        (int64_t)per_peer * user->oob.size > MSCCLPP_USER_CHANNELS_MAX) {
        mscclpp_error(
            "%s: rank %d: %d channels to each of %d peers; at most %d peers are allowed, and 1 to %d channels "
            "to each",
            user->oob.label, user->oob.rank, per_peer, peer_count, user->oob.size - 1,
            MSCCLPP_USER_CHANNELS_MAX / user->oob.size);
        return MSCCLPP_ERR_INVALID;
    }
    for (i = 0; i < peer_count; ++i) {
        const uint64_t bit = peers[i] >= 0 && peers[i] < user->oob.size ? UINT64_C(1) << peers[i] : 0;

        if (bit == 0 || peers[i] == user->oob.rank || (card->peers & bit) != 0) {
            mscclpp_error("%s: rank %d: peer number %d of its channels is rank %d; ranks 0 to %d are allowed, each "
                          "once, and not the rank itself",
                          user->oob.label, user->oob.rank, i, peers[i], user->oob.size - 1);
            return MSCCLPP_ERR_INVALID;
        }
        card->peers |= bit;
    }
    return MSCCLPP_OK;
}

/*
 * Checks that the cards of all ranks, in the order of the ranks, fit together:
 *
 * - No rank has failed. This is checked first.
 * - All ranks ask for the same kind and number of channels.
 * - Memory channels connect ranks of one node only.
 * - Peers name each other. The cards name only existing ranks, because check_arguments has accepted them.
 *
 * All ranks compare the same cards in the same order, so all return the same status: the error of the first rank that
 * has failed, or MSCCLPP_ERR_INVALID. All ranks log it, except that first rank, which has logged its own error already.
 */
static mscclpp_status_t compare_cards(const mscclpp_user_t *user, const card_t *cards)
{
    int rank, peer;

    for (rank = 0; rank < user->oob.size; ++rank) {
        if (cards[rank].status != MSCCLPP_OK) {
            if (rank != user->oob.rank) {
                mscclpp_error("%s: channels: rank %d: %s", user->oob.label, rank,
                              mscclpp_status_string((mscclpp_status_t)cards[rank].status));
            }
            return (mscclpp_status_t)cards[rank].status;
        }
    }
    for (rank = 0; rank < user->oob.size; ++rank) {
        if (cards[rank].is_port != cards[0].is_port || cards[rank].per_peer != cards[0].per_peer) {
            mscclpp_error(
                "%s: rank 0 makes %d %s channels to each peer, and rank %d %d %s channels; both must be equal "
                "on all ranks",
                user->oob.label, (int)cards[0].per_peer, cards[0].is_port ? "port" : "memory", rank,
                (int)cards[rank].per_peer, cards[rank].is_port ? "port" : "memory");
            return MSCCLPP_ERR_INVALID;
        }
        for (peer = 0; peer < user->oob.size; ++peer) {
            if ((cards[rank].peers >> peer & 1) == 0) {
                continue;
            }
            if (!cards[rank].is_port && user->node_of != NULL && user->node_of[rank] != user->node_of[peer]) {
                mscclpp_error("%s: rank %d names rank %d as a peer of memory channels, and they are on different "
                              "nodes; use MPIX_MSCCLPP_CHANNEL_PORT",
                              user->oob.label, rank, peer);
                return MSCCLPP_ERR_INVALID;
            }
            if ((cards[peer].peers >> rank & 1) == 0) {
                mscclpp_error("%s: rank %d names rank %d as a peer of its channels, but rank %d does not name rank %d",
                              user->oob.label, rank, peer, peer, rank);
                return MSCCLPP_ERR_INVALID;
            }
        }
    }
    return MSCCLPP_OK;
}

/*
 * Checks on all ranks that their lists of peers fit together. Collective. All ranks return the same status. A rank that
 * has no memory for the cards passes NULL to the all-gather. The all-gather then fails on all ranks, and the other
 * ranks log that.
 */
static mscclpp_status_t agree_on_peers(const mscclpp_user_t *user, card_t *card)
{
    card_t *cards = malloc((size_t)user->oob.size * sizeof(*cards));
    mscclpp_status_t status = user->oob.allgather(user->oob.context, card, cards, sizeof(*card));

    if (status == MSCCLPP_OK) {
        status = compare_cards(user, cards);
    }
    free(cards);
    return status;
}

/*
 * Frees the channels' lists and the object itself. The lists need not be complete. The caller has already freed the
 * ports, or the counters of memory channels. No kernel may use `expected` any more; to keep `expected`, the caller sets
 * the pointer to NULL.
 */
static void free_channels(mscclpp_user_channels_t *channels)
{
    if (channels->expected != NULL) {
        channels->user->gpu->device_free(channels->user->device, channels->expected);
    }
    free(channels->peers);
    free(channels);
}

/*
 * Allocates the lists of peers and of expected signals. `expected` is device memory with a zeroed word for each
 * channel, or NULL without peers. free_channels frees both lists, also after an error.
 */
static mscclpp_status_t allocate_lists(mscclpp_user_channels_t *channels, const int *peers)
{
    const size_t count = (size_t)channels->peer_count * (size_t)channels->per_peer;
    mscclpp_status_t status = MSCCLPP_OK;
    void *expected;

    channels->peers = malloc((size_t)(channels->peer_count > 0 ? channels->peer_count : 1) * sizeof(*channels->peers));
    if (channels->peers == NULL) {
        mscclpp_error("%s: no memory for channels", channels->user->oob.label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    if (channels->peer_count > 0) {
        memcpy(channels->peers, peers, (size_t)channels->peer_count * sizeof(*peers));
        status = channels->user->gpu->device_alloc(channels->user->device, count * sizeof(uint64_t), &expected);
        channels->expected = status == MSCCLPP_OK ? expected : NULL;
    }
    return status;
}

/*
 * `kind` is the same on all ranks, also for MSCCLPP_USER_ANY_CHANNELS, because `node_of` is set either on all ranks or
 * on none.
 */
mscclpp_status_t mscclpp_user_channels_create(mscclpp_user_memory_t *memory, mscclpp_user_kind_t kind, int peer_count,
                                              const int *peers, int per_peer, mscclpp_user_channels_t **channels_p)
{
    mscclpp_user_t *user = memory->user;
    mscclpp_user_channels_t *channels = calloc(1, sizeof(*channels));
    const bool is_port =
        kind == MSCCLPP_USER_PORT_CHANNELS || (kind == MSCCLPP_USER_ANY_CHANNELS && user->node_of != NULL);
    card_t card = {.is_port = is_port, .per_peer = per_peer, .status = MSCCLPP_OK};
    mscclpp_status_t status;

    if (user->has_ended) {
        free(channels);
        return MSCCLPP_ERR_REVOKED;
    }
    if (channels == NULL) {
        mscclpp_error("%s: no memory for channels", user->oob.label);
    }
    /* A rank that has failed also takes part in the exchange, because the other ranks wait for its card. */
    card.status = channels != NULL ? check_arguments(user, peer_count, peers, per_peer, &card) : MSCCLPP_ERR_NO_MEMORY;
    status = agree_on_peers(user, &card);
    if (status != MSCCLPP_OK) {
        free(channels);
        return status;
    }
    channels->user = user;
    channels->memory = memory;
    channels->is_port = is_port;
    channels->peer_count = peer_count;
    channels->per_peer = per_peer;
    /*
     * If this step fails, the calls below tell the other ranks. They have agreed to continue, and would wait for this
     * rank.
     */
    status = allocate_lists(channels, peers);
    if (is_port) {
        status = mscclpp_user_ports_create(channels, status);
    } else {
        status = mscclpp_user_share_create(
            user, NULL, (uint64_t)user->oob.size * (uint64_t)per_peer * COUNTER_STEP * sizeof(uint64_t), status,
            "counters of memory channels", &channels->inbound);
    }
    if (status != MSCCLPP_OK) {
        free_channels(channels);
        return status;
    }
    ++memory->channel_sets;
    channels->next = user->channels;
    user->channels = channels;
    ++user->unfreed;
    *channels_p = channels;
    return MSCCLPP_OK;
}

/*
 * Removes the channels from the list of their team. The channels must be in the list of their team, and their memory
 * object must still exist.
 */
static void unlink_channels(mscclpp_user_channels_t *channels)
{
    mscclpp_user_channels_t **link = &channels->user->channels;

    while (*link != channels) {
        link = &(*link)->next;
    }
    *link = channels->next;
    --channels->memory->channel_sets;
}

/*
 * Returns MSCCLPP_ERR_INVALID, with nothing changed, if the channels are open. If a vote of all ranks fails, returns
 * its error: the channels are then freed on this rank, but shared memory that peers may still use is kept. After
 * mscclpp_user_end only the object itself is left to free.
 */
mscclpp_status_t mscclpp_user_channels_free(mscclpp_user_channels_t *channels)
{
    mscclpp_user_t *user = channels->user;
    mscclpp_status_t status = MSCCLPP_OK;

    if (!user->has_ended) {
        if (channels->open_count > 0) {
            mscclpp_error("%s: rank %d: channels are freed while they are open; close them first", user->oob.label,
                          user->oob.rank);
            return MSCCLPP_ERR_INVALID;
        }
        unlink_channels(channels);
        status =
            channels->is_port ? mscclpp_user_ports_free(channels) : mscclpp_user_share_free(user, &channels->inbound);
    } else {
        channels->expected = NULL; /* never freed, because kernels may still use it */
    }
    free_channels(channels);
    mscclpp_user_leave(user);
    return status;
}

void mscclpp_user_channels_end(mscclpp_user_channels_t *channels)
{
    unlink_channels(channels);
    if (channels->is_port) {
        mscclpp_user_ports_end(channels);
    } else {
        mscclpp_user_share_drop(channels->user, &channels->inbound);
    }
}

bool mscclpp_user_channels_are_ports(const mscclpp_user_channels_t *channels)
{
    return channels->is_port;
}

int mscclpp_user_channels_count(const mscclpp_user_channels_t *channels)
{
    return channels->peer_count * channels->per_peer;
}

/*
 * Returns the address of the counter for the signals from `rank` to `owner`. It is in the memory of `owner`, and the
 * address is for this rank's kernels.
 */
static uint64_t *counter_of(const mscclpp_user_channels_t *channels, int owner, int rank, int channel_index)
{
    return (uint64_t *)(void *)channels->inbound.bases[owner] +
           COUNTER_STEP * mscclpp_user_token(channels, rank, channel_index);
}

mscclpp_status_t mscclpp_user_channels_view(const mscclpp_user_channels_t *channels, int index,
                                            mscclpp_dev_user_channel_t *view)
{
    const mscclpp_user_t *user = channels->user;
    const mscclpp_user_share_t *memory = &channels->memory->share;
    const int channel_index = index % channels->per_peer;
    int peer;

    if (user->has_ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    peer = channels->peers[index / channels->per_peer];
    memset(view, 0, sizeof(*view));
    mscclpp_user_watch(user, &view->watch);
    view->peer = (uint32_t)peer;
    view->number = (uint32_t)index;
    view->is_port = channels->is_port;
    view->local_bytes = memory->bytes;
    view->remote_bytes = memory->sizes[peer];
    if (channels->is_port) {
        mscclpp_user_ports_view(channels, index, &view->port);
        view->number = view->port.number;
        return MSCCLPP_OK;
    }
    view->memory.local = memory->own_memory;
    view->memory.remote = memory->bases[peer];
    view->memory.semaphore.inbound = counter_of(channels, user->oob.rank, peer, channel_index);
    view->memory.semaphore.remote_inbound = counter_of(channels, peer, user->oob.rank, channel_index);
    view->memory.semaphore.expected = &channels->expected[index];
    return MSCCLPP_OK;
}
