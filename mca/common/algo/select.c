#include "mca/common/algo/select.h"

#define KIB ((uint64_t)1024)
#define NEVER UINT64_MAX  /* as the smallest message */
#define ALWAYS UINT64_MAX /* as the largest one */

/*
 * Largest messages, in bytes, of the packet algorithms and of one-shot puts, and the smallest of the copy engines;
 * where links keep lines of 128 bytes whole, the smallest two-phase message that is sent as LL128, and the largest
 * two-phase one. The row of the first `ranks` that is not smaller counts.
 */
typedef struct {
    uint32_t ranks;
    uint64_t oneshot_max;
    uint64_t twophase_max;
    uint64_t put_max;
    uint64_t engine_min;
    uint64_t lines_min;
    uint64_t lines_max;
    bool lines_queued; /* LL128 is for queued calls alone */
} thresholds_t;

/*
 * NVLink-class GPUs. Measured with 2 H200, with 3 from 1 MiB on, and with 4; the rest is extrapolated, not measured.
 *
 * Of n ranks each sends n - 1 messages with one-shot packets and 2 (n - 1) / n with two-phase ones, which wait for a
 * second exchange in return: the two meet at a size proportional to n / ((n - 1) (n - 2)), rounded down to a power of
 * two here. LL128 carries a message in little more than half of the bytes, but takes more instructions, and so more
 * blocks than lingering kernels have: it begins where LL16 ends. With 3, a number that zero-copy has no code of its own
 * for, it stays ahead of that until links are all that counts, with 4 until the lingering kernel's few blocks do.
 *
 * Two ranks send no more in one step than in two, so puts serve what is too large for packets: stores fill a link
 * better than loads do, and nobody waits for anybody at the beginning or at the end. Of these sizes lingering kernels
 * serve the smaller ones, which they cannot do with LL128. With more ranks not measured.
 *
 * Copy engines fill links better still, and leave the application all but 24 multiprocessors for a third of the time,
 * but each call costs some 25 us of copies that begin and end. With more than two ranks not measured since they need no
 * flags.
 */
static const thresholds_t cuda_thresholds[] = {
    {2, 256 * KIB, 512 * KIB, ALWAYS, 48 * 1024 * KIB, 1024 * KIB, 2048 * KIB, true},
    {3, 256 * KIB, 768 * KIB, 0, NEVER, 768 * KIB, 32 * 1024 * KIB, false},
    {4, 128 * KIB, 1024 * KIB, 0, NEVER, 1024 * KIB, 8 * 1024 * KIB, false},
    {5, 64 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, false},
    {6, 32 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, false},
    {7, 32 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, false},
    {8, 32 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, false},
    {MSCCLPP_DEV_MAX_RANKS, 8 * KIB, 256 * KIB, 0, NEVER, 256 * KIB, 512 * KIB, false},
};

/*
 * Ranks on one GPU, whose cache and memory are the link: an exchange costs little, and every byte that is moved twice
 * counts. Measured with 2, 4 and 8 ranks on one H100 under MPS; the rest is extrapolated. Packets double what they
 * move, and many ranks' packets do not fit the cache. Two ranks put without a barrier what zero-copy would meet for.
 */
static const thresholds_t one_gpu_thresholds[] = {
    {2, 256 * KIB, 256 * KIB, 4 * 1024 * KIB, NEVER, NEVER, 256 * KIB, false},
    {4, 128 * KIB, 512 * KIB, 0, NEVER, NEVER, 512 * KIB, false},
    {8, 64 * KIB, 64 * KIB, 0, NEVER, NEVER, 64 * KIB, false},
    {MSCCLPP_DEV_MAX_RANKS, 8 * KIB, 8 * KIB, 0, NEVER, NEVER, 8 * KIB, false},
};

/*
 * The twin: processors that share caches, and ranks that share processors. A CPU thread moves packets one at a time but
 * rows of units as fast as memory allows: beyond some hundred bytes the scratch is faster, with 8 ranks on 2 processors
 * five times at 4 KiB.
 */
