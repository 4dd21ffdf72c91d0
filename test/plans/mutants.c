/*
 * Changes a few things in plans at random, and reads, checks and simulates what comes out: without a crash, and each
 * mutant within a minute. Usage: mutants [--count N] [--seed S] [--only I] [--keep DIR] FILE...
 * With --keep proven mutants are written to that folder. With --only one mutant alone is made, and written to
 * mutant.json.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/simulate.h"

enum { MAX_FILES = 256, MAX_SPANS = 1 << 16, BATCH = 500, SECONDS = 60 };

typedef struct {
    char *text;
    size_t size;
} text_t;

/* What the process that does the work tells the one that watches it. */
typedef struct {
    uint64_t current;
    uint64_t read, sound, proven, slowest_ms, slowest;
    uint64_t kinds[MSCCLPP_PLAN_UNREAD + 1];
} shared_t;

static shared_t *shared;
static const char *keep; /* the folder for proven mutants, or NULL */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static bool read_file(const char *path, text_t *text)
{
    FILE *file = fopen(path, "rb");
    size_t room = 8 << 20;

    if (file == NULL) {
        fprintf(stderr, "mutants: %s: %s\n", path, strerror(errno));
        return false;
    }
    text->text = malloc(room);
    text->size = text->text != NULL ? fread(text->text, 1, room, file) : 0;
    fclose(file);
    return text->size > 0;
}

/* A copy of a text with one span of it replaced. The caller frees it. */
static text_t replaced(const text_t *text, size_t from, size_t to, const char *with, size_t size)
{
    text_t next = {malloc(text->size + size + 1), text->size - (to - from) + size};

    if (next.text == NULL) {
        fprintf(stderr, "mutants: no memory\n");
        exit(1);
    }
    memcpy(next.text, text->text, from);
    memcpy(next.text + from, with, size);
    memcpy(next.text + from + size, text->text + to, text->size - to);
    return next;
}

/* A span that begins with one of `first` somewhere behind a random place: a number, a string, or what brackets hold. */
static bool find_span(const text_t *text, uint64_t *random, const char *first, size_t *from, size_t *to)
{
    size_t start = next_random(random) % text->size;
    int depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < text->size; ++i) {
        size_t at = (start + i) % text->size;

        if (text->text[at] == '\0' || strchr(first, text->text[at]) == NULL) {
            continue;
        }
        *from = at;
        for (*to = at; *to < text->size; ++*to) {
            char c = text->text[*to];

            if (*first == '0') {
                if (c < '0' || c > '9') {
                    return true;
                }
                continue;
            }
            quoted = c == '"' ? !quoted : quoted;
            depth += !quoted && (c == '{' || c == '[');
            depth -= !quoted && (c == '}' || c == ']');
            if (!quoted && depth == 0) {
                ++*to;
                return true;
            }
        }
        return false;
    }
    return false;
}

