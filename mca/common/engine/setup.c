/* The memory of a team's copy engines: made at the first call that they serve, agreed on, tried out, closed. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/engine/engine.h"
#include "mca/common/base/log.h"
#include "mca/common/team/parts.h"

/* What rank `from` writes into the memory of `to` to see that its engines get there. */
static uint64_t test_value(const mscclpp_team_t *team, int from, int to)
{
    return (team->group.id ^ (uint64_t)(from * MSCCLPP_DEV_MAX_RANKS + to)) | 1;
}

static void destroy_events(mscclpp_team_t *team, mscclpp_engine_t *engine)
{
    int rank, slot;

    for (rank = 0; rank < team->group.size; ++rank) {
        for (slot = 0; slot < MSCCLPP_DEV_ENGINE_DEPTH; ++slot) {
            team->runner.gpu->event_destroy(engine->operand[rank][slot]);
            engine->operand[rank][slot] = NULL;
        }
        team->runner.gpu->event_destroy(engine->result[rank]);
        engine->result[rank] = NULL;
    }
}

static mscclpp_status_t create_events(mscclpp_team_t *team, mscclpp_engine_t *engine)
{
    mscclpp_status_t status = MSCCLPP_OK;
    int rank, slot;

    for (rank = 0; rank < team->group.size && status == MSCCLPP_OK; ++rank) {
        if (rank == team->group.rank) {
            continue;
        }
        for (slot = 0; slot < MSCCLPP_DEV_ENGINE_DEPTH && status == MSCCLPP_OK; ++slot) {
            status = team->runner.gpu->event_create(team->runner.device, &engine->operand[rank][slot]);
        }
        if (status == MSCCLPP_OK) {
            status = team->runner.gpu->event_create(team->runner.device, &engine->result[rank]);
        }
    }
    return status;
}

/* What this rank owns. */
static mscclpp_status_t prepare(mscclpp_team_t *team, mscclpp_engine_t *engine)
{
    const uint64_t slots = (uint64_t)(team->group.size - 1) * MSCCLPP_DEV_ENGINE_DEPTH;
    const uint64_t chunk = mscclpp_engine_chunk_max((uint32_t)team->group.size, &team->protocol);
    void *memory;
    mscclpp_status_t status = create_events(team, engine);

    if (status != MSCCLPP_OK) {
        return status;
    }
    status = team->runner.gpu->device_alloc(team->runner.device, MSCCLPP_DEV_ENGINE_SLOTS + slots * chunk, &memory);
    if (status != MSCCLPP_OK) {
        return status;
    }
    engine->memory = memory;
    engine->mapped[team->group.rank] = memory;
    mscclpp_debug("%s: rank %d sets aside %llu bytes for copy engines: %llu slots of %llu bytes", team->group.oob.label,
                  team->group.rank, (unsigned long long)(MSCCLPP_DEV_ENGINE_SLOTS + slots * chunk),
                  (unsigned long long)slots, (unsigned long long)chunk);
    return MSCCLPP_OK;
}

/*
 * Maps the peers' memory and writes a word into it by the very copies that calls will use. Besides showing that they
 * arrive, this makes the runtime load whatever they need.
 */
static mscclpp_status_t attach(mscclpp_team_t *team, mscclpp_engine_t *engine)
{
    uint64_t words[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t status;
    void *base;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        words[rank] = test_value(team, team->group.rank, rank);
    }
    status = team->runner.gpu->copy(team->runner.stream, engine->memory->words, words,
                                    sizeof(words[0]) * (size_t)team->group.size);
    for (rank = 0; rank < team->group.size && status == MSCCLPP_OK; ++rank) {
        if (rank != team->group.rank) {
            engine->handle[rank] = mscclpp_group_exchanged(&team->group, rank)->out;
            status = team->runner.gpu->import_memory(team->runner.device, &engine->handle[rank], &base);
            if (status != MSCCLPP_OK) {
                break;
            }
            engine->mapped[rank] = (char *)base + engine->handle[rank].offset;
        }
        status = team->runner.gpu->put(team->runner.stream,
                                       &((mscclpp_dev_engine_t *)engine->mapped[rank])->tested[team->group.rank],
                                       &engine->memory->words[rank], sizeof(words[0]));
    }
    if (status == MSCCLPP_OK) {
        status = team->runner.gpu->stream_sync(team->runner.stream);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_engine_settle(team, team->runner.stream);
    }
    return status;
}