static const thresholds_t host_thresholds[] = {
    {2, 128, 128, 0, NEVER, NEVER, 4 * KIB, false},
    {4, 512, 512, 0, NEVER, NEVER, 4 * KIB, false},
    {MSCCLPP_DEV_MAX_RANKS, 128, 128, 0, NEVER, NEVER, 64 * KIB, false},
};

/*
 * Largest shards, in bytes, that nodes exchange as packets. These save signals and barriers, but the processors of both
 * sides copy every byte and its flag.
 */
#define NODES_PACKETS_MAX (8 * KIB)

/*
 * Bytes that a rank sends less, from which on it is worth a second step that each node combines a part only: of a shard
 * (n - 1) - 2 (n - 1) / n times its size. A step takes some microseconds, and links and processors move some gigabytes
 * a second.
 */
#define NODES_SPLIT_GAIN (128 * KIB)

/*
 * A ring sends as much as nodes that combine a part each, but in 2 (n - 1) steps, which a tile takes one after another.
 * In return no link meets more than one sender at a time, where otherwise n - 1 send to each node at once, and a rank
 * has two busy connections instead of n - 1 each way. With fewer nodes than these that is hardly a difference; and a
 * part of so many bytes takes a link longer than a few hundred steps of some microseconds each. Measured with four
 * imitated nodes: 2 to 12 % ahead over UCX; over shared memory, which has no links, a quarter behind.
 */
#define NODES_RING_NODES 4u
#define NODES_RING_PART (4 * KIB * KIB)

static const thresholds_t *find_thresholds(const mscclpp_select_input_t *input)
{
    const thresholds_t *row = input->on_host ? host_thresholds : input->one_gpu ? one_gpu_thresholds : cuda_thresholds;

    while (row->ranks < input->nranks) {
        ++row;
    }
    return row;
}

/* The user's word on the format is about what is sent; whether links can is not. */
bool mscclpp_select_ll128(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const thresholds_t *builtin = find_thresholds(input);

    if (!input->ll128 || protocol->packet_width == 128) {
        return input->ll128;
    }
    if (protocol->packet_width != 0 || protocol->lines_min != 0) {
        return protocol->packet_width == 0 && input->bytes >= protocol->lines_min;
    }
    return input->bytes >= builtin->lines_min && (input->queued || !builtin->lines_queued);
}

/* Sizes that a user gives by hand stand for all of the table; what else a file holds would contradict them. */
static const mscclpp_algo_t *find_by_rules(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const mscclpp_rule_set_t *rules = &protocol->rules;
    const mscclpp_algo_t *algo;
    uint64_t i;

    if (protocol->oneshot_max != 0 || protocol->twophase_max != 0 || protocol->put_max != 0 ||
        protocol->engine_min != 0) {
        return NULL;
    }
    for (i = 0; i < rules->count; ++i) {
        if (input->bytes <= rules->rule[i].bytes) {
            algo = mscclpp_algos[rules->rule[i].algorithm];
            while (algo->maps_buffers && (protocol->zerocopy == 0 || input->early)) {
                algo = algo->instead;
            }
            return algo;
        }
    }
    return NULL;
}

