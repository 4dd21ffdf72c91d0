#include <signal.h>

#include "mca/common/gpu/users.h"
#include "test/unit/unit.h"

static unsigned char gpu[MSCCLPP_GPU_UUID_SIZE] = "a GPU of a test";
static unsigned char other[MSCCLPP_GPU_UUID_SIZE] = "another of them";
static int to_child[2], to_parent[2];
static uint32_t strangers;

#define SERVER 7

static void tell(const int *pipe_fds, char what)
{
    CHECK_EQ(write(pipe_fds[1], &what, 1), 1);
}

static char hear(const int *pipe_fds)
{
    char what = 0;

    CHECK_EQ(read(pipe_fds[0], &what, 1), 1);
    return what;
}

/* Says how many it sees, and stays until it is told to leave, or is killed. */
static void use(void *argument)
{
    tell(to_parent, (char)mscclpp_gpu_users_join(gpu, *(uint64_t *)argument, &strangers));
    (void)hear(to_child);
    mscclpp_gpu_users_leave();
    tell(to_parent, 'l');
    (void)hear(to_child);
}

int main(void)
{
    uint64_t servers[] = {SERVER, SERVER + 1};
    pid_t pids[2];
    int status, base;

    unit_begin();
    REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
    memcpy(gpu, &(pid_t){getpid()}, sizeof(pid_t)); /* not that of the same test beside this one */
    memcpy(other, &(pid_t){getpid()}, sizeof(pid_t));
    base = (int)mscclpp_gpu_users_join(gpu, SERVER, &strangers);
    CHECK_EQ(base, 1);
    CHECK_EQ(mscclpp_gpu_users_join(gpu, SERVER, &strangers), 1);
    CHECK_EQ(mscclpp_gpu_users_join(other, SERVER, &strangers), 1);

    /* A forked child counts only once it has joined, and then by itself. */
    pids[0] = unit_fork(use, &servers[0]);
    CHECK_EQ(hear(to_parent), 2);
    CHECK_EQ(mscclpp_gpu_users_join(gpu, SERVER, &strangers), 2);
    CHECK_EQ(strangers, 0);
    pids[1] = unit_fork(use, &servers[1]);
    CHECK_EQ(hear(to_parent), 3);
    CHECK_EQ(mscclpp_gpu_users_join(gpu, SERVER, &strangers), 3);
    CHECK_EQ(strangers, 1);
    CHECK_EQ(mscclpp_gpu_users_join(other, SERVER, &strangers), 1);

    /* One of them leaves. */
    tell(to_child, 'l');
    CHECK_EQ(hear(to_parent), 'l');
    CHECK_EQ(mscclpp_gpu_users_join(gpu, SERVER, &strangers), 2);

    /* Both are killed, whichever it was. */
    for (int i = 0; i < 2; ++i) {
        CHECK_EQ(kill(pids[i], SIGKILL), 0);
        CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
    }
    CHECK_EQ(mscclpp_gpu_users_join(gpu, SERVER, &strangers), 1);
    mscclpp_gpu_users_leave();
    CHECK_EQ(mscclpp_gpu_users_join(gpu, SERVER, &strangers), 1);
    mscclpp_gpu_users_leave();
    return unit_end();
}
