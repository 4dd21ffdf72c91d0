/* Set-up and end of a team's copy engines. The first call that they serve sets them up and tests them. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/engine/engine.h"
#include "mca/common/engine/memory.h"
#include "mca/common/base/log.h"

/* Returns the word that rank `from` writes to rank `to` in the test. It is never 0, unlike the words of new memory. */
static uint64_t make_test_word(const mscclpp_engine_t *engine, int from, int to)
{
    return (engine->group->id ^ (uint64_t)(from * MSCCLPP_DEV_MAX_RANKS + to)) | 1;
}

/* Destroys the events of all peers. Events that were not made are NULL, which event_destroy allows. */
static void destroy_events(mscclpp_engine_t *engine)
{
    int rank, slot;

    for (rank = 0; rank < engine->group->size; ++rank) {
        for (slot = 0; slot < MSCCLPP_DEV_ENGINE_DEPTH; ++slot) {
            engine->runner->gpu->event_destroy(engine->operand_copied[rank][slot]);
            engine->operand_copied[rank][slot] = NULL;
        }
        engine->runner->gpu->event_destroy(engine->result_copied[rank]);
        engine->result_copied[rank] = NULL;
    }
}

/* Creates the events of all peers. After an error, the caller has to call destroy_events. */
static mscclpp_status_t create_events(mscclpp_engine_t *engine)
{
    mscclpp_status_t status = MSCCLPP_OK;
    int rank, slot;

    for (rank = 0; rank < engine->group->size && status == MSCCLPP_OK; ++rank) {
        if (rank == engine->group->rank) {
            continue;
        }
        for (slot = 0; slot < MSCCLPP_DEV_ENGINE_DEPTH && status == MSCCLPP_OK; ++slot) {
            status = engine->runner->gpu->event_create(engine->runner->device, &engine->operand_copied[rank][slot]);
        }
        if (status == MSCCLPP_OK) {
            status = engine->runner->gpu->event_create(engine->runner->device, &engine->result_copied[rank]);
        }
    }
    return status;
}

/* Creates the engine's events and allocates its memory. After an error, free_resources frees them. */
static mscclpp_status_t allocate(mscclpp_engine_t *engine)
{
    const uint64_t slots = (uint64_t)(engine->group->size - 1) * MSCCLPP_DEV_ENGINE_DEPTH;
    const uint64_t chunk = mscclpp_engine_max_chunk((uint32_t)engine->group->size, engine->protocol);
    /* Without a size of chunks from the user, the size is equal for all teams, so that they can share the memory. */
    const uint64_t bytes = engine->protocol->engine_chunk == 0 ? engine->protocol->engine_scratch
                                                               : MSCCLPP_DEV_ENGINE_SLOTS + slots * chunk;
    void *memory;
    mscclpp_status_t status = create_events(engine);

    if (status != MSCCLPP_OK) {
        return status;
    }
    status = mscclpp_engine_memory_take(engine->runner->gpu, engine->runner->device, engine->process, bytes, &memory);
    if (status != MSCCLPP_OK) {
        return status;
    }
    engine->memory = memory;
    engine->mapped[engine->group->rank] = memory;
    mscclpp_debug("%s: rank %d has %llu bytes for copy engines%s: %llu slots of %llu bytes", engine->group->oob.label,
                  engine->group->rank, (unsigned long long)bytes,
                  engine->process != NULL ? ", which communicators share" : "", (unsigned long long)slots,
                  (unsigned long long)chunk);
    return MSCCLPP_OK;
}

/* Maps the memory of a peer, whose handle was exchanged. close_peers closes the mapping. */
static mscclpp_status_t map_peer(mscclpp_engine_t *engine, int peer)
{
    mscclpp_status_t status;
    void *base;

    engine->handle[peer] = mscclpp_group_exchanged(engine->group, peer)->out;
    status = mscclpp_mapping_import(engine->runner->gpu, engine->runner->device, &engine->handle[peer], &base);
    if (status == MSCCLPP_OK) {
        engine->mapped[peer] = (char *)base + engine->handle[peer].offset;
    }
    return status;
}

/* Queues the copy of a test word into the memory of a rank, which is mapped. Calls use the same kind of copy. */
static mscclpp_status_t put_test_word(mscclpp_engine_t *engine, int rank)
{
    mscclpp_dev_engine_t *target = (mscclpp_dev_engine_t *)engine->mapped[rank];

    return engine->runner->gpu->put(engine->runner->stream, &target->tested[engine->group->rank],
                                    &engine->memory->words[rank], sizeof(engine->memory->words[rank]));
}

