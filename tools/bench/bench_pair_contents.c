/* Fills and verifies the messages of a pair. Contents differ for each rank, call and place. */
#include "tools/bench/bench_port.h"

#include <string.h>

/* Returns the byte at `offset` of a rank's message. It is never 0, the byte of cleared memory. */
static unsigned char byte_at(int rank, int seed, size_t offset)
{
    uint64_t mix = (offset + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)rank * 1299709 + (uint64_t)seed * 104729;

    return (unsigned char)((mix >> 40) % 255 + 1);
}

/*
 * Writes the outgoing message, and clears as many bytes of the incoming data and the guard bytes after them. The
 * staging memory is overwritten only after the copy from it has ended. The peer must not put meanwhile; this holds
 * because time_rounds lets all ranks meet before it makes puts. Returns false if a copy fails.
 */
bool bench_pair_fill(bench_pair_t *pair, size_t bytes, int seed)
{
    const size_t cleared_bytes = bytes + BENCH_PAIR_GUARD;
    bool ok = true;

    for (size_t offset = 0; ok && offset < bytes; offset += BENCH_PAIR_STAGING) {
        const size_t piece_bytes = bytes - offset < BENCH_PAIR_STAGING ? bytes - offset : BENCH_PAIR_STAGING;
        for (size_t i = 0; i < piece_bytes; ++i) {
            pair->staging[i] = (char)byte_at(pair->env->rank, seed, offset + i);
        }
        ok = bench_env_copy(pair->env, pair->memory + offset, pair->staging, piece_bytes);
    }
    memset(pair->staging, 0, BENCH_PAIR_STAGING);
    for (size_t offset = 0; ok && offset < cleared_bytes; offset += BENCH_PAIR_STAGING) {
        const size_t piece_bytes =
            cleared_bytes - offset < BENCH_PAIR_STAGING ? cleared_bytes - offset : BENCH_PAIR_STAGING;
        ok = bench_env_copy(pair->env, pair->memory + pair->incoming_offset + offset, pair->staging, piece_bytes);
    }
    return ok;
}

/*
 * Compares the incoming message with the one that the peer has sent, and the guard bytes after it with 0. *wrong_p is
 * only set on success. Returns false if a copy fails.
 */
bool bench_pair_verify(bench_pair_t *pair, size_t bytes, int seed, uint64_t *wrong_p)
{
    const size_t verified_bytes = bytes + BENCH_PAIR_GUARD;
    uint64_t wrong = 0;

    for (size_t offset = 0; offset < verified_bytes; offset += BENCH_PAIR_STAGING) {
        const size_t piece_bytes =
            verified_bytes - offset < BENCH_PAIR_STAGING ? verified_bytes - offset : BENCH_PAIR_STAGING;
        if (!bench_env_copy(pair->env, pair->staging, pair->memory + pair->incoming_offset + offset, piece_bytes)) {
            return false;
        }
        for (size_t i = 0; i < piece_bytes; ++i) {
            const unsigned char expected = offset + i < bytes ? byte_at(pair->peer, seed, offset + i) : 0;
            wrong += (unsigned char)pair->staging[i] != expected;
        }
    }
    *wrong_p = wrong;
    return true;
}
