#include "mca/common/base/settings.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "mca/common/base/log.h"

/*
 * Parameters that each rank may set for itself: those about its messages, its waits, and its own memory, device or
 * network. Texts are among them, because they cannot be sent as numbers; rules and plans are compared by their
 * contents, not by file name.
 */
static const char *const rank_local_names[] = {
    "verbose",          "rules",      "mapping_cache_size", "mapping_cache_bytes",
    "timeout",          "warn_after", "linger_idle",        "ucx",
    "linger_window",    "proxy",      "fifo_size",          "ucx_bounce",
    "bounce_size",      "widen_list", "widen_selection",    "twin_host_ranks",
    "twin_shared_only", "plans",
};

/* Parameters that begin like this may differ between ranks, too, because network adapters differ from node to node. */
#define RANK_LOCAL_PREFIX "verbs_"

/*
 * Room for the allowed words of all parameters with choices, each as a string of its own. Configurations point to them.
 */
#define WORDS_MAX_BYTES 8192

/* Made once, because every new communicator needs the table and it never changes. */
static pthread_once_t table_once = PTHREAD_ONCE_INIT;
static char words[WORDS_MAX_BYTES];
static size_t words_begin[MSCCLPP_SETTINGS_MAX]; /* where the words of each parameter begin in `words` */
static bool is_common[MSCCLPP_SETTINGS_MAX];
static uint64_t names_digest;

/*
 * Copies the choices of all parameters into `words`, each word as a separate string. An empty string ends the words of
 * a parameter. Called once, before any other thread reads `words`.
 */
static void make_words(void)
{
    size_t used = 0;
    int i;

    for (i = 0; i < mscclpp_param_count && i < MSCCLPP_SETTINGS_MAX; ++i) {
        const char *choices = mscclpp_params[i].choices;
        const size_t length = choices != NULL ? strlen(choices) + 2 : 0;
        char *bar;

        if (used + length > WORDS_MAX_BYTES) {
            mscclpp_error("parameter %s: its choices are too long to be listed",
                          mscclpp_params[i].name); /* impossible: a unit test checks the size */
            return;
        }
        if (length == 0) {
            continue;
        }
        words_begin[i] = used;
        memcpy(words + used, choices, length - 1); /* the memory was zeroed, so an empty word ends the list */
        for (bar = words + used; (bar = strchr(bar, '|')) != NULL; ++bar) {
            *bar = '\0';
        }
        used += length;
    }
}

/* Returns the word of a parameter with this number, or NULL if it has fewer words. The table must exist. */
static const char *find_word(const mscclpp_param_t *param, uint64_t number)
{
    const char *word = words + words_begin[param - mscclpp_params];

    for (; number > 0 && *word != '\0'; --number) {
        word += strlen(word) + 1;
    }
    return *word != '\0' ? word : NULL;
}

/*
 * Returns the number of a word among a parameter's choices, from 0 on; the number of choices if it is none of them. The
 * table must exist.
 */
static uint64_t find_word_number(const mscclpp_param_t *param, const char *text)
{
    const char *word = words + words_begin[param - mscclpp_params];
    uint64_t number;

    for (number = 0; *word != '\0' && strcmp(word, text) != 0; ++number) {
        word += strlen(word) + 1;
    }
    return number;
}

bool mscclpp_param_is_common(const mscclpp_param_t *param)
{
    size_t i;

    if (strncmp(param->name, RANK_LOCAL_PREFIX, strlen(RANK_LOCAL_PREFIX)) == 0) {
        return false;
    }
    for (i = 0; i < sizeof(rank_local_names) / sizeof(rank_local_names[0]); ++i) {
        if (strcmp(param->name, rank_local_names[i]) == 0) {
            return false;
        }
    }
    return true;
}

/*
 * Returns a parameter's value as a number. For a string with choices, this is the number of the word. Strings without
 * choices are not common, so the function is never called for them.
 */