/* A copy of a text with one change. The caller frees it. */
static text_t mutate(const text_t *text, uint64_t *random)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "7",
                                          "64",
                                          "1000",
                                          "65536",
                                          "4294967295",
                                          "-1",
                                          "2.5",
                                          "1e9",
                                          "2147483648",
                                          "16",
                                          "1024",
                                          "true",
                                          "null",
                                          "\"x\"",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "4294967296",
                                          "9999999999999999999999"};
    size_t from = 0, to = 0, other_from = 0, other_to = 0;
    char number[32];
    const char *with;

    switch (next_random(random) % 10) {
    case 0: /* a byte */
        from = next_random(random) % text->size;
        number[0] = (char)next_random(random);
        return replaced(text, from, from + 1, number, 1);
    case 1: /* the end */
        from = next_random(random) % text->size;
        return replaced(text, from, next_random(random) % 2 != 0 ? text->size : from + 1, "", 0);
    case 2:
    case 3: /* a number by a near one */
        if (find_span(text, random, "0123456789", &from, &to)) {
            snprintf(number, sizeof(number), "%llu",
                     strtoull(text->text + from, NULL, 10) + (next_random(random) % 2 != 0 ? 1 : -1));
            return replaced(text, from, to, number, strlen(number));
        }
        break;
    case 4: /* a number by any */
        with = numbers[next_random(random) % (sizeof(numbers) / sizeof(numbers[0]))];
        if (find_span(text, random, "0123456789", &from, &to)) {
            return replaced(text, from, to, with, strlen(with));
        }
        break;
    case 5: /* a string, or what brackets hold, by another of the file */
        with = next_random(random) % 2 != 0 ? "\"" : "{[";
        if (find_span(text, random, with, &from, &to) && find_span(text, random, with, &other_from, &other_to)) {
            return replaced(text, from, to, text->text + other_from, other_to - other_from);
        }
        break;
    case 6: /* an entry left out */
    case 7: /* an entry twice */
    case 8: /* an entry elsewhere */
        if (find_span(text, random, "{", &from, &to)) {
            bool comma = to < text->size && text->text[to] == ',';

            if (next_random(random) % 3 == 0) {
                return replaced(text, from, comma ? to + 1 : to, "", 0);
            }
            if (next_random(random) % 2 == 0 && comma) {
                return replaced(text, to + 1, to + 1, text->text + from, to + 1 - from);
            }
            if (comma && find_span(text, random, "{", &other_from, &other_to)) {
                return replaced(text, other_from, other_from, text->text + from, to + 1 - from);
            }
        }
        break;
    default: /* the operation */
        if (find_span(text, random, "\"", &from, &to)) {
            static const char *const words[] = {"\"nop\"",    "\"put\"",      "\"get\"",   "\"copy\"",     "\"signal\"",
                                                "\"wait\"",   "\"ppkt\"",     "\"repkt\"", "\"port\"",     "\"memory\"",
                                                "\"s\"",      "\"i\"",        "\"o\"",     "\"pipeline\"", "\"LL\"",
                                                "\"custom\"", "\"alltoall\"", "\"re\""};

            with = words[next_random(random) % (sizeof(words) / sizeof(words[0]))];
            return replaced(text, from, to, with, strlen(with));
        }
        break;
    }
    return replaced(text, 0, 0, "", 0);
}

static void write_to(const char *path, const text_t *text)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(text->text, 1, text->size, file) != text->size || fclose(file) != 0) {
        fprintf(stderr, "mutants: %s cannot be written\n", path);
        exit(1);
    }
}

/* Reads, checks and simulates one mutant, and counts what became of it. */
static void judge(const text_t *text, uint64_t number)
{
    char path[4096];
    mscclpp_plan_sim_options_t options = {.launches = MSCCLPP_PLAN_LAUNCHES, .seed = 1};
    mscclpp_plan_sim_stats_t stats;
    mscclpp_plan_report_t report;
    mscclpp_plan_t *plan = NULL;
    mscclpp_plan_kind_t worst = MSCCLPP_PLAN_NOTE;

    mscclpp_plan_report_init(&report);
    if (mscclpp_plan_parse(text->text, text->size, &report, &plan) == MSCCLPP_OK) {
        ++shared->read;
        if (mscclpp_plan_check(plan, &report)) {
            ++shared->sound;
            if (mscclpp_plan_simulate(plan, &options, &report, &stats)) {
                ++shared->proven;
                if (keep != NULL) {
                    snprintf(path, sizeof(path), "%s/mutant-%llu.json", keep, (unsigned long long)number);
                    write_to(path, text);
                }
            }
        }
        mscclpp_plan_free(plan);
    }
    for (int i = 0; i < report.count; ++i) {
        worst = report.findings[i].kind > worst ? report.findings[i].kind : worst;
        if (report.findings[i].text == NULL || *report.findings[i].text == '\0') {
            fprintf(stderr, "mutants: a finding without a text\n");
            exit(1);
        }
    }
    ++shared->kinds[worst];
    mscclpp_plan_report_destroy(&report);
}

