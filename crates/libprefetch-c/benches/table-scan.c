/* A table read in the order of a secondary index (ATC'09 section 5.4), as the simulator's `table-scan` does it: a page of the index, then the pages of the rows to
 * which its entries point. The index lies behind the table; rows lie in random order.
 *
 *     table-scan FILE ROW_BYTES ROW_US SEED      (scripts/bench-libprefetch paired compiles and runs it)
 *
 * ROW_US: processor time of a row. Prints the seconds that it took.
 */
#include "timed.h"
#include <fcntl.h>
#include <libprefetch.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE 4096
#define ENTRIES 220 /* of a page of the index */
#define BATCH 4096

struct scan {
    client_t client;
    int fd;
    size_t table; /* pages of the table */
    size_t reads; /* in all */
    size_t at;    /* reads made */
    uint32_t *pages;
};

/* The pages in the order of the reads. */
static int list_reads(struct scan *scan, size_t pages, size_t row_bytes, uint64_t seed) {
    size_t rows = pages * PAGE_SIZE / row_bytes, index = (rows + ENTRIES - 1) / ENTRIES;
    uint32_t *order = malloc(rows * sizeof *order);
    scan->table = pages - index;
    scan->pages = malloc((rows + index) * sizeof *scan->pages);
    if (!order || !scan->pages)
        return 0;
    for (size_t row = 0; row < rows; row++)
        order[row] = (uint32_t)(row * scan->table / rows);
    for (size_t last = rows; last > 1; last--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t other = (size_t)(seed >> 33) % last;
        uint32_t page = order[last - 1];
        order[last - 1] = order[other];
        order[other] = page;
    }
    for (size_t row = 0; row < rows; row++) {
        if (row % ENTRIES == 0)
            scan->pages[scan->reads++] = (uint32_t)(scan->table + row / ENTRIES);
        scan->pages[scan->reads++] = order[row];
    }
    free(order);
    return 1;
}

/* Announces all reads to come; marks those of the index. */
static void announce_rest(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    static struct access_entry list[BATCH];
    struct scan *scan = arg;
    int mode = PF_SET;
    (void)marked_fd, (void)marked, (void)offset;
    for (size_t next = scan->at; next < scan->reads; mode = PF_APPEND) {
        size_t n = 0;
        for (; n < BATCH && next < scan->reads; n++, next++)
            list[n] = (struct access_entry){
                .pageOffset = (loff_t)scan->pages[next] * PAGE_SIZE, .fd = fd, .mark = scan->pages[next] >= scan->table};
        if (request_prefetching(scan->client, list, n, next < scan->reads ? mode : mode | PF_DONE) < (ssize_t)n)
            return;
    }
}

int main(int argc, char **argv) {
    static char page[PAGE_SIZE];
    struct scan scan = {0};
    struct stat stat;
    if (argc != 5) {
        fprintf(stderr, "usage: table-scan FILE ROW_BYTES ROW_US SEED\n");
        return 2;
    }
    uint64_t row_us = strtoull(argv[3], NULL, 10);
    scan.fd = open(argv[1], O_RDONLY);
    if (scan.fd < 0 || fstat(scan.fd, &stat) < 0 ||
        !list_reads(&scan, (size_t)stat.st_size / PAGE_SIZE, strtoull(argv[2], NULL, 10), strtoull(argv[4], NULL, 10)) ||
        (scan.client = register_client(announce_rest, &scan)) == NULL ||
        !register_region(scan.client, scan.fd, 0, stat.st_size)) {
        perror(argv[1]);
        return 2;
    }
    uint64_t begun = clock_us(CLOCK_MONOTONIC);
    for (; scan.at < scan.reads; scan.at++) {
        if (pread(scan.fd, page, PAGE_SIZE, (off_t)scan.pages[scan.at] * PAGE_SIZE) != PAGE_SIZE) {
            perror("pread");
            return 2;
        }
        if (scan.pages[scan.at] < scan.table)
            compute_us(row_us);
    }
    print_seconds_since(begun);
    return 0;
}
