/* Reads a byte of each page of its memory in turn (ATC'09 section 5.6) until it has used the processor for so long.
 *
 *     mem-walk MIB SECONDS      (scripts/bench-libprefetch paired compiles and runs it)
 *
 * Prints the seconds that it took.
 */
#include "timed.h"
#include <stdlib.h>

#define PAGE_SIZE 4096

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: mem-walk MIB SECONDS\n");
        return 2;
    }
    size_t length = strtoull(argv[1], NULL, 10) << 20;
    uint64_t us = (uint64_t)(strtod(argv[2], NULL) * 1e6);
    volatile char *memory = malloc(length);
    if (!memory)
        return 2;
    for (size_t at = 0; at < length; at += PAGE_SIZE)
        memory[at] = (char)at;
    uint64_t begun = clock_us(CLOCK_MONOTONIC), end = clock_us(CLOCK_THREAD_CPUTIME_ID) + us;
    unsigned sum = 0;
    while (clock_us(CLOCK_THREAD_CPUTIME_ID) < end)
        for (size_t at = 0; at < length; at += PAGE_SIZE)
            sum += (unsigned char)memory[at];
    fprintf(stderr, "%u\n", sum);
    print_seconds_since(begun);
    return 0;
}
