#include "mca/common/port/fifo.h"

#include <stdlib.h>

#include "device/lib/trigger.h"
#include "mca/common/base/log.h"

/* The distance in bytes between words that different sides write, so that they are in separate cache lines. */
#define LINE_BYTES 128

struct mscclpp_fifo {
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_dev_fifo_t on_device; /* the structure that kernels use */
    char *host_memory;            /* pinned memory for the tail, followed by the ring */
    void *device_memory;          /* memory for the head, followed by the last tail that pushers have seen */
    mscclpp_dev_trigger_t *ring;  /* in the host memory */
    uint64_t *tail;               /* in the host memory: tells pushers which slots are free again */
    uint64_t next_position;       /* position of the next trigger; equal to *tail */
};

/*
 * The tail and the ring are in host memory, where the proxy polls the ring. The head, by which kernels take slots, and
 * the last tail that kernels have seen are in device memory. The number of slots is rounded up to a power of two,
 * because the low bits of a position are the index of its slot. After an error nothing is left to free.
 */
mscclpp_status_t mscclpp_fifo_create(const mscclpp_gpu_ops_t *gpu, int device, uint64_t slots, mscclpp_fifo_t **fifo_p)
{
    mscclpp_fifo_t *fifo = calloc(1, sizeof(*fifo));
    void *host_memory, *device_address;
    mscclpp_status_t status;
    uint64_t size = 1;

    if (fifo == NULL) {
        mscclpp_error("out of memory for a FIFO");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    while (size < slots) {
        size *= 2;
    }
    status = gpu->host_alloc(LINE_BYTES + size * sizeof(mscclpp_dev_trigger_t), &host_memory, &device_address);
    if (status != MSCCLPP_OK) {
        goto err_free;
    }
    status = gpu->device_alloc(device, 2 * (size_t)LINE_BYTES, &fifo->device_memory);
    if (status != MSCCLPP_OK) {
        goto err_host_free;
    }
    fifo->gpu = gpu;
    fifo->device = device;
    fifo->host_memory = host_memory;
    fifo->tail = host_memory;
    fifo->ring = (mscclpp_dev_trigger_t *)(void *)(fifo->host_memory + LINE_BYTES);
    fifo->on_device.ring = (mscclpp_dev_trigger_t *)(void *)((char *)device_address + LINE_BYTES);
    fifo->on_device.size = size;
    fifo->on_device.head = fifo->device_memory;
    fifo->on_device.tail_seen = (uint64_t *)(void *)((char *)fifo->device_memory + LINE_BYTES);
    fifo->on_device.tail = device_address;
    *fifo_p = fifo;
    return MSCCLPP_OK;

err_host_free:
    gpu->host_free(host_memory);
err_free:
    free(fifo);
    return status;
}

void mscclpp_fifo_destroy(mscclpp_fifo_t *fifo)
{
    if (fifo == NULL) {
        return;
    }
    fifo->gpu->device_free(fifo->device, fifo->device_memory);
    fifo->gpu->host_free(fifo->host_memory);
    free(fifo);
}

const mscclpp_dev_fifo_t *mscclpp_fifo_device(const mscclpp_fifo_t *fifo)
{
    return &fifo->on_device;
}

/*
 * Kernels store the second word of a trigger last, so it is read first, in acquire order, and the first word is then
 * valid. The parity in the second word changes with each lap of the ring. So it tells whether the slot has the trigger
 * at this position or still that of the previous lap.
 */
bool mscclpp_fifo_peek(const mscclpp_fifo_t *fifo, uint64_t position, mscclpp_dev_trigger_t *trigger_p)
{
    const mscclpp_dev_trigger_t *slot = &fifo->ring[position & (fifo->on_device.size - 1)];
    const uint64_t second_word = __atomic_load_n(&slot->word[1], __ATOMIC_ACQUIRE);

    if ((second_word & MSCCLPP_DEV_TRIGGER_PARITY) != mscclpp_dev_trigger_parity(position, fifo->on_device.size)) {
        return false;
    }
    trigger_p->word[0] = __atomic_load_n(&slot->word[0], __ATOMIC_RELAXED);
    trigger_p->word[1] = second_word;
    return true;
}

bool mscclpp_fifo_poll(const mscclpp_fifo_t *fifo, mscclpp_dev_trigger_t *trigger_p)
{
    return mscclpp_fifo_peek(fifo, fifo->next_position, trigger_p);
}

uint64_t mscclpp_fifo_position(const mscclpp_fifo_t *fifo)
{
    return fifo->next_position;
}

/* Stores the tail in release order, because the slot must have been read before a kernel fills it again. */
void mscclpp_fifo_pop(mscclpp_fifo_t *fifo)
{
    ++fifo->next_position;
    __atomic_store_n(fifo->tail, fifo->next_position, __ATOMIC_RELEASE);
}
