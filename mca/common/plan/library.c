#include "mca/common/plan/library.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mca/common/base/log.h"
#include "mca/common/plan/proofs.h"
#include "mca/common/plan/check.h"
#include "mca/common/plan/ends.h"
#include "mca/common/plan/lower.h"
#include "mca/common/plan/simulate.h"
#include "mca/common/plan/visit.h"
#include "mca/common/plan/words.h"

#define FILES_MAX 1024                  /* of a library; further files are not read */
#define MAX_CHUNKS ((uint64_t)64 << 20) /* of all ranks; plans with more are not surveyed chunk by chunk */

struct mscclpp_plan_library {
    char *places;               /* files and folders, separated by commas or colons */
    bool is_loaded;             /* `files` holds what was read from `places` */
    mscclpp_plan_file_t *files; /* once loaded, FILES_MAX entries; NULL: no memory */
    int count;
};

/* Guards all libraries and their entries. Held while files are read or proven. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

mscclpp_plan_library_t *mscclpp_plan_library_create(const char *places)
{
    mscclpp_plan_library_t *library = calloc(1, sizeof(*library));

    if (library != NULL) {
        library->places = strdup(places);
    }
    if (library == NULL || library->places == NULL) {
        free(library);
        mscclpp_error("no memory for execution plans");
        return NULL;
    }
    return library;
}

/* The refusal of a file if there is no memory for the text of one. Not freed. */
static char no_memory[] = "no memory for the reason";

/* Frees the reason for which a file is refused, if there is one. The file then counts as accepted. */
static void free_refusal(mscclpp_plan_file_t *file)
{
    if (file->refusal != no_memory) {
        free(file->refusal);
    }
    file->refusal = NULL;
}

void mscclpp_plan_library_destroy(mscclpp_plan_library_t *library)
{
    if (library == NULL) {
        return;
    }
    for (int i = 0; i < library->count; ++i) {
        mscclpp_plan_free(library->files[i].plan);
        free(library->files[i].path);
        free_refusal(&library->files[i]);
        free(library->files[i].label);
    }
    free(library->files);
    free(library->places);
    free(library);
}

/*
 * Refuses a file for the reason that `format` yields, which replaces an earlier one. If there is no memory for the
 * reason, the constant one is used, so that the file is refused in any case.
 */