static uint64_t now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* Makes the i-th mutant and judges it. `save`: where to write it first, or NULL. */
static void try_mutant(const text_t *files, int count, uint64_t seed, uint64_t i, const char *save)
{
    uint64_t random = seed * 0x100000001b3u + i, start = now_ms();
    const text_t *base = &files[next_random(&random) % (uint64_t)count];
    text_t text = replaced(base, 0, 0, "", 0), next;
    int changes = 1 + (int)(next_random(&random) % 3);

    for (int k = 0; k < changes && text.size > 0; ++k) {
        next = mutate(&text, &random);
        free(text.text);
        text = next;
    }
    if (save != NULL) {
        write_to(save, &text);
    }
    alarm(SECONDS);
    judge(&text, i);
    alarm(0);
    free(text.text);
    if (now_ms() - start > shared->slowest_ms) {
        shared->slowest_ms = now_ms() - start;
        shared->slowest = i;
    }
}

/* Tries some mutants in a process of its own, so that a crash or a hang can be told. False after one. */
static bool run_batch(const text_t *files, int count, uint64_t seed, uint64_t from, uint64_t to)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        for (shared->current = from; shared->current < to; ++shared->current) {
            try_mutant(files, count, seed, shared->current, NULL);
        }
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        perror("mutants");
        return false;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    printf("failed: mutant %llu of seed %llu: %s %d (--only %llu writes it to mutant.json)\n",
           (unsigned long long)shared->current, (unsigned long long)seed,
           WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "still busy after a minute, signal"
           : WIFSIGNALED(status)                              ? "signal"
                                                              : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), (unsigned long long)shared->current);
    return false;
}

int main(int argc, char **argv)
{
    static text_t files[MAX_FILES];
    uint64_t total = 2000, seed = 1, only = UINT64_MAX, failed = 0;
    int count = 0;

    for (int i = 1; i < argc; ++i) {
        uint64_t *number = strcmp(argv[i], "--count") == 0  ? &total
                           : strcmp(argv[i], "--seed") == 0 ? &seed
                           : strcmp(argv[i], "--only") == 0 ? &only
                                                            : NULL;

        if (strcmp(argv[i], "--keep") == 0 && i + 1 < argc) {
            keep = argv[++i];
        } else if (number != NULL && i + 1 < argc) {
            *number = strtoull(argv[++i], NULL, 10);
        } else if (count < MAX_FILES && read_file(argv[i], &files[count])) {
            ++count;
        } else {
            return 2;
        }
    }
    if (count == 0) {
        fprintf(stderr, "Usage: mutants [--count N] [--seed S] [--only I] [--keep DIR] FILE...\n");
        return 2;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mutants");
        return 1;
    }
    if (only != UINT64_MAX) {
        try_mutant(files, count, seed, only, "mutant.json");
        return 0;
    }
    for (uint64_t i = 0; i < total && failed < 10; i += BATCH) {
        failed += !run_batch(files, count, seed, i, i + BATCH < total ? i + BATCH : total);
    }
    printf(
        "%llu mutants of %d plans, seed %llu: %llu were read, %llu kept the rules, %llu are proven; the slowest, %llu, "
        "took %llu ms\n",
        (unsigned long long)total, count, (unsigned long long)seed, (unsigned long long)shared->read,
        (unsigned long long)shared->sound, (unsigned long long)shared->proven, (unsigned long long)shared->slowest,
        (unsigned long long)shared->slowest_ms);
    for (int kind = 0; kind <= MSCCLPP_PLAN_UNREAD; ++kind) {
        printf("  %-12s %llu\n", kind == MSCCLPP_PLAN_NOTE ? "ok" : mscclpp_plan_kind_name((mscclpp_plan_kind_t)kind),
               (unsigned long long)shared->kinds[kind]);
        /* A campaign that never gets past the parser, or never fails, tests nothing. */
        failed += total >= 1000 && shared->kinds[kind] == 0;
    }
    return failed > 0 ? 1 : 0;
}
