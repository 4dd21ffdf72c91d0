/* Shows the progress of a run on standard error. */
#include "tools/tune/tune.h"

#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 40
#define REDRAW_SECONDS 0.1 /* within a size, the bar is redrawn only if it is older than this */

/*
 * Returns true if the standard error of this process appears on a terminal. mpirun gives its processes a pipe, and
 * copies the contents to its own standard error. So the function also examines the standard error of the parent
 * process. Returns false if that is no terminal, or if the launcher does not let it be examined.
 */
static bool reaches_terminal(void)
{
    char link[64], target[64];
    ssize_t length;

    if (isatty(STDERR_FILENO)) {
        return true;
    }
    snprintf(link, sizeof(link), "/proc/%ld/fd/%d", (long)getppid(), STDERR_FILENO);
    length = readlink(link, target, sizeof(target) - 1);
    if (length <= 0) {
        return false;
    }
    target[length] = '\0';
    return 0 == strncmp(target, "/dev/pts/", 9) || 0 == strncmp(target, "/dev/tty", 8);
}

void tune_progress_init(tune_progress_t *progress, tune_progress_mode_t mode, const char *name, int index, int count)
{
    memset(progress, 0, sizeof(*progress));
    if (count > 1) {
        snprintf(progress->prefix, sizeof(progress->prefix), "%s (%d of %d): ", name, index + 1, count);
    }
    progress->mode = mode;
    if (TUNE_PROGRESS_AUTO == mode) {
        progress->mode = reaches_terminal() ? TUNE_PROGRESS_BAR : TUNE_PROGRESS_LINES;
    }
}

/* Writes how much time is left to `text`, of `length` bytes. `seconds` is negative if it is not known. */
static void describe_time_left(double seconds, char *text, size_t length)
{
    if (seconds < 0) {
        snprintf(text, length, "time left not known yet");
    } else if (seconds < 90) {
        snprintf(text, length, "about %.0f s left", seconds);
    } else {
        snprintf(text, length, "about %.0f min left", seconds / 60);
    }
}

/*
 * Prints a line, or draws the bar, which it does at most once in REDRAW_SECONDS unless a size has been finished. The
 * bar has at most BAR_WIDTH marks, because `fraction` is never above 1, and is 0 when all sizes are done. Each bar
 * begins at the left edge of the line and overwrites the previous bar.
 */
void tune_progress_show(tune_progress_t *progress, int sizes_done, int size_count, double fraction, double seconds_left,
                        bool size_done)
{
    double now = bench_now();
    char time_left[64], bar[BAR_WIDTH + 1];
    int marks = (int)(BAR_WIDTH * (sizes_done + fraction) / size_count);

    describe_time_left(seconds_left, time_left, sizeof(time_left));
    if (TUNE_PROGRESS_LINES == progress->mode && size_done) {
        fprintf(stderr, "%s: %s%d of %d sizes, %s\n", bench_program, progress->prefix, sizes_done, size_count,
                time_left);
    } else if (TUNE_PROGRESS_BAR == progress->mode && (size_done || now - progress->drawn_at > REDRAW_SECONDS)) {
        memset(bar, '.', sizeof(bar));
        memset(bar, '#', (size_t)marks);
        bar[BAR_WIDTH] = '\0';
        fprintf(stderr, "\r[%s] %s%d of %d sizes, %s\033[K", bar, progress->prefix, sizes_done, size_count, time_left);
        progress->drawn_at = now;
        progress->is_visible = true;
    }
    fflush(stderr);
}

void tune_progress_hide(tune_progress_t *progress)
{
    if (progress->is_visible) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
        progress->is_visible = false;
    }
}