static void refuse(mscclpp_plan_file_t *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void refuse(mscclpp_plan_file_t *file, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    free_refusal(file);
    file->refusal = strdup(text);
    if (file->refusal == NULL) {
        file->refusal = no_memory;
    }
}

/*
 * Refuses the file for the worst finding of a report. Notes are ignored, and of equally bad findings the first one is
 * used. If there is no such finding, or if memory was short, the reason says only that.
 */
static void refuse_for(mscclpp_plan_file_t *file, const mscclpp_plan_report_t *report)
{
    const mscclpp_plan_finding_t *worst = NULL;
    char place[160];

    for (int i = 0; i < report->count; ++i) {
        if (report->findings[i].kind != MSCCLPP_PLAN_NOTE &&
            (worst == NULL || report->findings[i].kind > worst->kind)) {
            worst = &report->findings[i];
        }
    }
    if (worst == NULL || report->no_memory) {
        refuse(file, "%s", report->no_memory ? "no memory to check it" : "it cannot be read");
        return;
    }
    refuse(file, "%s: %s: %s [%s]", mscclpp_plan_kind_name(worst->kind),
           mscclpp_plan_place_text(worst->place, place, sizeof(place)), worst->text != NULL ? worst->text : "",
           worst->rule);
}

/* How the blocks of all ranks access one chunk, other than by packets. */
typedef struct {
    uint32_t block;  /* 1 + the number, over all ranks, of the last block seen to access it; 0: none does */
    bool is_shared;  /* several blocks access it */
    bool is_written; /* some block writes it */
} chunk_use_t;

typedef struct {
    mscclpp_plan_file_t *file;
    chunk_use_t *uses;                     /* one for each chunk of all ranks; NULL: no memory, or too many chunks */
    uint64_t starts[MSCCLPP_PLAN_BUFFERS]; /* number of the first chunk of each buffer, within its rank */
    uint64_t rank_chunks;                  /* chunks of all buffers of a rank */
    bool has_packets;                      /* some operation uses packets */
    bool has_plain_scratch;                /* some operation uses the scratch without packets */
} survey_t;

/*
 * Notes that the block at `place` reads or writes an item in the memory of rank `rank`, other than by packets. Each
 * block of each rank has a number of its own. Only in a plan with more blocks than kernels have can two blocks get the
 * same number; such plans are refused afterwards.
 */
static void note_access(survey_t *survey, mscclpp_plan_place_t place, const mscclpp_plan_item_t *item, uint32_t rank,
                        bool is_write)
{
    const mscclpp_plan_t *plan = survey->file->plan;
    /* Start of the rank's own block in a buffer that has a block for each rank. */
    const uint64_t rank_start = (uint64_t)rank * survey->file->chunks;
    uint64_t first_chunk = (uint64_t)rank * survey->rank_chunks + survey->starts[item->type] + item->index;
    const uint32_t block = 1 + (uint32_t)place.rank * (MSCCLPP_DEV_MAX_BLOCKS + 1) + (uint32_t)place.block;

    /* In place, input and output are one buffer. Its chunks have the numbers of the input. */
    if (plan->in_place && item->type != MSCCLPP_PLAN_SCRATCH) {
        first_chunk += survey->starts[MSCCLPP_PLAN_INPUT] - survey->starts[item->type];
        if (plan->collective ==
            (item->type == MSCCLPP_PLAN_INPUT ? MSCCLPP_PLAN_ALLGATHER : MSCCLPP_PLAN_REDUCESCATTER)) {
            first_chunk += rank_start;
        }
    }
    for (uint64_t i = first_chunk; i < first_chunk + item->size && survey->uses != NULL; ++i) {
        survey->uses[i].is_shared =
            survey->uses[i].is_shared || (survey->uses[i].block != 0 && survey->uses[i].block != block);
        survey->uses[i].block = block;
        survey->uses[i].is_written = survey->uses[i].is_written || is_write;
    }
}

/*
 * Notes how the plan uses one item. file->chunks must be known. Packets are not noted as accesses, because each packet
 * carries its own flag.
 */
static void survey_item(survey_t *survey, mscclpp_plan_place_t place, const mscclpp_plan_item_t *item, bool are_packets,
                        bool is_write)
{
    mscclpp_plan_file_t *file = survey->file;
    const mscclpp_plan_group_t *group;

    file->uses_multicast = file->uses_multicast || item->where == MSCCLPP_PLAN_MULTICAST;
    survey->has_packets = survey->has_packets || are_packets;
    survey->has_plain_scratch = survey->has_plain_scratch || (!are_packets && item->type == MSCCLPP_PLAN_SCRATCH);
    if (item->type != MSCCLPP_PLAN_SCRATCH) {
        file->shares_buffers = file->shares_buffers || item->where != MSCCLPP_PLAN_LOCAL;
        file->writes_input = file->writes_input || (is_write && item->type == MSCCLPP_PLAN_INPUT);
    }
    if (are_packets) {
        return;
    }
    if (item->where != MSCCLPP_PLAN_MULTICAST) {
        note_access(survey, place, item, item->where == MSCCLPP_PLAN_LOCAL ? (uint32_t)place.rank : item->rank,
                    is_write);
        return;
    }
    group = &file->plan->ranks[place.rank].groups[item->group];
    for (uint32_t i = 0; i < group->count; ++i) {
        note_access(survey, place, item, group->ranks[i], is_write);
    }
}

/* Notes how one operation uses its items, and whether it combines by min or max (mscclpp_plan_visit_fn_t). */
static void survey_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                      const mscclpp_plan_op_t *pipeline)
{
    survey_t *survey = context;
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);

    (void)pipeline;
    if (op->reduce != MSCCLPP_PLAN_SUM) {
        survey->file->only_min_or_max = true;
        survey->file->reduce = op->reduce;
    }
    for (uint32_t i = 0; shape != NULL && i < op->src_count; ++i) {
        survey_item(survey, place, &op->src[i], mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i)), false);
    }
    for (uint32_t i = 0; shape != NULL && i < op->dst_count; ++i) {
        survey_item(survey, place, &op->dst[i], mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i)), true);
    }
}

/*
 * Sets file->blocks and file->channels to the maximum numbers of blocks and channels of a rank, and gives the chunks of
 * a rank's buffers successive numbers (`starts`). file->chunks must be known.
 */