/* True if what all peers wrote is there. */
static bool is_written(mscclpp_team_t *team, const mscclpp_engine_t *engine)
{
    uint64_t words[MSCCLPP_DEV_MAX_RANKS];
    int rank;

    if (team->runner.gpu->copy(team->runner.stream, words, engine->memory->tested, sizeof(words)) != MSCCLPP_OK ||
        team->runner.gpu->stream_sync(team->runner.stream) != MSCCLPP_OK) {
        mscclpp_engine_settle(team, team->runner.stream);
        return false;
    }
    for (rank = 0; rank < team->group.size; ++rank) {
        if (words[rank] != test_value(team, rank, team->group.rank)) {
            mscclpp_info("%s: what the copy engine of rank %d wrote did not reach rank %d", team->group.oob.label, rank,
                         team->group.rank);
            return false;
        }
    }
    return true;
}

static void close_peers(mscclpp_team_t *team, mscclpp_engine_t *engine)
{
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        if (rank != team->group.rank && engine->mapped[rank] != NULL) {
            team->runner.gpu->close_memory(team->runner.device, &engine->handle[rank],
                                           engine->mapped[rank] - engine->handle[rank].offset);
            engine->mapped[rank] = NULL;
        }
    }
}

/* Frees everything but the engine itself, once no peer maps it any more. */
static mscclpp_status_t abandon(mscclpp_team_t *team, mscclpp_engine_t *engine)
{
    mscclpp_status_t status;
    bool all;

    if (team->runner.stuck) {
        return MSCCLPP_ERR_DEVICE;
    }
    close_peers(team, engine);
    mscclpp_group_begin_exchange(&team->group);
    status = mscclpp_group_meet_exchange(&team->group, "end of copy engines", 0);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_end_exchange(&team->group, "end of copy engines", 0, true, &all);
    }
    if (status == MSCCLPP_OK && engine->memory != NULL) {
        team->runner.gpu->device_free(team->runner.device, engine->memory);
        engine->memory = NULL;
    }
    destroy_events(team, engine);
    return status;
}

/* What a rank lacks never keeps it out of an exchange, so all ranks end alike. */
static mscclpp_status_t set_up(mscclpp_team_t *team, mscclpp_engine_t *engine)
{
    mscclpp_control_buffers_t *mine = mscclpp_group_begin_exchange(&team->group);
    mscclpp_status_t status, own = prepare(team, engine);
    bool all = true;
    int rank;

    mine->exportable = own == MSCCLPP_OK && team->runner.gpu->export_memory(engine->memory, &mine->out) == MSCCLPP_OK;
    status = mscclpp_group_meet_exchange(&team->group, "set-up of copy engines", 0);
    if (status != MSCCLPP_OK) {
        return status;
    }
    for (rank = 0; rank < team->group.size; ++rank) {
        all = all && mscclpp_group_exchanged(&team->group, rank)->exportable != 0;
    }
    own = all ? attach(team, engine) : own;
    status = mscclpp_group_end_exchange(&team->group, "vote on copy engines", 0, all && own == MSCCLPP_OK, &all);
    if (status == MSCCLPP_OK && all) {
        bool written = is_written(team, engine);

        mscclpp_group_begin_exchange(&team->group);
        status = mscclpp_group_meet_exchange(&team->group, "trial of copy engines", 0);
        if (status == MSCCLPP_OK) {
            status = mscclpp_group_end_exchange(&team->group, "vote on copy engines", 0, written, &all);
        }
    }
    if (status == MSCCLPP_OK && !all) {
        mscclpp_info("%s: rank %d: copy engines do not serve, since %s", team->group.oob.label, team->group.rank,
                     own != MSCCLPP_OK ? mscclpp_status_string(own) : "a rank cannot take part");
        status = abandon(team, engine);
    }
    engine->usable = status == MSCCLPP_OK && all;
    return status;
}

mscclpp_status_t mscclpp_engine_open(mscclpp_team_t *team, bool *usable_p)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (team->engine == NULL) {
        team->engine = calloc(1, sizeof(*team->engine));
        if (team->engine == NULL) {
            mscclpp_error("%s: no memory for the description of copy engines", team->group.oob.label);
            return MSCCLPP_ERR_NO_MEMORY;
        }
        status = set_up(team, team->engine);
    }
    if (status == MSCCLPP_OK) {
        *usable_p = team->engine->usable;
    }
    return status;
}

void *mscclpp_engine_close(mscclpp_team_t *team)
{
    mscclpp_engine_t *engine = team->engine;
    void *memory;

    if (engine == NULL) {
        return NULL;
    }
    close_peers(team, engine);
    destroy_events(team, engine);
    memory = engine->memory;
    free(engine);
    team->engine = NULL;
    return memory;
}
