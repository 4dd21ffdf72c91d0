#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "mca/common/ctrl/ctrl.h"
#include "test/unit/unit.h"
#if __has_include(<ucp/api/ucp_version.h>)
#include <ucp/api/ucp_version.h>
#endif

#define RANKS 3

/* The embedding runtime's messages: a pipe a rank, whose small writes are whole. */
static int mail[RANKS][2];

typedef struct {
    int peer;
    uint32_t length;
    unsigned char bytes[MSCCLPP_OOB_MESSAGE_MAX];
} letter_t;

static mscclpp_status_t post_letter(void *context, int peer, const void *message, size_t length)
{
    const mscclpp_oob_t *oob = context;
    letter_t letter = {.peer = oob->rank, .length = (uint32_t)length};

    if (length > sizeof(letter.bytes)) {
        return MSCCLPP_ERR_INVALID;
    }
    memcpy(letter.bytes, message, length);
    return write(mail[peer][1], &letter, sizeof(letter)) == sizeof(letter) ? MSCCLPP_OK : MSCCLPP_ERR_SYSTEM;
}

static mscclpp_status_t poll_letter(void *context, int *peer_p, void *message, size_t *length_p)
{
    const mscclpp_oob_t *oob = context;
    letter_t letter;

    if (read(mail[oob->rank][0], &letter, sizeof(letter)) != sizeof(letter)) {
        return MSCCLPP_IN_PROGRESS;
    }
    *peer_p = letter.peer;
    *length_p = letter.length;
    memcpy(message, letter.bytes, letter.length);
    return MSCCLPP_OK;
}

static void open_mail(void)
{
    for (int rank = 0; rank < RANKS; ++rank) {
        REQUIRE(pipe(mail[rank]) == 0);
        REQUIRE(fcntl(mail[rank][0], F_SETFL, O_NONBLOCK) == 0);
    }
}

static void fill_oob(mscclpp_oob_t *oob, int rank, int size, bool messages)
{
    memset(oob, 0, sizeof(*oob));
    oob->context = oob;
    oob->rank = rank;
    oob->size = size;
    oob->label = "test";
    if (messages) {
        oob->post_message = post_letter;
        oob->poll_message = poll_letter;
    }
}

static bool receive(mscclpp_ctrl_t *ctrl, int *peer_p, void *message, size_t *length_p)
{
    double deadline = mscclpp_now() + 20;

    while (mscclpp_now() < deadline) {
        mscclpp_status_t status = mscclpp_ctrl_poll(ctrl, peer_p, message, length_p);
        if (status != MSCCLPP_IN_PROGRESS) {
            CHECK_EQ(status, MSCCLPP_OK);
            return status == MSCCLPP_OK;
        }
        usleep(100);
    }
    return false;
}

