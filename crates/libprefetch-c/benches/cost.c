/* The cost of an intercepted read: nanoseconds of a pread of one page in memory, the least of several rounds.
 *
 *     cost MODE FILE OTHER      (scripts/bench-intercept compiles and runs it)
 *
 * MODE: `idle`, no client is registered; `other`, a client watches another file; `tracked`, a client watches this one and its list names
 * each read. The library is preloaded (LD_PRELOAD): without it, `idle` is a read of the C library.
 */
#include <fcntl.h>
#include <libprefetch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE_SIZE 4096
#define PAGES 4096
#define ROUNDS 400

#pragma weak register_client
#pragma weak register_region
#pragma weak request_prefetching

static size_t order[PAGES];
static struct access_entry list[PAGES];

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int fail(const char *what) {
    perror(what);
    return 2;
}

int main(int argc, char **argv) {
    static char page[PAGE_SIZE];
    if (argc != 4) {
        fprintf(stderr, "usage: cost idle|other|tracked FILE OTHER\n");
        return 2;
    }
    int file = open(argv[2], O_RDONLY), other = open(argv[3], O_RDONLY);
    if (file < 0 || other < 0)
        return fail("open");
    uint64_t seed = 1;
    for (size_t i = 0; i < PAGES; i++)
        order[i] = i;
    for (size_t i = PAGES; i > 1; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t j = (size_t)(seed >> 33) % i, swapped = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swapped;
    }
    for (size_t i = 0; i < PAGES; i++)
        list[i] = (struct access_entry){.pageOffset = (loff_t)(order[i] * PAGE_SIZE), .fd = file};
    bool tracked = strcmp(argv[1], "tracked") == 0;
    client_t client = NULL;
    if (tracked || strcmp(argv[1], "other") == 0) {
        if (register_client == NULL || (client = register_client(NULL, NULL)) == NULL)
            return fail("register_client");
        if (register_region(client, tracked ? file : other, 0, (loff_t)PAGES * PAGE_SIZE) == NULL)
            return fail("register_region");
    }
    uint64_t least = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        if (tracked && request_prefetching(client, list, PAGES, PF_SET | PF_DONE) != PAGES)
            return fail("request_prefetching");
        uint64_t begun = now();
        for (size_t i = 0; i < PAGES; i++)
            if (pread(file, page, PAGE_SIZE, (off_t)(order[i] * PAGE_SIZE)) != PAGE_SIZE)
                return fail("pread");
        uint64_t took = now() - begun;
        if (took < least)
            least = took;
    }
    printf("%.1f\n", (double)least / PAGES);
    return 0;
}
