/* The kernel of mode channel that makes collectives. It is written once for GPUs and for the host twin. */
#ifndef TOOLS_BENCH_BENCH_CHANNEL_COLL_H
#define TOOLS_BENCH_BENCH_CHANNEL_COLL_H

#include "mpix/include/mpix_mscclpp_device.h"
#include "tools/bench/bench_channel.h"

/*
 * The kernel's arguments. The registered memory has slots of equal size: one for the outgoing block of each rank, two
 * for the block that comes from each rank, two pairs for its packets, and one for the result of a reduction. Rounds
 * take the two in turn. A rank that has all blocks of round r + 1 knows that all ranks have used up those of round r.
 */
typedef struct {
    mpix_u32 rank, ranks;
    mpix_u32 way;        /* BENCH_CHANNEL_... */
    mpix_u32 sends_same; /* all ranks get the block of slot 0 */
    mpix_u32 combines;   /* the blocks that come are added, as floats */
    mpix_u32 rounds;
    mpix_u32 last_flag;                  /* the flag of the last packets; later packets have higher flags */
    mpix_u64 bytes;                      /* of a block */
    mpix_u64 slot_bytes;                 /* a multiple of 16 */
    char *base;                          /* start of the registered memory */
    const mpix_memory_channel_t *memory; /* to each other rank, in their order */
    const mpix_port_channel_t *ports;
    mpix_room_t room;
    mpix_u64 *elapsed_ns; /* pinned host memory: duration of all rounds, never 0; 0: the kernel failed */
} bench_channel_coll_args_t;

/*
 * These return the number of slots of the memory, and offsets in it, in bytes: where the block from `sender` arrives,
 * where its packets arrive, which take twice the bytes, and where the result of a reduction is. `turn` is 0 or 1: the
 * flag's lowest bit.
 */
MPIX_DEVICE mpix_u64 bench_channel_slot_count(mpix_u32 ranks)
{
    return 7 * (mpix_u64)ranks + 1;
}

MPIX_DEVICE mpix_u64 bench_channel_incoming_offset(const bench_channel_coll_args_t *args, mpix_u32 turn,
                                                   mpix_u32 sender)
{
    return ((mpix_u64)(1 + turn) * args->ranks + sender) * args->slot_bytes;
}

MPIX_DEVICE mpix_u64 bench_channel_packets_offset(const bench_channel_coll_args_t *args, mpix_u32 turn, mpix_u32 sender)
{
    return (3 * (mpix_u64)args->ranks + 2 * ((mpix_u64)turn * args->ranks + sender)) * args->slot_bytes;
}

MPIX_DEVICE mpix_u64 bench_channel_result_offset(const bench_channel_coll_args_t *args)
{
    return 7 * (mpix_u64)args->ranks * args->slot_bytes;
}

/* Returns the index of the channel to another rank. */
MPIX_DEVICE mpix_u32 bench_channel_index(const bench_channel_coll_args_t *args, mpix_u32 peer)
{
    return peer < args->rank ? peer : peer - 1;
}

/* Returns the offset of the outgoing block for a rank. */
MPIX_DEVICE mpix_u64 bench_channel_outgoing_offset(const bench_channel_coll_args_t *args, mpix_u32 to)
{
    return args->sends_same ? 0 : to * args->slot_bytes;
}

/* Sends a block to a peer. `block` keeps a failure, here and below, which mpix_failed reports at the end. */
MPIX_DEVICE void bench_channel_send_block(mpix_group_t *block, const bench_channel_coll_args_t *args, mpix_u32 peer,
                                          mpix_u32 flag)
{
    const mpix_u32 index = bench_channel_index(args, peer);
    const mpix_u64 from = bench_channel_outgoing_offset(args, peer),
                   to = bench_channel_incoming_offset(args, flag & 1, args->rank);

    if (args->way == BENCH_CHANNEL_PACKETS) {
        (void)mpix_put_packets(block, &args->memory[index], bench_channel_packets_offset(args, flag & 1, args->rank),
                               from, args->bytes, flag);
    } else if (args->way == BENCH_CHANNEL_PUT) {
        (void)mpix_put(block, &args->memory[index], to, from, args->bytes);
        (void)mpix_signal(block, &args->memory[index]);
    } else {
        (void)mpix_port_put_signal(block, &args->ports[index], to, from, args->bytes);
    }
}

