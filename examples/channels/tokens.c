/* Tokens go to experts on other ranks, are worked on, and come back, in one kernel. */
#include "common.h"

#define TOKENS 37
#define WIDTH 12

/* Returns element `i` of a token. All are small integers, so that a float holds an expert's multiples exactly. */
static float token_of(int of_rank, int token, int i)
{
    return (float)(of_rank * 1000 + token * 10 + i);
}

/* Launches a block for each rank, and compares each token with what its expert should have made of it. */
int main(int argc, char **argv)
{
    const size_t area = (1 + TOKENS * WIDTH + 3) / 4 * 4; /* a count and all tokens, a multiple of 16 bytes */
    float in[TOKENS][WIDTH], out[TOKENS][WIDTH];
    tokens_args_t args = {.tokens = TOKENS, .width = WIDTH, .area = area};
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    int expert[TOKENS], wrong = 0, *device_expert;
    mpix_memory_channel_t *handles;
    float *device_in;
    void *base;

    begin(&argc, &argv);
    for (int token = 0; token < TOKENS; ++token) {
        expert[token] = (token * token + rank) % ranks;
        for (int i = 0; i < WIDTH; ++i) {
            in[token][i] = token_of(rank, token, i);
        }
    }
    MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, (MPI_Aint)(4 * (size_t)ranks * area * sizeof(float)), &base, &memory);
    handles = all_channels(memory, 1, &channels);
    device_in = stage_alloc(sizeof(in));
    device_expert = stage_alloc(sizeof(expert));
    stage_to_device(device_in, in, sizeof(in));
    stage_to_device(device_expert, expert, sizeof(expert));
    args.channels = handles;
    args.buffers = base;
    args.in = device_in;
    args.expert = device_expert;
    args.out = stage_alloc(sizeof(out));
    args.places = stage_alloc((size_t)ranks * TOKENS * sizeof(int));
    args.rank = (unsigned)rank;

    tokens_launch((unsigned)ranks, &args);
    stage_wait();

    stage_to_host(out, args.out, sizeof(out));
    for (int token = 0; token < TOKENS; ++token) {
        for (int i = 0; i < WIDTH; ++i) {
            wrong += out[token][i] != (float)(expert[token] + 1) * token_of(rank, token, i);
        }
    }
    MPIX_Mscclpp_channels_free(&channels);
    MPIX_Mscclpp_memory_free(&memory);
    stage_free(handles);
    stage_free(device_in);
    stage_free(device_expert);
    stage_free(args.out);
    stage_free(args.places);
    return finish("tokens to experts and back", wrong);
}