/* Teams within one process: every rank a ctrl of its own. */
static void test_local(bool ucx, const char *name)
{
    unsigned char addresses[2][RANKS][MSCCLPP_CTRL_ADDRESS_MAX];
    mscclpp_oob_t oob[RANKS];
    mscclpp_ctrl_t *ctrl[2][RANKS];
    unsigned char message[MSCCLPP_CTRL_MESSAGE_MAX], received[MSCCLPP_CTRL_MESSAGE_MAX];
    size_t length;
    int peer;
    /* Teams over the runtime share its mail, so that two at a time would take each other's. */
    int teams = ucx ? 2 : 1;

    memset(addresses, 0, sizeof(addresses));
    for (int team = 0; team < teams; ++team) {
        for (int rank = 0; rank < RANKS; ++rank) {
            fill_oob(&oob[rank], rank, RANKS, true);
            REQUIRE(mscclpp_ctrl_create(ucx, &oob[rank], &ctrl[team][rank]) == MSCCLPP_OK);
            CHECK_TEXT(mscclpp_ctrl_name(ctrl[team][rank]), "none");
            length = 0;
            REQUIRE(mscclpp_ctrl_address(ctrl[team][rank], addresses[team][rank], &length) == MSCCLPP_OK);
            CHECK(length <= MSCCLPP_CTRL_ADDRESS_MAX);
            CHECK_EQ(mscclpp_ctrl_poll(ctrl[team][rank], &peer, received, &length), MSCCLPP_IN_PROGRESS);
        }
    }
    for (int team = 0; team < teams; ++team) {
        for (int rank = 0; rank < RANKS; ++rank) {
            REQUIRE(mscclpp_ctrl_connect(ctrl[team][rank], 100 + (uint64_t)team, addresses[team],
                                         MSCCLPP_CTRL_ADDRESS_MAX) == MSCCLPP_OK);
            CHECK_TEXT(mscclpp_ctrl_name(ctrl[team][rank]), name);
        }
    }
    /* Every length from every rank to every rank, itself included; the team keeps them apart. */
    for (int team = 0; team < teams; ++team) {
        for (int from = 0; from < RANKS; ++from) {
            for (int to = 0; to < RANKS; ++to) {
                for (size_t size = 0; size <= MSCCLPP_CTRL_MESSAGE_MAX; size += 12) {
                    memset(message, 16 * team + 4 * from + to + 1, sizeof(message));
                    REQUIRE(mscclpp_ctrl_post(ctrl[team][from], to, message, size) == MSCCLPP_OK);
                    memset(message, 0, sizeof(message)); /* it is theirs now */
                    memset(received, 0xee, sizeof(received));
                    REQUIRE(receive(ctrl[team][to], &peer, received, &length));
                    CHECK_EQ(peer, from);
                    CHECK_EQ(length, size);
                    for (size_t i = 0; i < sizeof(received); ++i) {
                        if (received[i] != (i < size ? 16 * team + 4 * from + to + 1 : 0xee)) {
                            CHECK(!"the message as it was sent");
                            break;
                        }
                    }
                }
            }
        }
    }
    for (int team = 0; team < teams; ++team) {
        for (int rank = 0; rank < RANKS; ++rank) {
            CHECK_EQ(mscclpp_ctrl_poll(ctrl[team][rank], &peer, received, &length), MSCCLPP_IN_PROGRESS);
        }
    }
    unit_expect_log();
    CHECK_EQ(mscclpp_ctrl_post(ctrl[0][0], RANKS, message, 1), MSCCLPP_ERR_INVALID);
    CHECK_EQ(mscclpp_ctrl_post(ctrl[0][0], -1, message, 1), MSCCLPP_ERR_INVALID);
    CHECK_EQ(mscclpp_ctrl_post(ctrl[0][0], 1, message, MSCCLPP_CTRL_MESSAGE_MAX + 1), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 3);
    for (int team = 0; team < teams; ++team) {
        for (int rank = 0; rank < RANKS; ++rank) {
            mscclpp_ctrl_destroy(ctrl[team][rank]);
        }
    }
    mscclpp_ctrl_destroy(NULL);
}

/* A later team on the same communicator does not get messages that were meant for an earlier one. */
static void test_old_messages(bool ucx)
{
    unsigned char addresses[2][MSCCLPP_CTRL_ADDRESS_MAX];
    unsigned char received[MSCCLPP_CTRL_MESSAGE_MAX];
    mscclpp_oob_t oob[2];
    mscclpp_ctrl_t *ctrl[2];
    size_t length;
    int peer;

    for (uint64_t team = 1; team <= 2; ++team) {
        memset(addresses, 0, sizeof(addresses));
        for (int rank = 0; rank < 2; ++rank) {
            fill_oob(&oob[rank], rank, 2, true);
            REQUIRE(mscclpp_ctrl_create(ucx, &oob[rank], &ctrl[rank]) == MSCCLPP_OK);
            REQUIRE(mscclpp_ctrl_address(ctrl[rank], addresses[rank], &length) == MSCCLPP_OK);
        }
        REQUIRE(mscclpp_ctrl_connect(ctrl[0], team, addresses, MSCCLPP_CTRL_ADDRESS_MAX) == MSCCLPP_OK);
        /* Posted before the receiver knows the team. */
        CHECK_EQ(mscclpp_ctrl_post(ctrl[0], 1, &team, sizeof(team)), MSCCLPP_OK);
        for (int i = 0; i < 100; ++i) {
            CHECK_EQ(mscclpp_ctrl_poll(ctrl[0], &peer, received, &length), MSCCLPP_IN_PROGRESS);
        }
        REQUIRE(mscclpp_ctrl_connect(ctrl[1], team, addresses, MSCCLPP_CTRL_ADDRESS_MAX) == MSCCLPP_OK);
        if (team == 2) {
            REQUIRE(receive(ctrl[1], &peer, received, &length));
            CHECK_EQ(length, sizeof(team));
            CHECK(memcmp(received, &team, sizeof(team)) == 0);
            CHECK_EQ(mscclpp_ctrl_poll(ctrl[1], &peer, received, &length), MSCCLPP_IN_PROGRESS);
        }
        mscclpp_ctrl_destroy(ctrl[0]);
        mscclpp_ctrl_destroy(ctrl[1]);
    }
}

