/* A kernel asks a store of values on the CPU: a handler carries out its triggers. */
#include "common.h"

#define KEYS 50

/* The store, which the handler uses. */
typedef struct {
    unsigned values[KEYS];
    unsigned *reply; /* where the kernel looks for the answer */
} store_t;

/*
 * The handler, which carries out one trigger: sets the value of a key, or answers with it. Runs in a thread of the
 * library.
 */
static int serve(void *context, const MPIX_Mscclpp_fields *fields)
{
    store_t *store = context;

    if (fields->to >= KEYS) {
        return MPIX_MSCCLPP_HANDLER_ERROR;
    }
    if (fields->type == KEYVALUE_SET) {
        store->values[fields->to] = fields->size;
    } else {
        *store->reply = store->values[fields->to];
    }
    return MPIX_MSCCLPP_HANDLER_DONE;
}

/* Sets the handler while the channels are closed, and launches the kernel while they are open. */
int main(int argc, char **argv)
{
    keyvalue_args_t args = {.keys = KEYS};
    unsigned answers[KEYS];
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_memory memory;
    store_t store = {.reply = NULL};
    int peer, wrong = 0;
    void *base;

    begin(&argc, &argv);
    /* A handler moves no bytes, so the memory is empty. A channel needs a peer all the same, so ranks form pairs. */
    peer = rank % 2 == 0 ? rank + 1 : rank - 1;
    MPIX_Mscclpp_memory_alloc(MPI_COMM_WORLD, 0, &base, &memory);
    MPIX_Mscclpp_channels_create(memory, MPIX_MSCCLPP_CHANNEL_PORT, peer < ranks, &peer, 1, &channels);
    if (peer < ranks) {
        store.reply = stage_alloc_pinned(sizeof(*store.reply));
        args.reply = store.reply;
        args.answers = stage_alloc(sizeof(answers));
        MPIX_Mscclpp_channels_get_device(channels, MPIX_MSCCLPP_DEVICE_ABI, &args.channel, sizeof(args.channel));
        MPIX_Mscclpp_channels_set_handler(channels, 0, serve, &store);

        MPIX_Mscclpp_channels_open(channels);
        keyvalue_launch(1, &args);
        stage_wait();
        MPIX_Mscclpp_channels_close(channels);

        stage_to_host(answers, args.answers, sizeof(answers));
        for (unsigned key = 0; key < KEYS; ++key) {
            wrong += answers[key] != key * key + (unsigned)rank;
        }
        stage_free(args.answers);
        stage_free_pinned(store.reply);
    }
    MPIX_Mscclpp_channels_free(&channels);
    MPIX_Mscclpp_memory_free(&memory);
    return finish("values on the CPU", wrong);
}
