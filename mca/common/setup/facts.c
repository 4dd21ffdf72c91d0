#include "mca/common/setup/facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "mca/common/algo/coll.h"
#include "mca/common/base/log.h"

/*
 * Copies the settings that all ranks take from rank 0. Strings become numbers, because only plain bytes are sent. The
 * whole structure is zeroed first, including the padding, because protocols are compared byte by byte.
 */
void mscclpp_facts_fill_protocol(mscclpp_protocol_t *protocol, const mscclpp_config_t *config)
{
    memset(protocol, 0, sizeof(*protocol));
    protocol->algorithm = mscclpp_algo_find(config->algorithm);
    if (strcmp(config->algorithm, "stage") == 0) {
        protocol->algorithm = MSCCLPP_ALGO_STAGE;
    }
#define FILL_COLL(id_, name_, pattern_)                                                                                \
    protocol->coll_algorithm[MSCCLPP_COLL_##id_] = mscclpp_coll_algo_find_any(config->name_##_algorithm);
    MSCCLPP_COLLS(FILL_COLL)
#undef FILL_COLL
    protocol->packet_width = strcmp(config->packet, "ll8") == 0     ? 8
                             : strcmp(config->packet, "ll16") == 0  ? 16
                             : strcmp(config->packet, "ll128") == 0 ? 128
                                                                    : 0;
    protocol->max_blocks = (uint32_t)config->max_blocks;
    protocol->max_threads = (uint32_t)config->max_threads;
    protocol->twin_blocks = (uint32_t)config->twin_blocks;
    protocol->twin_threads = (uint32_t)config->twin_threads;
    protocol->linger_max = strcmp(config->linger, "off") != 0 ? config->linger_max : 0;
    protocol->linger_blocks = (uint32_t)config->linger_blocks;
    protocol->zerocopy = config->zerocopy;
    protocol->shared_gpu = strcmp(config->shared_gpu, "kernels") == 0 ? MSCCLPP_SHARED_GPU_KERNELS
                           : strcmp(config->shared_gpu, "stage") == 0 ? MSCCLPP_SHARED_GPU_STAGE
                                                                      : MSCCLPP_SHARED_GPU_AUTO;
    protocol->oneshot_max = config->oneshot_max;
    protocol->nodes_fanout = (uint32_t)config->nodes_fanout;
    protocol->nodes_packets_max = config->nodes_packets_max;
    protocol->nodes_split_min = config->nodes_split_min;
    protocol->nodes_ring_min = config->nodes_ring_min;
    protocol->twophase_max = config->twophase_max;
    protocol->put_max = config->put_max;
    protocol->lines_min = config->lines_min;
    protocol->engine_min = config->engine_min;
    protocol->engine_chunk = config->engine_chunk;
    protocol->engine_scratch = config->engine_scratch;
    protocol->scratch_size = config->scratch_size;
    protocol->epoch_limit = config->epoch_limit;
}

/* The numbers of the digest FNV-1a for 64 bits. */
#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/*
 * Returns a random number for a team. Without random numbers, returns the address `unlike`, which is hardly ever the
 * number of another team.
 */
uint64_t mscclpp_facts_new_id(const void *unlike)
{
    uint64_t id;

    return getrandom(&id, sizeof(id), 0) == (ssize_t)sizeof(id) ? id : (uint64_t)(uintptr_t)unlike;
}

uint64_t mscclpp_facts_digest(const mscclpp_protocol_t *protocol)
{
    const unsigned char *bytes = (const unsigned char *)(const void *)protocol;
    uint64_t digest = FNV_BASIS;
    size_t i;

    for (i = 0; i < sizeof(*protocol); ++i) {
        digest = (digest ^ bytes[i]) * FNV_PRIME;
    }
    return digest;
}

/*
 * Exchanges the protocols only if some digest differs from rank 0's, which all ranks see alike. If a rank has no memory
 * for the protocols of all ranks, it still takes part, and the exchange fails on all ranks.
 */
mscclpp_status_t mscclpp_facts_share_protocol(const mscclpp_oob_t *oob, const uint64_t *digests, size_t stride,
                                              mscclpp_protocol_t *protocol)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_protocol_t *protocols; /* by rank */
    int rank = 1;

    while (rank < oob->size &&
           *(const uint64_t *)(const void *)((const char *)digests + (size_t)rank * stride) == *digests) {
        ++rank;
    }
    if (rank < oob->size) {
        protocols = calloc((size_t)oob->size, sizeof(*protocols));
        status = oob->allgather(oob->context, protocol, protocols, sizeof(*protocol));
        if (status == MSCCLPP_OK && protocols != NULL) {
            *protocol = protocols[0];
        }
        free(protocols);
    }
    return status;
}

void mscclpp_facts_compare_rules(const mscclpp_team_t *team, const mscclpp_protocol_t *own_protocol,
                                 const mscclpp_protocol_t *common_protocol)
{
    if (memcmp(&own_protocol->rules, &common_protocol->rules, sizeof(own_protocol->rules)) != 0 ||
        memcmp(&own_protocol->coll_rules, &common_protocol->coll_rules, sizeof(own_protocol->coll_rules)) != 0) {
        mscclpp_warn("%s: coll_mscclpp_rules: the rules of rank %d for %d ranks differ from those of rank 0, which "
                     "count on all ranks (%llu rules)",
                     team->group.oob.label, team->group.members[team->group.rank], team->group.size,
                     (unsigned long long)(common_protocol->rules.count + common_protocol->coll_rules.count));
    }
}