/* Waits for the block of a peer, and unpacks it if it comes as packets. */
MPIX_DEVICE void bench_channel_receive_block(mpix_group_t *block, const bench_channel_coll_args_t *args, mpix_u32 peer,
                                             mpix_u32 flag)
{
    const mpix_u32 index = bench_channel_index(args, peer);

    if (args->way == BENCH_CHANNEL_PACKETS) {
        (void)mpix_get_packets(block, &args->memory[index],
                               args->base + bench_channel_incoming_offset(args, flag & 1, peer),
                               bench_channel_packets_offset(args, flag & 1, peer), args->bytes, flag);
    } else if (args->way == BENCH_CHANNEL_PUT) {
        (void)mpix_wait(block, &args->memory[index]);
    } else {
        (void)mpix_port_wait(block, &args->ports[index]);
    }
}

/* Adds the blocks of all ranks, in the order of the ranks, into the result, 8 bytes at a time for each thread. */
MPIX_DEVICE void bench_channel_combine(const mpix_group_t *block, const bench_channel_coll_args_t *args, mpix_u32 turn)
{
    mpix_u64 offset;
    mpix_u32 sender;

    for (offset = 8 * (mpix_u64)block->index; offset < args->bytes; offset += 8 * (mpix_u64)block->size) {
        mpix_u64 sum =
            mpix_load8(args->base + bench_channel_incoming_offset(args, turn, 0) + offset, args->bytes - offset);

        for (sender = 1; sender < args->ranks; ++sender) {
            sum = mpix_combine8(sum,
                                mpix_load8(args->base + bench_channel_incoming_offset(args, turn, sender) + offset,
                                           args->bytes - offset),
                                MPIX_FLOAT32, MPIX_SUM);
        }
        mpix_store8(args->base + bench_channel_result_offset(args) + offset, sum, args->bytes - offset);
    }
}

/* Makes one call. An all-reduce as packets is that of the library, in the room. */
MPIX_DEVICE void bench_channel_round(mpix_group_t *block, const bench_channel_coll_args_t *args, mpix_u32 flag)
{
    mpix_u32 distance;

    if (args->way == BENCH_CHANNEL_PACKETS && args->sends_same && args->combines) {
        (void)mpix_allreduce_small(block, &args->room, args->base, args->base + bench_channel_result_offset(args),
                                   args->bytes / 4, MPIX_FLOAT32, MPIX_SUM);
        return;
    }
    mpix_copy(block, args->base + bench_channel_incoming_offset(args, flag & 1, args->rank),
              args->base + bench_channel_outgoing_offset(args, args->rank), args->bytes);
    for (distance = 1; distance < args->ranks; ++distance) {
        bench_channel_send_block(block, args, (args->rank + distance) % args->ranks, flag);
    }
    for (distance = 1; distance < args->ranks; ++distance) {
        bench_channel_receive_block(block, args, (args->rank + args->ranks - distance) % args->ranks, flag);
    }
    mpix_sync(block);
    if (args->combines) {
        bench_channel_combine(block, args, flag & 1);
        mpix_sync(block);
    }
}

/* Makes the calls, and one before them that is not timed, as bench_channel_body does. */
MPIX_DEVICE void bench_channel_coll_body(mpix_group_t *block, const bench_channel_coll_args_t *args)
{
    mpix_u64 begin = 0, end;
    mpix_u32 round;

    for (round = 0; round <= args->rounds; ++round) {
        if (round == 1) {
            begin = mpix_clock_ns();
        }
        bench_channel_round(block, args, args->last_flag + round + 1);
    }
    end = mpix_clock_ns();
    if (block->index == 0 && !mpix_failed(block)) {
        mpix_store_release(args->elapsed_ns, end > begin ? end - begin : 1);
    }
}

#ifdef __cplusplus
extern "C" {
#endif

/* Starts the kernel on a GPU, in a cudaStream_t. Returns 0 or CUDA's error. Only in a build with CUDA. */
int bench_channel_coll_launch(void *stream, unsigned threads, const bench_channel_coll_args_t *args);

#ifdef __cplusplus
}
#endif

#endif