static void measure_ranks(survey_t *survey)
{
    mscclpp_plan_file_t *file = survey->file;
    const mscclpp_plan_t *plan = file->plan;
    uint64_t max_chunks[MSCCLPP_PLAN_BUFFERS] = {0, 0, 0};

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        const mscclpp_plan_rank_t *rank = &plan->ranks[rank_number];
        const uint32_t channels = rank->channel_count[MSCCLPP_PLAN_MEMORY] + rank->channel_count[MSCCLPP_PLAN_PORT];

        file->blocks = rank->block_count > file->blocks ? rank->block_count : file->blocks;
        file->channels = channels > file->channels ? channels : file->channels;
        for (int type = 0; type < MSCCLPP_PLAN_BUFFERS; ++type) {
            max_chunks[type] = rank->chunks[type] > max_chunks[type] ? rank->chunks[type] : max_chunks[type];
        }
    }
    /* Input and output may overlap, so both get as many numbers as the larger buffer may have chunks. */
    max_chunks[MSCCLPP_PLAN_INPUT] = max_chunks[MSCCLPP_PLAN_INPUT] > max_chunks[MSCCLPP_PLAN_OUTPUT]
                                         ? max_chunks[MSCCLPP_PLAN_INPUT]
                                         : max_chunks[MSCCLPP_PLAN_OUTPUT];
    if ((uint64_t)file->chunks * plan->rank_count > max_chunks[MSCCLPP_PLAN_INPUT]) {
        max_chunks[MSCCLPP_PLAN_INPUT] = (uint64_t)file->chunks * plan->rank_count;
    }
    max_chunks[MSCCLPP_PLAN_OUTPUT] = max_chunks[MSCCLPP_PLAN_INPUT];
    for (int type = 0; type < MSCCLPP_PLAN_BUFFERS; ++type) {
        survey->starts[type] = survey->rank_chunks;
        survey->rank_chunks += max_chunks[type];
    }
}

/*
 * Finds what callers have to know of a plan before they use it. The plan must have passed mscclpp_plan_check, because
 * its numbers are used as indices. Refuses a plan that has neither input nor output.
 *
 * file->packets_may_order_stores becomes true if packets may have to order other stores. That is possible if several
 * blocks access a chunk and one of them writes it: a packet may be the only thing that tells a block that the other is
 * done. If there is no memory for the survey, or if the plan is too large, the field is true for every plan with
 * packets.
 */
static void survey_plan(mscclpp_plan_file_t *file)
{
    const mscclpp_plan_t *plan = file->plan;
    survey_t survey = {.file = file};
    uint64_t all_chunks;

    file->chunks = mscclpp_plan_block_chunks(plan);
    measure_ranks(&survey);
    all_chunks = survey.rank_chunks * plan->rank_count;
    file->unit = plan->alignment % MSCCLPP_DEV_UNIT == 0 ? plan->alignment : MSCCLPP_DEV_UNIT;
    if (file->chunks == 0) {
        refuse(file, "it has neither input nor output");
        return;
    }
    file->needs_whole_chunks = mscclpp_plan_needs_whole_chunks(plan);
    survey.uses = all_chunks < MAX_CHUNKS ? calloc(all_chunks + 1, sizeof(*survey.uses)) : NULL;
    mscclpp_plan_visit(plan, survey_op, &survey);
    file->mixes_packets = survey.has_packets && survey.has_plain_scratch;
    file->packets_may_order_stores = survey.has_packets && survey.uses == NULL;
    for (uint64_t i = 0; survey.has_packets && survey.uses != NULL && i < all_chunks && !file->packets_may_order_stores;
         ++i) {
        file->packets_may_order_stores = survey.uses[i].is_shared && survey.uses[i].is_written;
    }
    file->packets_order_stores = file->packets_may_order_stores;
    file->writes_input = file->writes_input && !plan->in_place;
    free(survey.uses);
}

/*
 * Makes the name that messages and rules have for the plan. Each blank and each byte that cannot be printed becomes
 * '?', because the label goes into messages and rules. Refuses the file if there is no memory.
 */
static void make_label(mscclpp_plan_file_t *file)
{
    char label[80];

    (void)snprintf(label, sizeof(label), "plan:%s", file->plan->name);
    for (char *c = label; *c != '\0'; ++c) {
        *c = isgraph((unsigned char)*c) ? *c : '?';
    }
    file->label = strdup(label);
    if (file->label == NULL) {
        refuse(file, "no memory");
    }
}

/*
 * Reads and checks a file, of which only the path is set, and fills in the other fields. The simulation is left to the
 * plan's first use. Refuses the file if it has a fault; file->plan is NULL if it cannot be read. The caller holds the
 * lock.
 */
