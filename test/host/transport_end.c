#include "test/host/transport_end.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/log.h"
#include "test/host/process_state.h"
#include "mca/common/base/clock.h"

#define MESSAGE_MAX 4096

typedef struct {
    uint32_t length;
    unsigned char bytes[MESSAGE_MAX];
} message_t;

void end_die(const end_t *end, const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(stderr, "FAIL %s, rank %d: %s\n", end->ops->name, end->rank, line);
    fflush(NULL);
    _exit(1);
}

static int passed, failed;
static int tolerant; /* how many ends tolerate errors now */

void end_check(const end_t *end, bool right, const char *file, int line, const char *text)
{
    __atomic_add_fetch(right ? &passed : &failed, 1, __ATOMIC_RELAXED);
    if (!right) {
        fprintf(stderr, "%s:%d: failed: %s (rank %d)\n", file, line, text, end->rank);
    }
}

void end_check_equal(const end_t *end, uint64_t a, uint64_t b, const char *file, int line, const char *text)
{
    end_check(end, a == b, file, line, text);
    if (a != b) {
        fprintf(stderr, "    %lld is not %lld\n", (long long)a, (long long)b);
    }
}

int end_result(const char *who)
{
    const int bad = __atomic_load_n(&failed, __ATOMIC_RELAXED);

    printf("  %s: %d passed, %d failed\n", who, __atomic_load_n(&passed, __ATOMIC_RELAXED), bad);
    return bad > 0 ? 1 : 0;
}

static void sink(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    if (level > MSCCLPP_LOG_WARN) {
        printf("    %s\n", line);
    } else if (__atomic_load_n(&tolerant, __ATOMIC_ACQUIRE) == 0) {
        __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
        fprintf(stderr, "log: %s\n", line);
    }
}

void end_watch_log(void)
{
    mscclpp_log_set(sink, NULL, MSCCLPP_LOG_INFO);
}

void end_tolerate(end_t *end)
{
    __atomic_add_fetch(&tolerant, 1, __ATOMIC_ACQ_REL);
    end_meet(end);
}

void end_tolerate_no_more(end_t *end)
{
    end_meet(end);
    __atomic_sub_fetch(&tolerant, 1, __ATOMIC_ACQ_REL);
}

double end_now(void)
{
    return mscclpp_now();
}

void end_turn(end_t *end)
{
    mscclpp_status_t status = end->transport != NULL ? end->ops->progress(end->transport) : MSCCLPP_OK;

    if (status < 0) {
        if (!end->may_fail) {
            end_die(end, "progress: %s", mscclpp_status_string(status));
        }
        end->failure = end->failure == MSCCLPP_OK ? status : end->failure;
    }
    sched_yield();
}

static void turn_until(end_t *end, double deadline, const char *what)
{
    end_turn(end);
    if (end_now() > deadline) {
        end_die(end, "waited %.0f s for %s", end->timeout, what);
    }
}

/* False if the other end is gone. */
static bool receive(end_t *end, message_t *message)
{
    const double deadline = end_now() + end->timeout;
    bool has_ended = false;

    for (;;) {
        ssize_t length = recv(end->socket, message, sizeof(*message), MSG_DONTWAIT);

        if (length > 0) {
            return true;
        }
        /*
         * If the other end sends a message and goes away during the call, the kernel may tell of the end first. The
         * message is there then.
         */
        if (length == 0 && !has_ended) {
            has_ended = true;
            continue;
        }
        if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        turn_until(end, deadline, "the other end");
    }
}

static bool send_message(end_t *end, const void *bytes, size_t length)
{
    message_t message;

    if (length > sizeof(message.bytes)) {
        end_die(end, "a message of %zu bytes", length);
    }
    memset(&message, 0, sizeof(message));
    message.length = (uint32_t)length;
    if (length > 0) {
        memcpy(message.bytes, bytes, length);
    }
    return send(end->socket, &message, sizeof(message), MSG_NOSIGNAL) == (ssize_t)sizeof(message);
}

