/* A recursive blur over a tiled grey image of libtiff, along its rows or down its columns. Tiles of a column lie apart in the file.
 *
 *     cc tiles.c -o tiles $(pkg-config --cflags --libs libtiff-4)
 *     ./tiles make FILE ACROSS DOWN        an image of so many tiles of 128 x 128
 *     ./tiles rows|columns FILE            prints a sum over the blurred pixels
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

#define SIDE 128

static uint32_t across, down;

/* The tile at a position of the pass. */
static uint32_t tile_at(int columns, uint32_t place) {
    return columns ? place % down * across + place / down : place;
}

/* Blurs a tile in the direction of the pass, starting from the last tile; returns its part of the sum. */
static uint64_t blur(int columns, const uint8_t *tile, uint32_t *last) {
    uint64_t sum = 0;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            uint32_t *carried = &last[columns ? x : y];
            *carried = (*carried * 7 + tile[y * SIDE + x] * 256u) / 8;
            sum = sum * 31 + *carried / 256;
        }
    return sum;
}

static int pass(TIFF *tiff, int columns) {
    static uint8_t tile[SIDE * SIDE];
    static uint32_t last[SIDE];
    uint64_t sum = 0;
    for (uint32_t place = 0; place < across * down; place++) {
        if (place % (columns ? down : across) == 0)
            memset(last, 0, sizeof last);
        if (TIFFReadEncodedTile(tiff, tile_at(columns, place), tile, sizeof tile) != sizeof tile)
            return 2;
        sum = sum * 31 + blur(columns, tile, last);
    }
    printf("%u tiles, sum %016llx\n", across * down, (unsigned long long)sum);
    return 0;
}

static int make(TIFF *tiff) {
    static uint8_t tile[SIDE * SIDE];
    uint32_t seed = 1;
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, across * SIDE);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, down * SIDE);
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, SIDE);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, SIDE);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    for (uint32_t number = 0; number < across * down; number++) {
        for (size_t at = 0; at < sizeof tile; at++)
            tile[at] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
        if (TIFFWriteEncodedTile(tiff, number, tile, sizeof tile) != sizeof tile)
            return 2;
    }
    return 0;
}

int main(int argc, char **argv) {
    int makes = argc == 5 && strcmp(argv[1], "make") == 0;
    if (!makes && (argc != 3 || (strcmp(argv[1], "rows") && strcmp(argv[1], "columns")))) {
        fprintf(stderr, "usage: tiles make FILE ACROSS DOWN | tiles rows|columns FILE\n");
        return 2;
    }
    TIFF *tiff = TIFFOpen(argv[2], makes ? "w" : "r");
    if (!tiff)
        return 2;
    int status;
    if (makes) {
        across = (uint32_t)strtoul(argv[3], NULL, 10);
        down = (uint32_t)strtoul(argv[4], NULL, 10);
        status = make(tiff);
    } else {
        uint32_t width = 0, height = 0;
        TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
        TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
        across = width / SIDE;
        down = height / SIDE;
        status = pass(tiff, strcmp(argv[1], "columns") == 0);
    }
    TIFFClose(tiff);
    return status;
}
