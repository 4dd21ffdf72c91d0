/* User buffers of every kind, with guards around them. */
#ifndef TEST_HOST_USER_BUFFER_H
#define TEST_HOST_USER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    USER_EXACT,  /* from malloc and not a byte too long, so that AddressSanitizer sees every read beyond */
    USER_HOST,   /* memory that the twin treats as host memory which no kernel can access */
    USER_DEVICE, /* exportable; the only kind that zero-copy can use */
    USER_KINDS
} user_kind_t;

const char *user_kind_name(user_kind_t kind);

/* Memory of a rank from which the buffers of its calls are cut, one at a time. */
typedef struct {
    size_t size; /* bytes for data */
    char *device;
    char *host;
} user_pool_t;

void user_pool_create(user_pool_t *pool, size_t size);
void user_pool_destroy(user_pool_t *pool);

/* The filter for mscclpp_gpu_twin_set_filter: true for addresses of USER_HOST buffers. */
bool user_is_host(const void *address);

typedef struct {
    void *data;
    size_t bytes;
    user_kind_t kind;
    char *begin; /* of the guard in front */
    char *end;   /* of the guard behind */
} user_buffer_t;

/* Cuts `bytes` that begin `offset` bytes (0 to 15) behind a multiple of 16, and writes the guards. */
void user_buffer_open(user_buffer_t *buffer, user_kind_t kind, const user_pool_t *pool, unsigned offset, size_t bytes);

/* True if the guards are unchanged. */
bool user_buffer_intact(const user_buffer_t *buffer);
void user_buffer_close(user_buffer_t *buffer);

#endif
