/* Reads text files that users name. Opening one never blocks, and any contents are handled. */
#ifndef MCA_COMMON_BASE_FILE_H
#define MCA_COMMON_BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

/*
 * Opens a regular file, or the file to which a symbolic link leads. `flags` is O_RDONLY or O_RDWR. With O_CREAT in
 * addition, creates a file that all users may read and write, subject to the umask. The caller closes the file with
 * fclose. If the file cannot be opened, returns NULL, logs nothing, and stores the reason as text for a message in
 * *reason_p. Other kinds of files are refused. For example, opening a FIFO could make the process wait forever.
 */
FILE *mscclpp_file_open(const char *path, int flags, const char **reason_p);

/*
 * Reads a line with its newline, or the part of the line that fits into `size` bytes with a final '\0'. Returns the
 * number of bytes read, of which some may be zero bytes. Returns 0 at the end of the file and after an error (ferror).
 */
size_t mscclpp_file_line(FILE *file, char *text, size_t size);

#endif
