#include <dirent.h>
#include <pthread.h>

#include "mca/common/base/process.h"
#include "mca/common/base/shmseg.h"
#include "test/unit/unit.h"

/* Descriptors this process has open, to see that none is left behind. */
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

static int count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    while (fgets(line, sizeof(line), maps) != NULL) {
        count += strstr(line, "memfd:mscclpp") != NULL;
    }
    fclose(maps);
    return count;
}

static void test_one_process(void)
{
    mscclpp_shmseg_descriptor_t descriptor;
    mscclpp_shmseg_descriptor_t located;
    mscclpp_shmseg_t *segment, *same, *other;
    int descriptors = count_descriptors();
    uint64_t offset = 0;
    unsigned char sum = 0;
    unsigned char *base;

    REQUIRE(mscclpp_shmseg_create(100001, &segment) == MSCCLPP_OK);
    base = mscclpp_shmseg_base(segment);
    CHECK_EQ(mscclpp_shmseg_length(segment), 100001);
    CHECK_EQ((uintptr_t)base % 4096, 0);
    for (int i = 0; i < 100001; ++i) {
        sum |= base[i];
    }
    CHECK_EQ(sum, 0);

    mscclpp_shmseg_describe(segment, &descriptor);
    CHECK(mscclpp_process_is_self(descriptor.pid, descriptor.token));
    REQUIRE(mscclpp_shmseg_attach(&descriptor, &same) == MSCCLPP_OK);
    CHECK(mscclpp_shmseg_base(same) == base);
    CHECK_EQ(count_mappings(), 1);

    REQUIRE(mscclpp_shmseg_locate(base + 5, 99996, &located, &offset));
    CHECK(memcmp(&located, &descriptor, sizeof(located)) == 0);
    CHECK_EQ(offset, 5);
    CHECK(!mscclpp_shmseg_locate(base + 5, 99997, &located, &offset));
    CHECK(!mscclpp_shmseg_locate(base - 1, 2, &located, &offset));
    CHECK(!mscclpp_shmseg_locate(&located, 1, &located, &offset));

    /* Within the process it can be found all the same. */
    mscclpp_shmseg_hide(segment);
    mscclpp_shmseg_hide(segment);
    CHECK_EQ(count_descriptors(), descriptors);
    CHECK_EQ(count_mappings(), 1);
    CHECK(!mscclpp_shmseg_locate(base + 5, 99996, &located, &offset));
    REQUIRE(mscclpp_shmseg_attach(&descriptor, &other) == MSCCLPP_OK);
    CHECK(mscclpp_shmseg_base(other) == base);
    mscclpp_shmseg_detach(other);

    /* The creator lets go first. */
    base[100000] = 7;
    mscclpp_shmseg_detach(segment);
    CHECK_EQ(count_mappings(), 1);
    CHECK_EQ(((unsigned char *)mscclpp_shmseg_base(same))[100000], 7);
    mscclpp_shmseg_detach(same);
    CHECK_EQ(count_mappings(), 0);
    CHECK_EQ(count_descriptors(), descriptors);
    CHECK_EQ(mscclpp_shmseg_attach(&descriptor, &other), MSCCLPP_ERR_NOT_SUPPORTED);
    mscclpp_shmseg_detach(NULL);

    unit_expect_log();
    CHECK_EQ(mscclpp_shmseg_create(0, &other), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 1);
    unit_expect_log();
    CHECK(mscclpp_shmseg_create((size_t)1 << 62, &other) < 0);
    CHECK_EQ(unit_logged(), 0); /* whoever wants the memory says what follows */
    CHECK_EQ(count_descriptors(), descriptors);
}

static void wait_byte(int fd)
{
    char byte;

    REQUIRE(read(fd, &byte, 1) == 1);
}

static void put_byte(int fd)
{
    REQUIRE(write(fd, "x", 1) == 1);
}

/* Started before the segment exists, so that nothing of it is inherited. */
static int descriptor_pipe[2], done_pipe[2];

