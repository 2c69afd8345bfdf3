/* Registers a client and prints whether the program has gained rights. */
#include "check.h"
#include <sys/auxv.h>

int main(int argc, char **argv) {
    int file = open(argc ? argv[0] : "", O_RDONLY);
    client_t client = register_client(NULL, NULL);
    unsigned char buf[PAGE];
    CHECK(client && file >= 0 && register_region(client, file, 0, PAGE));
    CHECK(pread(file, buf, PAGE, 0) == PAGE);
    puts(getauxval(AT_SECURE) ? "secure" : "plain");
    return 0;
}
