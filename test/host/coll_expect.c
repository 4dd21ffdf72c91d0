/* The output that each rank of a case must have: MPI's definitions, block by block and element by element. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/lib/nodes_trees.h"
#include "test/host/coll_case.h"
#include "test/host/elements.h"
#include "test/host/reference.h"

/* A rank's input, wherever it lies. */
static const unsigned char *input_of(const case_t *c, int rank, unsigned char *const *in, unsigned char *const *out)
{
    const bool shared = c->side[rank].in_place && !case_scatters(c->coll);

    return shared ? out[rank] : in[rank];
}

/* Puts the blocks that the rank gets into `result`, which holds its output from before the call. */
static void expect_moved(const case_t *c, int rank, unsigned char *const *in, unsigned char *const *out,
                         unsigned char *result)
{
    int sender;

    for (sender = 0; sender < c->ranks; ++sender) {
        const mscclpp_dev_block_t *from = case_send_of(c, sender, rank), *to = case_recv_of(c, rank, sender);

        if (to->bytes > 0 && !(sender == rank && c->side[rank].in_place)) {
            memcpy(result + to->offset, input_of(c, sender, in, out) + from->offset, (size_t)to->bytes);
        }
    }
}

/* Elements of the rank's result. */
static uint64_t result_count(const case_t *c, int rank)
{
    if (c->coll == MSCCLPP_COLL_EXSCAN) {
        return rank == 0 ? 0 : c->count;
    }
    return case_flows(c, rank, rank) ? (case_recv_of(c, rank, rank)->bytes + c->extent - 1) / c->extent : 0;
}

static int operand_count(const case_t *c, int rank)
{
    return c->coll == MSCCLPP_COLL_SCAN ? rank + 1 : c->coll == MSCCLPP_COLL_EXSCAN ? rank : c->ranks;
}

static int node_of(const case_t *c, int rank)
{
    return c->choice.nodes > 0 ? rank / c->choice.nodes : c->choice.nodes < 0 ? rank % -c->choice.nodes : 0;
}

/* True if each node combines the operands of its ranks and sends the result. */
static bool merges(const case_t *c)
{
    return c->served == CASE_BY_NODES && (c->coll == MSCCLPP_COLL_REDUCE || case_reduce_scatters(c->coll));
}

static void *allocate(uint64_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        perror("calloc");
        exit(1);
    }
    return memory;
}

/*
 * Combines the results of nodes, in `partial`, as they are combined on the way through a tree to a node: those of the
 * first child's branch, those of the second one's, and its own.
 */
static void reduce_over_tree(const case_t *c, mscclpp_dev_tree_place_t place, void *const *partial, uint64_t count,
                             void *result)
{
    const void *parts[MSCCLPP_DEV_TREES_CHILDREN + 1];
    void *branch[MSCCLPP_DEV_TREES_CHILDREN] = {NULL};
    int used = 0;
    uint32_t i;

    for (i = 0; i < MSCCLPP_DEV_TREES_CHILDREN; ++i) {
        mscclpp_dev_tree_place_t below = place;

        below.node = mscclpp_dev_trees_child(&place, i);
        if (below.node != MSCCLPP_DEV_TREES_NONE) {
            branch[i] = allocate(count, c->extent);
            reduce_over_tree(c, below, partial, count, branch[i]);
            parts[used++] = branch[i];
        }
    }
    parts[used++] = partial[place.node];
    reference_reduce(c->dtype, c->op, parts, used, 0, count, result);
    free(branch[0]);
    free(branch[1]);
}

/*
 * What a node has for the node `position` after it before round `rounds` of halving: its own partial result, combined
 * with what it received in the rounds before. At position 0 its own is left out. Returns false if there is nothing.
 */
static bool reduce_in_rounds(const case_t *c, uint32_t nodes, uint32_t node, uint32_t position, uint32_t rounds,
                             void *const *partial, uint64_t count, void *result)
{
    bool has_any = position > 0;
    uint32_t distance = 1, round;

    if (has_any) {
        memcpy(result, partial[node], count * c->extent);
    }
    while (2 * distance < nodes) {
        distance *= 2;
    }
    for (round = 0; round < rounds; ++round, distance /= 2) {
        void *received = allocate(count, c->extent);

        if (position < distance && position + distance < nodes &&
            reduce_in_rounds(c, nodes, (node + nodes - distance) % nodes, position + distance, round, partial, count,
                             received)) {
            const void *parts[2] = {result, received};

            if (has_any) {
                void *sum = allocate(count, c->extent);

                reference_reduce(c->dtype, c->op, parts, 2, 0, count, sum);
                memcpy(result, sum, count * c->extent);
                free(sum);
            } else {
                memcpy(result, received, count * c->extent);
            }
            has_any = true;
        }
        free(received);
    }
    return has_any;
}

