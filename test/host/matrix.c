#include "test/host/matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/algo.h"
#include "test/host/elements.h"
#include "test/host/rank_threads.h"
#include "test/host/reference.h"
#include "test/host/user_buffer.h"

const matrix_algo_t matrix_algos[] = {
    {"oneshot", "oneshot", "ll16", 0, false},
    {"ll8", "oneshot", "ll8", 0, false},
    {"twophase", "twophase", "ll16", 0, false},
    {"ll128", "twophase", "ll128", 0, false},
    {"oneshot_put", "oneshot_put", "auto", 0, false},
    {"zerocopy", "zerocopy", "auto", 0, false},
    {"engines", "engines", "auto", 0, false},
    {"scratch", "scratch", "auto", 0, false},
    {"nodes1", "nodes", "auto", 1, false},
    {"nodes2", "nodes", "auto", 2, false},
    {"nodes3", "nodes", "auto", 3, false},
    {"packets1", "nodes_packets", "auto", 1, false},
    {"packets2", "nodes_packets", "auto", 2, false},
    {"stored1", "nodes_packets", "auto", 1, true},
    {"stored3", "nodes_packets", "auto", 3, true},
    {"doubling1", "nodes_doubling", "auto", 1, false},
    {"doubling2", "nodes_doubling", "auto", 2, false},
    {"doubled1", "nodes_doubling", "auto", 1, true},
    {"split1", "nodes_split", "auto", 1, false},
    {"split2", "nodes_split", "auto", 2, false},
    {"split3", "nodes_split", "auto", 3, false},
    {"ring1", "nodes_ring", "auto", 1, false},
    {"ring2", "nodes_ring", "auto", 2, false},
    {"ring3", "nodes_ring", "auto", 3, false},
    {"halving1", "nodes_halving", "auto", 1, false},
    {"halving2", "nodes_halving", "auto", 2, false},
    {"trees1", "nodes_trees", "auto", 1, false},
    {"trees2", "nodes_trees", "auto", 2, false},
};
const int matrix_algo_count = (int)(sizeof(matrix_algos) / sizeof(matrix_algos[0]));

static unsigned char covered[sizeof(matrix_algos) / sizeof(matrix_algos[0])][MSCCLPP_DTYPE_LAST][MSCCLPP_OP_LAST];
static int cases_run;

/* One call: the arguments that are equal on all ranks, and those that each rank draws for itself. */
typedef struct {
    int index;
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    uint64_t count;
    size_t bytes;
    bool in_place[RANKS_MAX];
    user_kind_t in_kind[RANKS_MAX];
    user_kind_t out_kind[RANKS_MAX];
    unsigned in_offset[RANKS_MAX];
    unsigned out_offset[RANKS_MAX];
    bool repeat;
    uint64_t seed;
} case_t;

/* What the ranks of a group share. */
typedef struct {
    const matrix_group_t *group;
    size_t max_bytes;
    unsigned char *operand[RANKS_MAX];  /* from before the call */
    unsigned char *partial[RANKS_MAX];  /* each node's combined operands; unused with one node */
    unsigned char *expected[RANKS_MAX]; /* the allowed results, one for each order (orders_of) */
    const unsigned char *result[RANKS_MAX];
} group_state_t;

/* What one rank keeps from case to case. */
typedef struct {
    rank_t *rank;
    mscclpp_team_t *team;
    group_state_t *state;
    user_pool_t in_pool;
    user_pool_t out_pool;
    uint64_t call;
} runner_t;

/* True for types that are combined in a wider type, which a ring never does. */
static bool is_narrow(mscclpp_dtype_t dtype)
{
    return dtype == MSCCLPP_DTYPE_FLOAT16 || dtype == MSCCLPP_DTYPE_BFLOAT16;
}

/* The number of orders of combining. In a ring each node is the first one for a part of the elements. */
static int orders_of(const matrix_group_t *group, mscclpp_dtype_t dtype)
{
    const int each = group->algo->ranks_per_node;

    if (is_narrow(dtype) || each == 0 || group->ranks <= each) {
        return 1;
    }
    return strcmp(group->algo->algorithm, "nodes_trees") == 0  ? 2
           : strcmp(group->algo->algorithm, "nodes_ring") == 0 ? (group->ranks + each - 1) / each
                                                               : 1;
}

