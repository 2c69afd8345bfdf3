/* Time of a program: what it used of the processor, and when its work began and ended. */
#ifndef TIMED_H
#define TIMED_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline uint64_t clock_us(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_nsec / 1000;
}

/* Uses the processor for so long. */
static inline void compute_us(uint64_t us) {
    uint64_t end = clock_us(CLOCK_THREAD_CPUTIME_ID) + us;
    while (us && clock_us(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
}

/* The seconds since the work began, as the last line that the program prints. */
static inline void print_seconds_since(uint64_t begun_us) {
    printf("%.6f\n", (double)(clock_us(CLOCK_MONOTONIC) - begun_us) / 1e6);
}

#endif
