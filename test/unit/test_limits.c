/* What the system still grants, compared with what it then refuses. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mca/common/base/limits.h"
#include "test/unit/unit.h"

#define MIB ((size_t)1 << 20)

static void limit(int which, rlim_t value)
{
    struct rlimit limits;

    CHECK_EQ(getrlimit(which, &limits), 0);
    limits.rlim_cur = value;
    CHECK_EQ(setrlimit(which, &limits), 0);
}

static void test_descriptors(void)
{
    const int beyond = fcntl(0, F_DUPFD, 200), below = fcntl(0, F_DUPFD, 100);
    size_t unused = 0;

    CHECK(beyond >= 200 && below >= 100);
    limit(RLIMIT_NOFILE, 128);
    while (mscclpp_limits_allow_descriptors(unused + 1)) {
        ++unused;
    }
    CHECK(unused > 5 && unused < 128);
    CHECK(mscclpp_limits_allow_descriptors(0));
    for (; unused > 0; --unused) {
        CHECK(mscclpp_limits_allow_descriptors(unused));
        CHECK(!mscclpp_limits_allow_descriptors(unused + 1));
        CHECK(dup(0) >= 0);
    }
    CHECK(!mscclpp_limits_allow_descriptors(1));
    CHECK(dup(0) < 0 && errno == EMFILE);
    CHECK_EQ(mscclpp_limits_count_devices(), 0);
    CHECK_EQ(close(below), 0);
    CHECK(mscclpp_limits_allow_descriptors(1));
}

static void test_memory(void)
{
    CHECK(mscclpp_limits_allow_address_space(64 * MIB));
    limit(RLIMIT_AS, MIB);
    CHECK(!mscclpp_limits_allow_address_space(64 * MIB));
    CHECK(!mscclpp_limits_allow_thread()); /* before any thread has left its stack to the next one */
    limit(RLIMIT_AS, RLIM_INFINITY);
    CHECK(mscclpp_limits_allow_address_space(64 * MIB));
    CHECK(mscclpp_limits_allow_thread());
}

int main(void)
{
    unit_begin();
    if (access("/sys/class/net/lo", F_OK) == 0) {
        CHECK(mscclpp_limits_count_devices() > 0);
    }
    if (!UNIT_SANITIZED) {
        test_memory();
    }
    test_descriptors();
    return unit_end();
}
