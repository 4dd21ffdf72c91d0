/* Buffers of peers, mapped for launches that read and write them. */
#include <stdlib.h>

#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/team/parts.h"

/* This rank's handles, or a note that it has none. */
static void fill(const mscclpp_team_t *team, mscclpp_control_buffers_t *mine, const void *in, void *out)
{
    mine->asked = team->group.asked;
    mine->in_place = in == out;
    mine->exportable = team->gpu->export_memory(out, &mine->out) == MSCCLPP_OK &&
                       (in == out || team->gpu->export_memory(in, &mine->in) == MSCCLPP_OK);
    if (mine->in_place) {
        mine->in = mine->out;
    }
}

/* Maps one buffer of a peer and keeps the mapping in `mappings`. */
static mscclpp_status_t map(mscclpp_team_t *team, const mscclpp_gpu_handle_t *handle, mscclpp_mapping_t **mappings,
                            int *count, char **address_p)
{
    mscclpp_mapping_t *mapping;
    mscclpp_status_t status = mscclpp_mapping_get(team->gpu, team->device, handle, team->mapping_limit, &mapping);

    if (status != MSCCLPP_OK) {
        return status;
    }
    mappings[(*count)++] = mapping;
    *address_p = (char *)mscclpp_mapping_base(mapping) + handle->offset;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_team_exchange(mscclpp_team_t *team, const void *in, void *out, uint64_t bytes,
                                       const char **peer_in, char **peer_out, bool *mapped_p)
{
    mscclpp_mapping_t *mappings[2 * MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t status, mapping = MSCCLPP_OK;
    bool exportable = true, mapped = false;
    int rank, count = 0;

    fill(team, mscclpp_group_begin_exchange(&team->group), in, out);
    status = mscclpp_group_meet_exchange(&team->group, "exchange of buffers", bytes);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_compare_asked(&team->group);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    for (rank = 0; rank < team->group.size; ++rank) {
        exportable = exportable && mscclpp_group_exchanged(&team->group, rank)->exportable != 0;
    }
    for (rank = 0; rank < team->group.size && exportable && mapping == MSCCLPP_OK; ++rank) {
        const mscclpp_control_buffers_t *theirs = mscclpp_group_exchanged(&team->group, rank);
        char *address = in == out ? out : (char *)(uintptr_t)in;

        if (rank == team->group.rank) {
            peer_in[rank] = address;
            peer_out[rank] = out;
            continue;
        }
        mapping = map(team, &theirs->out, mappings, &count, &peer_out[rank]);
        if (mapping == MSCCLPP_OK && theirs->in_place != 0) {
            peer_in[rank] = peer_out[rank];
        } else if (mapping == MSCCLPP_OK) {
            mapping = map(team, &theirs->in, mappings, &count, &address);
            peer_in[rank] = address;
        }
    }
    status = mscclpp_group_end_exchange(&team->group, "vote on mapped buffers", bytes,
                                        exportable && mapping == MSCCLPP_OK, &mapped);
    if (status == MSCCLPP_OK && mapped) {
        mscclpp_team_hold_mappings(team, mappings, count);
        *mapped_p = true;
        return MSCCLPP_OK;
    }
    while (count > 0) {
        mscclpp_mapping_put(mappings[--count]);
    }
    if (status == MSCCLPP_OK) {
        *mapped_p = false;
    }
    return status;
}

void mscclpp_team_hold_mappings(mscclpp_team_t *team, mscclpp_mapping_t **mappings, int count)
{
    int i;

    if (team->hold_count + count > team->hold_capacity) {
        int capacity = 2 * (team->hold_count + count);
        mscclpp_team_hold_t *holds = realloc(team->holds, (size_t)capacity * sizeof(*holds));

        if (holds == NULL) {
            /* Mappings that are never put back stay valid, which is the safe side. */
            mscclpp_warn("%s: no memory to keep count of %d mappings", team->group.oob.label, count);
            team->hold_last = team->hold_count;
            return;
        }
        team->holds = holds;
        team->hold_capacity = capacity;
    }
    team->hold_last = team->hold_count;
    for (i = 0; i < count; ++i) {
        team->holds[team->hold_count].mapping = mappings[i];
        team->holds[team->hold_count++].launch = team->launches + 1;
    }
}

void mscclpp_team_keep_mappings(mscclpp_team_t *team, bool in_use)
{
    int i;

    for (i = team->hold_last; i < team->hold_count; ++i) {
        team->holds[i].launch = in_use ? UINT64_MAX : 0;
    }
}

void mscclpp_team_release_mappings(mscclpp_team_t *team, bool all)
{
    uint64_t done;
    int i, kept = 0;

    if (team->hold_count == 0) {
        return;
    }
    done = mscclpp_mailbox_of(team->mailbox, 0);
    /* Of the operation that the first block ended last, others may be still at work. */
    done = mscclpp_team_has_ended(team) ? team->launches : done > 0 ? done - 1 : 0;
    for (i = 0; i < team->hold_count; ++i) {
        if (all || team->holds[i].launch <= done) {
            mscclpp_mapping_put(team->holds[i].mapping);
        } else {
            team->holds[kept++] = team->holds[i];
        }
    }
    team->hold_count = kept;
}
