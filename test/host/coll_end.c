#include "test/host/coll_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/types/coll_nodes.h"
#include "device/types/nodes.h"
#include "test/unit/unit.h"

/* Returns the memory, or ends the program if it is NULL. */
static void *need(void *memory)
{
    if (memory == NULL) {
        perror("malloc");
        exit(1);
    }
    return memory;
}

void coll_images_create(coll_images_t *images, int ranks, size_t bytes)
{
    int rank;

    memset(images, 0, sizeof(*images));
    for (rank = 0; rank < ranks; ++rank) {
        images->in[rank] = need(malloc(bytes));
        images->out[rank] = need(malloc(bytes));
    }
}

void coll_images_destroy(coll_images_t *images)
{
    int rank;

    for (rank = 0; rank < RANKS_MAX; ++rank) {
        free(images->in[rank]);
        free(images->out[rank]);
    }
}

void coll_end_open(coll_end_t *end, rank_t *rank, mscclpp_team_t *team, size_t bytes)
{
    end->rank = rank;
    end->team = team;
    end->call = 0;
    user_pool_create(&end->in_pool, bytes);
    user_pool_create(&end->out_pool, bytes);
}

void coll_end_close(coll_end_t *end)
{
    mscclpp_team_destroy(end->team);
    user_pool_destroy(&end->in_pool);
    user_pool_destroy(&end->out_pool);
}

/* Reports a fault with the numbers that repeat the case. Returns false. */
static bool fail(const coll_end_t *end, const case_t *c, const char *what)
{
    char text[512], choice[128];

    case_describe(c, end->rank->rank, text, sizeof(text));
    case_write_choice(&c->choice, choice, sizeof(choice));
    flockfile(stderr);
    fprintf(stderr, "FAIL call %llu: %s\n    %s\n", (unsigned long long)end->call, what, text);
    fprintf(stderr, "    again: test_collectives --case %s --seed %llu\n", choice, (unsigned long long)c->drawn_from);
    funlockfile(stderr);
    ++end->rank->failures;
    return false;
}

/* Makes the case's call on this rank. */
static mscclpp_status_t make_call(coll_end_t *end, const case_t *c, const void *in, void *out)
{
    const int rank = end->rank->rank;

    ++end->call;
    if (c->coll == CASE_ALLREDUCE) {
        const mscclpp_allreduce_args_t args = {.sendbuf = c->side[rank].in_place ? out : in,
                                               .recvbuf = out,
                                               .count = c->count,
                                               .dtype = c->dtype,
                                               .op = c->op,
                                               .call = end->call};

        return mscclpp_allreduce(end->team, &args);
    } else {
        mscclpp_coll_args_t args;

        case_args(c, rank, in, out, end->call, &args);
        return mscclpp_collective(end->team, &args);
    }
}

int coll_end_packets, coll_end_rounds;

/* `before` is what served the call before this one. */
static bool check_name(const coll_end_t *end, const case_t *c, const char *before)
{
    const char *name = mscclpp_team_last_algorithm(end->team);
    const bool in_trees = case_goes_over_trees(c);
    const bool in_ring = case_goes_in_ring(c);
    const bool by_halving = case_goes_by_halving(c);
    const bool chooses = !in_ring && !in_trees && !by_halving;
    const char *wanted = c->served == CASE_NOTHING    ? before
                         : c->served != CASE_BY_NODES ? case_algos[c->served]
                         : in_trees                   ? "nodes_trees"
                         : in_ring                    ? "nodes_ring"
                         : by_halving                 ? "nodes_halving"
                                                      : "nodes";
    char what[128];

    /* Where every rank knows that there are no data, nothing has served the call. */
    if (c->served == CASE_NOTHING && strcmp(name, "none") == 0) {
        return true;
    }
    if (c->served == CASE_BY_NODES && strcmp(name, "nodes_packets") == 0 && !c->varied && chooses) {
        __atomic_fetch_add(&coll_end_packets, 1, __ATOMIC_RELAXED);
        return true;
    }
    if (c->served == CASE_BY_NODES && strcmp(name, "nodes_rounds") == 0 && !c->varied && chooses) {
        __atomic_fetch_add(&coll_end_rounds, 1, __ATOMIC_RELAXED);
        return true;
    }
    /* The cost model sends large broadcasts and reduces over trees. */
    if (c->served == CASE_BY_NODES && strcmp(name, "nodes_trees") == 0 && c->choice.algo == CASE_AUTO &&
        c->coll != CASE_ALLREDUCE && MSCCLPP_DEV_COLL_TREES(mscclpp_coll_pattern(c->coll))) {
        return true;
    }
    /* Also all-gathers and reduce-scatters by halving, between more than two nodes. */
    if (c->served == CASE_BY_NODES && strcmp(name, "nodes_halving") == 0 && c->choice.algo == CASE_AUTO &&
        c->coll != CASE_ALLREDUCE && MSCCLPP_DEV_COLL_RINGS(mscclpp_coll_pattern(c->coll))) {
        return true;
    }
    if (c->coll != CASE_ALLREDUCE && strcmp(name, wanted) != 0) {
        snprintf(what, sizeof(what), "algorithm %s ran, not %s", name, wanted);
        return fail(end, c, what);
    }
    return true;
}