static uint64_t read_value(const mscclpp_config_t *config, const mscclpp_param_t *param)
{
    const void *field = (const char *)config + param->offset;

    switch (param->type) {
    case MSCCLPP_PARAM_BOOL:
        return *(const bool *)field;
    case MSCCLPP_PARAM_INT:
        return (uint64_t)(int64_t) * (const int *)field;
    case MSCCLPP_PARAM_SIZE:
        return *(const size_t *)field;
    case MSCCLPP_PARAM_STRING:
        return find_word_number(param, *(const char *const *)field);
    case MSCCLPP_PARAM_DOUBLE:
        break; /* no parameter of this type is common */
    }
    return 0;
}

/* 2^64 divided by the golden ratio, an odd number. Multiplying by it spreads a number over the high bits. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/*
 * Adds a number to a digest. The high bits of the product depend on the whole number, so they are mixed into the low
 * bits for the next product.
 */
static uint64_t add_number(uint64_t digest, uint64_t number)
{
    digest = (digest ^ number) * HASH_FACTOR;
    return digest ^ digest >> 32;
}

/* Adds a text to a digest, with its end, so that "ab" and "c" differ from "a" and "bc". */
static uint64_t add_text(uint64_t digest, const char *text)
{
    for (; *text != '\0'; ++text) {
        digest = add_number(digest, (unsigned char)*text);
    }
    return add_number(digest, 0);
}

#define DIGEST_BEGIN UINT64_C(0xcbf29ce484222325)

/* Returns a digest of all parameters' names and choices. It tells tables of different versions apart. */
static uint64_t digest_names(void)
{
    uint64_t digest = DIGEST_BEGIN;
    int i;

    for (i = 0; i < mscclpp_param_count; ++i) {
        digest = add_text(digest, mscclpp_params[i].name);
        digest = add_text(digest, mscclpp_params[i].choices != NULL ? mscclpp_params[i].choices : "");
    }
    return digest;
}

/* Makes all that depends only on the table of parameters. Called once, by pthread_once. */
static void make_table(void)
{
    int i;

    make_words();
    names_digest = digest_names();
    for (i = 0; i < mscclpp_param_count && i < MSCCLPP_SETTINGS_MAX; ++i) {
        is_common[i] = mscclpp_param_is_common(&mscclpp_params[i]);
    }
}

void mscclpp_settings_read(const mscclpp_config_t *config, mscclpp_settings_t *settings_p)
{
    int i;

    pthread_once(&table_once, make_table);
    memset(settings_p, 0, sizeof(*settings_p));
    settings_p->names = names_digest;
    for (i = 0; i < mscclpp_param_count && i < MSCCLPP_SETTINGS_MAX; ++i) {
        if (is_common[i]) {
            settings_p->values[i] = read_value(config, &mscclpp_params[i]);
        }
    }
}

void mscclpp_settings_apply(mscclpp_config_t *config, const mscclpp_param_t *param, uint64_t value)
{
    void *field = (char *)config + param->offset;
    const char *word;

    pthread_once(&table_once, make_table);
    switch (param->type) {
    case MSCCLPP_PARAM_BOOL:
        *(bool *)field = value != 0;
        break;
    case MSCCLPP_PARAM_INT:
        *(int *)field = (int)(int64_t)value;
        break;
    case MSCCLPP_PARAM_SIZE:
        *(size_t *)field = (size_t)value;
        break;
    case MSCCLPP_PARAM_STRING:
        word = find_word(param, value);
        if (word != NULL) {
            *(const char **)field = word;
        }
        break;
    case MSCCLPP_PARAM_DOUBLE:
        break; /* no parameter of this type is common */
    }
}

/*
 * Writes a value as text. The number of a word is written as the word. Anything else, including the number of a word
 * that does not exist, is written as a number.
 */
void mscclpp_settings_text(const mscclpp_param_t *param, uint64_t value, char *text, size_t size)
{
    const char *word;

    pthread_once(&table_once, make_table);
    word = param->type == MSCCLPP_PARAM_STRING ? find_word(param, value) : NULL;
    if (word != NULL) {
        snprintf(text, size, "%s", word);
    } else {
        snprintf(text, size, "%lld", (long long)value);
    }
}

uint64_t mscclpp_settings_digest(const mscclpp_settings_t *settings)
{
    uint64_t digest = add_number(DIGEST_BEGIN, settings->names);
    int i;

    for (i = 0; i < MSCCLPP_SETTINGS_MAX; ++i) {
        digest = add_number(digest, settings->values[i]);
    }
    return digest;
}
