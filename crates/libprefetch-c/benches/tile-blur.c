/* Blurs an image in tiles that lie in a swap file (ATC'09 section 5.3), as the simulator's `tile-blur` does it: the image is made row by row; then a pass by
 * columns reads it and writes a second copy, a pass by rows reads that and writes it in place, and the last, by rows, reads it and writes a third copy.
 *
 *     tile-blur FILE SIDE CACHE TILE_US      (scripts/bench-libprefetch paired compiles and runs it)
 *
 * FILE: the swap file, three copies long. SIDE: tiles of a row and of a column. CACHE: tiles in the program's own cache, the least recently used of which is
 * evicted. TILE_US: processor time of a tile in a pass. Prints "made" when the image has been made, and the seconds from there to the end.
 */
#include "timed.h"
#include <fcntl.h>
#include <libprefetch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TILE 16384
#define PAGE_SIZE 4096
#define NONE UINT32_MAX
#define BATCH 4096

struct tile {
    uint32_t place;       /* in the swap file, in tiles; assigned at the first write */
    uint32_t older, newer; /* by use, of cached tiles */
    uint32_t slot;        /* of the cache, or NONE */
    int changed;
};

struct pass {
    int from, to, by_columns; /* copies; from: -1 while the image is made */
};

static const struct pass PASSES[] = {{-1, 0, 0}, {0, 1, 1}, {1, 1, 0}, {1, 2, 0}};

static struct tile *tiles;
static char *cache;
static uint32_t side, all, room, cached, oldest = NONE, newest = NONE, next_place, free_slot;
static client_t client;
static int swap_file;
static size_t pass_number;
static uint32_t done;

static uint32_t tile_at(struct pass pass, int copy, uint32_t n) {
    return (uint32_t)copy * all + (pass.by_columns ? n % side * side + n / side : n);
}

static void unlink_tile(uint32_t number) {
    struct tile *tile = &tiles[number];
    *(tile->older == NONE ? &oldest : &tiles[tile->older].newer) = tile->newer;
    *(tile->newer == NONE ? &newest : &tiles[tile->newer].older) = tile->older;
}

static void link_newest(uint32_t number) {
    struct tile *tile = &tiles[number];
    tile->older = newest;
    tile->newer = NONE;
    *(newest == NONE ? &oldest : &tiles[newest].newer) = number;
    newest = number;
}

static void check(ssize_t got, const char *what) {
    if (got != TILE) {
        perror(what);
        exit(2);
    }
}

static void evict_oldest(void) {
    uint32_t number = oldest;
    struct tile *tile = &tiles[number];
    unlink_tile(number);
    if (tile->changed) {
        if (tile->place == NONE)
            tile->place = next_place++;
        check(pwrite(swap_file, cache + (size_t)tile->slot * TILE, TILE, (off_t)tile->place * TILE), "pwrite");
    }
    free_slot = tile->slot;
    tile->slot = NONE;
    tile->changed = 0;
    cached--;
}

/* Uses a tile: reads it if it is not cached, and evicts another if there is no room. */
static void touch(uint32_t number, int changed) {
    struct tile *tile = &tiles[number];
    if (tile->slot == NONE) {
        tile->slot = free_slot == NONE ? cached : free_slot;
        free_slot = NONE;
        if (tile->place != NONE)
            check(pread(swap_file, cache + (size_t)tile->slot * TILE, TILE, (off_t)tile->place * TILE), "pread");
        cached++;
    } else {
        unlink_tile(number);
    }
    link_newest(number);
    tile->changed |= changed;
    if (changed)
        memset(cache + (size_t)tile->slot * TILE, (int)number, TILE);
    if (cached > room)
        evict_oldest();
}

/* Announces the pages of the pass to come, from the requested one on. */
static void announce_rest(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    static struct access_entry list[BATCH];
    struct pass pass = PASSES[pass_number];
    int mode = PF_SET, found = 0;
    size_t n = 0;
    (void)arg, (void)marked_fd, (void)marked;
    for (uint32_t next = done; pass.from >= 0 && next < all; next++) {
        uint32_t place = tiles[tile_at(pass, pass.from, next)].place;
        for (loff_t page = (loff_t)place * TILE; place != NONE && page < ((loff_t)place + 1) * TILE; page += PAGE_SIZE) {
            if (!(found |= page == offset))
                continue;
            list[n++] = (struct access_entry){.pageOffset = page, .fd = fd};
            if (n < BATCH)
                continue;
            if (request_prefetching(client, list, n, mode) < (ssize_t)n) {
                request_prefetching(client, NULL, 0, PF_APPEND | PF_DONE);
                return;
            }
            mode = PF_APPEND;
            n = 0;
        }
    }
    request_prefetching(client, list, n, mode | PF_DONE);
}

static void run_pass(struct pass pass, uint64_t tile_us) {
    for (done = 0; done < all; done++) {
        if (pass.from >= 0) {
            touch(tile_at(pass, pass.from, done), pass.to == pass.from);
            compute_us(tile_us);
        }
        if (pass.from != pass.to)
            touch(tile_at(pass, pass.to, done), 1);
    }
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: tile-blur FILE SIDE CACHE TILE_US\n");
        return 2;
    }
    side = (uint32_t)strtoul(argv[2], NULL, 10);
    room = (uint32_t)strtoul(argv[3], NULL, 10);
    all = side * side;
    free_slot = NONE;
    tiles = malloc(3 * (size_t)all * sizeof *tiles);
    cache = calloc(room + 1, TILE);
    swap_file = open(argv[1], O_RDWR);
    if (!tiles || !cache || swap_file < 0 || !(client = register_client(announce_rest, NULL)) ||
        !register_region(client, swap_file, 0, 3 * (loff_t)all * TILE)) {
        perror(argv[1]);
        return 2;
    }
    for (size_t number = 0; number < 3 * (size_t)all; number++)
        tiles[number] = (struct tile){.place = NONE, .slot = NONE, .older = NONE, .newer = NONE};
    uint64_t begun = 0;
    for (pass_number = 0; pass_number < sizeof PASSES / sizeof *PASSES; pass_number++) {
        run_pass(PASSES[pass_number], strtoull(argv[4], NULL, 10));
        if (begun == 0) {
            begun = clock_us(CLOCK_MONOTONIC);
            printf("made\n");
            fflush(stdout);
        }
    }
    print_seconds_since(begun);
    return 0;
}
