/* Words that the host, kernels and streams share, and streams that wait for them: of CUDA's driver, or of the twin. */
#ifndef MPIX_WORDS_H
#define MPIX_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory of the host, which kernels reach at the same address. NULL: there is none. */
uint64_t *mpix_words_make(size_t count);
void mpix_words_free(uint64_t *words);

/* Make and free a stream that belongs to this library. These and the two functions below return MPI error codes. */
int mpix_own_stream_make(void **stream_p);
int mpix_own_stream_free(void *stream);

/*
 * What follows in the stream begins when the word has reached `value`. On the twin, a value of `*abort` other than 0
 * ends the wait, too. CUDA's driver cannot be told to, so `abort` is ignored there.
 */
int mpix_stream_await(void *stream, const uint64_t *word, uint64_t value, const uint64_t *abort);

/* Stores `value`, when all before it in the stream has ended and can be seen. */
int mpix_stream_store(void *stream, uint64_t *word, uint64_t value);

uint64_t mpix_word_get(const uint64_t *word);
void mpix_word_set(uint64_t *word, uint64_t value);

#endif
