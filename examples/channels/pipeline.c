/* A pipeline of ranks: the CPU sends a chunk on while the kernel works on the next one. */
#include "common.h"

#define CHUNKS 20
#define SIZE 500 /* floats in a chunk */

/* Connects each rank to the one before and the one after it. The last rank compares the chunks that come to it. */
int main(int argc, char **argv)
{
    pipeline_args_t args = {.chunks = CHUNKS, .size = SIZE};
    float *data = not_null(malloc(CHUNKS * SIZE * sizeof(float))), *in, *out;
    mpix_port_channel_t handles[2];
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    int peers[2], peer_count = 0, wrong = 0;
    void *base;

    begin(&argc, &argv);
    for (int i = 0; i < CHUNKS * SIZE; ++i) {
        data[i] = (float)(i % 1000);
    }
    if (rank > 0) {
        peers[peer_count++] = rank - 1;
    }
    if (rank + 1 < ranks) {
        peers[peer_count++] = rank + 1;
    }
    MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, (MPI_Aint)(4 * SIZE * sizeof(float)), &base, &memory);
    MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_PORT, peer_count, peers, 1, &channels);
    MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, handles, sizeof(handles[0]));
    in = stage_alloc(CHUNKS * SIZE * sizeof(float));
    out = stage_alloc(CHUNKS * SIZE * sizeof(float));
    stage_to_device(in, data, CHUNKS * SIZE * sizeof(float));
    /* The first and the last rank have one channel, and do not use the other of these two. */
    args.before = handles[0];
    args.next = handles[peer_count - 1];
    args.buffers = base;
    args.in = in;
    args.out = out;
    args.rank = (unsigned)rank;
    args.ranks = (unsigned)ranks;

    MPIX_Mscclpp_channels_open(channels);
    pipeline_launch(1, &args);
    stage_wait();
    MPIX_Mscclpp_channels_close(channels);

    if (rank + 1 == ranks) {
        stage_to_host(data, out, CHUNKS * SIZE * sizeof(float));
        for (int i = 0; i < CHUNKS * SIZE; ++i) {
            float value = (float)(i % 1000);

            for (int stage = 0; stage < ranks; ++stage) {
                value = 2.0f * value + (float)(stage + 1);
            }
            wrong += data[i] != value;
        }
    }
    MPIX_Mscclpp_channels_free(&channels);
    MPIX_Mscclpp_memory_free(&memory);
    stage_free(in);
    stage_free(out);
    free(data);
    return finish("pipeline", wrong);
}