/*
 * Maps the peers' memory, and writes a word into the memory of each rank. This tests the copies, and makes the GPU
 * runtime load its code for them. After an error, no copy is in progress, or the runner is stuck; free_resources closes
 * the mappings.
 */
static mscclpp_status_t map_and_test(mscclpp_engine_t *engine)
{
    uint64_t words[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t status;
    int rank;

    for (rank = 0; rank < engine->group->size; ++rank) {
        words[rank] = make_test_word(engine, engine->group->rank, rank);
    }
    status = engine->runner->gpu->copy(engine->runner->stream, engine->memory->words, words,
                                       sizeof(words[0]) * (size_t)engine->group->size);
    for (rank = 0; rank < engine->group->size && status == MSCCLPP_OK; ++rank) {
        if (rank != engine->group->rank) {
            status = map_peer(engine, rank);
        }
        if (status == MSCCLPP_OK) {
            status = put_test_word(engine, rank);
        }
    }
    if (status == MSCCLPP_OK) {
        status = engine->runner->gpu->stream_sync(engine->runner->stream);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_engine_settle(engine, engine->runner->stream);
    }
    return status;
}

/*
 * Returns true if the test words of all ranks are in this rank's memory. All ranks must have written their words
 * before. Logs a missing word. Returns false, too, if the words cannot be read.
 */
static bool have_test_words_arrived(const mscclpp_engine_t *engine)
{
    uint64_t words[MSCCLPP_DEV_MAX_RANKS];
    int rank;

    if (engine->runner->gpu->copy(engine->runner->stream, words, engine->memory->tested, sizeof(words)) != MSCCLPP_OK ||
        engine->runner->gpu->stream_sync(engine->runner->stream) != MSCCLPP_OK) {
        mscclpp_engine_settle(engine, engine->runner->stream);
        return false;
    }
    for (rank = 0; rank < engine->group->size; ++rank) {
        if (words[rank] != make_test_word(engine, rank, engine->group->rank)) {
            mscclpp_info("%s: what the copy engine of rank %d wrote did not reach rank %d", engine->group->oob.label,
                         rank, engine->group->rank);
            return false;
        }
    }
    return true;
}

/* Closes all mappings of the peers' memory. */
static void close_peers(mscclpp_engine_t *engine)
{
    int rank;

    for (rank = 0; rank < engine->group->size; ++rank) {
        if (rank != engine->group->rank && engine->mapped[rank] != NULL) {
            engine->runner->gpu->close_memory(engine->runner->device, &engine->handle[rank],
                                              engine->mapped[rank] - engine->handle[rank].offset);
            engine->mapped[rank] = NULL;
        }
    }
}

/*
 * Frees everything except the engine structure. Collective: the memory is freed when all peers have closed their
 * mappings. Returns an error if the runner is stuck, or if a peer does not come. The engine then keeps the memory until
 * mscclpp_engine_close returns it.
 */
static mscclpp_status_t free_resources(mscclpp_engine_t *engine)
{
    mscclpp_status_t status;
    bool all_here;

    if (engine->runner->stuck) {
        return MSCCLPP_ERR_DEVICE;
    }
    close_peers(engine);
    mscclpp_group_begin_exchange(engine->group);
    status = mscclpp_group_meet_exchange(engine->group, "end of copy engines", 0);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_end_exchange(engine->group, "end of copy engines", 0, true, &all_here);
    }
    if (status == MSCCLPP_OK && engine->memory != NULL) {
        mscclpp_engine_memory_give(engine->runner->gpu, engine->runner->device, engine->memory);
        engine->memory = NULL;
    }
    destroy_events(engine);
    return status;
}

/*
 * Votes on whether the test words of all ranks have arrived. All ranks must have written their words before. *all_p is
 * equal on all ranks, and is set only if the status is MSCCLPP_OK.
 */
static mscclpp_status_t vote_on_test(mscclpp_engine_t *engine, bool *all_p)
{
    const bool have_arrived = have_test_words_arrived(engine);
    mscclpp_status_t status;

    mscclpp_group_begin_exchange(engine->group);
    status = mscclpp_group_meet_exchange(engine->group, "trial of copy engines", 0);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_end_exchange(engine->group, "vote on copy engines", 0, have_arrived, all_p);
    }
    return status;
}

/*
 * Sets up the engines on all ranks together:
 * 1. The ranks exchange handles.
 * 2. They write words into all memories, and vote on whether they could. After that vote all words are written.
 * 3. They read the words, and vote on whether all have arrived.
 * A rank on which a step fails still takes part in all exchanges, so that all ranks get the same result.
 *
 * Logs that engines cannot be used, which is not an error. Errors are those of the exchanges, and MSCCLPP_ERR_DEVICE if
 * a copy of the test does not end. They break the team.
 */