/* Combines the results of the nodes as halving does: those of the other nodes first, then the receiver's own. */
static void reduce_by_halving(const case_t *c, uint32_t nodes, uint32_t node, void *const *partial, uint64_t count,
                              void *result)
{
    const void *parts[2];
    void *others = allocate(count, c->extent);
    uint32_t rounds = 0, power;
    int used = 0;

    for (power = 1; power < nodes; power *= 2) {
        ++rounds;
    }
    if (reduce_in_rounds(c, nodes, node, 0, rounds, partial, count, others)) {
        parts[used++] = others;
    }
    parts[used++] = partial[node];
    reference_reduce(c->dtype, c->op, parts, used, 0, count, result);
    free(others);
}

/*
 * Combines the operands of each node in rank order, and then combines the results of the nodes: in their order; or, in
 * a ring, in the order in which they come to the receiver's node, whose own is the last; or as halving does, or as tree
 * number `tree` does.
 */
static void reduce_by_nodes(const case_t *c, int receiver, uint32_t tree, const void *const *operands, uint64_t count,
                            void *result)
{
    const int first = case_goes_in_ring(c) ? node_of(c, receiver) + 1 : 0;
    const void *of_node[RANKS_MAX], *partials[RANKS_MAX];
    void *partial[RANKS_MAX];
    int node, rank, nodes = 0, here;

    for (node = 0; node < c->ranks; ++node) {
        for (rank = here = 0; rank < c->ranks; ++rank) {
            if (node_of(c, rank) == node) {
                of_node[here++] = operands[rank];
            }
        }
        if (here == 0) {
            continue;
        }
        partial[nodes] = allocate(count, c->extent);
        reference_reduce(c->dtype, c->op, of_node, here, 0, count, partial[nodes]);
        ++nodes;
    }
    for (node = 0; node < nodes; ++node) {
        partials[node] = partial[(first + node) % nodes];
    }
    if (case_goes_over_trees(c)) {
        const mscclpp_dev_tree_place_t place = {.nnodes = (uint32_t)nodes,
                                                .node = (uint32_t)node_of(c, receiver),
                                                .root = (uint32_t)node_of(c, receiver),
                                                .tree = tree};

        reduce_over_tree(c, place, partial, count, result);
    } else if (case_goes_by_halving(c)) {
        reduce_by_halving(c, (uint32_t)nodes, (uint32_t)node_of(c, receiver), partial, count, result);
    } else {
        reference_reduce(c->dtype, c->op, partials, nodes, 0, count, result);
    }
    for (node = 0; node < nodes; ++node) {
        free(partial[node]);
    }
}

/*
 * Combines operands as a scan does whose nodes send combined ones in rounds of `radix`: total[i] is of node i and the
 * nodes before it, `distance` in all at most, and `earlier` of those before node `node`.
 */
static void scan_by_nodes(const case_t *c, int rank, uint32_t radix, const void *const *operands, uint64_t count,
                          void *result)
{
    const int node = node_of(c, rank), nodes = node_of(c, c->ranks - 1) + 1, per_node = c->choice.nodes;
    void *total[RANKS_MAX], *next[RANKS_MAX], *earlier = allocate(count, c->extent), *more;
    const void *parts[RANKS_MAX];
    int distance, used, i, j;

    for (i = 0; i < nodes; ++i) {
        const int ranks = i + 1 < nodes ? per_node : c->ranks - i * per_node;

        total[i] = allocate(count, c->extent);
        next[i] = allocate(count, c->extent);
        reference_reduce(c->dtype, c->op, operands + i * per_node, ranks, 0, count, total[i]);
    }
    for (distance = 1; distance < nodes; distance *= (int)radix) {
        for (i = 0; i < nodes; ++i) {
            void *received = allocate(count, c->extent);

            for (used = 0, j = (int)radix - 1; j > 0; --j) {
                if (i >= j * distance) {
                    parts[used++] = total[i - j * distance];
                }
            }
            if (used == 0) {
                memcpy(next[i], total[i], count * c->extent);
                free(received);
                continue;
            }
            reference_reduce(c->dtype, c->op, parts, used, 0, count, received);
            if (i == node) {
                more = allocate(count, c->extent);
                parts[0] = received;
                parts[1] = earlier;
                reference_reduce(c->dtype, c->op, parts, distance == 1 ? 1 : 2, 0, count, more);
                free(earlier);
                earlier = more;
            }
            parts[0] = received;
            parts[1] = total[i];
            reference_reduce(c->dtype, c->op, parts, 2, 0, count, next[i]);
            free(received);
        }
        for (i = 0; i < nodes; ++i) {
            void *old = total[i];

            total[i] = next[i];
            next[i] = old;
        }
    }
    used = 0;
    if (node > 0) {
        parts[used++] = earlier;
    }
    for (i = node * per_node; i < operand_count(c, rank); ++i) {
        parts[used++] = operands[i];
    }
    reference_reduce(c->dtype, c->op, parts, used, 0, count, result);
    for (i = 0; i < nodes; ++i) {
        free(total[i]);
        free(next[i]);
    }
    free(earlier);
}

