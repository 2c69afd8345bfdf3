/* Reads a watched file page by page, from its end, in the way of the argument, and checks the data. Prints the number of reads, or
 * `cannot: why` if the machine does not have this way. The counters at the end show which of them the library saw. */
#include "check.h"
#include <aio.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int file, pages, output[2], copy = -1;
static client_t client;
static void *page;
static const char *path;

static void cannot(const char *what) {
    printf("cannot: %s: %s\n", what, strerror(errno));
    exit(0);
}

/* --- ways: each reads a page of the file to `page`, or returns its address ----------------------- */

#define START(number) ((off_t)(number) * PAGE)

static void *by_read(int number) {
    CHECK(lseek(file, START(number), SEEK_SET) == START(number) && read(file, page, PAGE) == PAGE);
    return page;
}

static void *by_pread(int number) {
    CHECK(pread(file, page, PAGE, START(number)) == PAGE);
    return page;
}

static struct iovec *halves(void) {
    static struct iovec iov[2];
    iov[0] = (struct iovec){page, PAGE / 2};
    iov[1] = (struct iovec){(char *)page + PAGE / 2, PAGE / 2};
    return iov;
}

static void *by_readv(int number) {
    CHECK(lseek(file, START(number), SEEK_SET) == START(number) && readv(file, halves(), 2) == PAGE);
    return page;
}

static void *by_preadv(int number) {
    CHECK(preadv(file, halves(), 2, START(number)) == PAGE);
    return page;
}

static void *by_preadv2(int number) {
    CHECK(preadv2(file, halves(), 2, START(number), 0) == PAGE);
    return page;
}

/* A query of the cache, and a read if the page is not there. */
static void *by_nowait(int number) {
    if (preadv2(file, halves(), 2, START(number), RWF_NOWAIT) != PAGE)
        CHECK(syscall(SYS_pread64, file, page, PAGE, START(number)) == PAGE);
    return page;
}

static void *by_syscall(int number) {
    CHECK(syscall(SYS_pread64, file, page, PAGE, START(number)) == PAGE);
    return page;
}

static void *by_stdio(int number) {
    static FILE *stream;
    CHECK(stream || (stream = fdopen(file, "r")));
    CHECK(fseeko(stream, START(number), SEEK_SET) == 0 && fread(page, 1, PAGE, stream) == PAGE);
    return page;
}

static void *mapped(int number) {
    static char *map;
    if (!map) {
        CHECK((map = mmap(NULL, (size_t)pages * PAGE, PROT_READ, MAP_SHARED, file, 0)) != MAP_FAILED);
        CHECK(madvise(map, (size_t)pages * PAGE, MADV_RANDOM) == 0);
    }
    return map + START(number);
}

static void *by_mmap(int number) {
    return mapped(number);
}

/* A program with a map can read a byte of the page before it touches the page. */
static void *by_mmap_announced(int number) {
    CHECK(pread(file, page, 1, START(number)) == 1);
    return mapped(number);
}

static void *by_direct(int number) {
    static int direct = -1;
    if (direct < 0 && (direct = open(path, O_RDONLY | O_DIRECT)) < 0)
        cannot("O_DIRECT");
    CHECK(pread(direct, page, PAGE, START(number)) == PAGE);
    return page;
}

