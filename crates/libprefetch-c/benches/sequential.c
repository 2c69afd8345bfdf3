/* Reads a file from its beginning to its end.
 *
 *     sequential MODE BLOCK FILE      (scripts/bench-libprefetch sequential compiles and runs it)
 *
 * MODE: `stock`, no client; `tracked`, a client watches the file, and its callback lists all coming pages in order, as for any other order.
 * BLOCK: bytes of a read.
 */
#include <fcntl.h>
#include <libprefetch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE 4096
#define BATCH 512

static client_t client;
static loff_t length;

/* Announces all pages from the requested one on. */
static void announce_rest(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    struct access_entry list[BATCH];
    int mode = PF_SET;
    (void)arg, (void)marked_fd, (void)marked;
    for (loff_t at = offset - offset % PAGE_SIZE; at < length; mode = PF_APPEND) {
        size_t n = 0;
        for (; n < BATCH && at < length; n++, at += PAGE_SIZE)
            list[n] = (struct access_entry){.pageOffset = at, .fd = fd};
        if (request_prefetching(client, list, n, at < length ? mode : mode | PF_DONE) < (ssize_t)n)
            return;
    }
}

static int fail(const char *what) {
    perror(what);
    return 2;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: sequential stock|tracked BLOCK FILE\n");
        return 2;
    }
    size_t block = strtoull(argv[2], NULL, 10);
    struct stat stat;
    char *buf = malloc(block);
    int file = open(argv[3], O_RDONLY);
    if (file < 0 || !buf || fstat(file, &stat) < 0)
        return fail(argv[3]);
    length = stat.st_size;
    if (strcmp(argv[1], "tracked") == 0 &&
        ((client = register_client(announce_rest, NULL)) == NULL || register_region(client, file, 0, length) == NULL))
        return fail("libprefetch");
    uint64_t sum = 0;
    loff_t done = 0;
    for (ssize_t got; (got = read(file, buf, block)) > 0; done += got)
        sum += (unsigned char)buf[0];
    if (done != length)
        return fail("read");
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