/* Bytes of a message that ends at, just before or just behind what one epoch or one tile holds. */
static uint64_t draw_large(const matrix_group_t *group, uint64_t max_bytes, uint64_t *state)
{
    static const int64_t around[] = {-17, -16, -15, -1, 0, 1, 15, 16, 17};
    const uint64_t n = (uint64_t)group->ranks, threads = (uint64_t)(group->blocks * group->threads);
    mscclpp_layout_t layout;
    uint64_t capacity, bytes;

    mscclpp_layout_init(&layout, group->scratch_size);
    switch (random_below(state, 6)) {
    case 0:
        capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(layout.packet_half, n);
        break;
    case 1:
        capacity = MSCCLPP_DEV_TWOPHASE_CAPACITY(layout.packet_half, n) * n;
        break;
    case 2:
        capacity = layout.bulk_size / (2 * MSCCLPP_DEV_UNIT);
        break;
    case 3:
        capacity = MSCCLPP_DEV_LL128_CAPACITY(layout.packet_half, n) * MSCCLPP_DEV_BUNDLE_UNITS * n;
        break;
    case 4:
        capacity = MSCCLPP_DEV_PUT_CAPACITY(layout.put_size, n) * (uint64_t)group->blocks;
        break;
    default:
        return 1 + random_below(state, max_bytes);
    }
    if (random_below(state, 2) != 0) {
        capacity = capacity / threads * threads;
    }
    bytes = capacity * MSCCLPP_DEV_UNIT * (1 + random_below(state, 3)) + (uint64_t)around[random_below(state, 9)];
    return bytes > max_bytes || bytes == 0 ? 1 + random_below(state, max_bytes) : bytes;
}

/* Draws a number of elements: mostly one of a list, else about one unit for each rank, or a large one. */
static uint64_t draw_count(const matrix_group_t *group, mscclpp_dtype_t dtype, uint64_t max_bytes, uint64_t *state)
{
    static const uint16_t counts[] = {1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4099};
    const uint64_t extent = element_of(dtype)->extent, most = max_bytes / extent;
    uint64_t count;

    switch (random_below(state, 16)) {
    case 0:
    case 1:
        count = draw_large(group, max_bytes, state) / extent;
        break;
    case 2:
        /* About one unit a rank: some ranks own nothing. */
        count = random_below(state, (uint64_t)group->ranks * 2 * MSCCLPP_DEV_UNIT) / extent;
        break;
    default:
        count = counts[random_below(state, sizeof(counts) / sizeof(counts[0]))];
        break;
    }
    return count > most ? most : count;
}

/* Draws everything of one case from its seed. */
static void draw_case(const matrix_group_t *group, size_t max_bytes, int index, case_t *c)
{
    uint64_t seed = random_mix(group->seed, (uint64_t)index);
    bool supported;
    int rank, mixture, in_place;

    memset(c, 0, sizeof(*c));
    c->index = index;
    c->seed = random_next(&seed);
    do {
        c->dtype = group->dtype >= 0 ? (mscclpp_dtype_t)group->dtype
                                     : (mscclpp_dtype_t)random_below(&seed, MSCCLPP_DTYPE_LAST);
        c->op = group->op >= 0 ? (mscclpp_op_t)group->op : (mscclpp_op_t)random_below(&seed, MSCCLPP_OP_LAST);
        supported = mscclpp_dev_supports(c->dtype, c->op, true);
    } while (!supported && (group->dtype < 0 || group->op < 0));
    c->count = draw_count(group, c->dtype, max_bytes, &seed);
    c->bytes = element_span(c->dtype, c->count);
    c->repeat = random_below(&seed, 4) == 0;
    mixture = (int)random_below(&seed, 8);  /* 0 to 4: device memory on all ranks, 5 and 6: none, 7: of each */
    in_place = (int)random_below(&seed, 8); /* 0 to 2: on all ranks, 3: on some, else on none */
    for (rank = 0; rank < group->ranks; ++rank) {
        c->in_place[rank] = in_place < 3 || (in_place == 3 && random_below(&seed, 2) != 0);
        c->in_kind[rank] = c->out_kind[rank] = USER_DEVICE;
        if (mixture > 4) {
            c->in_kind[rank] = (user_kind_t)random_below(&seed, mixture == 7 ? USER_KINDS : USER_DEVICE);
            c->out_kind[rank] = (user_kind_t)random_below(&seed, mixture == 7 ? USER_KINDS : USER_DEVICE);
        }
        /* Aligned buffers are the common case, but every offset has to occur, too. */
        c->in_offset[rank] = random_below(&seed, 3) == 0 ? 0 : (unsigned)random_below(&seed, 16);
        c->out_offset[rank] = random_below(&seed, 3) == 0 ? 0 : (unsigned)random_below(&seed, 16);
    }
    if (random_below(&seed, 4) == 0) {
        /* All ranks aligned alike, for the fast paths. */
        memset(c->in_offset, 0, sizeof(c->in_offset));
        memset(c->out_offset, 0, sizeof(c->out_offset));
    }
}