bool mscclpp_facts_check(const mscclpp_team_t *team, const mscclpp_facts_t *facts, mscclpp_status_t own_status)
{
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        const mscclpp_facts_t *fact = &facts[rank];

        if (fact->version != MSCCLPP_FACTS_VERSION || fact->on_twin != facts[0].on_twin) {
            mscclpp_log(team->group.rank == 0 ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                        "%s: rank %d runs protocol %u on the %s, rank %d protocol %u on the %s: device buffers are "
                        "staged",
                        team->group.oob.label, team->group.members[rank], fact->version,
                        fact->on_twin ? "host twin" : "GPU", team->group.members[0], facts[0].version,
                        facts[0].on_twin ? "host twin" : "GPU");
            return false;
        }
        if (!fact->ready && rank == team->group.rank && mscclpp_status_is_shortage(own_status)) {
            mscclpp_warn("%s: rank %d: what a team needs, %llu bytes of device memory among it: %s: device buffers are "
                         "staged",
                         team->group.oob.label, team->group.members[rank],
                         (unsigned long long)team->runner.layout.total, mscclpp_status_string(own_status));
            return false;
        }
        if (!fact->ready) {
            mscclpp_info("%s: rank %d cannot take part (its own message says why): device buffers are staged",
                         team->group.oob.label, team->group.members[rank]);
            return false;
        }
    }
    return true;
}

uint32_t mscclpp_facts_ranks_on_gpu(const mscclpp_team_t *team, const mscclpp_facts_t *facts, int rank)
{
    uint32_t count = 0;
    int other;

    for (other = 0; other < team->group.size; ++other) {
        count += memcmp(facts[rank].uuid, facts[other].uuid, sizeof(facts[rank].uuid)) == 0;
    }
    return count;
}

bool mscclpp_facts_share_gpu(const mscclpp_team_t *team, const mscclpp_facts_t *facts)
{
    int rank;

    for (rank = 0; rank < team->group.size && !team->group.on_twin; ++rank) {
        if (facts[rank].users > 1 || mscclpp_facts_ranks_on_gpu(team, facts, rank) > 1) {
            return true;
        }
    }
    return false;
}

bool mscclpp_facts_take_turns(const mscclpp_team_t *team, const mscclpp_facts_t *facts)
{
    int rank, other;

    for (rank = 0; rank < team->group.size; ++rank) {
        /* Without MPS (server 0), or with two MPS servers, kernels of different processes take turns. */
        if (facts[rank].strangers > 0 || (facts[rank].users > 1 && facts[rank].server == 0)) {
            return true;
        }
        for (other = 0; other < rank; ++other) {
            if (memcmp(facts[rank].uuid, facts[other].uuid, sizeof(facts[rank].uuid)) == 0 &&
                (facts[rank].server == 0 || facts[rank].server != facts[other].server)) {
                return true;
            }
        }
    }
    return false;
}

/*
 * The smallest share of any GPU is the limit for all ranks. A team that is a part of a team of several nodes counts
 * only its own ranks; align.c later divides by all users.
 */
uint32_t mscclpp_facts_block_limit(const mscclpp_team_t *team, const mscclpp_facts_t *facts, bool is_whole)
{
    uint32_t limit = MSCCLPP_DEV_MAX_BLOCKS;
    int rank, other;

    if (team->group.on_twin) {
        return 0;
    }
    for (rank = 0; rank < team->group.size; ++rank) {
        const uint32_t ranks_here = mscclpp_facts_ranks_on_gpu(team, facts, rank);
        uint32_t known_processes = facts[rank].users; /* the most that any rank on this GPU knows of */
        uint32_t blocks;

        for (other = 0; other < team->group.size; ++other) {
            if (memcmp(facts[rank].uuid, facts[other].uuid, sizeof(facts[rank].uuid)) == 0) {
                known_processes = facts[other].users > known_processes ? facts[other].users : known_processes;
            }
        }
        blocks = facts[rank].sm_count / (is_whole && known_processes > ranks_here ? known_processes : ranks_here);
        limit = blocks < limit ? blocks : limit;
    }
    return limit == 0 ? 1 : limit;
}

bool mscclpp_facts_any_concurrent(const mscclpp_team_t *team, const mscclpp_facts_t *facts)
{
    bool is_any_concurrent = false;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        is_any_concurrent = is_any_concurrent || facts[rank].concurrent != 0;
    }
    return is_any_concurrent;
}

bool mscclpp_facts_any_plans(const mscclpp_team_t *team, const mscclpp_facts_t *facts)
{
    bool has_plans = false;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        has_plans = has_plans || facts[rank].plans != 0;
    }
    return has_plans;
}

bool mscclpp_facts_any_blocking(const mscclpp_team_t *team, const mscclpp_facts_t *facts)
{
    bool is_any_blocking = false;
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        is_any_blocking = is_any_blocking || facts[rank].blocking != 0;
    }
    return is_any_blocking;
}