/* Ranks that do not all have the same end with the same choice. */
static void test_agreement(bool ucx)
{
    unsigned char addresses[RANKS][MSCCLPP_CTRL_ADDRESS_MAX];
    mscclpp_oob_t oob[RANKS];
    mscclpp_ctrl_t *ctrl[RANKS], *none;
    unsigned char received[MSCCLPP_CTRL_MESSAGE_MAX];
    size_t length;
    int peer;

    memset(addresses, 0, sizeof(addresses));
    for (int rank = 0; rank < RANKS; ++rank) {
        fill_oob(&oob[rank], rank, RANKS, true);
        REQUIRE(mscclpp_ctrl_create(ucx && rank != 1, &oob[rank], &ctrl[rank]) == MSCCLPP_OK);
        REQUIRE(mscclpp_ctrl_address(ctrl[rank], addresses[rank], &length) == MSCCLPP_OK);
    }
    for (int rank = 0; rank < RANKS; ++rank) {
        REQUIRE(mscclpp_ctrl_connect(ctrl[rank], 9, addresses, MSCCLPP_CTRL_ADDRESS_MAX) == MSCCLPP_OK);
        CHECK_TEXT(mscclpp_ctrl_name(ctrl[rank]), "oob");
    }
    CHECK_EQ(mscclpp_ctrl_post(ctrl[2], 1, "hello", 5), MSCCLPP_OK);
    REQUIRE(receive(ctrl[1], &peer, received, &length));
    CHECK(peer == 2 && length == 5 && memcmp(received, "hello", 5) == 0);
    for (int rank = 0; rank < RANKS; ++rank) {
        mscclpp_ctrl_destroy(ctrl[rank]);
    }

    /* One rank that has nothing at all. */
    fill_oob(&oob[0], 0, RANKS, false);
    CHECK_EQ(mscclpp_ctrl_create(false, &oob[0], &none), MSCCLPP_ERR_NOT_SUPPORTED);
    memset(addresses[0], 0, sizeof(addresses[0]));
    for (int rank = 1; rank < RANKS; ++rank) {
        fill_oob(&oob[rank], rank, RANKS, true);
        REQUIRE(mscclpp_ctrl_create(ucx, &oob[rank], &ctrl[rank]) == MSCCLPP_OK);
        CHECK_EQ(mscclpp_ctrl_connect(ctrl[rank], 10, addresses, MSCCLPP_CTRL_ADDRESS_MAX), MSCCLPP_ERR_NOT_SUPPORTED);
        CHECK_TEXT(mscclpp_ctrl_name(ctrl[rank]), "none");
        mscclpp_ctrl_destroy(ctrl[rank]);
    }
}

#if MSCCLPP_HAVE_UCX
/* Between processes: addresses travel through a pipe to the parent and back. */
typedef struct {
    int rank;
    int to_parent[2];
    int from_parent[2];
} child_t;

static child_t children[RANKS];

