#include "mca/common/engine/memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "mca/common/base/log.h"

/* Memory for the slots of copy engines, and its users. */
typedef struct allocation {
    struct allocation *next;
    const mscclpp_gpu_ops_t *gpu;
    int device;
    const void *process; /* NULL: for one team alone */
    uint64_t size;       /* size of the memory in bytes */
    void *base;          /* start of the memory */
    int users;           /* number of teams that have taken the memory */
    bool is_spoiled;     /* copies of a failed call may still arrive, so no team takes the memory any more */
} allocation_t;

/* The lock is never held while device memory is allocated or freed, which may wait for kernels. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocation_t *allocations;

/* Returns the allocation of this memory, or NULL if there is none. The caller holds the lock. */
static allocation_t *find_allocation(const void *memory)
{
    allocation_t *allocation = allocations;

    while (allocation != NULL && allocation->base != memory) {
        allocation = allocation->next;
    }
    return allocation;
}

/*
 * Adds a user to memory that the teams of this process share, and returns it; NULL: there is none. Leaves out spoiled
 * memory, because late copies of the failed call could overwrite the operands of a new one.
 */
static void *take_shared(const mscclpp_gpu_ops_t *gpu, int device, const void *process, uint64_t size)
{
    allocation_t *allocation;
    void *base = NULL;

    pthread_mutex_lock(&lock);
    for (allocation = allocations; allocation != NULL && base == NULL; allocation = allocation->next) {
        if (allocation->gpu == gpu && allocation->device == device && allocation->process == process &&
            allocation->size == size && !allocation->is_spoiled) {
            ++allocation->users;
            base = allocation->base;
        }
    }
    pthread_mutex_unlock(&lock);
    return base;
}

mscclpp_status_t mscclpp_engine_memory_take(const mscclpp_gpu_ops_t *gpu, int device, const void *process,
                                            uint64_t size, void **memory_p)
{
    allocation_t *allocation;
    mscclpp_status_t status;

    *memory_p = process != NULL ? take_shared(gpu, device, process, size) : NULL;
    if (*memory_p != NULL) {
        return MSCCLPP_OK;
    }
    allocation = calloc(1, sizeof(*allocation));
    if (allocation == NULL) {
        mscclpp_error("out of memory for the description of the memory of copy engines");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    status = gpu->device_alloc(device, size, memory_p);
    if (status != MSCCLPP_OK) {
        free(allocation);
        *memory_p = NULL;
        return status;
    }
    *allocation =
        (allocation_t){.gpu = gpu, .device = device, .process = process, .size = size, .base = *memory_p, .users = 1};
    pthread_mutex_lock(&lock);
    /* Another thread may have made an allocation in the meantime. Both are kept. */
    allocation->next = allocations;
    allocations = allocation;
    pthread_mutex_unlock(&lock);
    return MSCCLPP_OK;
}

void mscclpp_engine_memory_give(const mscclpp_gpu_ops_t *gpu, int device, void *memory)
{
    allocation_t **link = &allocations, *unused = NULL;

    if (memory == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    while ((*link)->base != memory) { /* the loop ends, because the caller has taken the memory */
        link = &(*link)->next;
    }
    if (--(*link)->users == 0) {
        unused = *link;
        *link = unused->next;
    }
    pthread_mutex_unlock(&lock);
    if (unused != NULL) {
        gpu->device_free(device, memory);
        free(unused);
    }
}

void mscclpp_engine_memory_spoil(const void *memory)
{
    allocation_t *allocation;

    pthread_mutex_lock(&lock);
    allocation = find_allocation(memory);
    if (allocation != NULL) {
        allocation->is_spoiled = true;
    }
    pthread_mutex_unlock(&lock);
}

bool mscclpp_engine_memory_is_spoiled(const void *memory)
{
    const allocation_t *allocation;
    bool is_spoiled;

    pthread_mutex_lock(&lock);
    allocation = find_allocation(memory);
    is_spoiled = allocation != NULL && allocation->is_spoiled;
    pthread_mutex_unlock(&lock);
    return is_spoiled;
}
