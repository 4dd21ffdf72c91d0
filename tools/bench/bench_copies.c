/*
 * The rival "copies": a collective that only moves data, without any protocol. Each rank copies the same bytes as in
 * the call, by copies of the GPU runtime in one stream, and waits for its own copies only. A rank copies its blocks for
 * other ranks into their buffers. Data of a root is fetched by the ranks that receive it. If some rank cannot map all
 * peers' buffers, all copies stay within each rank's own buffers.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/gpu/mapping.h"

/* The description of a rank's buffers that it sends to the other ranks. */
typedef struct {
    mscclpp_gpu_handle_t send;
    mscclpp_gpu_handle_t recv;
    int is_exported; /* a boolean: both handles are valid */
} handles_t;

/* The buffers of one rank, at this rank's addresses. */
typedef struct {
    mscclpp_mapping_t *mapping[2]; /* mappings of the peer's buffers; NULL: this rank's own buffers */
    char *send;
    char *recv;
} rank_buffers_t;

static struct {
    rank_buffers_t *buffers; /* [rank] */
    int size;                /* ranks */
    bool is_mapped;          /* every rank has mapped the buffers of all others */
} copies;

const char *bench_copies_describe(void)
{
    return copies.is_mapped ? "into and out of the peers' mapped buffers"
                            : "within each rank's own buffers, as not all ranks can map those of the others";
}

/*
 * Maps a peer's buffer. The caller gives *mapping_p back by mscclpp_mapping_put. *address_p is the buffer's address in
 * this process. Returns false, with nothing to give back, if the buffer cannot be mapped.
 */
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

/*
 * Maps the buffers of all peers. Returns false at the first buffer that cannot be mapped, or whose rank is on another
 * host. Buffers that were mapped before stay mapped until bench_copies_close.
 */
static bool map_peers(const bench_env_t *env, const handles_t *handles)
{
    bool ok = true;

    for (int i = 0; ok && i < env->size; ++i) {
        rank_buffers_t *buffers = &copies.buffers[i];
        if (i != env->rank) {
            ok = handles[i].is_exported && 0 == strcmp(env->places[i].host, env->places[env->rank].host) &&
                 map_buffer(env, &handles[i].send, &buffers->mapping[0], &buffers->send) &&
                 map_buffer(env, &handles[i].recv, &buffers->mapping[1], &buffers->recv);
        }
    }
    return ok;
}

/* Waits for the end of the copies. Returns false, without a line, if one has failed. */
static bool finish(bench_contender_t *contender)
{
    return MSCCLPP_OK == contender->env->gpu->stream_sync(contender->env->stream);
}

/* Returns the buffers of a rank, or this rank's own buffers if those of peers are not mapped. */
static rank_buffers_t *buffers_of(const bench_env_t *env, int rank)
{
    return &copies.buffers[copies.is_mapped ? rank : env->rank];
}

/* Queues a copy of elements in the stream, unless there are none or they are in place. Returns false on failure. */
static bool copy_elements(const bench_env_t *env, char *to, const char *from, size_t elements, const bench_type_t *type)
{
    return 0 == elements || to == from || MSCCLPP_OK == env->gpu->copy(env->stream, to, from, elements * type->size);
}

/*
 * Queues the copy of this rank's block for `peer` to its place at the peer. In a gather, only the root receives blocks.
 * In place, a rank's own block stays where it is. Blocks for other ranks are taken from the send buffer even in place,
 * so that no copy overwrites data that another copy reads. Only if the collective gathers in place and the peers'
 * buffers are mapped, the block is the operand in the receive buffer, where no peer writes. Returns false on failure.
 */
static bool push_block(const bench_env_t *env, const bench_operation_t *operation, int peer)
{
    const bench_layout_t *layout = operation->layout;
    const bench_coll_t *coll = layout->coll;
    const size_t element_bytes = operation->type->size, count = bench_layout_block_size(layout, env->rank, peer);
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    const bool gathers = BENCH_GATHERS == coll->blocks;
    const char *from = operation->send;
    char *to = buffers_of(env, peer)->recv + bench_layout_displacement(layout, peer, env->rank) * element_bytes;

    if ((coll->has_root && peer != layout->root) || (operation->in_place && peer == env->rank)) {
        return true;
    }
    if (gathers) {
        from = (input.in_recv && copies.is_mapped ? operation->recv : operation->send) + input.first * element_bytes;
        return copy_elements(env, to, from, input.count, operation->type);
    }
    return copy_elements(env, to, from + bench_layout_displacement(layout, env->rank, peer) * element_bytes, count,
                         operation->type);
}

