#include "mca/common/algo/allreduce/thresholds.h"

#include "mca/common/algo/allreduce/between.h"

#define KIB ((uint64_t)1024)
#define NEVER UINT64_MAX  /* a smallest message size that no message reaches */
#define ALWAYS UINT64_MAX /* a largest message size that every message is below */

/* The smallest queued message, in bytes, that gains from mapped buffers with more than 2 ranks. An estimate. */
#define MAPPED_MIN (1024 * KIB)

/*
 * GPUs linked by NVLink. The values were measured with 2 H200, with 3 from 1 MiB on, and with 4. All others are
 * extrapolated.
 *
 * Packets: with n ranks, each rank sends n - 1 messages with one-shot packets. With two-phase packets it sends only 2
 * (n - 1) / n messages, but waits for a second exchange. The two cost the same at a size proportional to n / ((n - 1)
 * (n - 2)), which is rounded down to a power of two. With 2 ranks both send the same number of bytes, so one-shot
 * packets are faster, and puts serve what is too large for them.
 *
 * LL128 carries a message in little more than half of the bytes, but takes more instructions, and so more blocks than
 * lingering kernels have. So it starts where LL16 ends. With 3 ranks, for which zero-copy has no special code, LL128
 * stays ahead of zero-copy until only the links count. With 4 ranks, it stays ahead until the lingering zero-copy
 * kernel, with its few blocks, is faster.
 *
 * Puts: they fill a link better than loads do, and no rank waits at the beginning or at the end. Lingering kernels
 * serve the smaller messages. From 4 MiB on, the few blocks of a queued kernel are faster on mapped buffers. Puts were
 * measured with 2 ranks only.
 *
 * Copy engines fill links better still. Their reductions take 24 multiprocessors for a third of the time, and the
 * application keeps all others. But each call spends some 25 us on copies that begin and end. They were measured with 2
 * ranks only.
 */
static const mscclpp_thresholds_t cuda_thresholds[] = {
    /* ranks, oneshot_max, twophase_max, put_max, engine_min, lines_min, lines_max, mapped_min */
    {2, 512 * KIB, 512 * KIB, ALWAYS, 48 * 1024 * KIB, NEVER, 2048 * KIB, 4096 * KIB},
    {3, 256 * KIB, 768 * KIB, 0, NEVER, 768 * KIB, 32 * 1024 * KIB, MAPPED_MIN},
    {4, 128 * KIB, 1024 * KIB, 0, NEVER, 1024 * KIB, 8 * 1024 * KIB, MAPPED_MIN},
    {5, 64 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, MAPPED_MIN},
    {6, 32 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, MAPPED_MIN},
    {7, 32 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, MAPPED_MIN},
    {8, 32 * KIB, 512 * KIB, 0, NEVER, 512 * KIB, 1024 * KIB, MAPPED_MIN},
    {MSCCLPP_DEV_MAX_RANKS, 8 * KIB, 256 * KIB, 0, NEVER, 256 * KIB, 512 * KIB, MAPPED_MIN},
};

/*
 * Ranks on one GPU, whose cache and memory are the link. An exchange costs little, and each byte that moves twice costs
 * much. Packets double the bytes, and the packets of many ranks do not fit the cache. With two ranks, puts need no
 * barrier, but zero-copy needs one. The values were measured with 2, 4 and 8 ranks on one H100 under MPS. All others
 * are extrapolated.
 */
static const mscclpp_thresholds_t one_gpu_thresholds[] = {
    /* ranks, oneshot_max, twophase_max, put_max, engine_min, lines_min, lines_max, mapped_min */
    {2, 256 * KIB, 256 * KIB, 4 * 1024 * KIB, NEVER, NEVER, 256 * KIB, NEVER},
    {4, 128 * KIB, 512 * KIB, 0, NEVER, NEVER, 512 * KIB, NEVER},
    {8, 64 * KIB, 64 * KIB, 0, NEVER, NEVER, 64 * KIB, NEVER},
    {MSCCLPP_DEV_MAX_RANKS, 8 * KIB, 8 * KIB, 0, NEVER, NEVER, 8 * KIB, NEVER},
};

/*
 * The host twin. CPU threads move packets one at a time, but rows of units as fast as memory allows. So the scratch
 * algorithm is faster from some hundred bytes on. At 4 KiB, with 8 ranks on 2 processors, it is five times as fast.
 */
static const mscclpp_thresholds_t twin_thresholds[] = {
    /* ranks, oneshot_max, twophase_max, put_max, engine_min, lines_min, lines_max, mapped_min */
    {2, 128, 128, 0, NEVER, NEVER, 4 * KIB, 0},
    {4, 512, 512, 0, NEVER, NEVER, 4 * KIB, 0},
    {MSCCLPP_DEV_MAX_RANKS, 128, 128, 0, NEVER, NEVER, 64 * KIB, 0},
};

/*
 * The largest shard, in bytes, that nodes exchange as packets. Packets save signals and barriers, but the CPUs of both
 * sides copy every byte and its flag.
 */
#define NODES_PACKETS_MAX (8 * KIB)

/*
 * The minimum number of nodes for a ring. In a ring, each link has one sender at a time instead of n - 1, and a rank
 * has two busy connections instead of n - 1 each way. With fewer nodes this gains little. With four imitated nodes, a
 * ring was measured to be 2 to 12 % faster over UCX, and a quarter slower over shared memory, which has no links.
 */
