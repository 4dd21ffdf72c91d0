/* Files of text that users name. They are opened without waiting for anybody, and are not trusted to be text. */
#ifndef MCA_COMMON_BASE_FILE_H
#define MCA_COMMON_BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

/*
 * Opens a regular file, or the one that a symbolic link leads to, with O_RDONLY or O_RDWR; with O_CREAT beside that it
 * makes one that all may read and write but for the umask. Returns NULL otherwise, with the reason as a text for a
 * message: a FIFO, for one, would let the process wait for ever.
 */
FILE *mscclpp_file_open(const char *path, int flags, const char **reason_p);

/*
 * Reads up to the next newline, which is kept, or what fits into `size` bytes with the '\0' behind it. Returns how many
 * bytes that are, zero bytes among them; 0 at the end of the file and on an error (ferror).
 */
size_t mscclpp_file_line(FILE *file, char *text, size_t size);

#endif
