/*
 * One end of a pair of transport instances, ranks 0 and 1. It runs in its own thread or process, with a socket to the
 * other end. Functions that wait make progress on the transport meanwhile. If something that a test needs fails, or a
 * deadline passes, the process prints one line and ends.
 */
#ifndef TEST_HOST_TRANSPORT_END_H
#define TEST_HOST_TRANSPORT_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/shmseg.h"
#include "mca/common/transport/transport.h"

#define END_TOKENS 16

typedef struct {
    int rank;
    int peer;
    int socket;     /* to the other end */
    bool alone;     /* the only end in its process */
    size_t largest; /* bytes of the largest message */
    double timeout; /* seconds of every wait */
    const mscclpp_config_t *config;
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_gpu_stream_t *stream;
    const mscclpp_transport_ops_t *ops;
    uint32_t flags;
    mscclpp_transport_t *transport;
    mscclpp_status_t failure; /* first error of progress; ends the process unless `may_fail` */
    bool may_fail;
    uint64_t *tokens;
    void *tokens_host; /* the host memory to free; NULL: the tokens are in device memory */
    mscclpp_shmseg_t *tokens_segment;
    uint64_t *seen; /* the value of each token that `end_await` has waited for last */
} end_t;

/* Memory of this end that the transport has registered. */
typedef struct {
    char *address;
    size_t length;
    bool on_device;
    mscclpp_shmseg_t *segment; /* the shared memory that it is; NULL: not shared */
    mscclpp_region_t *region;
} end_memory_t;

/* A connection of the two ends, and the other end's memory that it reaches. */
typedef struct {
    mscclpp_conn_t *conn;
    mscclpp_remote_t *remote;
} end_link_t;

/* Device, stream, tokens and instance; collective. MSCCLPP_ERR_NOT_SUPPORTED if either end has no such transport. */
mscclpp_status_t end_open(end_t *end);
void end_close(end_t *end);

/* Prints what is wrong and ends the process. */
void end_die(const end_t *end, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

/* Checks print what failed and go on. The process counts them. */
void end_check(const end_t *end, bool right, const char *file, int line, const char *text);
void end_check_equal(const end_t *end, uint64_t a, uint64_t b, const char *file, int line, const char *text);
#define END_CHECK(expression_) end_check(end, (expression_), __FILE__, __LINE__, #expression_)
#define END_CHECK_EQ(a_, b_) end_check_equal(end, (uint64_t)(a_), (uint64_t)(b_), __FILE__, __LINE__, #a_ " == " #b_)

/* Prints the closing line of the process. 0 if no check failed, else 1. */
int end_result(const char *who);

/* Watches the library's messages: an error or warning is a failure, unless a test provokes it. */
void end_watch_log(void);

/* From here to end_tolerate_no_more the test provokes errors. Collective, since a line may be about the other end. */
void end_tolerate(end_t *end);
void end_tolerate_no_more(end_t *end);

/* Seconds of a clock that never goes back. */
double end_now(void);

/* Makes progress once and yields the processor. */
void end_turn(end_t *end);

/* Both ends send each other at most 4096 bytes. *length_p is the number of bytes received. */
void end_exchange(end_t *end, const void *out, size_t length, void *in, size_t room, size_t *length_p);

/* A barrier of both ends. False if the other end is gone. */
bool end_meet_or_gone(end_t *end);

/* A barrier of both ends during which the transport makes no progress. */
void end_meet_at_rest(end_t *end);
void end_meet(end_t *end);

/* Allocates memory, zeroes it and registers it. */
void end_memory_create(end_t *end, size_t length, end_memory_t *memory);
void end_memory_destroy(end_t *end, end_memory_t *memory);
void end_write(end_t *end, const end_memory_t *memory, uint64_t at, const void *from, size_t length);
void end_read(end_t *end, const end_memory_t *memory, uint64_t at, void *to, size_t length);

/* Collective: connects the ends and exchanges the keys of `memory`. */
void end_link(end_t *end, const end_memory_t *memory, end_link_t *link);
void end_unlink(end_t *end, end_link_t *link);

/* The value of a token now, loaded with acquire semantics. */
uint64_t end_token(end_t *end, uint32_t token);

/* Waits for `count` more signals on a token. */
void end_await(end_t *end, uint32_t token, uint64_t count);

/* The operations. Each begins as soon as there is room, and returns how often there was none. */
uint64_t end_put(end_t *end, const end_link_t *link, uint64_t to, const end_memory_t *from_memory, uint64_t from,
                 uint64_t length);
uint64_t end_signal(end_t *end, const end_link_t *link, uint32_t token);

/* A put and a signal, as one operation if the transport has it. */
uint64_t end_put_signal(end_t *end, const end_link_t *link, uint64_t to, const end_memory_t *from_memory, uint64_t from,
                        uint64_t length, uint32_t token);
uint64_t end_add(end_t *end, const end_link_t *link, uint64_t to, uint64_t value);
uint64_t end_flush(end_t *end, const end_link_t *link);

/* Waits for a flush. */
void end_test(end_t *end, const end_link_t *link, uint64_t ticket);

/* Flushes, and waits for the end of the flush. */
void end_settle(end_t *end, const end_link_t *link);

#endif