static mscclpp_status_t set_up(mscclpp_engine_t *engine)
{
    mscclpp_board_buffers_t *own_buffers = mscclpp_group_begin_exchange(engine->group);
    mscclpp_status_t status, own_status = allocate(engine);
    bool all_usable = true;
    int rank;

    own_buffers->exportable =
        own_status == MSCCLPP_OK && engine->runner->gpu->export_memory(engine->memory, &own_buffers->out) == MSCCLPP_OK;
    status = mscclpp_group_meet_exchange(engine->group, "set-up of copy engines", 0);
    if (status != MSCCLPP_OK) {
        return status;
    }
    for (rank = 0; rank < engine->group->size; ++rank) {
        all_usable = all_usable && mscclpp_group_exchanged(engine->group, rank)->exportable != 0;
    }
    own_status = all_usable ? map_and_test(engine) : own_status;
    status = mscclpp_group_end_exchange(engine->group, "vote on copy engines", 0,
                                        all_usable && own_status == MSCCLPP_OK, &all_usable);
    if (status == MSCCLPP_OK && all_usable) {
        status = vote_on_test(engine, &all_usable);
    }
    if (status == MSCCLPP_OK && !all_usable) {
        mscclpp_info("%s: rank %d: copy engines are not used: %s", engine->group->oob.label, engine->group->rank,
                     own_status != MSCCLPP_OK ? mscclpp_status_string(own_status) : "a rank cannot take part");
        status = free_resources(engine);
    }
    engine->is_usable = status == MSCCLPP_OK && all_usable;
    return status;
}

/* The engine of ranks that have no memory for the description of one. It is never usable. */
static mscclpp_engine_t no_engine;

/*
 * Takes part in the exchanges of set_up without an engine, because the other ranks would wait for this one: in the
 * exchange of handles, in which this rank exports none, and in the end of all engines, which follows.
 */
static mscclpp_status_t decline(mscclpp_group_t *group)
{
    mscclpp_board_buffers_t *own_buffers = mscclpp_group_begin_exchange(group);
    mscclpp_status_t status;
    bool all_succeeded;

    own_buffers->exportable = 0;
    status = mscclpp_group_meet_exchange(group, "set-up of copy engines", 0);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_end_exchange(group, "vote on copy engines", 0, false, &all_succeeded);
    }
    if (status == MSCCLPP_OK) {
        mscclpp_group_begin_exchange(group);
        status = mscclpp_group_meet_exchange(group, "end of copy engines", 0);
    }
    return status == MSCCLPP_OK ? mscclpp_group_end_exchange(group, "end of copy engines", 0, true, &all_succeeded)
                                : status;
}

/* Creates the team's engine and sets it up. *engine_p is set even after an error. */
static mscclpp_status_t create_engine(mscclpp_runner_t *runner, const mscclpp_protocol_t *protocol, const void *process,
                                      mscclpp_engine_t **engine_p)
{
    mscclpp_engine_t *engine = calloc(1, sizeof(*engine));

    if (engine == NULL) {
        mscclpp_info("%s: rank %d: copy engines are not used: there is no memory for their description",
                     runner->group->oob.label, runner->group->rank);
        *engine_p = &no_engine;
        return decline(runner->group);
    }
    engine->runner = runner;
    engine->group = runner->group;
    engine->protocol = protocol;
    engine->process = process;
    *engine_p = engine;
    return set_up(engine);
}

mscclpp_status_t mscclpp_engine_open(mscclpp_runner_t *runner, const mscclpp_protocol_t *protocol, const void *process,
                                     mscclpp_engine_t **engine_p, bool *usable_p)
{
    mscclpp_status_t status = *engine_p == NULL ? create_engine(runner, protocol, process, engine_p) : MSCCLPP_OK;

    if (status == MSCCLPP_OK) {
        *usable_p = (*engine_p)->is_usable;
    }
    return status;
}

bool mscclpp_engine_is_sound(const mscclpp_engine_t *engine)
{
    return engine == NULL || !mscclpp_engine_memory_is_spoiled(engine->memory);
}

/* Does not wait for peers, unlike free_resources. */
void *mscclpp_engine_close(mscclpp_engine_t *engine)
{
    void *memory;

    if (engine == NULL || engine == &no_engine) {
        return NULL;
    }
    close_peers(engine);
    destroy_events(engine);
    memory = engine->memory;
    free(engine);
    return memory;
}
