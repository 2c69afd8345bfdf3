/* Reads every page of a file once, in an order of its own, and announces the order to libprefetch.
 *
 *     cc scan.c -o scan $(pkg-config --cflags --libs libprefetch)
 *     ./scan FILE [SEED]
 *
 * The callback is that of the paper's figure 7. Prints the number of pages and a sum over their
 * contents in the order of the reads. With FORESEEK_DISABLE=1 the output is the same, only later.
 */
#include <errno.h>
#include <fcntl.h>
#include <libprefetch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE 4096
#define BATCH_SIZE 512

struct scan {
    client_t client;
    int fd;
    size_t pages;
    size_t *order;    /* the order of access: page numbers */
    size_t *position; /* where in the order a page comes */
};

/* Announces the rest of the order, from the requested page on. */
static void announce_rest(void *arg, int marked_fd, loff_t marked_offset, int fd, loff_t offset) {
    struct scan *scan = arg;
    struct access_entry accesses[BATCH_SIZE];
    size_t next = scan->position[offset / PAGE_SIZE];
    int mode = PF_SET;
    (void)marked_fd, (void)marked_offset;

    for (;;) {
        size_t n = 0;
        for (; n < BATCH_SIZE && next < scan->pages; n++, next++) {
            accesses[n].pageOffset = (loff_t)(scan->order[next] * PAGE_SIZE);
            accesses[n].fd = fd;
            accesses[n].mark = false;
        }
        if (next == scan->pages)
            mode |= PF_DONE;
        ssize_t accepted = request_prefetching(scan->client, accesses, n, mode);
        if (accepted < (ssize_t)n || next == scan->pages)
            return; /* the list is full, or everything has been announced */
        mode = PF_APPEND;
    }
}

static void shuffle(struct scan *scan, uint64_t seed) {
    for (size_t i = 0; i < scan->pages; i++)
        scan->order[i] = i;
    for (size_t i = scan->pages; i > 1; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t j = (size_t)(seed >> 33) % i, page = scan->order[i - 1];
        scan->order[i - 1] = scan->order[j];
        scan->order[j] = page;
    }
    for (size_t i = 0; i < scan->pages; i++)
        scan->position[scan->order[i]] = i;
}

static int fail(const char *what, const char *path) {
    fprintf(stderr, "scan: %s %s: %s\n", what, path, strerror(errno));
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: scan FILE [SEED]\n");
        return 2;
    }
    struct scan scan = {0};
    struct stat stat;
    scan.fd = open(argv[1], O_RDONLY);
    if (scan.fd < 0 || fstat(scan.fd, &stat) < 0)
        return fail("cannot open", argv[1]);
    scan.pages = (size_t)stat.st_size / PAGE_SIZE;
    scan.order = calloc(scan.pages + 1, sizeof *scan.order);
    scan.position = calloc(scan.pages + 1, sizeof *scan.position);
    if (!scan.order || !scan.position)
        return fail("cannot hold the order of", argv[1]);
    shuffle(&scan, argc > 2 ? strtoull(argv[2], NULL, 10) : 1);

    scan.client = register_client(announce_rest, &scan);
    if (!scan.client || (scan.pages && !register_region(scan.client, scan.fd, 0, stat.st_size)))
        return fail("cannot watch", argv[1]);

    uint64_t sum = 0;
    for (size_t i = 0; i < scan.pages; i++) {
        unsigned char page[PAGE_SIZE];
        if (pread(scan.fd, page, sizeof page, (off_t)(scan.order[i] * PAGE_SIZE)) != PAGE_SIZE)
            return fail("cannot read", argv[1]);
        for (size_t byte = 0; byte < sizeof page; byte++)
            sum = sum * 31 + page[byte];
    }
    printf("%zu pages, sum %016llx\n", scan.pages, (unsigned long long)sum);
    unregister_client(scan.client);
    free(scan.order);
    free(scan.position);
    return 0;
}
