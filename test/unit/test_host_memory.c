#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "mca/common/base/host_memory.h"
#include "test/unit/unit.h"

#define PAGES ((size_t)64 << 10)

static char variable[3] = "ab";
static char zeroed[1 << 20];

/* Not a local variable's address: sanitizers put some of those elsewhere. */
#define IN_FRAME() __builtin_frame_address(0)

static void *map(void *where, size_t size)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where != NULL ? MAP_FIXED_NOREPLACE : 0);
    void *found = mmap(where, size, PROT_READ | PROT_WRITE, flags, -1, 0);

    REQUIRE(found != MAP_FAILED);
    return found;
}

static __attribute__((noinline)) void check_from_deeper(const char *outer)
{
    CHECK(mscclpp_host_memory_is_certain(outer));
    /* Below the running function there is no variable of anybody's. */
    CHECK(!mscclpp_host_memory_is_certain((const char *)IN_FRAME() - (1 << 16)));
}

static void *check_stack(void *mains)
{
    check_from_deeper(IN_FRAME());
    if (mains != NULL) {
        CHECK(!mscclpp_host_memory_is_certain(mains));
    }
    return NULL;
}

static void test_stacks(void)
{
    const size_t size = 16 << 20; /* with room for what sanitizers take */
    pthread_attr_t attributes;
    pthread_t thread;
    char *own = map(NULL, size);

    check_stack(NULL);
    CHECK_EQ(pthread_create(&thread, NULL, check_stack, IN_FRAME()), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);

    /* A stack within a mapping of the program's own is the thread's; what lies behind it is not. */
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstack(&attributes, own, size / 2), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, check_stack, own + size / 2), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    CHECK(!mscclpp_host_memory_is_certain(own + size / 4));
    munmap(own, size);
}

static const char *behind;  /* the stack of the handler */
static const char *outside; /* the thread's own frame */
static volatile sig_atomic_t handled;

/* Runs below what it asks about, as on a thread's stack, but it is none. */
static void on_other_stack(int signal)
{
    const char *frame = IN_FRAME();

    (void)signal;
    CHECK(frame < behind);
    CHECK(!mscclpp_host_memory_is_certain(frame));
    CHECK(!mscclpp_host_memory_is_certain(behind));
    (void)mscclpp_host_memory_is_certain(outside);
    handled = 1;
}