static mscclpp_ctrl_t *connect_child(const child_t *child, mscclpp_oob_t *oob)
{
    unsigned char addresses[RANKS][MSCCLPP_CTRL_ADDRESS_MAX] = {{0}};
    mscclpp_ctrl_t *ctrl;
    size_t length;

    fill_oob(oob, child->rank, RANKS, false);
    REQUIRE(mscclpp_ctrl_create(true, oob, &ctrl) == MSCCLPP_OK);
    REQUIRE(mscclpp_ctrl_address(ctrl, addresses[0], &length) == MSCCLPP_OK);
    REQUIRE(write(child->to_parent[1], addresses[0], sizeof(addresses[0])) == sizeof(addresses[0]));
    for (size_t got = 0; got < sizeof(addresses);) {
        ssize_t n = read(child->from_parent[0], (char *)addresses + got, sizeof(addresses) - got);
        REQUIRE(n > 0);
        got += (size_t)n;
    }
    REQUIRE(mscclpp_ctrl_connect(ctrl, 4711, addresses, MSCCLPP_CTRL_ADDRESS_MAX) == MSCCLPP_OK);
    CHECK_TEXT(mscclpp_ctrl_name(ctrl), "ucx");
    return ctrl;
}

static void tell_parent(const child_t *child)
{
    REQUIRE(write(child->to_parent[1], "x", 1) == 1);
}

static void wait_parent(const child_t *child)
{
    char byte;

    REQUIRE(read(child->from_parent[0], &byte, 1) == 1);
}

/* Everybody greets everybody; then rank 2 dies without a word, and the others write to it all the same. */
static void child_main(void *argument)
{
    const child_t *child = argument;
    unsigned char received[MSCCLPP_CTRL_MESSAGE_MAX];
    bool seen[RANKS] = {false};
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_ctrl_t *ctrl;
    mscclpp_oob_t oob;
    double deadline;
    size_t length;
    int peer;

    ctrl = connect_child(child, &oob);
    for (int i = 0; i < 2; ++i) {
        for (int rank = 0; rank < RANKS; ++rank) {
            char text[MSCCLPP_CTRL_MESSAGE_MAX] = {0};
            snprintf(text, sizeof(text), "from %d to %d", child->rank, rank);
            if (rank != child->rank) {
                CHECK_EQ(mscclpp_ctrl_post(ctrl, rank, text, sizeof(text)), MSCCLPP_OK);
            }
        }
    }
    for (int i = 0; i < 2 * (RANKS - 1); ++i) {
        char text[MSCCLPP_CTRL_MESSAGE_MAX];
        REQUIRE(receive(ctrl, &peer, received, &length));
        snprintf(text, sizeof(text), "from %d to %d", peer, child->rank);
        CHECK_EQ(length, sizeof(text));
        CHECK_TEXT((char *)received, text);
        seen[peer] = true;
    }
    for (int rank = 0; rank < RANKS; ++rank) {
        CHECK_EQ(seen[rank], rank != child->rank);
    }
    /* What is still on its way out needs this rank's turns. */
    for (deadline = mscclpp_now() + 0.2; mscclpp_now() < deadline;) {
        (void)mscclpp_ctrl_poll(ctrl, &peer, received, &length);
    }
    tell_parent(child);
    wait_parent(child);
    if (child->rank == 2) {
        raise(SIGKILL);
    }

    /* Sending to the dead neither blocks nor kills; sooner or later it is known. */
    unit_expect_log();
    for (deadline = mscclpp_now() + 3; status == MSCCLPP_OK && mscclpp_now() < deadline;) {
        double before = mscclpp_now();
        status = mscclpp_ctrl_post(ctrl, 2, "are you there", 13);
        CHECK(mscclpp_now() - before < 1);
        CHECK_EQ(mscclpp_ctrl_poll(ctrl, &peer, received, &length), MSCCLPP_IN_PROGRESS);
        usleep(20000);
    }
    CHECK(status == MSCCLPP_OK || status == MSCCLPP_ERR_PEER);
    (void)unit_logged();
    printf("rank %d: a message to the dead rank: %s\n", child->rank, mscclpp_status_string(status));
    tell_parent(child);
    wait_parent(child);

    /* The living still hear each other. */
    CHECK_EQ(mscclpp_ctrl_post(ctrl, 1 - child->rank, "still here", 10), MSCCLPP_OK);
    REQUIRE(receive(ctrl, &peer, received, &length));
    CHECK(peer == 1 - child->rank && length == 10 && memcmp(received, "still here", 10) == 0);
    tell_parent(child);
    wait_parent(child);

    /* Rank 0 leaves first, while rank 1 has an endpoint to it. */
    if (child->rank == 1) {
        usleep(300000);
        unit_expect_log();
        status = mscclpp_ctrl_post(ctrl, 0, "bye", 3);
        CHECK(status == MSCCLPP_OK || status == MSCCLPP_ERR_PEER);
        (void)unit_logged();
    }
    deadline = mscclpp_now() + 5;
    mscclpp_ctrl_destroy(ctrl);
    mscclpp_ctrl_finalize();
    CHECK(mscclpp_now() < deadline);
}