static void read_and_check(mscclpp_plan_file_t *file)
{
    mscclpp_plan_report_t report;
    mscclpp_status_t status;

    mscclpp_plan_report_init(&report);
    status = mscclpp_plan_read(file->path, &report, &file->plan);
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        refuse(file, "%s", report.count > 0 && report.findings[0].text != NULL ? report.findings[0].text : "no yajl");
    } else if (status != MSCCLPP_OK) {
        file->plan = NULL;
        refuse_for(file, &report);
    } else {
        file->digest = file->plan->digest;
        if (!mscclpp_plan_check(file->plan, &report)) {
            refuse_for(file, &report);
        }
    }
    mscclpp_plan_report_destroy(&report);
    if (file->plan == NULL) {
        return;
    }
    make_label(file);
    if (file->refusal != NULL) {
        return;
    }
    file->only_by_name = file->plan->collective > MSCCLPP_PLAN_ALLTOALL; /* the collectives of MPI come first */
    survey_plan(file);
    if (file->refusal == NULL &&
        (file->blocks > MSCCLPP_DEV_MAX_BLOCKS || file->plan->rank_count > MSCCLPP_DEV_MAX_RANKS)) {
        refuse(file, "more than the %d blocks or %d ranks that kernels have", MSCCLPP_DEV_MAX_BLOCKS,
               MSCCLPP_DEV_MAX_RANKS);
    }
}

/*
 * Returns the next entry of the library, which does not count yet, with the path set. Returns NULL, with a message
 * logged, if there is no room.
 */
static mscclpp_plan_file_t *next_file(mscclpp_plan_library_t *library, const char *path)
{
    mscclpp_plan_file_t *file = &library->files[library->count];

    if (library->count == FILES_MAX) {
        mscclpp_warn("more than %d execution plans: %s is not read", FILES_MAX, path);
        return NULL;
    }
    memset(file, 0, sizeof(*file));
    file->path = strdup(path);
    if (file->path == NULL) {
        mscclpp_error("no memory for the execution plan %s", path);
        return NULL;
    }
    return file;
}

/*
 * Appends a file to the library. Leaves out a file with the same content as an earlier one. A file that is refused is
 * appended, so that ranks can compare their lists. A digest of 0 means that the file could not be read, so it never
 * counts as the same content. The caller holds the lock.
 */
static void add_file(mscclpp_plan_library_t *library, const char *path)
{
    mscclpp_plan_file_t *file = next_file(library, path);

    if (file == NULL) {
        return;
    }
    read_and_check(file);
    for (int i = 0; i < library->count; ++i) {
        if (library->files[i].digest == file->digest && file->digest != 0) {
            mscclpp_plan_free(file->plan);
            free(file->path);
            free_refusal(file);
            free(file->label);
            return;
        }
    }
    ++library->count;
}

/* Returns 1 if the name of an entry is that of a plan: it ends in ".json" and is not hidden (for scandir). */
static int is_plan_file(const struct dirent *entry)
{
    enum { SUFFIX = sizeof(".json") - 1 };
    const size_t length = strlen(entry->d_name);

    return entry->d_name[0] != '.' && length > SUFFIX && strcmp(entry->d_name + length - SUFFIX, ".json") == 0;
}

/* Compares two entries of a folder by the bytes of their names (for scandir). */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Appends a folder that cannot be read, as a file that is refused for this reason. */
static void add_unread_folder(mscclpp_plan_library_t *library, const char *folder, const char *reason)
{
    mscclpp_plan_file_t *file = next_file(library, folder);

    if (file != NULL) {
        refuse(file, "the folder cannot be read: %s", reason);
        ++library->count;
    }
}

/*
 * Adds the plans of a folder in the order of their names, so that all ranks have the same order. Returns false, with
 * nothing added, if `folder` is not a folder. The caller holds the lock.
 */