static void *by_aio(int number) {
    struct aiocb control = {.aio_fildes = file, .aio_buf = page, .aio_nbytes = PAGE, .aio_offset = START(number)};
    const struct aiocb *list[] = {&control};
    CHECK(aio_read(&control) == 0);
    while (aio_error(&control) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    CHECK(aio_return(&control) == PAGE);
    return page;
}

/* One entry at a time through a ring of four, without the helper library. */
static void *by_io_uring(int number) {
    static int ring = -1;
    static struct io_uring_sqe *entries;
    static char *submitted, *completed;
    static struct io_uring_params about;
    if (ring < 0) {
        if ((ring = (int)syscall(SYS_io_uring_setup, 4, &about)) < 0)
            cannot("io_uring_setup");
        size_t sq = about.sq_off.array + about.sq_entries * sizeof(__u32);
        size_t cq = about.cq_off.cqes + about.cq_entries * sizeof(struct io_uring_cqe);
        int both = PROT_READ | PROT_WRITE;
        submitted = mmap(NULL, sq, both, MAP_SHARED, ring, IORING_OFF_SQ_RING);
        completed = mmap(NULL, cq, both, MAP_SHARED, ring, IORING_OFF_CQ_RING);
        entries = mmap(NULL, about.sq_entries * sizeof *entries, both, MAP_SHARED, ring, IORING_OFF_SQES);
        CHECK(submitted != MAP_FAILED && completed != MAP_FAILED && (void *)entries != MAP_FAILED);
    }
    __u32 *tail = (__u32 *)(submitted + about.sq_off.tail);
    __u32 mask = *(__u32 *)(submitted + about.sq_off.ring_mask), at = *tail & mask;
    entries[at] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = file, .addr = (__u64)(size_t)page, .len = PAGE, .off = (__u64)START(number)};
    ((__u32 *)(submitted + about.sq_off.array))[at] = at;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    __u32 *head = (__u32 *)(completed + about.cq_off.head);
    CHECK(__atomic_load_n((__u32 *)(completed + about.cq_off.tail), __ATOMIC_ACQUIRE) != *head);
    __u32 done = *head & *(__u32 *)(completed + about.cq_off.ring_mask);
    CHECK(((struct io_uring_cqe *)(completed + about.cq_off.cqes))[done].res == PAGE);
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return page;
}

/* From a pipe, by a system call. */
static void *from_pipe(void) {
    CHECK(syscall(SYS_read, output[0], page, PAGE) == PAGE);
    return page;
}

static void *by_sendfile(int number) {
    off_t start = START(number);
    CHECK(sendfile(output[1], file, &start, PAGE) == PAGE);
    return from_pipe();
}

static void *by_splice(int number) {
    loff_t start = START(number);
    CHECK(splice(file, &start, output[1], NULL, PAGE, 0) == PAGE);
    return from_pipe();
}

static void *by_copy(int number) {
    loff_t from = START(number), to = 0;
    if (copy < 0 && (copy = open(".", O_RDWR | O_TMPFILE, 0600)) < 0)
        cannot("O_TMPFILE");
    if (copy_file_range(file, &from, copy, &to, PAGE, 0) != PAGE)
        cannot("copy_file_range");
    CHECK(syscall(SYS_pread64, copy, page, PAGE, 0) == PAGE);
    return page;
}

/* ---------------------------------------------------------------------------------------------- */

static void answer(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    (void)arg, (void)marked_fd, (void)marked;
    for (int number = (int)(offset / PAGE), mode = PF_SET; number >= 0; number--, mode = PF_APPEND) {
        struct access_entry one = entry(fd, number, false);
        CHECK(request_prefetching(client, &one, 1, number ? mode : mode | PF_DONE) == 1);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void *(*read)(int);
    } ways[] = {{"read", by_read},
                {"pread", by_pread},
                {"readv", by_readv},
                {"preadv", by_preadv},
                {"preadv2", by_preadv2},
                {"preadv2-nowait", by_nowait},
                {"syscall", by_syscall},
                {"fread", by_stdio},
                {"mmap", by_mmap},
                {"mmap-announced", by_mmap_announced},
                {"direct", by_direct},
                {"aio_read", by_aio},
                {"io_uring", by_io_uring},
                {"sendfile", by_sendfile},
                {"splice", by_splice},
                {"copy_file_range", by_copy}};
    struct stat stat;
    CHECK(argc == 3);
    alarm(60);
    path = argv[2];
    CHECK((file = open(path, O_RDONLY)) >= 0 && fstat(file, &stat) == 0 && pipe(output) == 0);
    CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM) == 0 && posix_memalign(&page, PAGE, PAGE) == 0);
    pages = (int)(stat.st_size / PAGE);
    CHECK((client = register_client(answer, NULL)) && register_region(client, file, 0, stat.st_size));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, argv[1]))
            continue;
        for (int number = pages - 1; number >= 0; number--)
            CHECK(holds(ways[i].read(number), PAGE, number));
        printf("%d\n", pages);
        return 0;
    }
    fprintf(stderr, "no way is called %s\n", argv[1]);
    return 2;
}