/* Prints the case that failed, with the numbers that repeat it. */
static void print_case(const runner_t *runner, const case_t *c)
{
    const matrix_group_t *group = runner->state->group;
    int rank = runner->rank->rank;

    fprintf(
        stderr,
        "    %s, %d ranks, grid %dx%d, scratch %zu, seed %llu, case %d: %s %s, count %llu (%zu bytes), %s; rank %d: "
        "in %s + %u, out %s + %u\n",
        group->algo->name, group->ranks, group->blocks, group->threads, group->scratch_size,
        (unsigned long long)group->seed, c->index, element_of(c->dtype)->name, element_op_name(c->op),
        (unsigned long long)c->count, c->bytes, c->in_place[rank] ? "in place" : "out of place", rank,
        user_kind_name(c->in_kind[rank]), c->in_offset[rank], user_kind_name(c->out_kind[rank]), c->out_offset[rank]);
    fprintf(stderr,
            "    again: test_allreduce --algo %s --ranks %d --grid %dx%d --scratch %zu --group-seed %llu --cases %d",
            group->algo->name, group->ranks, group->blocks, group->threads, group->scratch_size,
            (unsigned long long)group->seed, c->index + 1);
    if (group->dtype >= 0) {
        fprintf(stderr, " --dtype %s", element_of(c->dtype)->name);
    }
    if (group->op >= 0) {
        fprintf(stderr, " --op %s", element_op_name(c->op));
    }
    fprintf(stderr, "\n");
}

/* Counts a failure and prints its case. */
static bool fail(runner_t *runner, const case_t *c, const char *what)
{
    flockfile(stderr);
    fprintf(stderr, "FAIL %s\n", what);
    print_case(runner, c);
    funlockfile(stderr);
    ++runner->rank->failures;
    return false;
}

/* Writes bytes as hexadecimal digits. */
static void print_bytes(char *text, size_t size, const unsigned char *bytes, size_t count)
{
    size_t i, used = 0;

    for (i = 0; i < count && used + 3 < size; ++i) {
        used += (size_t)snprintf(text + used, size - used, "%02x", bytes[count - 1 - i]);
    }
}

/* Compares a result with the expected one, and its padding with the padding from before the call. */
static bool verify(runner_t *runner, const case_t *c, const unsigned char *got, const unsigned char *before)
{
    const element_t *element = element_of(c->dtype);
    const group_state_t *state = runner->state;
    char a[64], b[64], what[256];
    uint64_t i;
    size_t k;
    int order;

    for (i = 0; i < c->count; ++i) {
        size_t at = (size_t)i * element->extent;
        size_t length = c->bytes - at < element->extent ? c->bytes - at : element->extent;
        unsigned char mine[16], wanted[16];

        bool agrees = false;

        memset(mine, 0, sizeof(mine));
        memset(wanted, 0, sizeof(wanted));
        memcpy(mine, got + at, length);
        for (order = orders_of(state->group, c->dtype) - 1; order >= 0 && !agrees; --order) {
            memcpy(wanted, state->expected[order] + at, length);
            agrees = reference_agrees(c->dtype, c->op, runner->rank->size, mine, wanted);
        }
        if (!agrees) {
            print_bytes(a, sizeof(a), mine, length);
            print_bytes(b, sizeof(b), wanted, length);
            snprintf(what, sizeof(what), "element %llu: got 0x%s, wanted 0x%s", (unsigned long long)i, a, b);
            return fail(runner, c, what);
        }
        for (k = 0; element->pair && k < length; ++k) {
            if (!element_has_byte(c->dtype, k) && got[at + k] != before[at + k]) {
                snprintf(what, sizeof(what), "element %llu: padding byte %zu was overwritten", (unsigned long long)i,
                         k);
                return fail(runner, c, what);
            }
        }
    }
    return true;
}

