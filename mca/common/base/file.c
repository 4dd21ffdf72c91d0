#include "mca/common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens with O_NONBLOCK, because opening a FIFO would otherwise wait for its other end before it can be refused. */
FILE *mscclpp_file_open(const char *path, int flags, const char **reason_p)
{
    int descriptor = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    struct stat status;
    FILE *file = NULL;

    if (descriptor < 0 || 0 != fstat(descriptor, &status)) {
        *reason_p = strerror(errno);
    } else if (!S_ISREG(status.st_mode)) {
        *reason_p = "neither a regular file nor a link to one";
    } else if ((file = fdopen(descriptor, 0 != (flags & O_RDWR) ? "r+" : "r")) == NULL) {
        *reason_p = strerror(errno);
    }
    if (file == NULL && descriptor >= 0) {
        (void)close(descriptor);
    }
    return file;
}

size_t mscclpp_file_line(FILE *file, char *text, size_t size)
{
    size_t length = 0;
    int byte = 0;

    while (length + 1 < size && '\n' != byte && EOF != (byte = getc(file))) {
        text[length++] = (char)byte;
    }
    text[length] = '\0';
    return ferror(file) ? 0 : length;
}