/*
 * Returns the case as if the algorithm that the cost model has chosen had been forced: partial results are combined in
 * the order of that algorithm.
 */
static case_t as_chosen(const coll_end_t *end, const case_t *c)
{
    const char *name = mscclpp_team_last_algorithm(end->team);
    case_t chosen = *c;

    if (c->choice.algo == CASE_AUTO && strcmp(name, "nodes_halving") == 0) {
        chosen.choice.algo = CASE_HALVING;
    } else if (c->choice.algo == CASE_ROUNDS && strcmp(name, "nodes_rounds") != 0) {
        chosen.choice.algo = CASE_AUTO;
    } else if (c->choice.algo == CASE_AUTO && (strcmp(name, "nodes_trees") == 0 || strcmp(name, "nodes_ring") == 0)) {
        chosen.choice.algo = CASE_RING;
    }
    return chosen;
}

bool coll_end_call(coll_end_t *end, const case_t *c, const coll_images_t *images)
{
    const int rank = end->rank->rank;
    const case_side_t *side = &c->side[rank];
    const char *before = mscclpp_team_last_algorithm(end->team);
    user_buffer_t in, out;
    mscclpp_status_t status;
    char what[256];
    bool good = true;
    case_t chosen;

    user_buffer_open(&in, side->in_kind, &end->in_pool, side->in_offset, side->in_bytes);
    user_buffer_open(&out, side->out_kind, &end->out_pool, side->out_offset, side->out_bytes);
    memcpy(in.data, images->in[rank], side->in_bytes);
    memcpy(out.data, images->out[rank], side->out_bytes);
    status = make_call(end, c, side->has_in ? in.data : NULL, side->has_out ? out.data : NULL);
    if (status != MSCCLPP_OK) {
        snprintf(what, sizeof(what), "status %d: %s", (int)status, mscclpp_status_string(status));
        good = fail(end, c, what);
    }
    chosen = as_chosen(end, c);
    if (good && !case_verify(&chosen, rank, images->in, images->out, out.data, what, sizeof(what))) {
        good = fail(end, c, what);
    }
    if (good && memcmp(in.data, images->in[rank], side->in_bytes) != 0) {
        good = fail(end, c, "the input was overwritten");
    }
    if (good && (!user_buffer_intact(&in) || !user_buffer_intact(&out))) {
        good = fail(end, c, "bytes outside the buffers were overwritten");
    }
    good = good && check_name(end, c, before);
    user_buffer_close(&in);
    user_buffer_close(&out);
    return good;
}

/* Cases vary the number of tiles, what drives the proxy, and the size of the FIFO, which is then often full. */
static void configure_nodes(mscclpp_config_t *config, const case_choice_t *choice)
{
    const int draw = choice->ranks + choice->nodes + 64, per = choice->nodes;
    const int nodes = per > 0 ? (choice->ranks + per - 1) / per : choice->ranks < -per ? choice->ranks : -per;
    const size_t slots = (size_t)MSCCLPP_DEV_NODES_SLOTS(nodes);

    config->ranks_per_node = choice->nodes;
    config->transport = "shm";
    config->exchange_size = slots * (draw % 2 == 0 ? 5000 : 40000);
    config->proxy = draw % 3 == 0 ? "thread" : "progress";
    config->fifo_size = draw % 5 == 0 ? 2 : 512;
    if (choice->algo == CASE_ROUNDS) { /* the fan-out bounds the radix: 2, 4 or 8 */
        config->nodes_fanout = draw % 3 == 0 ? 1 : draw % 3 == 1 ? 3 : 7;
    }
}

void coll_end_configure(mscclpp_config_t *config, const case_choice_t *choice, double timeout)
{
    mscclpp_config_init(config);
    config->scratch_size = COLL_END_SCRATCH;
    config->twin_blocks = choice->blocks;
    config->twin_threads = choice->threads;
    config->timeout = timeout;
    config->ucx = false;
    if (choice->nodes != 0) {
        configure_nodes(config, choice);
    }
#define FORCE(id_, name_, pattern_)                                                                                    \
    config->name_##_algorithm =                                                                                        \
        choice->algo == CASE_RING && MSCCLPP_DEV_COLL_TREES(pattern_) ? "nodes_trees" : case_algos[choice->algo];
    MSCCLPP_COLLS(FORCE)
#undef FORCE
}

void coll_end_all_reduce(coll_end_t *end, uint64_t seed)
{
    const size_t count = 1 + (size_t)(seed % 4000);
    int32_t *values = calloc(count, sizeof(*values));
    const mscclpp_allreduce_args_t args = {.sendbuf = values,
                                           .recvbuf = values,
                                           .count = count,
                                           .dtype = MSCCLPP_DTYPE_INT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .call = ++end->call};
    const int32_t n = end->rank->size;
    bool good = true;
    size_t i;

    REQUIRE(values != NULL);
    for (i = 0; i < count; ++i) {
        values[i] = (int32_t)i + end->rank->rank;
    }
    good = mscclpp_allreduce(end->team, &args) == MSCCLPP_OK;
    for (i = 0; i < count && good; ++i) {
        good = values[i] == n * (int32_t)i + n * (n - 1) / 2;
    }
    if (!good) {
        fprintf(stderr, "FAIL an all-reduce of %zu integers between other calls\n", count);
        ++end->rank->failures;
    }
    free(values);
}