static void wait_children(int first, int last)
{
    char byte;

    for (int rank = first; rank <= last; ++rank) {
        REQUIRE(read(children[rank].to_parent[0], &byte, 1) == 1);
    }
}

static void release_children(int first, int last)
{
    for (int rank = first; rank <= last; ++rank) {
        REQUIRE(write(children[rank].from_parent[1], "x", 1) == 1);
    }
}

static void test_processes(void)
{
    unsigned char addresses[RANKS][MSCCLPP_CTRL_ADDRESS_MAX];
    pid_t pids[RANKS];
    int status;

    for (int rank = 0; rank < RANKS; ++rank) {
        children[rank].rank = rank;
        REQUIRE(pipe(children[rank].to_parent) == 0 && pipe(children[rank].from_parent) == 0);
    }
    for (int rank = 0; rank < RANKS; ++rank) {
        pids[rank] = unit_fork(child_main, &children[rank]);
    }
    /* So that the end of a child is the end of its pipe. */
    for (int rank = 0; rank < RANKS; ++rank) {
        close(children[rank].to_parent[1]);
    }
    for (int rank = 0; rank < RANKS; ++rank) {
        for (size_t got = 0; got < sizeof(addresses[rank]);) {
            ssize_t n = read(children[rank].to_parent[0], addresses[rank] + got, sizeof(addresses[rank]) - got);
            REQUIRE(n > 0);
            got += (size_t)n;
        }
    }
    for (int rank = 0; rank < RANKS; ++rank) {
        REQUIRE(write(children[rank].from_parent[1], addresses, sizeof(addresses)) == sizeof(addresses));
    }
    wait_children(0, 2);
    release_children(2, 2);
    REQUIRE(waitpid(pids[2], &status, 0) == pids[2]);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    release_children(0, 1);
    wait_children(0, 1);
    release_children(0, 1);
    wait_children(0, 1);
    release_children(0, 1);
    unit_join(pids[0]);
    unit_join(pids[1]);
}

/* One worker for all teams and threads; nothing is left of it afterwards. */
#define THREADS 4
#define TURNS 25

