/* The files of a run: the measurements, with which a later run continues, and the rules. */
#include "tools/tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/file.h"

/* The most characters in a line of the measurements. The line of a time is much shorter. */
#define LINE_LENGTH 300

/*
 * How often the program tries to lock a file that another run has locked, and the pause after each try: about 10 s in
 * all.
 */
#define LOCK_TRIES 100
#define LOCK_PAUSE_NS 100000000L

/* How the first line of the measurements begins. */
static const char magic[] = "# mscclpp_tune ";

/* Prints one line with the reason in errno. Returns false, so that it can end a chain of conditions. */
static bool report_error(const char *action, const char *path)
{
    fprintf(stderr, "%s: cannot %s '%s': %s\n", bench_program, action, path, strerror(errno));
    return false;
}

/*
 * Tries to lock the file, without waiting. Returns false if another process holds the lock. A file system without locks
 * counts as success.
 */
static bool try_lock(FILE *file)
{
    return 0 == flock(fileno(file), LOCK_EX | LOCK_NB) || EWOULDBLOCK != errno;
}

/* Returns true if `path` still names this file, and false if another run has put a new file in its place. */
static bool is_still_at(FILE *file, const char *path)
{
    struct stat opened, named;

    return 0 == fstat(fileno(file), &opened) && 0 == stat(path, &named) && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/*
 * Opens or creates a file and locks it until it is closed. Then checks that the name still refers to this file: the run
 * that held the lock may have renamed a new file over it, and the lock of the old file then protects nothing. Prints
 * one line on standard error and returns NULL if the file cannot be opened, or if another process keeps it locked for
 * too long.
 */
static FILE *open_locked(const char *path)
{
    const char *reason;

    for (int i = 0; i < LOCK_TRIES; ++i) {
        FILE *file = mscclpp_file_open(path, O_RDWR | O_CREAT, &reason);
        if (file == NULL) {
            fprintf(stderr, "%s: cannot write '%s': %s\n", bench_program, path, reason);
            return NULL;
        }
        if (try_lock(file) && is_still_at(file, path)) {
            return file;
        }
        fclose(file);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    fprintf(stderr, "%s: '%s' is locked by another process; wait for its end, or name another --output\n",
            bench_program, path);
    return NULL;
}

/*
 * Composes the first line of the measurements in `text`, which has `length` bytes. The line names everything that has
 * to be equal if times are to be compared. That is the version of the program, the collective, the ranks, the nodes,
 * the device, the type, the rounds, and a digest of the plans' names. Measurements with a different first line are
 * refused.
 */
static void describe_run(const tune_files_t *files, const tune_options_t *options, const bench_env_t *env,
                         const tune_table_t *table, char *text, size_t length)
{
    const bool has_name = MSCCLPP_COLL_LAST != table->coll;
    char plans[32] = "", nodes[32] = "";
    uint64_t digest = 0;

    for (int algo = table->builtin_count; algo < table->algo_count; ++algo) {
        digest = digest * 31 + (uint64_t)mscclpp_rule_hash_plan(table->plan[algo]);
    }
    if (table->algo_count > table->builtin_count) {
        snprintf(plans, sizeof(plans), " plans=%016llx", (unsigned long long)digest);
    }
    if (table->nodes > 1) {
        snprintf(nodes, sizeof(nodes), " nodes=%d", table->nodes);
    }
    snprintf(text, length, "%s" MSCCLPP_VERSION ": %s%s%sranks=%u%s device=%s name=\"%s\" type=%s rounds=%d%s\n", magic,
             has_name ? "collective=" : "", has_name ? mscclpp_coll_name(table->coll) : "", has_name ? " " : "",
             files->rank_count, nodes, files->on_twin ? "host" : "cuda", env->places[0].device_name,
             options->type->name, options->rounds, plans);
}

/*
 * Adds the time of a line to the table if this run measures the size in the line, and ignores it otherwise. If two
 * lines give a time for the same size and algorithm, the last one counts. Returns false, without a message, if the line
 * is not the time of an algorithm that this run measures.
 */
static bool add_time(const char *text, tune_table_t *table)
{
    char name[TUNE_NAME_SIZE], next_char;
    double seconds;
    size_t bytes;
    int algo;

    /* After the seconds, the line has a newline or nothing. A name has up to TUNE_NAME_SIZE - 1 characters. */
    if (3 != sscanf(text, "bytes=%zu algorithm=%135s seconds=%lf%c", &bytes, name, &seconds, &next_char) &&
        (4 != sscanf(text, "bytes=%zu algorithm=%135s seconds=%lf%c", &bytes, name, &seconds, &next_char) ||
         '\n' != next_char)) {
        return false;
    }
    algo = tune_algo_find(table, name);
    if (algo < 0 || !tune_algo_can_serve(table, algo) || !(seconds > 0 && seconds < 1e6)) {
        return false;
    }
    for (int size_index = 0; size_index < table->size_count; ++size_index) {
        if (table->bytes[size_index] == bytes) {
            table->seconds[size_index][algo] = seconds;
        }
    }
    return true;
}

/*
 * Returns true if the first line is one of this program, or the beginning of one. A run that was killed may have
 * written only a part of it.
 */
static bool is_ours(const char *text, size_t length)
{
    return 0 == memcmp(text, magic, length < strlen(magic) ? length : strlen(magic));
}

/*
 * Prints on standard error why a line of the measurements is refused. `text` is that line; a newline at its end is not
 * printed. `fault` follows it in the message, as in "is too long". Returns false, so that it can end a chain of
 * conditions.
 */
static bool refuse_line(const tune_files_t *files, int line_number, const char *text, const char *fault)
{
    fprintf(stderr,
            "%s: %s:%d: '%.*s' %s; use bytes=N algorithm=NAME seconds=T with an algorithm that is measured here, or "
            "begin anew with --fresh\n",
            bench_program, files->path, line_number, (int)strcspn(text, "\n"), text, fault);
    return false;
}

/*
 * Checks line number `line_number` of the measurements, and adds its time to the table. The first line has no time: it
 * has to be equal to `header`, the first line of this run. `length`, at least 1, is the number of bytes in the line.
 * The caller has already handled a last line without a newline, so any other line without one is too long. If the line
 * is bad, prints a line on standard error and returns false.
 */
static bool add_line(const tune_files_t *files, const char *header, int line_number, const char *text, size_t length,
                     tune_table_t *table)
{
    if (strlen(text) != length) {
        return refuse_line(files, line_number, text, "has a zero byte");
    }
    if ('\n' != text[length - 1]) {
        return refuse_line(files, line_number, text, "is too long");
    }
    if (1 == line_number && 0 != strcmp(text, header)) {
        fprintf(stderr,
                "%s: '%s' holds the times of another run; --fresh begins anew, or name another --output\n"
                "  there: %s  here:  %s",
                bench_program, files->path, text, header);
        return false;
    }
    return 1 == line_number || add_time(text, table) || refuse_line(files, line_number, text, "is no time");
}

/*
 * Reads the measurements into the table, and prepares the file for more. After the call, the file begins with `header`,
 * the first line of this run, and ends with a complete line. An incomplete last line, which a killed run may have left,
 * is cut off. If `is_fresh`, all lines are removed. The caller holds the lock of the file.
 *
 * Prints a line on standard error and returns false if the file belongs to another program or run, has a bad line, or
 * cannot be read or written. In the first two cases the file is unchanged.
 */
static bool read_measured(tune_files_t *files, const char *header, bool is_fresh, tune_table_t *table)
{
    char text[LINE_LENGTH + 2];
    long kept_bytes = 0;
    size_t length;

    for (int line_number = 1; 0 != (length = mscclpp_file_line(files->measured, text, sizeof(text))); ++line_number) {
        if (1 == line_number && !is_ours(text, length)) {
            fprintf(stderr, "%s: '%s' does not begin with '%s'; remove it, or name another --output\n", bench_program,
                    files->path, magic);
            return false;
        }
        if (is_fresh || ('\n' != text[length - 1] && feof(files->measured))) {
            break;
        }
        if (!add_line(files, header, line_number, text, length, table)) {
            return false;
        }
        kept_bytes = ftell(files->measured);
    }
    if (ferror(files->measured) || 0 != fseek(files->measured, kept_bytes, SEEK_SET) ||
        0 != ftruncate(fileno(files->measured), kept_bytes)) {
        return report_error("read", files->path);
    }
    if (0 == kept_bytes) {
        fputs(header, files->measured);
    }
    return 0 == fflush(files->measured) || report_error("write", files->path);
}

/* Reads the rules file of --output. Prints a line and returns false if it is none. The caller destroys the rules. */
static bool read_rules(const char *path, mscclpp_rules_t **rules_p)
{
    mscclpp_status_t status = mscclpp_rules_read(path, rules_p);

    if (MSCCLPP_OK != status) {
        fprintf(stderr, "%s: --output '%s' has to be a rules file or a new one\n", bench_program, path);
    }
    return MSCCLPP_OK == status;
}

/*
 * Checks, before anything is measured, that the rules file can be read and written. Stores its path with all links
 * resolved, so that the rules are later written to the target of a link. A missing file is created, empty. If the file
 * cannot be used, prints a line on standard error and returns false. The lock is released before the function returns:
 * other runs may write their rules while this one measures.
 */
static bool prepare_output(tune_files_t *files, const char *path)
{
    mscclpp_rules_t *rules = NULL;
    FILE *file = open_locked(path);
    bool ok = file != NULL;

    if (ok && realpath(path, files->output) == NULL) {
        ok = report_error("write", path);
    }
    ok = ok && read_rules(path, &rules);
    mscclpp_rules_destroy(rules);
    if (file != NULL) {
        fclose(file);
    }
    return ok;
}

/*
 * Opens both files, and reads the measurements. The rules file is checked first, so that nothing is measured for rules
 * that cannot be written.
 */
bool tune_files_open(tune_files_t *files, const tune_options_t *options, const bench_env_t *env, tune_table_t *table)
{
    const bool has_name = MSCCLPP_COLL_LAST != table->coll;
    char header[LINE_LENGTH], nodes[32] = "";

    memset(files, 0, sizeof(*files));
    files->rank_count = (uint32_t)env->size;
    files->node_count = (uint32_t)table->nodes;
    if (table->nodes > 1) {
        snprintf(nodes, sizeof(nodes), "-on-%d-nodes", table->nodes);
    }
    files->on_twin = env->on_twin;
    if (snprintf(files->path, sizeof(files->path), "%s.%s%s%u%s-%s.measured", options->output,
                 has_name ? mscclpp_coll_name(table->coll) : "", has_name ? "." : "", files->rank_count, nodes,
                 files->on_twin ? "host" : "cuda") >= (int)sizeof(files->path)) {
        errno = ENAMETOOLONG;
        return report_error("write", options->output);
    }
    if (!prepare_output(files, options->output)) {
        return false;
    }
    files->measured = open_locked(files->path);
    if (files->measured == NULL) {
        return false;
    }
    describe_run(files, options, env, table, header, sizeof(header));
    if (!read_measured(files, header, options->is_fresh, table)) {
        tune_files_close(files);
        return false;
    }
    return true;
}

bool tune_files_add(tune_files_t *files, const tune_table_t *table, int size_index)
{
    for (int algo = 0; algo < table->algo_count; ++algo) {
        if (table->seconds[size_index][algo] > 0) {
            fprintf(files->measured, "bytes=%zu algorithm=%s seconds=%.9g\n", table->bytes[size_index],
                    tune_algo_name(table, algo), table->seconds[size_index][algo]);
        }
    }
    /* stdio writes the few lines of a size in one piece, if it can. */
    return (0 == fflush(files->measured) && !ferror(files->measured)) || report_error("write", files->path);
}

/*
 * Replaces the rules file: writes a new file and renames it, so that no reader ever sees incomplete rules. The new file
 * gets the mode of the old one, and its owner and group as far as the system allows it. The new file is flushed to disk
 * before it is renamed. If any of this fails, prints a line on standard error, removes the new file and returns false;
 * the old file then remains. The caller holds the lock of the old file.
 */
static bool replace_output(const char *output, const mscclpp_rules_t *rules, const struct stat *old)
{
    char new_path[PATH_MAX + 8];
    int descriptor;
    FILE *file;
    bool ok;

    snprintf(new_path, sizeof(new_path), "%s.XXXXXX", output);
    descriptor = mkostemp(new_path, O_CLOEXEC);
    file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (file == NULL) {
        report_error("write", new_path);
        if (descriptor >= 0) {
            close(descriptor);
            unlink(new_path);
        }
        return false;
    }
    fprintf(file, "# Written by mscclpp_tune " MSCCLPP_VERSION ", for the parameter coll_mscclpp_rules.\n");
    mscclpp_rules_write(rules, file);
    if (0 != fchown(descriptor, old->st_uid, old->st_gid) && 0 != fchown(descriptor, (uid_t)-1, old->st_gid)) {
        /* Not a failure: only a privileged user may change the owner of a file. */
    }
    ok = 0 == fchmod(descriptor, old->st_mode & 0777);
    ok = 0 == fflush(file) && !ferror(file) && ok && 0 == fsync(descriptor);
    ok = 0 == fclose(file) && ok;
    if (!ok || 0 != rename(new_path, output)) {
        report_error("write", output);
        unlink(new_path);
        return false;
    }
    return true;
}

/*
 * Replaces the rules for this collective, these numbers of ranks and nodes, and this device by the rules of this run.
 * If there are too many rules or memory runs out, prints a line on standard error and returns false.
 */
static bool merge_rules(mscclpp_rules_t *rules, const tune_files_t *files, mscclpp_coll_t coll,
                        const mscclpp_rule_set_t *set)
{
    const bool is_allreduce = MSCCLPP_COLL_LAST == coll;

    if (is_allreduce
            ? !mscclpp_rules_replace(rules, files->rank_count, files->node_count, files->on_twin, set)
            : !mscclpp_rules_replace_coll(rules, coll, files->rank_count, files->node_count, files->on_twin, set)) {
        fprintf(stderr, "%s: '%s' has no room for %llu rules of %s: at most %d for ranks=%u device=%s; remove some\n",
                bench_program, files->output, (unsigned long long)set->count, mscclpp_coll_name(coll),
                is_allreduce ? MSCCLPP_RULES_MAX : MSCCLPP_COLL_RULES_MAX, files->rank_count,
                files->on_twin ? "host" : "cuda");
        return false;
    }
    return true;
}

/*
 * Rewrites the rules file. The file is read again under its lock, so that it keeps the rules that other runs have added
 * since this run began. The lock of the old file is held until the new file is in its place. The names of the plans are
 * registered first, because rules refer to plans by number and are written with the names. *count_p is only set if the
 * file could be read.
 */
bool tune_files_write_rules(tune_files_t *files, const tune_table_t *table, uint64_t *count_p)
{
    FILE *file = open_locked(files->output);
    mscclpp_rules_t *rules = NULL;
    mscclpp_rule_set_t set;
    struct stat old;
    bool ok;

    if (file == NULL) {
        return false;
    }
    ok = 0 == fstat(fileno(file), &old) || report_error("read", files->output);
    ok = ok && read_rules(files->output, &rules);
    if (ok) {
        tune_make_rules(table, &set);
        for (int algo = table->builtin_count; algo < table->algo_count; ++algo) {
            (void)mscclpp_rules_add_plan(rules, table->plan[algo] + strlen("plan:"));
        }
        ok = merge_rules(rules, files, table->coll, &set) && replace_output(files->output, rules, &old);
        *count_p = set.count;
    }
    mscclpp_rules_destroy(rules);
    fclose(file);
    return ok;
}

/*
 * Adds the figures to the rules file. The file is read and replaced under its lock, so that the rules of other runs are
 * not lost.
 */
bool tune_files_write_figures(const char *path, int transport, const mscclpp_rule_figures_t *figures)
{
    static tune_files_t files;
    mscclpp_rules_t *rules = NULL;
    struct stat old;
    FILE *file;
    bool ok;

    if (!prepare_output(&files, path)) {
        return false;
    }
    file = open_locked(files.output);
    ok = file != NULL && (0 == fstat(fileno(file), &old) || report_error("read", files.output)) &&
         read_rules(files.output, &rules);
    if (ok) {
        mscclpp_rules_replace_figures(rules, transport, figures);
        ok = replace_output(files.output, rules, &old);
    }
    mscclpp_rules_destroy(rules);
    if (file != NULL) {
        fclose(file);
    }
    return ok;
}

/* Closes the measurements, if they are open, which gives their lock back. */
void tune_files_close(tune_files_t *files)
{
    if (files->measured != NULL) {
        fclose(files->measured);
        files->measured = NULL;
    }
}