/* True if two results have the same bits wherever elements have any. */
static bool same_bits(const case_t *c, const unsigned char *a, const unsigned char *b)
{
    const size_t extent = element_of(c->dtype)->extent;
    size_t i;

    if (memcmp(a, b, c->bytes) == 0) {
        return true;
    }
    for (i = 0; i < c->bytes; ++i) {
        if (a[i] != b[i] && element_has_byte(c->dtype, i % extent)) {
            return false;
        }
    }
    return true;
}

/* Padding differs from rank to rank and from send to receive buffer. */
static void fill_padding(void *buffer, size_t bytes, unsigned char salt)
{
    unsigned char *p = buffer;
    size_t i;

    for (i = 0; i < bytes; ++i) {
        p[i] = (unsigned char)(i * 13 + salt);
    }
}

/* Whether the algorithm that served the call is the one that was asked for. */
static bool check_name(runner_t *runner, const case_t *c)
{
    const matrix_group_t *group = runner->state->group;
    const char *name = mscclpp_team_last_algorithm(runner->team), *wanted = group->algo->algorithm;
    char what[128];
    bool maps_in;
    int rank;

    if (group->ranks <= (group->algo->ranks_per_node > 1 ? group->algo->ranks_per_node : 1) || c->count == 0) {
        return true;
    }
    /* Engines do not serve pairs, and they read send buffers of any kind. */
    if (strcmp(wanted, "engines") == 0 && element_of(c->dtype)->pair) {
        wanted = "zerocopy";
    }
    if ((strcmp(wanted, "nodes_ring") == 0 || strcmp(wanted, "nodes_halving") == 0 ||
         strcmp(wanted, "nodes_trees") == 0) &&
        is_narrow(c->dtype)) {
        wanted = "nodes_split";
    }
    if (strcmp(wanted, "nodes_doubling") == 0 && is_narrow(c->dtype)) {
        wanted = "nodes_packets";
    }
    maps_in = strcmp(wanted, "zerocopy") == 0;
    for (rank = 0; rank < group->ranks && (maps_in || strcmp(wanted, "engines") == 0); ++rank) {
        if (c->out_kind[rank] != USER_DEVICE || (maps_in && !c->in_place[rank] && c->in_kind[rank] != USER_DEVICE)) {
            wanted = "scratch";
        }
    }
    if (strcmp(name, wanted) != 0) {
        snprintf(what, sizeof(what), "algorithm %s ran, not %s", name, wanted);
        return fail(runner, c, what);
    }
    return true;
}

/* One call on fresh contents of the buffers. */
static bool call(runner_t *runner, const case_t *c, user_buffer_t *in, user_buffer_t *out)
{
    const int rank = runner->rank->rank;
    const unsigned char *operand = runner->state->operand[rank];
    mscclpp_allreduce_args_t args = {.early = false};
    mscclpp_status_t status;
    unsigned char *before;
    char what[128];
    bool good = true;

    fill_padding(out->data, c->bytes, (unsigned char)(rank + 101));
    if (c->in_place[rank]) {
        memcpy(out->data, operand, c->bytes);
    } else {
        memcpy(in->data, operand, c->bytes);
    }
    before = malloc(c->bytes + 1);
    if (before == NULL) {
        return fail(runner, c, "no memory");
    }
    memcpy(before, out->data, c->bytes);
    args.sendbuf = c->in_place[rank] ? out->data : in->data;
    args.recvbuf = out->data;
    args.count = c->count;
    args.dtype = c->dtype;
    args.op = c->op;
    args.call = ++runner->call;
    status = mscclpp_allreduce(runner->team, &args);
    if (status != MSCCLPP_OK) {
        snprintf(what, sizeof(what), "status %d: %s", (int)status, mscclpp_status_string(status));
        good = fail(runner, c, what);
    }
    good = good && verify(runner, c, out->data, before);
    if (good && !c->in_place[rank] && memcmp(in->data, operand, c->bytes) != 0) {
        good = fail(runner, c, "the send buffer was overwritten");
    }
    if (good && (!user_buffer_intact(in) || !user_buffer_intact(out))) {
        good = fail(runner, c, "bytes outside the buffers were overwritten");
    }
    free(before);
    return good && check_name(runner, c);
}

