/* Every replaced read, on a watched file: its data, its errno, and (by the
 * counters at the end) that it was seen. Prints how many reads should have been. */
#include "check.h"

extern ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
extern ssize_t __pread_chk(int fd, void *buf, size_t n, off_t offset, size_t room);
extern ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t room);

static unsigned char buf[2 * PAGE];
static struct iovec iov[2] = {{buf, PAGE / 2}, {buf + PAGE / 2, PAGE / 2}};

/* Calls a read in three ways: on the file (errno stays), on an invalid descriptor (EBADF), on a pipe. */
#define TRY(call_on, page)                                                                       \
    do {                                                                                         \
        memset(buf, 0xEE, sizeof buf);                                                           \
        int fd = file;                                                                           \
        errno = 4321;                                                                            \
        CHECK((call_on) == PAGE);                                                                \
        CHECK(errno == 4321);                                                                    \
        CHECK(holds(buf, PAGE, page));                                                           \
        CHECK(buf[PAGE] == 0xEE);                                                                \
        expected++;                                                                              \
        fd = -1;                                                                                 \
        CHECK((call_on) == -1 && errno == EBADF);                                                \
    } while (0)

static void answer(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    (void)arg, (void)marked_fd, (void)marked, (void)fd, (void)offset;
    errno = 77; /* an application may */
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    alarm(60);
    int file = open(argv[1], O_RDONLY), expected = 0, ends[2];
    CHECK(file >= 0);
    client_t client = register_client(answer, NULL);
    CHECK(client && register_region(client, file, 0, 1 << 30));

    CHECK(lseek(file, 3 * PAGE, SEEK_SET) == 3 * PAGE);
    TRY(read(fd, buf, PAGE), 3);
    TRY(readv(fd, iov, 2), 4);
    TRY(__read_chk(fd, buf, PAGE, sizeof buf), 5);
    CHECK(lseek(file, 0, SEEK_CUR) == 6 * PAGE);
    TRY(pread(fd, buf, PAGE, 10 * PAGE), 10);
    TRY(pread64(fd, buf, PAGE, 11 * PAGE), 11);
    TRY(__pread_chk(fd, buf, PAGE, 12 * PAGE, sizeof buf), 12);
    TRY(__pread64_chk(fd, buf, PAGE, 13 * PAGE, sizeof buf), 13);
    TRY(preadv(fd, iov, 2, 14 * PAGE), 14);
    TRY(preadv64(fd, iov, 2, 15 * PAGE), 15);
    TRY(preadv2(fd, iov, 2, 16 * PAGE, 0), 16);
    TRY(preadv64v2(fd, iov, 2, 17 * PAGE, 0), 17);
    TRY(preadv2(fd, iov, 2, -1, 0), 6);

    /* Not accesses: a query of the cache, an empty read, invalid arguments. */
    CHECK(preadv2(file, iov, 2, 16 * PAGE, RWF_NOWAIT) == PAGE || errno == EAGAIN || errno == EOPNOTSUPP);
    CHECK(pread(file, buf, 0, 20 * PAGE) == 0);
    CHECK(pread(file, buf, PAGE, -1) == -1 && errno == EINVAL);
    /* volatile: otherwise the compiler refuses the constant. */
    volatile int negative = -1, many = 5000;
    struct iovec *volatile nowhere = NULL;
    CHECK(readv(file, iov, negative) == -1 && errno == EINVAL);
    CHECK(readv(file, nowhere, 1) == -1 && errno == EFAULT);
    CHECK(preadv(file, iov, many, 0) == -1 && errno == EINVAL);
    CHECK(pread(file, buf, PAGE, (off_t)1 << 40) == 0);

    /* Reads of pipes pass. */
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    errno = 4321;
    CHECK(read(ends[0], buf, PAGE) == 1 && buf[0] == 'x' && errno == 4321);
    CHECK(pread(ends[0], buf, PAGE, 0) == -1 && errno == ESPIPE);

    errno = 4321;
    CHECK(unregister_client(client) == 0 && errno == 4321);
    read_page(file, 30);
    CHECK(close(file) == 0 && errno == 4321);
    CHECK(close(file) == -1 && errno == EBADF);
    printf("%d\n", expected);
    return 0;
}
