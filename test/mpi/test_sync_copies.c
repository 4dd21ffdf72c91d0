/*
 * What an application has copied or set without naming a stream before a call is what the call reads; the result of the
 * call overtakes nothing that such a copy still reads or writes; and copies right after the call find the result.
 * Usage: test_sync_copies PATH [ROUNDS] [--kind KIND] [--before WHAT] [--late]
 *
 * PATH says which collective is called, how, and who has to serve it; the parameters that lead there are for the caller
 * to set. ROUNDS in all (default 1040) are spread over the kinds of memory and over what is done before the call. Each
 * round has contents of its own. --late: the twin's copies return early, and must be found to (see mpi_copies.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_copies.h"
#include "test/mpi/mpi_cuda.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/sync_model.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT_INIT(Name_) MPIX_##Name_##_init
#else
#define PERSISTENT_INIT(Name_) MPI_##Name_##_init
#endif

#define ROUNDS 1040
#define BURST 3 /* calls after which a kernel lingers */
#define WORD sizeof(unsigned)

typedef struct {
    uint64_t rounds;
    uint64_t wrong;
    uint64_t rung; /* of the calls that are looked at */
} totals_t;

static const mt_kind_t kinds[] = {MT_DEVICE, MT_POOL, MT_MAPPED, MT_MANAGED};

static mt_buffer_t operand;
static mt_buffer_t result;
static MPI_Request requests[SIZES]; /* on these buffers */
static mt_buffer_t zeros;           /* for calls that are not looked at */
static mt_buffer_t source;          /* of copies on the device */
static mt_buffer_t snapshot;
static mt_buffer_t copied; /* the result, once more */
static char *host;         /* source of pageable copies */
static unsigned *read_back;

static const mt_copies_t *families;
static int family_count;

static void report(const round_t *round, const char *what, size_t index, unsigned got, unsigned wanted)
{
    size_t byte = 0;

    while (((const unsigned char *)&got)[byte] == ((const unsigned char *)&wanted)[byte]) {
        ++byte;
    }
    mt_fail(__FILE__, __LINE__,
            "wrong: path %s, before %s%s, kind %s, round %d, rank %d, %zu bytes, %s%s%s: first wrong byte of the %s: "
            "%zu, of a word that is 0x%08x and not 0x%08x",
            round->path->name, round->before->name, round->alone ? " of no more than that" : "",
            mt_kind_name(round->kind), round->number, mt_rank, WORD * round->words, round->copies->name,
            round->fresh ? ", first call" : "", round->again ? ", copied on the device" : "", what, WORD * index + byte,
            got, wanted);
}

/* Compares words of the device with what is expected from that index on. */
static bool compare(const round_t *round, const char *what, const char *from, size_t index, size_t words,
                    sy_expect_fn_t expect)
{
    MT_COPY(round->copies->to_host((uintptr_t)read_back, (uintptr_t)(from + WORD * index), WORD * words));
    for (size_t i = 0; i < words; ++i) {
        unsigned wanted = expect(round, index + i);
        if (read_back[i] != wanted) {
            report(round, what, index + i, read_back[i], wanted);
            return false;
        }
    }
    return true;
}

/* All words; or the last ones, as these are copied last, the first and one between them. */
static bool look_at(const round_t *round, const char *what, const char *from, size_t words, sy_expect_fn_t expect)
{
    if (round->full || words <= PART) {
        return compare(round, what, from, 0, words, expect);
    }
    return compare(round, what, from, words - PART, PART, expect) && compare(round, what, from, 0, 1, expect) &&
           compare(round, what, from, words / 2, 1, expect);
}

static const mt_buffer_t *target(const round_t *round)
{
    return OPERAND == round->before->target ? &operand : &result;
}

/* A copy that has ended when this returns, and that is ordered with no other one. */
static void put(const mt_buffer_t *buffer, size_t offset, size_t size)
{
    mt_buffer_t part = *buffer;

    part.data += offset;
    mt_buffer_put(&part, host + offset, size);
}

