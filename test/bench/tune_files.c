/* The files of a run: the measurements, which a further run goes on from, and the rules. */
#include "test/bench/tune.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the measurements. */
#define LINE_LENGTH 300

/* Returns false, so that it can end a chain. */
static bool complain(const char *what, const char *path)
{
    fprintf(stderr, "%s: cannot %s '%s': %s\n", bench_program, what, path, strerror(errno));
    return false;
}

/* The first line: all that has to be equal for times to be compared with one another. */
static void describe_run(const tune_files_t *files, const tune_options_t *options, const bench_env_t *env, char *text,
                         size_t length)
{
    snprintf(text, length, "# mscclpp_tune " MSCCLPP_VERSION ": ranks=%u device=%s name=\"%s\" type=%s rounds=%d\n",
             files->nranks, files->on_host ? "host" : "cuda", env->places[0].device_name, options->type->name,
             options->rounds);
}

/* Adds a time to the table, unless its size is not one of this run. */
static bool take_line(const char *text, tune_table_t *table)
{
    char name[32], end;
    double seconds;
    size_t bytes;
    int algo;

    if (3 != sscanf(text, "bytes=%zu algorithm=%31s seconds=%lf%c", &bytes, name, &seconds, &end) &&
        (4 != sscanf(text, "bytes=%zu algorithm=%31s seconds=%lf%c", &bytes, name, &seconds, &end) || '\n' != end)) {
        return false;
    }
    algo = mscclpp_algo_find(name);
    if (algo < 0 || algo >= table->nalgos || !(seconds > 0 && seconds < 1e6)) {
        return false;
    }
    for (int size = 0; size < table->nsizes; ++size) {
        if (table->bytes[size] == bytes) {
            table->seconds[size][algo] = seconds;
        }
    }
    return true;
}

/* Leaves the file at the end of its last whole line: a run that was killed may have written half of one. */
static bool read_measured(tune_files_t *files, const char *first, tune_table_t *table)
{
    char text[LINE_LENGTH];
    long whole = 0;

    for (int line = 1; NULL != fgets(text, sizeof(text), files->measured); ++line) {
        if (NULL == strchr(text, '\n')) {
            break;
        }
        if (1 == line && 0 != strcmp(text, first)) {
            fprintf(stderr,
                    "%s: '%s' holds the times of another run; --fresh begins anew, or name another --output\n"
                    "  there: %s  here:  %s",
                    bench_program, files->path, text, first);
            return false;
        }
        if (line > 1 && !take_line(text, table)) {
            text[strcspn(text, "\n")] = '\0';
            fprintf(stderr,
                    "%s: %s:%d: '%s' is no time; use bytes=N algorithm=NAME seconds=T, or begin anew with --fresh\n",
                    bench_program, files->path, line, text);
            return false;
        }
        whole = ftell(files->measured);
    }
    if (ferror(files->measured) || 0 != ftruncate(fileno(files->measured), whole) ||
        0 != fseek(files->measured, whole, SEEK_SET)) {
        return complain("read", files->path);
    }
    if (0 == whole) {
        fputs(first, files->measured);
    }
    return 0 == fflush(files->measured) || complain("write", files->path);
}

/* A rules file that is not there is as good as an empty one; one that cannot be written to is found out now. */
static bool read_rules(tune_files_t *files)
{
    mscclpp_status_t status;
    FILE *file = fopen(files->output, "ae");

    if (NULL == file) {
        return complain("write", files->output);
    }
    fclose(file);
    status = mscclpp_rules_read(files->output, &files->rules);
    if (MSCCLPP_OK != status) {
        fprintf(stderr, "%s: --output '%s' has to be a rules file or a new one\n", bench_program, files->output);
    }
    return MSCCLPP_OK == status;
}

bool tune_files_open(tune_files_t *files, const tune_options_t *options, const bench_env_t *env, tune_table_t *table)
{
    char first[LINE_LENGTH];

    memset(files, 0, sizeof(*files));
    files->output = options->output;
    files->nranks = (uint32_t)env->size;
    files->on_host = env->on_host;
    if (snprintf(files->path, sizeof(files->path), "%s.%u-%s.measured", options->output, files->nranks,
                 files->on_host ? "host" : "cuda") >= (int)sizeof(files->path)) {
        errno = ENAMETOOLONG;
        return complain("write", options->output);
    }
    if (!read_rules(files)) {
        return false;
    }
    files->measured = fopen(files->path, options->fresh ? "w+e" : "r+e");
    if (NULL == files->measured && ENOENT == errno) {
        files->measured = fopen(files->path, "w+e");
    }
    if (NULL == files->measured) {
        complain("write", files->path);
        tune_files_close(files);
        return false;
    }
    describe_run(files, options, env, first, sizeof(first));
    if (!read_measured(files, first, table)) {
        tune_files_close(files);
        return false;
    }
    return true;
}

bool tune_files_add(tune_files_t *files, const tune_table_t *table, int size)
{
    for (int algo = 0; algo < table->nalgos; ++algo) {
        if (table->seconds[size][algo] > 0) {
            fprintf(files->measured, "bytes=%zu algorithm=%s seconds=%.9g\n", table->bytes[size],
                    mscclpp_algos[algo]->name, table->seconds[size][algo]);
        }
    }
    /* In one piece, as far as stdio can: the lines of a size are few. */
    return (0 == fflush(files->measured) && !ferror(files->measured)) || complain("write", files->path);
}

/* By way of another file, so that nobody ever sees half of the rules. */
bool tune_files_write_rules(tune_files_t *files, const tune_table_t *table, uint64_t *count_p)
{
    char path[sizeof(files->path)];
    mscclpp_rule_set_t set;
    FILE *file;
    bool ok;

    tune_make_rules(table, &set);
    mscclpp_rules_replace(files->rules, files->nranks, files->on_host, &set);
    snprintf(path, sizeof(path), "%s", files->path);
    snprintf(path + strlen(path) - strlen(".measured"), strlen(".measured") + 1, ".new");
    file = fopen(path, "we");
    if (NULL == file) {
        return complain("write", path);
    }
    fprintf(file, "# Written by mscclpp_tune " MSCCLPP_VERSION ", for the parameter coll_mscclpp_rules.\n");
    mscclpp_rules_write(files->rules, file);
    ok = 0 == fflush(file) && !ferror(file) && 0 == fsync(fileno(file));
    ok = 0 == fclose(file) && ok;
    if (!ok || 0 != rename(path, files->output)) {
        complain("write", files->output);
        unlink(path);
        return false;
    }
    *count_p = set.count;
    return true;
}

void tune_files_close(tune_files_t *files)
{
    if (NULL != files->measured) {
        fclose(files->measured);
        files->measured = NULL;
    }
    mscclpp_rules_destroy(files->rules);
    files->rules = NULL;
}
