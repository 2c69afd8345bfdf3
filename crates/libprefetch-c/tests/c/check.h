/* Shared by the test programs: a file whose page i is filled with the byte i, and checks. */
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <libprefetch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define CHECK(what)                                                                              \
    do {                                                                                         \
        if (!(what)) {                                                                           \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", __FILE__, __LINE__, #what,   \
                    errno);                                                                      \
            _exit(1);                                                                            \
        }                                                                                        \
    } while (0)

static inline int holds(const unsigned char *buf, size_t n, int page) {
    for (size_t i = 0; i < n; i++)
        if (buf[i] != (unsigned char)page)
            return 0;
    return 1;
}

/* Reads a page of the file and checks it. */
static inline void read_page(int fd, int page) {
    unsigned char buf[PAGE];
    CHECK(pread(fd, buf, PAGE, (off_t)page * PAGE) == PAGE);
    CHECK(holds(buf, PAGE, page));
}

static inline struct access_entry entry(int fd, int page, bool mark) {
    struct access_entry entry = {(loff_t)page * PAGE, fd, mark};
    return entry;
}
#endif