static void put_image(const round_t *round, const mt_buffer_t *buffer, image_t image)
{
    sy_fill(host + round->offset, image, round->words);
    put(buffer, round->offset, WORD * round->words);
}

/* All that has to be in place before the copy in question. */
static void prepare(const round_t *round)
{
    const size_t beside = round->offset - WORD * PART;

    if (RESULT == round->before->target) {
        put_image(round, &operand, sy_operand(round, mt_rank));
    }
    switch (round->before->act) {
    case FROM_HOST:
        sy_fill(host + round->offset, sy_target(round), round->words);
        break;
    case FROM_DEVICE:
        put_image(round, &source, sy_target(round));
        break;
    case SNAPSHOT:
        put_image(round, target(round), sy_target(round));
        break;
    case BESIDE_BY_HOST:
    case BESIDE_BY_DEVICE:
        put_image(round, target(round), sy_target(round));
        sy_fill(host + beside, sy_beside(round), PART);
        if (BESIDE_BY_DEVICE == round->before->act) {
            put(&source, beside, WORD * PART);
        }
        break;
    default:
        break;
    }
}

/* The copy in question. */
static void act(const round_t *round)
{
    const mt_copies_t *copies = round->copies;
    const size_t first = round->alone ? round->offset : 0, size = round->bytes - first;
    const uintptr_t whole = (uintptr_t)target(round)->data, buffer = whole + first;

    switch (round->before->act) {
    case FROM_HOST:
        MT_COPY(copies->to_device(buffer, (uintptr_t)(host + first), size));
        break;
    case FROM_DEVICE:
        MT_COPY(copies->on_device(buffer, (uintptr_t)(source.data + first), size));
        break;
    case SET:
        MT_COPY(copies->set(buffer, (unsigned char)sy_target(round).base, size));
        break;
    case SNAPSHOT:
        MT_COPY(copies->on_device((uintptr_t)(snapshot.data + first), buffer, size));
        break;
    case BESIDE_BY_HOST:
        MT_COPY(copies->to_device(whole, (uintptr_t)host, round->offset));
        break;
    case BESIDE_BY_DEVICE:
        MT_COPY(copies->on_device(whole, (uintptr_t)source.data, round->offset));
        break;
    }
}

static const void *operand_at(const round_t *round)
{
    size_t block = ALLGATHER == round->path->collective ? WORD * (size_t)(mt_rank * round->count) : 0;

    return IN_PLACE == round->before->target ? MPI_IN_PLACE : operand.data + round->offset + block;
}

static void *result_at(const round_t *round)
{
    return result.data + round->offset;
}

static void make_request(const round_t *round)
{
    const int count = round->count;
    MPI_Request *request = &requests[round->size];

    if (PERSISTENT != round->path->manner || MPI_REQUEST_NULL != *request) {
        return;
    }
    if (ALLGATHER == round->path->collective) {
        MT_MPI(PERSISTENT_INIT(Allgather)(operand_at(round), count, MPI_INT, result_at(round), count, MPI_INT,
                                          MPI_COMM_WORLD, MPI_INFO_NULL, request));
    } else {
        MT_MPI(PERSISTENT_INIT(Allreduce)(operand_at(round), result_at(round), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                          MPI_INFO_NULL, request));
    }
}

static void call_with_request(const round_t *round)
{
    const int count = round->count;
    MPI_Request own, *request = &own;

    if (PERSISTENT == round->path->manner) {
        request = &requests[round->size];
        MT_MPI(MPI_Start(request));
    } else if (ALLGATHER == round->path->collective) {
        MT_MPI(MPI_Iallgather(operand_at(round), count, MPI_INT, result_at(round), count, MPI_INT, MPI_COMM_WORLD,
                              request));
    } else {
        MT_MPI(MPI_Iallreduce(operand_at(round), result_at(round), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request));
    }
    MT_MPI(MPI_Wait(request, MPI_STATUS_IGNORE));
}