void end_exchange(end_t *end, const void *out, size_t length, void *in, size_t room, size_t *length_p)
{
    message_t message;

    if (!send_message(end, out, length) || !receive(end, &message)) {
        end_die(end, "the other end is gone");
    }
    if (message.length > room) {
        end_die(end, "%u bytes came, %zu fit", message.length, room);
    }
    memcpy(in, message.bytes, message.length);
    *length_p = message.length;
}

bool end_meet_or_gone(end_t *end)
{
    message_t message;

    return send_message(end, NULL, 0) && receive(end, &message);
}

void end_meet(end_t *end)
{
    if (!end_meet_or_gone(end)) {
        end_die(end, "the other end is gone");
    }
}

void end_meet_at_rest(end_t *end)
{
    struct pollfd other = {.fd = end->socket, .events = POLLIN};
    message_t message;

    if (!send_message(end, NULL, 0) || poll(&other, 1, (int)(1e3 * end->timeout)) != 1 || !receive(end, &message)) {
        end_die(end, "the other end did not come within %.0f s", end->timeout);
    }
}

static void must(const end_t *end, mscclpp_status_t status, const char *what)
{
    if (status != MSCCLPP_OK) {
        end_die(end, "%s: %s", what, mscclpp_status_string(status));
    }
}

/* Allocates shared memory if the transport needs it. Otherwise *segment_p is NULL. */
static void *alloc_host(end_t *end, size_t length, mscclpp_shmseg_t **segment_p)
{
    void *address, *seen_by_device;

    *segment_p = NULL;
    if (end->ops->place != MSCCLPP_PLACE_SHARED) {
        must(end, end->gpu->host_alloc(length, &address, &seen_by_device), "host memory");
        return address;
    }
    must(end, mscclpp_shmseg_create(length, segment_p), "shared memory");
    address = mscclpp_shmseg_base(*segment_p);
    must(end, end->gpu->host_register(address, length, &seen_by_device), "shared memory for the device");
    return address;
}

static void free_host(end_t *end, void *address, mscclpp_shmseg_t *segment)
{
    if (segment != NULL) {
        end->gpu->host_unregister(address);
        mscclpp_shmseg_detach(segment);
    } else {
        end->gpu->host_free(address);
    }
}

static void free_tokens(end_t *end)
{
    if (end->tokens_host != NULL) {
        free_host(end, end->tokens_host, end->tokens_segment);
    } else if (end->tokens != NULL) {
        end->gpu->device_free(end->device, end->tokens);
    }
    end->tokens = NULL;
    end->tokens_host = NULL;
}