/*
 * Computes the result of a reduction on a rank, in the order of the ranks. `tree`: as if this tree had all data. In a
 * scan by nodes, it says the radix of the rounds: 2, 4 or 8.
 */
static void expect_combined(const case_t *c, int rank, uint32_t tree, unsigned char *const *in,
                            unsigned char *const *out, unsigned char *result)
{
    const void *operands[RANKS_MAX];
    const uint64_t count = result_count(c, rank);
    int sender;

    if (count == 0) {
        return;
    }
    for (sender = 0; sender < c->ranks; ++sender) {
        operands[sender] =
            input_of(c, sender, in, out) + (case_reduce_scatters(c->coll) ? case_send_of(c, sender, rank)->offset : 0);
    }
    if (merges(c)) {
        reduce_by_nodes(c, rank, tree, operands, count, result);
    } else if (case_sends_prefixes(c)) {
        scan_by_nodes(c, rank, 2u << tree, operands, count, result);
    } else {
        reference_reduce(c->dtype, c->op, operands, operand_count(c, rank), 0, count, result);
    }
}

/* Writes bytes as hexadecimal digits, the highest first. */
static void print_bytes(char *text, size_t size, const unsigned char *bytes, size_t count)
{
    size_t i, used = 0;

    text[0] = '\0';
    for (i = 0; i < count && used + 3 < size; ++i) {
        used += (size_t)snprintf(text + used, size - used, "%02x", bytes[count - 1 - i]);
    }
}

/* Compares element by element. Each may be as `wanted` or as `other` says, which are of two trees or radices. */
static bool compare_combined(const case_t *c, int rank, const unsigned char *wanted, const unsigned char *other,
                             const unsigned char *got, char *what, size_t size)
{
    const uint64_t count = result_count(c, rank);
    const size_t bytes = (size_t)case_span(c, count);
    char a[64], b[64];
    uint64_t i;
    size_t k;

    for (i = 0; i < count; ++i) {
        const size_t at = (size_t)(i * c->extent), length = (size_t)case_min(bytes - at, c->extent);
        unsigned char mine[16] = {0}, theirs[16] = {0}, others[16] = {0};

        memcpy(mine, got + at, length);
        memcpy(theirs, wanted + at, length);
        memcpy(others, other + at, length);
        if (!reference_agrees(c->dtype, c->op, operand_count(c, rank), mine, theirs) &&
            !reference_agrees(c->dtype, c->op, operand_count(c, rank), mine, others)) {
            print_bytes(a, sizeof(a), mine, length);
            print_bytes(b, sizeof(b), theirs, length);
            snprintf(what, size, "element %llu of %llu: got 0x%s, wanted 0x%s", (unsigned long long)i,
                     (unsigned long long)count, a, b);
            return false;
        }
        for (k = 0; k < length && element_of(c->dtype)->pair; ++k) {
            if (!element_has_byte(c->dtype, k) && mine[k] != theirs[k]) {
                snprintf(what, size, "element %llu: padding byte %zu was overwritten", (unsigned long long)i, k);
                return false;
            }
        }
    }
    return true;
}

/* Does what case_verify describes, for results of two trees or radices. */
static bool verify_as(const case_t *c, int rank, uint32_t one_tree, uint32_t other_tree, unsigned char *const *in,
                      unsigned char *const *out, const unsigned char *got, char *what, size_t size)
{
    const size_t bytes = c->side[rank].out_bytes;
    unsigned char *wanted = allocate(2 * bytes + 1, 1), *other = wanted + bytes;
    bool right;
    size_t i = 0;

    memcpy(wanted, out[rank], bytes);
    memcpy(other, out[rank], bytes);
    if (c->combines) {
        expect_combined(c, rank, one_tree, in, out, wanted);
        expect_combined(c, rank, other_tree, in, out, other);
    } else {
        expect_moved(c, rank, in, out, wanted);
    }
    right = memcmp(wanted, got, bytes) == 0;
    if (!right && c->combines) {
        i = (size_t)case_span(c, result_count(c, rank));
        right = compare_combined(c, rank, wanted, other, got, what, size);
        if (!right || memcmp(wanted + i, got + i, bytes - i) == 0) {
            free(wanted);
            return right;
        }
        right = false;
    }
    if (!right) {
        while (wanted[i] == got[i]) {
            ++i;
        }
        snprintf(what, size, "byte %zu of %zu is %02x, not %02x; it was %02x", i, bytes, got[i], wanted[i],
                 out[rank][i]);
    }
    free(wanted);
    return right;
}

bool case_verify(const case_t *c, int rank, unsigned char *const *in, unsigned char *const *out,
                 const unsigned char *got, char *what, size_t size)
{
    return verify_as(c, rank, 0, 1, in, out, got, what, size) ||
           (case_sends_prefixes(c) && verify_as(c, rank, 2, 2, in, out, got, what, size));
}
