/* Port channels and the proxy: kernels' data arrives whole and in order, in every mode and on a late transport. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/mapping.h"
#include "test/host/late_transport.h"
#include "test/host/port_rank.h"

/* What each round adds to a word of the next rank: carries reach all of its bytes. */
#define ADDED UINT64_C(0x00f1f2f3f4f5f6f7)

static int passed;

static void print(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    fprintf(stderr, "FAIL level %d: %s\n", (int)level, line);
    __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
}

typedef struct {
    const mscclpp_transport_ops_t *ops;
    double pause; /* seconds for which nothing makes the proxy progress */
} ring_t;

static unsigned char value(int rank, uint64_t index, uint64_t salt)
{
    return (unsigned char)((uint64_t)rank * 37 + index * 11 + (index >> 8) + salt);
}

static void check(rank_t *rank, bool ok, const char *what, uint64_t bytes, uint32_t rounds)
{
    if (ok) {
        __atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
        return;
    }
    ++rank->failures;
    fprintf(stderr, "FAIL rank %d of %d: %s, %llu bytes, %u rounds, proxy=%s\n", rank->rank, rank->size, what,
            (unsigned long long)bytes, rounds, rank->config->proxy);
}

static void run_ring(port_rank_t *port, const ring_t *ring, uint64_t bytes, uint32_t rounds, bool combined)
{
    rank_t *rank = port->rank;
    const uint64_t salt = bytes + rounds * 3 + combined;
    const int source = (int)(((uint32_t)rank->rank + (uint32_t)rank->size * rounds - rounds) % (uint32_t)rank->size);
    unsigned char *in = malloc(bytes), *out = malloc(bytes);
    mscclpp_status_t status;
    double until;
    uint64_t i;
    bool right;

    if (in == NULL || out == NULL) {
        perror("malloc");
        exit(1);
    }
    for (i = 0; i < bytes; ++i) {
        in[i] = value(rank->rank, i, salt);
        out[i] = 0;
    }
    if (ring->pause == 0) {
        mscclpp_proxy_begin(port->proxy);
    }
    status = port_rank_launch(port, in, out, bytes, rounds, ADDED, combined, 60);
    check(rank, status == MSCCLPP_OK, "launch", bytes, rounds);
    if (ring->pause != 0) {
        for (until = port_rank_now() + ring->pause; port_rank_now() < until;) {
        }
        check(rank, !port_rank_is_idle(port), "wait for the proxy", bytes, rounds);
        mscclpp_proxy_begin(port->proxy);
    }
    status = port_rank_wait(port, 90);
    mscclpp_proxy_end(port->proxy);
    check(rank,
          status >= 0 && port_rank_is_idle(port) && __atomic_load_n(&port->mailbox->failed, __ATOMIC_RELAXED) == 0,
          "kernel", bytes, rounds);
    right = true;
    for (i = 0; i < bytes && right; ++i) {
        right = out[i] == value(source, i, salt);
    }
    check(rank, right, "output", bytes, rounds);
    for (i = 0; i < PORT_BLOCKS_MAX; ++i) {
        check(rank, port->late[i] == 0, "order of addition and signal", bytes, rounds);
    }
    while (status >= 0 && (status = mscclpp_proxy_drain(port->proxy)) == MSCCLPP_IN_PROGRESS) {
    }
    check(rank, status == MSCCLPP_OK, "drain", bytes, rounds);
    free(in);
    free(out);
}

static void body(rank_t *rank)
{
    static const uint64_t sizes[] = {1, 16, 1000, 70001};
    const ring_t *ring = rank->argument;
    port_rank_t port;
    unsigned k;

    port_rank_open(&port, rank, ring->ops, 70001);
    for (k = 0; k < (ring->pause == 0 ? 4 : 1); ++k) {
        run_ring(&port, ring, sizes[k], 1 + 6 * k, k % 2 == 0);
        run_ring(&port, ring, sizes[k], 40, k % 2 != 0);
    }
    meet(rank);
    port_rank_close(&port);
}

int main(void)
{
    static const int grids[][2] = {{1, 1}, {1, 3}, {5, 2}};
    static const char *const modes[] = {"progress", "thread"};
    static const int fifo_sizes[] = {2, 64};
    int mode, grid, size, late, failures = 0, lines = 0;
    mscclpp_config_t config;
    ring_t ring = {NULL, 0};

    mscclpp_log_set(print, &lines, MSCCLPP_LOG_WARN);
    mscclpp_config_init(&config);
    for (mode = 0; mode < 2; ++mode) {
        config.proxy = modes[mode];
        for (late = 0; late < 2; ++late) {
            ring.ops = late ? &late_transport : mscclpp_transport_find("shm");
            for (grid = 0; grid < 3; ++grid) {
                config.twin_blocks = grids[grid][0];
                config.twin_threads = grids[grid][1];
                config.fifo_size = fifo_sizes[(grid + late) % 2];
                for (size = 1; size <= 4; ++size) {
                    failures += run_ranks(size, &config, body, &ring);
                }
            }
        }
        /* The FIFO is full for a second, and nothing is lost. */
        ring.pause = 1;
        config.fifo_size = 2;
        failures += run_ranks(2, &config, body, &ring);
        ring.pause = 0;
    }
    if (mscclpp_mapping_drain() != 0) {
        ++failures;
        fprintf(stderr, "FAIL mappings are left\n");
    }
    printf("%d passed, %d failed\n", passed, failures + lines);
    return failures + lines != 0;
}