static void call(const round_t *round)
{
    const int count = round->count;

    if (BLOCKING != round->path->manner) {
        call_with_request(round);
        return;
    }
    switch (round->path->collective) {
    case BCAST:
        MT_MPI(MPI_Bcast(result_at(round), count, MPI_INT, round->number % mt_size, MPI_COMM_WORLD));
        break;
    case ALLGATHER:
        MT_MPI(MPI_Allgather(operand_at(round), count, MPI_INT, result_at(round), count, MPI_INT, MPI_COMM_WORLD));
        break;
    case ALLTOALL:
        MT_MPI(MPI_Alltoall(operand_at(round), count, MPI_INT, result_at(round), count, MPI_INT, MPI_COMM_WORLD));
        break;
    case REDUCE_SCATTER:
        MT_MPI(MPI_Reduce_scatter_block(operand_at(round), result_at(round), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        break;
    default:
        MT_MPI(MPI_Allreduce(operand_at(round), result_at(round), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        break;
    }
}

static bool check(const round_t *round)
{
    const size_t beside = round->offset - WORD * PART;
    const char *from = result_at(round);
    bool right;

    if (round->again) {
        MT_COPY(round->copies->on_device((uintptr_t)copied.data, (uintptr_t)from, WORD * round->results));
        from = copied.data;
    }
    right = look_at(round, "result", from, round->results, sy_expect_result);
    if (SNAPSHOT == round->before->act) {
        return look_at(round, "snapshot", snapshot.data + round->offset, round->words, sy_expect_snapshot) && right;
    }
    if (BESIDE_BY_HOST == round->before->act || BESIDE_BY_DEVICE == round->before->act) {
        return look_at(round, "part beside", result.data + beside, PART, sy_expect_beside) && right;
    }
    return right;
}

static void free_buffers(void)
{
    for (int i = 0; i < SIZES; ++i) {
        if (MPI_REQUEST_NULL != requests[i]) {
            MT_MPI(MPI_Request_free(&requests[i]));
        }
    }
    if (operand.base != NULL) {
        mt_buffer_free(&operand, "operand");
    }
    if (result.base != NULL) {
        mt_buffer_free(&result, "result");
    }
}

static void renew_buffers(const round_t *round)
{
    free_buffers();
    result = mt_buffer_alloc(round->kind, round->bytes, 0);
    if (IN_PLACE != round->before->target) {
        operand = mt_buffer_alloc(round->kind, round->bytes, 0);
    }
}

/* Calls that follow closely and that no copy goes before, so that a kernel for such calls lingers. */
static void burst(const round_t *round)
{
    for (int i = 0; i < BURST; ++i) {
        MT_MPI(MPI_Allreduce(MPI_IN_PLACE, zeros.data, round->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    }
}

static void run_round(const round_t *round, totals_t *totals)
{
    uint64_t rung;

    if (round->fresh) {
        renew_buffers(round);
    }
    make_request(round);
    prepare(round);
    if (BY_LINGERING == round->path->server) {
        burst(round);
    }
    rung = mt_rung(MPI_COMM_WORLD);
    act(round);
    call(round);
    totals->wrong += check(round) ? 0 : 1;
    totals->rung += mt_rung(MPI_COMM_WORLD) - rung;
    totals->rounds += 1;
}

/* Nothing is shown if somebody else served the calls. */
static void check_server(const round_t *round, const totals_t *own, uint64_t served, uint64_t staged)
{
    const bool by_staging = BY_STAGING == round->path->server;
    const uint64_t wanted = own->rounds * (BY_LINGERING == round->path->server ? 1 + BURST : 1);
    const uint64_t found = by_staging ? staged : served;

    MT_CHECK(found == wanted, "path %s, before %s, kind %s: %llu of %llu calls were %s", round->path->name,
             round->before->name, mt_kind_name(round->kind), (unsigned long long)found, (unsigned long long)wanted,
             by_staging ? "staged" : "served by kernels");
    MT_CHECK(BY_LAUNCHES != round->path->server || 0 == own->rung, "path %s: %llu calls without a launch",
             round->path->name, (unsigned long long)own->rung);
}

static uint64_t sum_over_ranks(uint64_t own)
{
    uint64_t all[RANKS_MAX], sum = 0;

    mt_allgather(MPI_COMM_WORLD, &own, all, sizeof(own));
    for (int i = 0; i < mt_size; ++i) {
        sum += all[i];
    }
    return sum;
}

/* Of one kind of memory and one thing that is done before the call. */
static void run_rounds(round_t *round, int rounds, totals_t *totals)
{
    const uint64_t served = mt_served(MPI_COMM_WORLD), staged = mt_staged(MPI_COMM_WORLD);
    totals_t own = {0};
    uint64_t wrong;

    for (int i = 0; i < rounds; ++i) {
        round->number = (int)totals->rounds + i;
        sy_describe(round, i, families, family_count);
        run_round(round, &own);
    }
    free_buffers();
    check_server(round, &own, mt_served(MPI_COMM_WORLD) - served, mt_staged(MPI_COMM_WORLD) - staged);
    wrong = sum_over_ranks(own.wrong);
    if (0 == mt_rank && wrong > 0) {
        printf("%s, %s, %s: %llu of %llu wrong\n", round->path->name, round->before->name, mt_kind_name(round->kind),
               (unsigned long long)wrong, (unsigned long long)own.rounds * (unsigned long long)mt_size);
    }
    totals->rounds += own.rounds;
    totals->wrong += wrong;
    totals->rung += own.rung;
}

typedef struct {
    const path_t *path;
    int rounds;
    const char *kind;   /* NULL: all */
    const char *before; /* NULL: all */
    bool late;
} options_t;

/* The number-th kind and thing done before that the options ask for; false if there are not so many. */
static bool choose(const options_t *options, int number, round_t *round)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        if (!mt_kind_exists(kinds[i]) ||
            (options->kind != NULL && 0 != strcmp(options->kind, mt_kind_name(kinds[i])))) {
            continue;
        }
        for (int k = 0; k < sy_before_count; ++k) {
            const before_t *before = &sy_befores[k];
            if (sy_applies(options->path, before) &&
                (options->before == NULL || 0 == strcmp(options->before, before->name)) && 0 == number--) {
                round->path = options->path;
                round->before = before;
                round->kind = kinds[i];
                return true;
            }
        }
    }
    return false;
}

static void run_all(const options_t *options)
{
    const size_t bytes = sy_max_bytes(options->path);
    const double start = mt_now();
    totals_t totals = {0};
    round_t round;
    uint64_t part;
    int cases = 0;

    zeros = mt_buffer_alloc(MT_DEVICE, sy_bytes(options->path, &sy_befores[0]), 0);
    mt_buffer_set(&zeros, 0);
    source = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    snapshot = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    copied = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    host = mt_host_alloc(bytes);
    read_back = mt_host_alloc(bytes);
    for (int i = 0; i < SIZES; ++i) {
        requests[i] = MPI_REQUEST_NULL;
    }
    while (choose(options, cases, &round)) {
        ++cases;
    }
    for (int i = 0; i < cases; ++i) {
        int share = options->rounds / cases + (i < options->rounds % cases ? 1 : 0);
        memset(&round, 0, sizeof(round));
        if (share > 0 && choose(options, i, &round)) {
            run_rounds(&round, share, &totals);
        }
    }
    /* In place these read a copy that is made before the kernel, which is launched behind it. */
    part = ALLTOALL == options->path->collective || REDUCE_SCATTER == options->path->collective ? 8 : 4;
    MT_CHECK(BY_LINGERING != options->path->server || part * totals.rung >= totals.rounds,
             "path %s: a lingering kernel served %llu of %llu calls only", options->path->name,
             (unsigned long long)totals.rung, (unsigned long long)totals.rounds);
    if (0 == mt_rank) {
        printf("%s: %llu rounds of %d ranks, %llu wrong, %llu without a launch, %.1f s\n", options->path->name,
               (unsigned long long)totals.rounds, mt_size, (unsigned long long)totals.wrong,
               (unsigned long long)totals.rung, mt_now() - start);
    }
    mt_buffer_free(&zeros, "buffer of the calls before");
    mt_buffer_free(&source, "source");
    mt_buffer_free(&snapshot, "snapshot");
    mt_buffer_free(&copied, "copy of the result");
    free(host);
    free(read_back);
}

/* Ranks are all given the same, so one of them says it. */
static bool refuse(const char *what, const char *value, const char *allowed)
{
    MT_CHECK(0 != mt_rank, "%s \"%s\" is not allowed; use %s", what, value, allowed);
    return false;
}

static void append(char *text, size_t size, const char *word)
{
    size_t length = strlen(text);

    snprintf(text + length, size - length, "%s%s", 0 == length ? "" : ", ", word);
}

static const path_t *find_path(const char *name)
{
    char allowed[512] = "";

    for (int i = 0; i < sy_path_count; ++i) {
        append(allowed, sizeof(allowed), sy_paths[i].name);
        if (0 == strcmp(name, sy_paths[i].name)) {
            return &sy_paths[i];
        }
    }
    refuse("path", name, allowed);
    return NULL;
}

static bool check_before(const options_t *options)
{
    char allowed[256] = "";

    for (int i = 0; i < sy_before_count; ++i) {
        if (sy_applies(options->path, &sy_befores[i])) {
            append(allowed, sizeof(allowed), sy_befores[i].name);
            if (options->before == NULL || 0 == strcmp(options->before, sy_befores[i].name)) {
                return true;
            }
        }
    }
    return refuse("--before", options->before, allowed);
}

static bool check_kind(const options_t *options)
{
    char allowed[64] = "";

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        if (mt_kind_exists(kinds[i])) {
            append(allowed, sizeof(allowed), mt_kind_name(kinds[i]));
            if (options->kind == NULL || 0 == strcmp(options->kind, mt_kind_name(kinds[i]))) {
                return true;
            }
        }
    }
    return refuse("--kind", options->kind, allowed);
}

static bool read_options(int argc, char **argv, options_t *options)
{
    int next = 2;

    options->path = find_path(argc > 1 ? argv[1] : "");
    if (options->path == NULL) {
        return false;
    }
    if (argc > 2 && '-' != argv[2][0]) {
        char *end;
        long rounds = strtol(argv[2], &end, 10);
        if ('\0' != *end || rounds < 1 || rounds > 1 << 20) {
            return refuse("number of rounds", argv[2], "1 to 1048576");
        }
        options->rounds = (int)rounds;
        next = 3;
    }
    for (; next < argc; ++next) {
        if (0 == strcmp(argv[next], "--late") && mt_twin) {
            options->late = true;
        } else if (0 == strcmp(argv[next], "--kind") && next + 1 < argc) {
            options->kind = argv[++next];
        } else if (0 == strcmp(argv[next], "--before") && next + 1 < argc) {
            options->before = argv[++next];
        } else {
            return refuse("option", argv[next], "--kind KIND, --before WHAT or, on the twin, --late");
        }
    }
    return check_kind(options) && check_before(options);
}

/* Kernels that take turns on a GPU would each linger while the others are waited for. */
static bool cannot_linger(const char *path)
{
    if (mt_twin || 0 != strcmp(path, "linger") || mt_cuda_devices() >= mt_size || mt_cuda_mps()) {
        return false;
    }
    if (0 == mt_rank) {
        printf("skipped: without MPS kernels do not linger where ranks share a GPU; %d ranks, %d GPUs\n", mt_size,
               mt_cuda_devices());
    }
    return true;
}

int main(int argc, char **argv)
{
    options_t options = {.rounds = ROUNDS};

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2) || cannot_linger(argc > 1 ? argv[1] : "")) {
        (void)mt_finish();
        return MT_SKIPPED;
    }
    MT_CHECK(mt_size <= RANKS_MAX, "%d ranks are not allowed; use 2 to %d", mt_size, RANKS_MAX);
    if (0 == mt_failures() && read_options(argc, argv, &options)) {
        const path_t *path = options.path;
        MT_CHECK(path->parameter == NULL || mt_parameter_is(path->parameter, path->value),
                 "path %s needs coll_mscclpp_%s %s", path->name, path->parameter, path->value);
        family_count = mt_copies(options.late, &families);
        run_all(&options);
    }
    return mt_finish();
}