#define RING_NODES_MIN 4u

/* Returns the first row of the table for the kind of links between the ranks of a node. */
static const mscclpp_thresholds_t *find_table(const mscclpp_select_input_t *input)
{
    if (input->on_twin) {
        return twin_thresholds;
    }
    return input->is_one_gpu ? one_gpu_thresholds : cuda_thresholds;
}

/* Each table ends with a row for MSCCLPP_DEV_MAX_RANKS, and a node has no more ranks, so there always is a row. */
const mscclpp_thresholds_t *mscclpp_thresholds_find(const mscclpp_select_input_t *input)
{
    const mscclpp_thresholds_t *row = find_table(input);

    while (row->ranks < input->nranks) {
        ++row;
    }
    return row;
}

/*
 * LL128 needs links that deliver lines of 128 bytes as a whole; the user cannot force it on other links. The parameters
 * `packet` and `lines_min` come before the table.
 */
bool mscclpp_uses_ll128(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;

    if (!input->has_ll128) {
        return false;
    }
    if (protocol->packet_width != 0) {
        return protocol->packet_width == 128;
    }
    if (protocol->lines_min != 0) {
        return input->bytes >= protocol->lines_min;
    }
    return input->bytes >= mscclpp_thresholds_find(input)->lines_min;
}

/*
 * LL128 and puts move up to twice as many bytes through the few multiprocessors of a queued kernel. A user who sets a
 * parameter of LL128 or puts wants these, so mapped buffers are then not preferred.
 */
bool mscclpp_prefers_mapping(const mscclpp_select_input_t *input)
{
    const mscclpp_protocol_t *protocol = input->protocol;

    return protocol->zerocopy != 0 && protocol->put_max == 0 && protocol->lines_min == 0 &&
           protocol->packet_width == 0 && input->bytes >= mscclpp_thresholds_find(input)->mapped_min;
}

bool mscclpp_prefers_packets(const mscclpp_select_input_t *input)
{
    const uint64_t user_limit = input->protocol->nodes_packets_max;

    return input->bytes <= (user_limit != 0 ? user_limit : NODES_PACKETS_MAX * input->shards);
}

/* Doubling has log2 n exchanges with one partner each. DIRECT has one exchange with all n - 1 other nodes at once. */
bool mscclpp_prefers_doubling(const mscclpp_select_input_t *input)
{
    return !mscclpp_between_keeps_fanout(input, input->nodes - 1) ||
           mscclpp_between_estimate_packets(input, MSCCLPP_DEV_NODES_DOUBLING) <
               mscclpp_between_estimate_packets(input, MSCCLPP_DEV_NODES_DIRECT);
}

/* The parameter nodes_split_min decides by the size of the message. If it is not set, the cost model decides. */
bool mscclpp_prefers_splitting(const mscclpp_select_input_t *input)
{
    if (input->protocol->nodes_split_min != 0) {
        return input->bytes >= input->protocol->nodes_split_min;
    }
    return mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_SPLIT) <
           mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_DIRECT);
}

/* Returns true if the cost model may choose a ring. With few nodes, or between nodes on one host, it gains nothing. */
static bool may_ring(const mscclpp_select_input_t *input)
{
    return !input->is_one_host && input->nodes >= RING_NODES_MIN;
}

/*
 * Returns true if the cost model may choose trees or halving. It may not choose them for 16-bit floats, because each
 * node would round the partial results that it passes on. Nor may it if the user sets the sizes for splitting or for
 * rings, because the user then wants these.
 */
static bool may_pass_on(const mscclpp_select_input_t *input)
{
    return input->protocol->nodes_split_min == 0 && input->protocol->nodes_ring_min == 0 &&
           !MSCCLPP_DTYPE_IS_16_BIT_FLOAT(input->dtype);
}

/*
 * Trees are fastest with many nodes, for messages that would take too long around a ring, and above all if the number
 * of nodes is no power of two.
 */
bool mscclpp_prefers_trees(const mscclpp_select_input_t *input)
{
    const double trees = mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_TREES);

    return may_pass_on(input) && mscclpp_between_keeps_fanout(input, 2) && input->nodes > 2 &&
           trees < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_DIRECT) &&
           trees < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_SPLIT) &&
           trees < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_HALVING) &&
           (!may_ring(input) || trees < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_RING));
}

/*
 * If the number of nodes is a power of two, halving sends as few bytes as splitting and rings do, and fewer and larger
 * messages.
 */
bool mscclpp_prefers_halving(const mscclpp_select_input_t *input)
{
    const double halving = mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_HALVING);

    return may_pass_on(input) && halving < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_DIRECT) &&
           halving < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_SPLIT) &&
           (!may_ring(input) || halving < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_RING));
}

/* The parameter nodes_ring_min decides by the size of the message. If it is not set, the cost model decides. */
bool mscclpp_prefers_ring(const mscclpp_select_input_t *input)
{
    double ring;

    if (input->protocol->nodes_ring_min != 0) {
        return input->bytes >= input->protocol->nodes_ring_min;
    }
    if (!may_ring(input)) {
        return false;
    }
    ring = mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_RING);
    return ring < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_SPLIT) &&
           ring < mscclpp_between_estimate(input, MSCCLPP_DEV_NODES_DIRECT);
}