mscclpp_status_t mscclpp_select_shape(const mscclpp_select_input_t *input, const mscclpp_algo_t *algo,
                                      mscclpp_choice_t *choice_p)
{
    mscclpp_choice_t choice;

    choice.algo = algo;
    if (!algo->shape(input, &choice)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *choice_p = choice;
    return MSCCLPP_OK;
}

static bool is_worth_splitting(const mscclpp_select_input_t *input)
{
    const uint64_t n = input->nodes, shard = input->bytes / input->shards;

    if (input->protocol->nodes_split_min != 0) {
        return input->bytes >= input->protocol->nodes_split_min;
    }
    return shard / n * (n - 1) * (n - 2) >= NODES_SPLIT_GAIN;
}

static bool is_worth_a_ring(const mscclpp_select_input_t *input)
{
    if (input->protocol->nodes_ring_min != 0) {
        return input->bytes >= input->protocol->nodes_ring_min;
    }
    return !input->near && input->nodes >= NODES_RING_NODES &&
           input->bytes / input->shards / input->nodes >= NODES_RING_PART;
}

/*
 * Which communicators lie on several nodes is not in the hand of those who choose an algorithm, so only those that span
 * nodes can be asked for there. Not all transports can carry packets, and a ring not all types.
 */
static mscclpp_status_t select_spanning(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const uint64_t packets_max =
        protocol->nodes_packets_max != 0 ? protocol->nodes_packets_max : NODES_PACKETS_MAX * input->shards;
    const mscclpp_algo_t *algo = &mscclpp_algo_allreduce_nodes;

    if (protocol->algorithm >= 0 && mscclpp_algos[protocol->algorithm]->spans_nodes) {
        algo = mscclpp_algos[protocol->algorithm];
    } else if (input->bytes <= packets_max) {
        algo = &mscclpp_algo_allreduce_nodes_packets;
    } else if (is_worth_a_ring(input)) {
        algo = &mscclpp_algo_allreduce_nodes_ring;
    } else if (is_worth_splitting(input)) {
        algo = &mscclpp_algo_allreduce_nodes_split;
    }
    if (algo->instead != NULL && mscclpp_select_shape(input, algo, choice_p) != MSCCLPP_OK) {
        algo = algo->instead;
    }
    return mscclpp_select_shape(input, algo, choice_p);
}

mscclpp_status_t mscclpp_select_allreduce(const mscclpp_select_input_t *input, mscclpp_choice_t *choice_p)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    const thresholds_t *builtin = find_thresholds(input);
    uint64_t oneshot_max = protocol->oneshot_max != 0 ? protocol->oneshot_max : builtin->oneshot_max;
    uint64_t twophase_max = protocol->twophase_max != 0   ? protocol->twophase_max
                            : mscclpp_select_ll128(input) ? builtin->lines_max
                                                          : builtin->twophase_max;
    uint64_t put_max = protocol->put_max != 0 ? protocol->put_max : builtin->put_max;
    uint64_t engine_min = protocol->engine_min != 0 ? protocol->engine_min : builtin->engine_min;
    /* Puts that somebody asked for are not to give way to the table's engines. */
    const bool puts = protocol->engine_min == 0 && input->bytes <= protocol->put_max;
    const mscclpp_algo_t *algo;

    if (protocol->algorithm < -1) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (input->nodes > 1) {
        return select_spanning(input, choice_p);
    }
    if (protocol->algorithm >= 0 && !mscclpp_algos[protocol->algorithm]->spans_nodes) {
        algo = mscclpp_algos[protocol->algorithm];
        /* There are calls that engines cannot serve, and they are none that a user could name in advance. */
        if (algo->engines && mscclpp_select_shape(input, algo, choice_p) != MSCCLPP_OK) {
            algo = algo->instead;
        }
        return mscclpp_select_shape(input, algo, choice_p);
    }
    algo = find_by_rules(input);
    while (algo != NULL) {
        if (mscclpp_select_shape(input, algo, choice_p) == MSCCLPP_OK) {
            return MSCCLPP_OK;
        }
        algo = algo->instead;
    }
    if (input->bytes <= oneshot_max) {
        algo = &mscclpp_algo_allreduce_oneshot;
    } else if (input->bytes <= twophase_max) {
        algo = &mscclpp_algo_allreduce_twophase;
    } else if (protocol->zerocopy != 0 && !input->early && input->bytes >= engine_min && !puts &&
               mscclpp_select_shape(input, &mscclpp_algo_allreduce_engines, choice_p) == MSCCLPP_OK) {
        return MSCCLPP_OK;
    } else if (input->bytes <= put_max && input->nranks > 1) {
        algo = &mscclpp_algo_allreduce_oneshot_put;
    } else if (protocol->zerocopy != 0 && !input->early) {
        algo = &mscclpp_algo_allreduce_zerocopy;
    } else {
        algo = &mscclpp_algo_allreduce_scratch;
    }
    if (mscclpp_select_shape(input, algo, choice_p) == MSCCLPP_OK) {
        return MSCCLPP_OK;
    }
    return mscclpp_select_shape(input, &mscclpp_algo_allreduce_scratch, choice_p);
}
