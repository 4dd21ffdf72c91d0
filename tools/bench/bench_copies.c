/*
 * A collective that only moves data, without any protocol. Each rank copies the same bytes, by copies of the GPU
 * runtime in one stream, and waits for its own copies. A rank copies its blocks for other ranks into their buffers.
 * Data of a root is fetched by the ranks that receive it. If a peer's buffers cannot be mapped, all copies stay within
 * the rank's own buffers.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/gpu/mapping.h"

typedef struct {
    mscclpp_gpu_handle_t send;
    mscclpp_gpu_handle_t recv;
    int exported;
} card_t;

/* The buffers of one rank, at this rank's addresses. */
typedef struct {
    mscclpp_mapping_t *mapping[2]; /* mappings of the peer's buffers; NULL: this rank's own buffers */
    char *send;
    char *recv;
} seen_t;

static struct {
    seen_t *seen;
    int size;
    bool mapped;
} copies;

const char *bench_copies_describe(void)
{
    return copies.mapped ? "into and out of the peers' mapped buffers"
                         : "within each rank's own buffers, as not all ranks can map those of the others";
}

/* Maps a buffer of a peer. */
static bool map_buffer(const bench_env_t *env, const mscclpp_gpu_handle_t *handle, mscclpp_mapping_t **mapping_p,
                       char **address_p)
{
    if (MSCCLPP_OK !=
        mscclpp_mapping_get(env->gpu, env->device, handle, mscclpp_mapping_limit(&env->config), mapping_p)) {
        return false;
    }
    *address_p = (char *)mscclpp_mapping_base(*mapping_p) + handle->offset;
    return true;
}

/* True if all peers' buffers are mapped here. */
static bool map_peers(const bench_env_t *env, const card_t *cards)
{
    bool ok = true;

    for (int i = 0; ok && i < env->size; ++i) {
        seen_t *seen = &copies.seen[i];
        if (i != env->rank) {
            ok = cards[i].exported && 0 == strcmp(env->places[i].host, env->places[env->rank].host) &&
                 map_buffer(env, &cards[i].send, &seen->mapping[0], &seen->send) &&
                 map_buffer(env, &cards[i].recv, &seen->mapping[1], &seen->recv);
        }
    }
    return ok;
}

static bool finish(bench_contender_t *contender)
{
    return MSCCLPP_OK == contender->env->gpu->stream_sync(contender->env->stream);
}

/* Returns the buffers of a rank, or this rank's own buffers if the peers' buffers are not mapped. */
static seen_t *see(const bench_env_t *env, int rank)
{
    return &copies.seen[copies.mapped ? rank : env->rank];
}

static bool copy(const bench_env_t *env, char *to, const char *from, size_t elements, const bench_type_t *type)
{
    return 0 == elements || to == from || MSCCLPP_OK == env->gpu->copy(env->stream, to, from, elements * type->size);
}

/*
 * Copies this rank's block for `peer` to its place at the peer. In place, the block is taken from the other buffer,
 * unless the collective gathers and the peers' buffers are mapped.
 */
static bool push(const bench_env_t *env, const bench_operation_t *operation, int peer)
{
    const bench_layout_t *layout = operation->layout;
    const bench_coll_t *coll = layout->coll;
    const size_t size = operation->type->size, count = bench_layout_block(layout, env->rank, peer);
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    const bool gathers = BENCH_GATHERS == coll->blocks;
    const char *from = operation->send;
    char *to = see(env, peer)->recv + bench_layout_first(layout, peer, env->rank) * size;

    if ((coll->has_root && peer != layout->root) || (operation->in_place && peer == env->rank)) {
        return true;
    }
    if (gathers) {
        from = (input.in_recv && copies.mapped ? operation->recv : operation->send) + input.first * size;
        return copy(env, to, from, input.count, operation->type);
    }
    return copy(env, to, from + bench_layout_first(layout, env->rank, peer) * size, count, operation->type);
}

/* Copies what this rank gets from the root. */
static bool pull(const bench_env_t *env, const bench_operation_t *operation)
{
    const bench_layout_t *layout = operation->layout;
    const seen_t *root = see(env, layout->root);
    const bench_segment_t segment = bench_layout_segment(layout, 0);
    const bool whole = BENCH_WHOLE == layout->coll->blocks;

    if (env->rank == layout->root && (whole || operation->in_place)) {
        return true;
    }
    /* If a broadcast cannot be fetched from the root, this rank copies from its own other buffer instead. */
    const char *from = whole && copies.mapped ? root->recv : root->send;
    return copy(env, operation->recv, from + segment.from * operation->type->size, segment.count, operation->type);
}

/* Does a collective call's copies, without any synchronisation between the ranks. */
static bool call(bench_contender_t *contender, const bench_operation_t *operation)
{
    const bench_env_t *env = contender->env;
    const bench_coll_t *coll = operation->layout->coll;
    bool ok = true;

    if (coll->has_root && BENCH_GATHERS != coll->blocks) {
        ok = pull(env, operation);
    } else {
        /* Each rank begins with itself, so that not all ranks write to one rank at once. */
        for (int i = 0; ok && i < env->size; ++i) {
            ok = push(env, operation, (env->rank + i) % env->size);
        }
    }
    return ok && (!contender->waits || finish(contender));
}

/* Copies cannot reduce. Where they cannot give a right result either, only their time is compared. */
static bench_serves_t serves(const bench_contender_t *contender, const bench_coll_t *coll, bool in_place)
{
    (void)contender;
    if (coll->reduces) {
        return BENCH_SERVES_NOT;
    }
    return !copies.mapped || (in_place && BENCH_EXCHANGES == coll->blocks) ? BENCH_SERVES_TIME : BENCH_SERVES;
}

bool bench_copies_open(bench_env_t *env, const bench_buffers_t *buffers, bool waits, bench_contender_t *contender_p)
{
    card_t own, *cards = calloc((size_t)env->size, sizeof(cards[0]));

    copies.size = env->size;
    copies.seen = calloc((size_t)env->size, sizeof(copies.seen[0]));
    if (!bench_all(env->control, cards != NULL && copies.seen != NULL)) {
        free(cards);
        return false;
    }
    memset(&own, 0, sizeof(own));
    own.exported = MSCCLPP_OK == env->gpu->export_memory(buffers->send, &own.send) &&
                   MSCCLPP_OK == env->gpu->export_memory(buffers->recv, &own.recv);
    bench_allgather(env->control, &own, cards, sizeof(own));
    copies.seen[env->rank].send = buffers->send;
    copies.seen[env->rank].recv = buffers->recv;
    copies.mapped = bench_all(env->control, map_peers(env, cards));
    free(cards);
    *contender_p = (bench_contender_t){
        .name = "copies", .env = env, .call = call, .finish = waits ? NULL : finish, .serves = serves, .waits = waits};
    return true;
}

void bench_copies_close(void)
{
    for (int i = 0; i < copies.size; ++i) {
        for (int j = 0; j < 2; ++j) {
            if (copies.seen[i].mapping[j] != NULL) {
                mscclpp_mapping_put(copies.seen[i].mapping[j]);
            }
        }
    }
    free(copies.seen);
    memset(&copies, 0, sizeof(copies));
}
