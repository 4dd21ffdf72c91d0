/* A driver that is there is left alone until the application has initialised it. */
#include <dlfcn.h>
#include <limits.h>
#include <sys/mman.h>

#include "mca/common/gpu/gpu.h"
#include "test/unit/mock_cuda.h"
#include "test/unit/unit.h"

#define LIBRARY "libcuda.so.1"
#define FOLDER "MSCCLPP_TEST_FOLDER"

static const mscclpp_gpu_ops_t *const ops = &mscclpp_gpu_cuda_ops;
static char mapped_path[PATH_MAX];

/* Starts this program anew, where the loader finds the mock under the name of the driver's library. */
static void start_with_mock(char **arguments)
{
    char folder[] = "/tmp/mscclpp_unit.XXXXXX";

    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(mapped_path, sizeof(mapped_path), "%s/" LIBRARY, folder);
    REQUIRE(symlink(MOCK_CUDA_LIBRARY, mapped_path) == 0);
    setenv(FOLDER, folder, 1);
    setenv("LD_LIBRARY_PATH", folder, 1);
    execv("/proc/self/exe", arguments);
    REQUIRE(!"this program can be started anew");
}

static void remove_mock(const char *folder)
{
    snprintf(mapped_path, sizeof(mapped_path), "%s/" LIBRARY, folder);
    CHECK_EQ(unlink(mapped_path), 0);
    CHECK_EQ(rmdir(folder), 0);
}

static bool is_loaded(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);

    if (library != NULL) {
        dlclose(library);
    }
    return library != NULL;
}

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);

    REQUIRE(found != NULL);
    return found;
}

static void test_open_later(void)
{
    const mscclpp_gpu_ops_t *opened = NULL;

    /* By name it is probed for at once; "auto" can do without where a device is likely. */
    if (ops->is_likely()) {
        CHECK_EQ(mscclpp_gpu_open_later("auto", &opened), MSCCLPP_OK);
        CHECK(opened == ops);
    } else {
        printf("skipped: there is no device in /dev\n");
    }
    CHECK(!is_loaded());
}

static void *ask_often(void *address)
{
    for (int i = 0; i < 1000; ++i) {
        CHECK(!ops->is_device(address, NULL));
    }
    return NULL;
}

static void test_questions(void)
{
    static char own;
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*questions)(void), (*probes)(void), asked, probed;
    void (*initialise)(void);
    pthread_t threads[4];
    void *library;

    REQUIRE(mapped != MAP_FAILED);
    CHECK(!ops->is_device(&own, NULL));
    CHECK(!ops->is_device(NULL, NULL));
    CHECK(!is_loaded());

    /* Only the library can tell of memory that is not certain. It is not initialised by that. */
    CHECK(!ops->is_device(mapped, NULL));
    CHECK(is_loaded());
    library = dlopen(LIBRARY, RTLD_LAZY);
    REQUIRE(library != NULL);
    *(void **)&questions = function(library, "mock_cuda_questions");
    *(void **)&probes = function(library, "mock_cuda_probes");
    *(void **)&initialise = function(library, "mock_cuda_initialise");
    CHECK_EQ(questions(), 1);
    CHECK(!ops->is_device(mapped, NULL));
    CHECK_EQ(questions(), 2);
    CHECK_EQ(probes(), 0);

    /* Once the application has, what there is to be known is found out once, also by several threads. */
    initialise();
    unit_expect_log();
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_INFO);
    for (int i = 0; i < 4; ++i) {
        CHECK_EQ(pthread_create(&threads[i], NULL, ask_often, mapped), 0);
    }
    for (int i = 0; i < 4; ++i) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(unit_logged(), 1);
    CHECK(strstr(unit_last_line, "CUDA is in use") != NULL);
    probed = probes();
    asked = questions();
    CHECK(probed > 0);
    CHECK(!ops->is_device(mapped, NULL));
    CHECK_EQ(probes(), probed);
    CHECK_EQ(questions(), asked + 1);
    CHECK(!ops->is_device(&own, NULL));
    CHECK_EQ(questions(), asked + 1);
    dlclose(library);
    munmap(mapped, 4096);
}

int main(int argc, char **argv)
{
    const char *folder = getenv(FOLDER);

    (void)argc;
    unit_begin();
    if (folder == NULL) {
        start_with_mock(argv);
    }
    test_open_later();
    test_questions();
    remove_mock(folder);
    return unit_end();
}
