/* What mode channel shares with its kernel, which is written once for GPUs and for the host twin. */
#ifndef TOOLS_BENCH_BENCH_CHANNEL_H
#define TOOLS_BENCH_BENCH_CHANNEL_H

#include "mpix/include/mpix_mscclpp_device.h"

/* How a message goes to the peer and back: as packets, by a put and a signal, or by a port channel. */
enum { BENCH_CHANNEL_PACKETS, BENCH_CHANNEL_PUT, BENCH_CHANNEL_PORT, BENCH_CHANNEL_WAYS };

/* The kernel's arguments. */
typedef struct {
    mpix_memory_channel_t memory;
    mpix_port_channel_t port;
    mpix_u32 way;
    mpix_u32 sends_first; /* this rank sends before it receives */
    mpix_u32 rounds;
    mpix_u32 last_flag;       /* the flag of the last packets; later packets have higher flags */
    mpix_u64 bytes;           /* of a message */
    mpix_u64 incoming_offset; /* offset of incoming data in the registered memory; outgoing data lie at 0 */
    mpix_u64 packets_offset;  /* offset of incoming packets */
    char *base;               /* start of the registered memory */
    mpix_u64 *elapsed_ns;     /* pinned host memory: duration of all rounds, never 0; 0: the kernel failed */
} bench_channel_args_t;

/*
 * Sends this rank's message. Results are ignored here and in bench_channel_receive, because `block` keeps a failure,
 * which mpix_failed reports at the end of the kernel.
 */
MPIX_DEVICE void bench_channel_send(mpix_group_t *block, const bench_channel_args_t *args, mpix_u32 flag)
{
    if (args->way == BENCH_CHANNEL_PACKETS) {
        (void)mpix_put_packets(block, &args->memory, args->packets_offset, 0, args->bytes, flag);
    } else if (args->way == BENCH_CHANNEL_PUT) {
        (void)mpix_put(block, &args->memory, args->incoming_offset, 0, args->bytes);
        (void)mpix_signal(block, &args->memory);
    } else {
        (void)mpix_port_put_signal(block, &args->port, args->incoming_offset, 0, args->bytes);
    }
}

/* Waits for the peer's message, and unpacks it if it comes as packets. */
MPIX_DEVICE void bench_channel_receive(mpix_group_t *block, const bench_channel_args_t *args, mpix_u32 flag)
{
    if (args->way == BENCH_CHANNEL_PACKETS) {
        (void)mpix_get_packets(block, &args->memory, args->base + args->incoming_offset, args->packets_offset,
                               args->bytes, flag);
    } else if (args->way == BENCH_CHANNEL_PUT) {
        (void)mpix_wait(block, &args->memory);
    } else {
        (void)mpix_port_wait(block, &args->port);
    }
}

/*
 * Runs the kernel: sends a message to the peer and receives one, `rounds` times. Before these rounds comes one that is
 * not timed, so that no rank times the launch of the other's kernel. Each round has its own flag for packets. If a
 * channel fails, the time stays 0. Otherwise it is at least 1, even if the clock has not advanced.
 */
MPIX_DEVICE void bench_channel_body(mpix_group_t *block, const bench_channel_args_t *args)
{
    mpix_u64 begin = 0, end;
    mpix_u32 round;

    for (round = 0; round <= args->rounds; ++round) {
        const mpix_u32 flag = args->last_flag + round + 1;

        if (round == 1) {
            begin = mpix_clock_ns();
        }
        if (args->sends_first) {
            bench_channel_send(block, args, flag);
            bench_channel_receive(block, args, flag);
        } else {
            bench_channel_receive(block, args, flag);
            bench_channel_send(block, args, flag);
        }
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
int bench_channel_launch(void *stream, unsigned threads, const bench_channel_args_t *args);

#ifdef __cplusplus
}
#endif

#endif