static bool add_folder(mscclpp_plan_library_t *library, const char *folder)
{
    struct dirent **entries = NULL;
    struct stat status;
    int count;

    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode)) {
        return false;
    }
    count = scandir(folder, &entries, is_plan_file, compare_names);
    if (count < 0) {
        add_unread_folder(library, folder, strerror(errno));
    }
    for (int i = 0; i < count; ++i) {
        const size_t size = strlen(folder) + strlen(entries[i]->d_name) + sizeof("/");
        char *path = malloc(size);

        if (path != NULL) {
            (void)snprintf(path, size, "%s/%s", folder, entries[i]->d_name);
            add_file(library, path);
        } else {
            mscclpp_error("no memory for the execution plan %s/%s", folder, entries[i]->d_name);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return true;
}

int mscclpp_plan_library_load(mscclpp_plan_library_t *library, mscclpp_plan_file_t **files_p)
{
    char *strtok_state = NULL;

    *files_p = NULL;
    if (library == NULL) {
        return 0;
    }
    pthread_mutex_lock(&lock);
    if (!library->is_loaded) {
        library->is_loaded = true;
        library->files = calloc(FILES_MAX, sizeof(*library->files));
        if (library->files == NULL) {
            mscclpp_error("no memory for execution plans");
        }
        for (char *path = strtok_r(library->places, ",:", &strtok_state); path != NULL && library->files != NULL;
             path = strtok_r(NULL, ",:", &strtok_state)) {
            if (!add_folder(library, path)) {
                add_file(library, path);
            }
        }
    }
    *files_p = library->files;
    pthread_mutex_unlock(&lock);
    return library->count; /* never changes after the first load */
}

const char *mscclpp_plan_library_misfit(const mscclpp_plan_file_t *file, bool on_twin)
{
    return file->uses_multicast && !on_twin ? "its switch channels need multicast, which is not used on GPUs" : NULL;
}

/* Returns true if the report has a finding by this rule. The rule may be that of a fault or of a note. */
static bool has_rule(const mscclpp_plan_report_t *report, const char *rule)
{
    for (int i = 0; i < report->count; ++i) {
        if (strcmp(report->findings[i].rule, rule) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Simulates the plan, and sets file->packets_order_stores if the plan's packets have to order other stores. The
 * simulation fails if it finds a fault, if the plan is too large for it, or if memory runs out. After a failure,
 * file->packets_order_stores is unchanged: at first it has the value of survey_plan, true if the packets may have to
 * order other stores.
 *
 * With `is_full`, simulates all launches, and refuses the plan if the simulation fails. Otherwise simulates one
 * launch, and ignores a failure. The caller holds the lock.
 */
static void simulate(mscclpp_plan_file_t *file, bool is_full)
{
    const mscclpp_plan_sim_options_t options = {.launches = is_full ? MSCCLPP_PLAN_LAUNCHES : 1, .seed = 1};
    mscclpp_plan_sim_stats_t stats;
    mscclpp_plan_report_t report;
    bool has_passed;

    mscclpp_plan_report_init(&report);
    has_passed = mscclpp_plan_simulate(file->plan, &options, &report, &stats);
    if (!has_passed && is_full) {
        refuse_for(file, &report);
    } else if (has_passed && !report.no_memory && !has_rule(&report, "size-limit")) {
        file->packets_order_stores = has_rule(&report, "packet-order");
    }
    mscclpp_plan_report_destroy(&report);
}

/*
 * Simulates the plan, unless a proof of it is kept. With `is_full`, the plan is refused if it does not pass the whole
 * simulation. Otherwise the simulation only finds out whether packets have to order other stores; if it fails, the
 * proof says that they have to. Sets file->packets_order_stores. Nothing is stored for a refused plan. The caller holds
 * the lock.
 */
static void prove_once(mscclpp_plan_file_t *file, bool is_full)
{
    static const char full_proof[] = "full", unordered_proof[] = "packets", ordered_proof[] = "ordering";
    const bool has_full_proof = mscclpp_plan_proof_is_kept(file->plan, full_proof);
    const bool is_unordered =
        !file->packets_may_order_stores || mscclpp_plan_proof_is_kept(file->plan, unordered_proof);

    if ((has_full_proof || !is_full) && (is_unordered || mscclpp_plan_proof_is_kept(file->plan, ordered_proof))) {
        file->packets_order_stores = !is_unordered;
        mscclpp_info("execution plan %s was proven in an earlier run", file->path);
        return;
    }
    simulate(file, is_full);
    if (file->refusal != NULL || file->plan == NULL) {
        return;
    }
    if (is_full) {
        mscclpp_plan_proof_keep(file->plan, full_proof);
    }
    if (file->packets_may_order_stores) {
        mscclpp_plan_proof_keep(file->plan, file->packets_order_stores ? ordered_proof : unordered_proof);
    }
}

void mscclpp_plan_library_prove(mscclpp_plan_file_t *file, mscclpp_plan_prove_t prove)
{
    pthread_mutex_lock(&lock);
    if (file->refusal == NULL && file->plan != NULL && prove > file->proven) {
        if (prove == MSCCLPP_PLAN_PROVE_ALL || file->packets_may_order_stores) {
            prove_once(file, prove == MSCCLPP_PLAN_PROVE_ALL);
        }
        file->proven = prove;
    }
    pthread_mutex_unlock(&lock);
}