/*
 * Queues the copy of the data that this rank receives from the root, in a broadcast or a scatter. The root itself only
 * copies its own block of a scatter, and nothing if it is in place. Returns false on failure.
 */
static bool pull_from_root(const bench_env_t *env, const bench_operation_t *operation)
{
    const bench_layout_t *layout = operation->layout;
    const rank_buffers_t *root = buffers_of(env, layout->root);
    const bench_segment_t segment = bench_layout_segment(layout, 0);
    const bool is_broadcast = BENCH_WHOLE == layout->coll->blocks;

    if (env->rank == layout->root && (is_broadcast || operation->in_place)) {
        return true;
    }
    /* If a broadcast cannot be fetched from the root, this rank copies from its own other buffer instead. */
    const char *from = is_broadcast && copies.is_mapped ? root->recv : root->send;
    return copy_elements(env, operation->recv, from + segment.operand_first * operation->type->size, segment.count,
                         operation->type);
}

/* Queues the copies of a call, and waits for them if the contender waits. Ranks do not wait for one another. */
static bool copy_all(bench_contender_t *contender, const bench_operation_t *operation)
{
    const bench_env_t *env = contender->env;
    const bench_coll_t *coll = operation->layout->coll;
    bool ok = true;

    if (coll->has_root && BENCH_GATHERS != coll->blocks) {
        ok = pull_from_root(env, operation);
    } else {
        /* Each rank begins with itself, so that not all ranks write to one rank at once. */
        for (int i = 0; ok && i < env->size; ++i) {
            ok = push_block(env, operation, (env->rank + i) % env->size);
        }
    }
    return ok && (!contender->waits || finish(contender));
}

/*
 * Returns BENCH_SERVES_NOT for reductions, because copies cannot reduce. Where copies give no right result, only their
 * time is compared: within a rank's own buffers, and in exchanges in place, whose blocks would overwrite one another.
 */
static bench_serves_t serves(const bench_contender_t *contender, const bench_coll_t *coll, bool in_place)
{
    (void)contender;
    if (coll->reduces) {
        return BENCH_SERVES_NOT;
    }
    return !copies.is_mapped || (in_place && BENCH_EXCHANGES == coll->blocks) ? BENCH_SERVES_TIME : BENCH_SERVES;
}

/*
 * Makes the contender. All ranks call this function, and exchange handles of their buffers. A buffer that cannot be
 * mapped is no failure: is_mapped then becomes false on all ranks. Only a lack of memory makes all ranks return false,
 * without a line.
 */
bool bench_copies_open(bench_env_t *env, const bench_buffers_t *buffers, bool waits, bench_contender_t *contender_p)
{
    handles_t own_handles, *handles = calloc((size_t)env->size, sizeof(handles[0]));

    copies.size = env->size;
    copies.buffers = calloc((size_t)env->size, sizeof(copies.buffers[0]));
    if (!bench_all(env->control, handles != NULL && copies.buffers != NULL)) {
        free(handles);
        return false;
    }
    memset(&own_handles, 0, sizeof(own_handles));
    own_handles.is_exported = MSCCLPP_OK == env->gpu->export_memory(buffers->send, &own_handles.send) &&
                              MSCCLPP_OK == env->gpu->export_memory(buffers->recv, &own_handles.recv);
    bench_allgather(env->control, &own_handles, handles, sizeof(own_handles));
    copies.buffers[env->rank].send = buffers->send;
    copies.buffers[env->rank].recv = buffers->recv;
    copies.is_mapped = bench_all(env->control, map_peers(env, handles));
    free(handles);
    *contender_p = (bench_contender_t){.name = "copies",
                                       .env = env,
                                       .call = copy_all,
                                       .finish = waits ? NULL : finish,
                                       .serves = serves,
                                       .waits = waits};
    return true;
}

void bench_copies_close(void)
{
    for (int i = 0; i < copies.size; ++i) {
        for (int j = 0; j < 2; ++j) {
            if (copies.buffers[i].mapping[j] != NULL) {
                mscclpp_mapping_put(copies.buffers[i].mapping[j]);
            }
        }
    }
    free(copies.buffers);
    memset(&copies, 0, sizeof(copies));
}