static void *use_teams(void *argument)
{
    int number = *(int *)argument;

    for (int turn = 0; turn < TURNS; ++turn) {
        unsigned char addresses[2][MSCCLPP_CTRL_ADDRESS_MAX] = {{0}};
        unsigned char received[MSCCLPP_CTRL_MESSAGE_MAX];
        mscclpp_ctrl_t *ctrl[2] = {NULL, NULL};
        mscclpp_oob_t oob[2];
        int sent = number * 1000 + turn;
        size_t length = 0;
        int peer = -1;
        bool good = true;

        for (int rank = 0; rank < 2; ++rank) {
            fill_oob(&oob[rank], rank, 2, false);
            good = good && mscclpp_ctrl_create(true, &oob[rank], &ctrl[rank]) == MSCCLPP_OK &&
                   mscclpp_ctrl_address(ctrl[rank], addresses[rank], &length) == MSCCLPP_OK;
        }
        for (int rank = 0; rank < 2; ++rank) {
            good = good && mscclpp_ctrl_connect(ctrl[rank], 5000 + (uint64_t)sent, addresses,
                                                MSCCLPP_CTRL_ADDRESS_MAX) == MSCCLPP_OK;
        }
        good = good && mscclpp_ctrl_post(ctrl[0], 1, &sent, sizeof(sent)) == MSCCLPP_OK &&
               receive(ctrl[1], &peer, received, &length) && length == sizeof(sent) &&
               memcmp(received, &sent, sizeof(sent)) == 0;
        CHECK(good);
        mscclpp_ctrl_destroy(ctrl[0]);
        mscclpp_ctrl_destroy(ctrl[1]);
    }
    return NULL;
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder) != NULL) {
        ++count;
    }
    closedir(folder);
    return count;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    for (int i = 0; i < THREADS; ++i) {
        numbers[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, use_teams, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
}

/* Crashes stay the application's business. */
static void on_crash(int signal)
{
    (void)signal;
}

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

#define CRASHES ((int)(sizeof(crashes) / sizeof(crashes[0])))

static void read_handlers(struct sigaction *actions)
{
    for (int i = 0; i < CRASHES; ++i) {
        REQUIRE(sigaction(crashes[i], NULL, &actions[i]) == 0);
    }
}
#endif

/* NULL, or why messages over UCX cannot be tested. Found out in a child, lest those of test_processes inherit UCX. */
static const char *ucx_reason(void)
{
#if MSCCLPP_HAVE_UCX
    pid_t pid;
    int status = -1;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        mscclpp_oob_t oob;
        mscclpp_ctrl_t *ctrl;
        mscclpp_log_set(NULL, NULL, MSCCLPP_LOG_INFO);
        fill_oob(&oob, 0, 1, false);
        _exit(mscclpp_ctrl_create(true, &oob, &ctrl) == MSCCLPP_OK ? 0 : UNIT_SKIPPED);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return status == 0 ? NULL : "UCX does not work here, for the reason above";
#else
    return "this build has no UCX";
#endif
}

#if MSCCLPP_HAVE_UCX
/* Who was told before that UCX is not wanted gets by without it, until it is. In a child, which has not loaded it. */
static void test_unwanted(void)
{
    pid_t pid;
    int status = -1;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        mscclpp_ctrl_prepare(false);
        test_local(true, "oob");
        mscclpp_ctrl_prepare(true);
        test_local(true, "ucx");
        fflush(NULL);
        _exit(unit_end());
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

int main(void)
{
    const char *reason;

    unit_begin();
    open_mail();
    test_local(false, "oob");
    test_old_messages(false);
    test_agreement(false);
    reason = ucx_reason();
    if (reason != NULL) {
        printf("skipped: %s\n", reason);
        return unit_end();
    }
#if MSCCLPP_HAVE_UCX
    struct sigaction before[CRASHES], after[CRASHES];
    struct rusage usage[2];
    int descriptors;

    test_unwanted();
    test_processes();
    signal(SIGSEGV, on_crash);
    read_handlers(before);
    descriptors = count_descriptors();
    for (int i = 0; i < 2; ++i) {
        mscclpp_ctrl_prepare(true);
        mscclpp_ctrl_prepare(true);
        mscclpp_ctrl_finalize();
        CHECK_EQ(count_descriptors(), descriptors);
    }
    mscclpp_ctrl_prepare(true);
    (void)getrusage(RUSAGE_SELF, &usage[0]);
    test_local(true, "ucx");
    (void)getrusage(RUSAGE_SELF, &usage[1]);
    /* The worker touches little memory. A sanitizer touches memory of its own, and so do versions after UCX 1.13. */
#if defined(UCP_API_MINOR) && UCP_API_MINOR <= 13
    CHECK(UNIT_SANITIZED || usage[1].ru_minflt - usage[0].ru_minflt < 320);
#endif
    test_old_messages(true);
    test_agreement(true);
    mscclpp_ctrl_finalize();
    descriptors = count_descriptors();
    for (int i = 0; i < 3; ++i) {
        test_threads();
        mscclpp_ctrl_finalize();
        CHECK_EQ(count_descriptors(), descriptors);
    }
    read_handlers(after);
    for (int i = 0; i < CRASHES; ++i) {
        CHECK(after[i].sa_handler == before[i].sa_handler);
    }
#ifdef __SANITIZE_ADDRESS__
    /* The worker stays, and UCX's thread with it; the leak checker, which runs at exit, does not survive that. */
    int result = unit_end();

    fflush(NULL);
    _exit(result);
#endif
#endif
    return unit_end();
}
