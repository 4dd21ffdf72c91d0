/* The status codes of the host library. */
#ifndef MCA_COMMON_BASE_STATUS_H
#define MCA_COMMON_BASE_STATUS_H

#include <stdbool.h>

/*
 * How functions return and log errors.
 *
 * The function that first detects an error logs it once, with its cause. Callers only pass it on. So comments mention
 * logging only where it differs from this rule.
 *
 * MSCCLPP_OK, MSCCLPP_IN_PROGRESS and MSCCLPP_ERR_NOT_SUPPORTED are ordinary answers. The reason for the last is logged
 * at the info or debug level, and higher only if the user has asked for what is missing or should change something.
 * MSCCLPP_ERR_NO_DESCRIPTORS is logged at the debug level where it is detected, because the call may succeed another
 * way. It is logged higher if a whole communicator has to do without.
 *
 * Functions write their output arguments only when they return MSCCLPP_OK, unless their comments say otherwise.
 */
typedef enum {
    MSCCLPP_OK = 0,
    MSCCLPP_IN_PROGRESS = 1,
    MSCCLPP_ERR_NOT_SUPPORTED = -1, /* this path cannot serve the request; another one may */
    MSCCLPP_ERR_INVALID = -2,       /* an argument, a parameter or an environment value is out of its range */
    MSCCLPP_ERR_NO_MEMORY = -3,
    MSCCLPP_ERR_SYSTEM = -4,         /* a system call failed */
    MSCCLPP_ERR_DEVICE = -5,         /* the GPU runtime reported an error */
    MSCCLPP_ERR_TIMEOUT = -6,        /* a peer did not arrive within the deadline */
    MSCCLPP_ERR_PEER = -7,           /* a peer reported that it failed */
    MSCCLPP_ERR_MIXED = -8,          /* some ranks passed device buffers and others host buffers */
    MSCCLPP_ERR_REVOKED = -9,        /* the embedding runtime asked for the wait to end */
    MSCCLPP_ERR_NO_DESCRIPTORS = -10 /* the process may open no more files */
} mscclpp_status_t;

/* Returns a constant, lower-case description of the status, never NULL. */
const char *mscclpp_status_string(mscclpp_status_t status);

/*
 * Returns true if the error means that the system refused the process more of some resource whose limit the user can
 * change.
 */
bool mscclpp_status_is_shortage(mscclpp_status_t status);

#endif