static void test_other_stack(void)
{
    const size_t size = 1 << 20;
    char *mapping = map(NULL, size);
    stack_t former, other = {.ss_sp = mapping, .ss_size = size / 2};
    struct sigaction before, action = {.sa_handler = on_other_stack, .sa_flags = SA_ONSTACK};

    behind = mapping + size - 1;
    outside = IN_FRAME();
    REQUIRE(sigaltstack(&other, &former) == 0 && sigaction(SIGUSR1, &action, &before) == 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK(handled);
    CHECK(mscclpp_host_memory_is_certain(outside));
    REQUIRE(sigaction(SIGUSR1, &before, NULL) == 0 && sigaltstack(&former, NULL) == 0);
    munmap(mapping, size);
}

static void test_program(void)
{
    void *library = dlopen("libresolv.so.2", RTLD_NOW);

    CHECK(mscclpp_host_memory_is_certain(variable));
    CHECK(mscclpp_host_memory_is_certain(zeroed));
    CHECK(mscclpp_host_memory_is_certain(&zeroed[sizeof(zeroed) - 1]));
    CHECK(!mscclpp_host_memory_is_certain(NULL));
    CHECK(!mscclpp_host_memory_is_certain(stdout)); /* the C library's variable, wherever the pointer to it is */

    if (library != NULL) {
        struct link_map *loaded = NULL;

        REQUIRE(dlinfo(library, RTLD_DI_LINKMAP, &loaded) == 0 && loaded != NULL);
        CHECK(!mscclpp_host_memory_is_certain(loaded->l_ld)); /* in its data */
        dlclose(library);
    } else {
        printf("skipped: a library that is loaded by name: %s\n", dlerror());
    }
}

/* Nothing in here may move the break by itself. */
static void test_break(void)
{
    char *begin = sbrk(PAGES);
    char *last = begin + PAGES - 1;
    bool held, grown, shrunk, below;
    void *mapping;

    REQUIRE(begin != (void *)-1);
    held = mscclpp_host_memory_is_certain(begin) && mscclpp_host_memory_is_certain(last);
    CHECK(held);
    CHECK(!mscclpp_host_memory_is_certain(last + 1));

    grown = sbrk(PAGES) == last + 1 && mscclpp_host_memory_is_certain(last + PAGES);
    shrunk = sbrk(-(intptr_t)PAGES) != (void *)-1 && !mscclpp_host_memory_is_certain(last + PAGES) &&
             !mscclpp_host_memory_is_certain(last + 1);
    below = mscclpp_host_memory_is_certain(last);
    CHECK(grown);
    CHECK(shrunk);
    CHECK(below);

    /* Right behind the heap. */
    mapping = map(last + 1, PAGES);
    CHECK(!mscclpp_host_memory_is_certain(mapping));
    CHECK(!mscclpp_host_memory_is_certain((char *)mapping + PAGES - 1));
    munmap(mapping, PAGES);

    /* The gap in front of the heap and of the program. */
    CHECK(!mscclpp_host_memory_is_certain((void *)(uintptr_t)4096));
}

static void *allocate(void *pointer_p)
{
    *(void **)pointer_p = malloc(64);
    return NULL;
}

/* What glibc's malloc does. */
static void test_malloc(void)
{
    static char *blocks[2048];
    const size_t size = 16 << 10;
    char *top = NULL, *large = malloc((size_t)64 << 20);
    pthread_t thread;
    void *others;

    /* A heap that grows. */
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        CHECK(mscclpp_host_memory_is_certain(blocks[i]));
        CHECK(mscclpp_host_memory_is_certain(blocks[i] + size - 1));
        top = blocks[i] > top ? blocks[i] : top;
    }
    REQUIRE(large != NULL);
    CHECK(!mscclpp_host_memory_is_certain(large)); /* a mapping of its own */

    /* Another thread has a heap of its own, which is mapped. */
    CHECK_EQ(pthread_create(&thread, NULL, allocate, &others), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    REQUIRE(others != NULL);
    CHECK(!mscclpp_host_memory_is_certain(others));

    free(others);
    free(large);
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
        free(blocks[i]);
    }
    CHECK_EQ(malloc_trim(0), 1);
    CHECK(top > (char *)sbrk(0));
    CHECK(!mscclpp_host_memory_is_certain(top));
}

static void test_mappings(void)
{
    int fd = memfd_create("unit", 0);
    void *private = map(NULL, PAGES);
    void *shared = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *low = mmap((void *)((uintptr_t)8 << 30), PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(fd >= 0 && ftruncate(fd, (off_t)PAGES) == 0 && shared != MAP_FAILED && low != MAP_FAILED);
    CHECK(!mscclpp_host_memory_is_certain(private));
    CHECK(!mscclpp_host_memory_is_certain(shared));
    CHECK(!mscclpp_host_memory_is_certain(low));
    munmap(private, PAGES);
    munmap(shared, PAGES);
    munmap(low, PAGES);
    close(fd);
}

/* Forked by a thread that is not the main one, whose stack then is the child's. */
static void check_child(void *argument)
{
    (void)argument;
    check_stack(NULL);
    CHECK(mscclpp_host_memory_is_certain(variable));
}

static void *fork_from_thread(void *argument)
{
    (void)argument;
    unit_join(unit_fork(check_child, NULL));
    return NULL;
}

int main(void)
{
    pthread_t thread;

    unit_begin();
    /* So that there is such a heap also where another allocator serves malloc. */
    REQUIRE(sbrk(PAGES) != (void *)-1);
    test_program();
    test_stacks();
    test_other_stack();
    test_break();
    if (!UNIT_SANITIZED) {
        test_malloc();
    }
    test_mappings();
    CHECK_EQ(pthread_create(&thread, NULL, fork_from_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return unit_end();
}