/* Creates the instance. Tokens are in device memory if the transport allows that, else in host memory. */
static mscclpp_status_t open_instance(end_t *end)
{
    mscclpp_transport_params_t params;
    mscclpp_status_t status;
    void *address;
    int on_twin;

    memset(&params, 0, sizeof(params));
    params.config = end->config;
    params.gpu = end->gpu;
    params.device = end->device;
    params.rank = end->rank;
    params.size = 2;
    /* UCX cannot close shared memory with a dead peer. The memory stays, which a sanitizer takes for a leak. */
    params.one_host = end->alone && !process_state_sanitized();
    params.label = end->rank == 0 ? "end 0" : "end 1";
    params.token_count = END_TOKENS;
    for (on_twin = 0; on_twin < 2; ++on_twin) {
        if (on_twin) {
            address = alloc_host(end, END_TOKENS * sizeof(uint64_t), &end->tokens_segment);
            end->tokens_host = address;
            end->tokens = address;
        } else {
            must(end, end->gpu->device_alloc(end->device, END_TOKENS * sizeof(uint64_t), &address), "device memory");
            end->tokens = address;
        }
        params.tokens = end->tokens;
        status = end->ops->create(&params, &end->flags, &end->transport);
        if (status == MSCCLPP_OK &&
            (on_twin || (end->flags & MSCCLPP_DEVICE_TOKENS) != 0 || end->gpu == &mscclpp_gpu_twin_ops)) {
            return MSCCLPP_OK;
        }
        if (status == MSCCLPP_OK) {
            end->ops->destroy(end->transport);
            end->transport = NULL;
        } else if (status != MSCCLPP_ERR_NOT_SUPPORTED) {
            end_die(end, "create: %s", mscclpp_status_string(status));
        }
        free_tokens(end);
    }
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

mscclpp_status_t end_open(end_t *end)
{
    mscclpp_status_t status, other;
    size_t length;

    end->peer = 1 - end->rank;
    end->transport = NULL;
    end->failure = MSCCLPP_OK;
    end->seen = calloc(END_TOKENS, sizeof(*end->seen));
    if (end->seen == NULL) {
        end_die(end, "out of memory");
    }
    must(end, end->gpu->stream_create(end->device, &end->stream), "stream");
    status = open_instance(end);
    end_exchange(end, &status, sizeof(status), &other, sizeof(other), &length);
    if (status != MSCCLPP_OK || other != MSCCLPP_OK) {
        end_close(end);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return MSCCLPP_OK;
}

void end_close(end_t *end)
{
    if (end->transport != NULL) {
        end->ops->destroy(end->transport);
        end->transport = NULL;
    }
    free_tokens(end);
    end->gpu->stream_destroy(end->stream);
    end->stream = NULL;
    free(end->seen);
    end->seen = NULL;
}

void end_memory_create(end_t *end, size_t length, end_memory_t *memory)
{
    void *address;

    memory->length = length;
    memory->segment = NULL;
    memory->on_device = (end->flags & MSCCLPP_DEVICE_REGIONS) != 0 || end->gpu == &mscclpp_gpu_twin_ops;
    if (memory->on_device) {
        must(end, end->gpu->device_alloc(end->device, length, &address), "device memory");
    } else {
        address = alloc_host(end, length, &memory->segment);
    }
    memory->address = address;
    must(end, end->ops->region_create(end->transport, address, length, &memory->region), "region");
}

void end_memory_destroy(end_t *end, end_memory_t *memory)
{
    end->ops->region_destroy(memory->region);
    if (memory->on_device) {
        end->gpu->device_free(end->device, memory->address);
    } else {
        free_host(end, memory->address, memory->segment);
    }
}

static void copy(end_t *end, void *to, const void *from, size_t length)
{
    if (length == 0) {
        return;
    }
    must(end, end->gpu->copy(end->stream, to, from, length), "copy");
    must(end, end->gpu->stream_sync(end->stream), "copy");
}

void end_write(end_t *end, const end_memory_t *memory, uint64_t at, const void *from, size_t length)
{
    copy(end, memory->address + at, from, length);
}

void end_read(end_t *end, const end_memory_t *memory, uint64_t at, void *to, size_t length)
{
    copy(end, to, memory->address + at, length);
}

void end_link(end_t *end, const end_memory_t *memory, end_link_t *link)
{
    unsigned char mine[MSCCLPP_TRANSPORT_ADDRESS_MAX], theirs[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    size_t length;

    must(end, end->ops->conn_create(end->transport, end->peer, &link->conn), "connection");
    must(end, end->ops->conn_address(link->conn, mine, &length), "address");
    end_exchange(end, mine, length, theirs, sizeof(theirs), &length);
    must(end, end->ops->conn_connect(link->conn, theirs, length), "connect");
    must(end, end->ops->region_key(memory->region, mine, &length), "key");
    if (length > MSCCLPP_TRANSPORT_KEY_MAX) {
        end_die(end, "a key of %zu bytes", length);
    }
    end_exchange(end, mine, length, theirs, sizeof(theirs), &length);
    must(end, end->ops->remote_create(link->conn, theirs, length, &link->remote), "remote");
    end_meet(end);
}

void end_unlink(end_t *end, end_link_t *link)
{
    end_meet(end);
    end->ops->remote_destroy(link->remote);
    end->ops->conn_destroy(link->conn);
    end_meet(end);
}

uint64_t end_token(end_t *end, uint32_t token)
{
    uint64_t value;

    if (end->tokens_host != NULL || end->gpu == &mscclpp_gpu_twin_ops) {
        return __atomic_load_n(&end->tokens[token], __ATOMIC_ACQUIRE);
    }
    copy(end, &value, &end->tokens[token], sizeof(value));
    return value;
}

void end_await(end_t *end, uint32_t token, uint64_t count)
{
    const double deadline = end_now() + end->timeout;

    end->seen[token] += count;
    while (end_token(end, token) < end->seen[token]) {
        turn_until(end, deadline, "a signal");
    }
}

/* True if the operation has to be tried again. */
static bool again(end_t *end, mscclpp_status_t status, double *deadline, uint64_t *full, const char *what)
{
    if (status == MSCCLPP_OK) {
        return false;
    }
    if (status != MSCCLPP_IN_PROGRESS) {
        if (end->may_fail) {
            end->failure = end->failure == MSCCLPP_OK ? status : end->failure;
            return false;
        }
        end_die(end, "%s: %s", what, mscclpp_status_string(status));
    }
    if (*deadline == 0) {
        *deadline = end_now() + end->timeout;
    }
    ++*full;
    turn_until(end, *deadline, what);
    return true;
}

uint64_t end_put(end_t *end, const end_link_t *link, uint64_t to, const end_memory_t *from_memory, uint64_t from,
                 uint64_t length)
{
    double deadline = 0;
    uint64_t full = 0;

    while (again(end, end->ops->put(link->conn, link->remote, to, from_memory->region, from, length), &deadline, &full,
                 "put")) {
    }
    return full;
}

uint64_t end_signal(end_t *end, const end_link_t *link, uint32_t token)
{
    double deadline = 0;
    uint64_t full = 0;

    while (again(end, end->ops->signal(link->conn, token), &deadline, &full, "signal")) {
    }
    return full;
}

uint64_t end_put_signal(end_t *end, const end_link_t *link, uint64_t to, const end_memory_t *from_memory, uint64_t from,
                        uint64_t length, uint32_t token)
{
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;
    double deadline = 0;
    uint64_t full = 0;

    do {
        if (end->ops->put_signal != NULL) {
            status = end->ops->put_signal(link->conn, link->remote, to, from_memory->region, from, length, token);
        }
    } while (status != MSCCLPP_ERR_NOT_SUPPORTED && again(end, status, &deadline, &full, "put and signal"));
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        full += end_put(end, link, to, from_memory, from, length);
        full += end_signal(end, link, token);
    }
    return full;
}

uint64_t end_add(end_t *end, const end_link_t *link, uint64_t to, uint64_t value)
{
    double deadline = 0;
    uint64_t full = 0;

    while (again(end, end->ops->add(link->conn, link->remote, to, value), &deadline, &full, "add")) {
    }
    return full;
}

uint64_t end_flush(end_t *end, const end_link_t *link)
{
    uint64_t ticket = 0, full = 0;
    double deadline = 0;

    while (again(end, end->ops->flush(link->conn, &ticket), &deadline, &full, "flush")) {
    }
    return ticket;
}

void end_test(end_t *end, const end_link_t *link, uint64_t ticket)
{
    double deadline = 0;
    uint64_t full = 0;

    while (again(end, end->ops->test(link->conn, ticket), &deadline, &full, "the end of a flush")) {
    }
}

void end_settle(end_t *end, const end_link_t *link)
{
    end_test(end, link, end_flush(end, link));
}
