/*
 * Log messages of the host library. Each has a level and is one line; it goes to a sink that the embedding program
 * installs.
 */
#ifndef MCA_COMMON_BASE_LOG_H
#define MCA_COMMON_BASE_LOG_H

typedef enum {
    MSCCLPP_LOG_ERROR = 0, /* the user must act, or a call failed */
    MSCCLPP_LOG_WARN = 1,  /* something is wrong, but the call continued */
    MSCCLPP_LOG_INFO = 2,  /* choices made once: transports, fallbacks, algorithms */
    MSCCLPP_LOG_DEBUG = 3  /* details of every call */
} mscclpp_log_level_t;

/* Receives one line without its newline. May be called from any thread, several at once. */
typedef void (*mscclpp_log_sink_fn_t)(void *context, mscclpp_log_level_t level, const char *line);

/*
 * Installs the sink and the highest level that reaches it. A NULL sink restores the default one, which writes to
 * standard error. Not thread-safe: call it before other threads use the library.
 */
void mscclpp_log_set(mscclpp_log_sink_fn_t sink, void *context, mscclpp_log_level_t level);

/* The highest level that is printed; read by the macro below so that unprinted messages cost one comparison. */
extern mscclpp_log_level_t mscclpp_log_level;

/* Passes one message to the sink if its level is printed. Leaves errno as it is. Use the macros below instead. */
void mscclpp_log_print(mscclpp_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Logs a message, formatted as by printf, at a level. */
#define mscclpp_log(level_, ...)                                                                                       \
    do {                                                                                                               \
        if ((level_) <= mscclpp_log_level) {                                                                           \
            mscclpp_log_print((level_), __VA_ARGS__);                                                                  \
        }                                                                                                              \
    } while (0)

#define mscclpp_error(...) mscclpp_log(MSCCLPP_LOG_ERROR, __VA_ARGS__)
#define mscclpp_warn(...) mscclpp_log(MSCCLPP_LOG_WARN, __VA_ARGS__)
#define mscclpp_info(...) mscclpp_log(MSCCLPP_LOG_INFO, __VA_ARGS__)
#define mscclpp_debug(...) mscclpp_log(MSCCLPP_LOG_DEBUG, __VA_ARGS__)

#endif
