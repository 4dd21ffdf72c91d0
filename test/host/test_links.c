/* Memory channels: puts and gets around the ring of ranks, of any size and alignment, over many rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/task/links.h"
#include "test/host/rank_threads.h"

#define GUARD 64
#define PATTERN 0xa5

static int passed;

/* Prints every line except the refusal that the test provokes. */
static void print_unexpected(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    if (strstr(line, "fit the scratch") == NULL) {
        fprintf(stderr, "level %d: %s\n", (int)level, line);
    }
}

static unsigned char value(int rank, uint64_t index)
{
    return (unsigned char)((uint64_t)rank * 37 + index * 11 + 5);
}

static bool is_right(const unsigned char *out, uint64_t bytes, int source)
{
    uint64_t i;

    for (i = 0; i < GUARD; ++i) {
        if (out[i] != PATTERN || out[GUARD + bytes + i] != PATTERN) {
            return false;
        }
    }
    for (i = 0; i < bytes; ++i) {
        if (out[GUARD + i] != value(source, i)) {
            return false;
        }
    }
    return true;
}

static void check(rank_t *rank, bool ok, const char *what, uint64_t bytes, uint64_t offset)
{
    if (ok) {
        __atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
        return;
    }
    ++rank->failures;
    fprintf(stderr, "FAIL rank %d of %d: %s of %llu bytes at offset %llu\n", rank->rank, rank->size, what,
            (unsigned long long)bytes, (unsigned long long)offset);
}

static void body(rank_t *rank)
{
    static const uint64_t sizes[] = {1, 15, 16, 17, 1000, 4099, 65537};
    mscclpp_team_t *team = create_team(rank);
    unsigned char *in, *out;
    uint64_t i, k, offset, max;
    double seconds;
    int get;

    if (team == NULL) {
        return;
    }
    max = sizes[sizeof(sizes) / sizeof(sizes[0]) - 1];
    in = malloc(max + 16);
    out = malloc(max + 2 * GUARD + 16);
    if (in == NULL || out == NULL) {
        perror("malloc");
        exit(1);
    }
    for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); ++k) {
        for (get = 0; get < 2; ++get) {
            const int neighbour = get ? rank->rank + 1 : rank->rank + rank->size - 1;
            mscclpp_status_t status;

            offset = k % 3 * 3;
            for (i = 0; i < sizes[k]; ++i) {
                in[offset + i] = value(rank->rank, i);
            }
            memset(out, PATTERN, max + 2 * GUARD + 16);
            status = mscclpp_links_try(team, in + offset, out + offset + GUARD, sizes[k], 1 + (uint32_t)k * 3, get,
                                       &seconds);
            check(rank, status == MSCCLPP_OK && is_right(out + offset, sizes[k], neighbour % rank->size),
                  get ? "get" : "put", sizes[k], offset);
        }
    }
    check(rank,
          mscclpp_links_try(team, in, out, mscclpp_links_max(team) + 1, 1, false, &seconds) == MSCCLPP_ERR_INVALID,
          "refusal", mscclpp_links_max(team) + 1, 0);
    meet(rank);
    mscclpp_team_destroy(team);
    free(in);
    free(out);
}

int main(void)
{
    static const int grids[][2] = {{1, 1}, {1, 3}, {3, 2}};
    mscclpp_config_t config;
    int grid, size, failures = 0;

    mscclpp_log_set(print_unexpected, NULL, MSCCLPP_LOG_WARN);
    mscclpp_config_init(&config);
    config.timeout = 60;
    config.scratch_size = 1 << 20;
    for (grid = 0; grid < 3; ++grid) {
        config.twin_blocks = grids[grid][0];
        config.twin_threads = grids[grid][1];
        for (size = 1; size <= 5; ++size) {
            failures += run_ranks(size, &config, body, NULL);
        }
    }
    mscclpp_team_finalize(1.0);
    printf("%d passed, %d failed\n", passed, failures);
    return failures != 0;
}