/*
 * Computes a part of the expected results. Each node combines its own operands, and then the nodes combine these
 * results: in node order, in a ring from each node on, over one of two trees, or as reference_reduce_doubled says.
 */
static void expect(group_state_t *state, const case_t *c, int ranks, uint64_t begin, uint64_t end)
{
    const void *const *operand = (const void *const *)state->operand;
    const void *in_turn[2 * RANKS_MAX];
    const int each = state->group->algo->ranks_per_node;
    int node, nodes, order;

    if (each == 0 || each >= ranks) {
        reference_reduce(c->dtype, c->op, operand, ranks, begin, end, state->expected[0]);
        return;
    }
    nodes = (ranks + each - 1) / each;
    for (node = 0; node < nodes; ++node) {
        const int first = node * each, size = ranks - first < each ? ranks - first : each;

        reference_reduce(c->dtype, c->op, operand + first, size, begin, end, state->partial[node]);
        in_turn[node] = in_turn[nodes + node] = state->partial[node];
    }
    if (!is_narrow(c->dtype) && (strcmp(state->group->algo->algorithm, "nodes_doubling") == 0 ||
                                 strcmp(state->group->algo->algorithm, "nodes_halving") == 0)) {
        reference_reduce_doubled(c->dtype, c->op, state->partial, nodes, begin, end, state->expected[0]);
        return;
    }
    if (!is_narrow(c->dtype) && strcmp(state->group->algo->algorithm, "nodes_trees") == 0) {
        for (order = 0; order < 2; ++order) {
            const mscclpp_dev_tree_place_t root = {.nnodes = (uint32_t)nodes, .tree = (uint32_t)order};

            reference_reduce_over_tree(c->dtype, c->op, root, state->partial, begin, end, state->expected[order]);
        }
        return;
    }
    for (order = 0; order < orders_of(state->group, c->dtype); ++order) {
        reference_reduce(c->dtype, c->op, in_turn + order, nodes, begin, end, state->expected[order]);
    }
}

/* Makes one call and checks its result and what lies around its buffers. */
static void run_case(runner_t *runner, const case_t *c)
{
    const rank_t *rank = runner->rank;
    group_state_t *state = runner->state;
    const uint64_t n = (uint64_t)rank->size, r = (uint64_t)rank->rank;
    user_buffer_t in, out;
    unsigned char *first = NULL;
    bool good;

    fill_padding(state->operand[rank->rank], c->bytes, (unsigned char)(rank->rank + 31));
    elements_fill(c->dtype, c->op, rank->size, random_mix(c->seed, r), state->operand[rank->rank], c->count);
    user_buffer_open(&in, c->in_kind[rank->rank], &runner->in_pool, c->in_offset[rank->rank], c->bytes);
    user_buffer_open(&out, c->out_kind[rank->rank], &runner->out_pool, c->out_offset[rank->rank], c->bytes);
    meet(runner->rank);
    /* Each rank computes a part of the expected results, with which all ranks compare. */
    expect(state, c, rank->size, c->count * r / n, c->count * (r + 1) / n);
    meet(runner->rank);
    good = call(runner, c, &in, &out);
    if (good && c->repeat) {
        first = malloc(c->bytes + 1);
    }
    if (first != NULL) {
        memcpy(first, out.data, c->bytes);
    }
    if (!meet_any(runner->rank, !good) && c->repeat) {
        good = call(runner, c, &in, &out);
        if (good && first != NULL && !same_bits(c, first, out.data)) {
            good = fail(runner, c, "the same call gave other bits the second time");
        }
    }
    free(first);
    state->result[rank->rank] = out.data;
    if (!meet_any(runner->rank, !good) && !same_bits(c, state->result[0], out.data)) {
        (void)fail(runner, c, "the result differs from rank 0's");
    }
    meet(runner->rank);
    user_buffer_close(&in);
    user_buffer_close(&out);
}