static void attach_in_child(void *argument)
{
    mscclpp_shmseg_descriptor_t descriptor, wrong;
    mscclpp_shmseg_t *segment, *again;
    int descriptors = count_descriptors();
    unsigned char *base;

    (void)argument;
    REQUIRE(read(descriptor_pipe[0], &descriptor, sizeof(descriptor)) == sizeof(descriptor));
    CHECK(!mscclpp_process_is_self(descriptor.pid, descriptor.token));
    REQUIRE(mscclpp_shmseg_attach(&descriptor, &segment) == MSCCLPP_OK);
    REQUIRE(mscclpp_shmseg_attach(&descriptor, &again) == MSCCLPP_OK);
    base = mscclpp_shmseg_base(segment);
    CHECK(mscclpp_shmseg_base(again) == base);
    CHECK_EQ(count_mappings(), 1);
    CHECK_EQ(base[12345], 42);
    base[12346] = 43;
    mscclpp_shmseg_detach(again);
    CHECK_EQ(base[12345], 42);
    mscclpp_shmseg_detach(segment);
    CHECK_EQ(count_mappings(), 0);

    /* Whatever is not the described segment is refused, whichever part gives it away. */
    for (int i = 0; i < 7; ++i) {
        wrong = descriptor;
        wrong.id += i == 0;
        wrong.token += i == 1;
        wrong.ino += i == 2;
        wrong.dev += i == 3;
        wrong.length += i == 4;
        wrong.fd = i == 5 ? 0 : wrong.fd;
        wrong.pid = i == 6 ? 0x7ffffffe : wrong.pid;
        CHECK_EQ(mscclpp_shmseg_attach(&wrong, &segment), MSCCLPP_ERR_NOT_SUPPORTED);
    }
    put_byte(done_pipe[1]);

    /* By now the creator has dropped it, and another segment may have its descriptor number. */
    REQUIRE(read(descriptor_pipe[0], &wrong, sizeof(wrong)) == sizeof(wrong));
    CHECK_EQ(wrong.fd, descriptor.fd);
    CHECK_EQ(mscclpp_shmseg_attach(&descriptor, &segment), MSCCLPP_ERR_NOT_SUPPORTED);
    REQUIRE(mscclpp_shmseg_attach(&wrong, &segment) == MSCCLPP_OK);
    mscclpp_shmseg_hide(segment);
    mscclpp_shmseg_detach(segment);
    put_byte(done_pipe[1]);

    /* One that is hidden. */
    REQUIRE(read(descriptor_pipe[0], &wrong, sizeof(wrong)) == sizeof(wrong));
    CHECK_EQ(mscclpp_shmseg_attach(&wrong, &segment), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK_EQ(count_descriptors(), descriptors);
}

static void test_two_processes(void)
{
    mscclpp_shmseg_descriptor_t descriptor;
    mscclpp_shmseg_t *segment;
    unsigned char *base;
    pid_t pid;

    REQUIRE(pipe(descriptor_pipe) == 0 && pipe(done_pipe) == 0);
    pid = unit_fork(attach_in_child, NULL);
    REQUIRE(mscclpp_shmseg_create(20000, &segment) == MSCCLPP_OK);
    base = mscclpp_shmseg_base(segment);
    base[12345] = 42;
    mscclpp_shmseg_describe(segment, &descriptor);
    REQUIRE(write(descriptor_pipe[1], &descriptor, sizeof(descriptor)) == sizeof(descriptor));
    wait_byte(done_pipe[0]);
    CHECK_EQ(base[12346], 43);
    mscclpp_shmseg_detach(segment);
    REQUIRE(mscclpp_shmseg_create(20000, &segment) == MSCCLPP_OK);
    mscclpp_shmseg_describe(segment, &descriptor);
    REQUIRE(write(descriptor_pipe[1], &descriptor, sizeof(descriptor)) == sizeof(descriptor));
    wait_byte(done_pipe[0]);
    mscclpp_shmseg_hide(segment);
    REQUIRE(write(descriptor_pipe[1], &descriptor, sizeof(descriptor)) == sizeof(descriptor));
    unit_join(pid);
    mscclpp_shmseg_detach(segment);
}

/* A child after fork is a process of its own: its tokens and segments are not its parent's. */
static uint64_t parent_token;

static void look_at_token(void *argument)
{
    (void)argument;
    CHECK(mscclpp_process_token() != parent_token);
    CHECK_EQ(mscclpp_process_token(), mscclpp_process_token());
    CHECK(!mscclpp_process_is_self(getppid(), parent_token));
}

static void test_tokens(void)
{
    parent_token = mscclpp_process_token();
    CHECK(parent_token != 0);
    CHECK(parent_token == mscclpp_process_token());
    CHECK(mscclpp_process_is_self(getpid(), parent_token));
    CHECK(!mscclpp_process_is_self(getpid(), parent_token + 1));
    CHECK(!mscclpp_process_is_self(getpid() + 1, parent_token));
    unit_join(unit_fork(look_at_token, NULL));
}

#define THREADS 4
#define TURNS 300

static mscclpp_shmseg_descriptor_t shared;
static void *shared_base;

static void *attach_and_detach(void *argument)
{
    (void)argument;
    for (int i = 0; i < TURNS; ++i) {
        mscclpp_shmseg_t *segment, *own;
        if (mscclpp_shmseg_attach(&shared, &segment) != MSCCLPP_OK || mscclpp_shmseg_create(4096, &own) != MSCCLPP_OK) {
            CHECK(!"attached and created");
            return NULL;
        }
        if (mscclpp_shmseg_base(segment) != shared_base) {
            CHECK(!"one address");
        }
        mscclpp_shmseg_detach(segment);
        mscclpp_shmseg_detach(own);
    }
    return NULL;
}

static void test_threads(void)
{
    int descriptors = count_descriptors();
    pthread_t threads[THREADS];
    mscclpp_shmseg_t *segment;

    REQUIRE(mscclpp_shmseg_create(4096, &segment) == MSCCLPP_OK);
    mscclpp_shmseg_describe(segment, &shared);
    shared_base = mscclpp_shmseg_base(segment);
    for (int i = 0; i < THREADS; ++i) {
        REQUIRE(pthread_create(&threads[i], NULL, attach_and_detach, NULL) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    mscclpp_shmseg_detach(segment);
    CHECK_EQ(count_mappings(), 0);
    CHECK_EQ(count_descriptors(), descriptors);
}

int main(void)
{
    unit_begin();
    test_tokens();
    test_one_process();
    test_two_processes();
    test_threads();
    return unit_end();
}