/* What each rank does: all cases of the group, one after the other. */
static void body(rank_t *rank)
{
    group_state_t *state = rank->argument;
    const matrix_group_t *group = state->group;
    runner_t runner;
    int i;

    memset(&runner, 0, sizeof(runner));
    runner.rank = rank;
    runner.state = state;
    user_pool_create(&runner.in_pool, state->max_bytes);
    user_pool_create(&runner.out_pool, state->max_bytes);
    runner.team = create_team(rank);
    if (runner.team != NULL && strcmp(group->algo->packet, "ll128") == 0 && rank->size > 1 &&
        !mscclpp_team_keeps_lines(runner.team)) {
        ++rank->failures;
        fprintf(stderr, "FAIL rank %d of %d: no LL128, which the twin keeps whole\n", rank->rank, rank->size);
    }
    for (i = 0; i < group->cases && runner.team != NULL; ++i) {
        case_t c;

        draw_case(group, state->max_bytes, i, &c);
        if ((group->only_case >= 0 && group->only_case != i) || !mscclpp_dev_supports(c.dtype, c.op, true)) {
            continue;
        }
        if (rank->rank == 0) {
            covered[group->algo - matrix_algos][c.dtype][c.op] = 1;
            ++cases_run;
        }
        if (group->verbose && rank->rank == 0) {
            print_case(&runner, &c);
        }
        run_case(&runner, &c);
        /* After an error the team is useless. After a wrong result one report is enough. */
        if (meet_any(rank, rank->failures != 0)) {
            break;
        }
    }
    mscclpp_team_destroy(runner.team);
    meet(rank);
    user_pool_destroy(&runner.in_pool);
    user_pool_destroy(&runner.out_pool);
}

int matrix_run(const matrix_group_t *group)
{
    group_state_t *state = calloc(1, sizeof(*state));
    mscclpp_config_t config;
    size_t slots;
    int rank, failures;

    if (state == NULL) {
        perror("calloc");
        exit(1);
    }
    mscclpp_config_init(&config);
    config.algorithm = group->algo->algorithm;
    config.packet = group->algo->packet;
    config.twin_blocks = group->blocks;
    config.twin_threads = group->threads;
    config.scratch_size = group->scratch_size;
    config.timeout = group->timeout;
    /* Many chunks, or a few that scratch bounds. */
    config.engine_chunk = group->seed % 4 == 0 ? 1 << 20 : (size_t)128 << group->seed % 8;
    config.engine_scratch = group->seed % 4 == 0 ? 300000 : 64 << 20;
    config.ucx = false;
    config.ranks_per_node = group->algo->ranks_per_node;
    config.transport = "shm";
    config.exchange_stores = group->algo->exchange_stores;
    /* Groups vary the number of tiles, what drives the proxy, and the size of the FIFO, which is then often full. */
    slots = group->algo->ranks_per_node == 0 ? 0 : (size_t)((group->ranks + 1) / group->algo->ranks_per_node);
    config.exchange_size = (80 * slots + 80) * (group->seed % 3 == 0 ? 4096 : group->seed % 3 == 1 ? 20000 : 100000);
    config.proxy = group->seed / 3 % 3 == 0 ? "thread" : "progress";
    config.fifo_size = group->seed % 5 == 0 ? 2 : 512;
    state->group = group;
    state->max_bytes = group->ranks <= 8 ? 600000 : 70000;
    for (rank = 0; rank < group->ranks; ++rank) {
        state->operand[rank] = malloc(state->max_bytes + 16);
        state->partial[rank] = calloc(1, state->max_bytes + 16);
        state->expected[rank] = malloc(state->max_bytes + 16);
    }
    failures = run_ranks(group->ranks, &config, body, state);
    mscclpp_team_finalize(1.0);
    for (rank = 0; rank < group->ranks; ++rank) {
        free(state->operand[rank]);
        free(state->partial[rank]);
        free(state->expected[rank]);
    }
    free(state);
    return failures != 0;
}

void matrix_init(void)
{
    mscclpp_gpu_twin_set_filter(user_is_host);
}

int matrix_case_count(void)
{
    return cases_run;
}

bool matrix_find_missing(const matrix_algo_t *algo, int *dtype_p, int *op_p)
{
    int dtype, op;

    for (dtype = 0; dtype < MSCCLPP_DTYPE_LAST; ++dtype) {
        for (op = 0; op < MSCCLPP_OP_LAST; ++op) {
            if (mscclpp_dev_supports((mscclpp_dtype_t)dtype, (mscclpp_op_t)op, true) &&
                !covered[algo - matrix_algos][dtype][op]) {
                *dtype_p = dtype;
                *op_p = op;
                return true;
            }
        }
    }
    return false;
}
