/* The library as a guest: checks the behaviours named by the arguments. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define PAGES 64

static const char *path;
static int file;
static client_t client;
static atomic_int asked;

/* Announces all pages in descending order, each as a mark. */
static void answer(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    struct access_entry list[PAGES];
    (void)arg, (void)marked_fd, (void)marked, (void)offset;
    asked++;
    for (int i = 0; i < PAGES; i++)
        list[i] = entry(fd, PAGES - 1 - i, true);
    request_prefetching(client, list, PAGES, PF_SET | PF_DONE);
}

static void chill(int fd) {
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void watch(void) {
    CHECK((client = register_client(answer, NULL)));
    CHECK(register_region(client, file, 0, PAGES * PAGE));
}

static void scan(int fd) {
    for (int i = 0; i < PAGES; i++)
        read_page(fd, PAGES - 1 - i);
}

/* --- signals ---------------------------------------------------------------------------------- */

static int other, ends[2];
static atomic_int signals, stop;

static void on_signal(int number) {
    unsigned char byte = 9;
    int saved = errno;
    (void)number;
    /* Typical for handlers: a pipe to the own process, and a file that is not watched. */
    if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1 || byte != 9)
        _exit(3);
    if (pread(other, &byte, 1, 0) != 1)
        _exit(4);
    int copy = dup(other);
    if (copy < 0 || close(copy))
        _exit(5);
    signals++;
    errno = saved;
}

static void *shoot(void *target) {
    while (!stop) {
        pthread_kill(*(pthread_t *)target, SIGUSR1);
        usleep(50);
    }
    return NULL;
}

static void test_signal(void) {
    pthread_t me = pthread_self(), shooter;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(pipe(ends) == 0 && (other = open("/proc/self/exe", O_RDONLY)) >= 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    watch();
    CHECK(pthread_create(&shooter, NULL, shoot, &me) == 0);
    /* More rounds where few signals come; the alarm ends it where none do. */
    for (int i = 0; i < 100 || signals <= 10; i++) {
        chill(file);
        scan(file);
    }
    stop = 1;
    pthread_join(shooter, NULL);
}

/* --- cancellation ----------------------------------------------------------------------------- */

static void *wait_in_read(void *arg) {
    char byte;
    (void)arg;
    return read(ends[0], &byte, 1) == 1 ? NULL : NULL;
}

static void *read_for_ever(void *arg) {
    (void)arg;
    for (;;) {
        chill(file);
        scan(file);
        pthread_testcancel();
    }
    return NULL;
}

static void test_cancel(void) {
    pthread_t thread;
    void *result;
    CHECK(pipe(ends) == 0);
    watch();
    CHECK(pthread_create(&thread, NULL, wait_in_read, NULL) == 0);
    usleep(20000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    for (int i = 0; i < 50; i++) {
        CHECK(pthread_create(&thread, NULL, read_for_ever, NULL) == 0);
        usleep(300 * (i % 20));
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
        scan(file); /* no lock was left behind */
    }
}

/* --- children --------------------------------------------------------------------------------- */

static void expect_exit(pid_t child, int status_wanted) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == status_wanted);
}

static void test_fork(void) {
    watch();
    scan(file);
    pid_t child = fork();
    if (child == 0) {
        int before = asked;
        chill(file);
        scan(file);
        CHECK(asked == before);
        CHECK(request_prefetching(client, NULL, 0, PF_SET | PF_DONE) == 0);
        close(file);
        /* A child may create its own client, on its own descriptor. */
        int mine = open(path, O_RDONLY);
        CHECK((client = register_client(answer, NULL)));
        CHECK(unregister_client(client) == 0);
        CHECK(unregister_client(client) == -1 && errno == EINVAL);
        _exit(mine >= 0 ? 7 : 1);
    }
    expect_exit(child, 7);
    /* A child that shares the parent's memory closes its own descriptor, not the parent's. */
    child = vfork();
    if (child == 0) {
        close(file);
        dup2(2, 1);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    expect_exit(child, 0);
    char *arguments[] = {"true", NULL};
    extern char **environ;
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
    expect_exit(child, 0);
    CHECK(system("exit 5") == 5 << 8);
    chill(file);
    int before = asked;
    struct access_entry two[2] = {entry(file, 1, false), entry(file, 2, false)};
    CHECK(request_prefetching(client, two, 2, PF_SET | PF_DONE) == 2);
    read_page(file, 1);
    read_page(file, 2);
    CHECK(asked == before);
}

/* --- locks ------------------------------------------------------------------------------------ */

static int is_locked(int fd, pid_t by) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    CHECK(fcntl(fd, F_GETLK, &lock) == 0);
    return lock.l_type != F_UNLCK && lock.l_pid == by;
}

static void expect_lock(int fd) {
    pid_t me = getpid(), child = fork();
    if (child == 0)
        _exit(is_locked(fd, me) ? 0 : 1);
    expect_exit(child, 0);
}

static void test_locks(void) {
    int mine = open(path, O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    CHECK(mine >= 0 && fcntl(mine, F_SETLK, &lock) == 0);
    watch();
    expect_lock(mine);
    for (int i = 0; i < 3; i++) {
        chill(file);
        scan(i % 2 ? mine : file);
        expect_lock(mine);
    }
    CHECK(unregister_client(client) == 0);
    expect_lock(mine);
}

/* --- descriptors that come and go ------------------------------------------------------------- */

static void expect_other(int fd) {
    unsigned char byte;
    CHECK(pread(fd, &byte, 1, 0) == 1 && byte == 0x7F); /* an ELF file */
}

static void test_closes(void) {
    int elf = open("/proc/self/exe", O_RDONLY), fd = 500;
    CHECK(elf >= 0);
    watch();
    for (int way = 0; way < 6; way++) {
        CHECK(dup2(file, fd) == fd);
        chill(file);
        scan(fd);
        switch (way) {
        case 0: CHECK(close(fd) == 0); break;
        case 1: CHECK(dup2(elf, fd) == fd); break;
        case 2: CHECK(dup3(elf, fd, O_CLOEXEC) == fd); break;
        case 3: CHECK(close_range(fd, fd + 10, 0) == 0 || errno == ENOSYS); break;
        case 4: closefrom(fd); break;
        case 5: CHECK(syscall(SYS_close, fd) == 0); break; /* unseen */
        }
        if (way != 1 && way != 2) {
            errno = 0;
            CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
            CHECK(fcntl(elf, F_DUPFD, fd) == fd);
        }
        expect_other(fd);
        scan(file);
        CHECK(close(fd) == 0);
    }
    CHECK(dup2(file, file) == file && dup3(file, file, 0) == -1 && errno == EINVAL);
    CHECK(dup2(-1, fd) == -1 && errno == EBADF);
    CHECK(close_range(5, 4, 0) == -1);
    CHECK(close_range(0, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) == 0 || errno == ENOSYS || errno == EINVAL);
    scan(file);
}

/* --- callbacks -------------------------------------------------------------------------------- */

static int marks[PAGES + 1], answers;

static void in_fours(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    CHECK(arg == &answers && fd == file && offset % PAGE == 0);
    CHECK(answers == 0 ? marked_fd == -1 && marked == -1 : marked_fd == file && marked % PAGE == 0);
    marks[answers++] = (int)(marked / PAGE);
    read_page(file, 0); /* the callback's own reads are no accesses, and lead to no question */
    struct access_entry list[4];
    for (int i = 0; i < 4; i++)
        list[i] = entry(file, (int)(offset / PAGE) + i, i == 0);
    CHECK(request_prefetching(client, list, 4, PF_SET) == 4);
}

static void leave(void *arg, int marked_fd, loff_t marked, int fd, loff_t offset) {
    (void)marked_fd, (void)marked, (void)fd, (void)offset;
    ++*(int *)arg;
    CHECK(unregister_client(client) == 0);
    CHECK((client = register_client(answer, NULL)));
}

static void test_callback(void) {
    CHECK((client = register_client(in_fours, &answers)));
    region_t region = register_region(client, file, 0, PAGES * PAGE);
    CHECK(region);
    /* No read-ahead: pages that are not announced are not in memory. */
    CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM) == 0);
    chill(file);
    for (int i = 0; i < 32; i++)
        read_page(file, i);
    CHECK(answers == 8);
    for (int i = 1; i < 8; i++)
        CHECK(marks[i] == 4 * (i - 1));
    CHECK(ignore_accesses(client) == 0 && ignore_accesses(client) == 0);
    chill(file);
    read_page(file, 50);
    CHECK(unignore_accesses(client) == 0 && unignore_accesses(client) == 0);
    CHECK(unignore_accesses(client) == -1 && errno == EINVAL);
    CHECK(answers == 8);
    CHECK(unregister_region(client, region) == 0);
    CHECK(unregister_region(client, region) == -1 && errno == EINVAL);
    read_page(file, 60);
    CHECK(answers == 8 && unregister_client(client) == 0);
    /* A client may end within its own callback. */
    int left = 0;
    CHECK((client = register_client(leave, &left)) && register_region(client, file, 0, PAGES * PAGE));
    chill(file);
    read_page(file, 1);
    read_page(file, 2);
    CHECK(left == 1);
}

/* --- mistakes --------------------------------------------------------------------------------- */

#define FAILS(call, code)                                                                        \
    do {                                                                                         \
        errno = 0;                                                                               \
        CHECK((call) && errno == (code));                                                        \
    } while (0)

static void test_mistakes(void) {
    struct access_entry one = entry(file, 1, false), negative = {-1, file, false};
    client_t none = NULL, wrong = (client_t)(void *)&one;
    CHECK((client = register_client(NULL, NULL)));
    FAILS(unregister_client(none) == -1, EINVAL);
    FAILS(unregister_client(wrong) == -1, EINVAL);
    FAILS(!register_region(wrong, file, 0, 1), EINVAL);
    FAILS(!register_region(client, -1, 0, 1), EBADF);
    FAILS(!register_region(client, 999, 0, 1), EBADF);
    FAILS(!register_region(client, file, 1, 1), EINVAL);
    FAILS(!register_region(client, file, -1, 1), EINVAL);
    FAILS(!register_region(client, file, 0, -1), EINVAL);
    CHECK(pipe(ends) == 0);
    FAILS(!register_region(client, ends[0], 0, 1), EINVAL);
    int for_writing = open(path, O_WRONLY);
    FAILS(!register_region(client, for_writing, 0, 1), EBADF);
    FAILS(request_prefetching(client, &one, 1, PF_SET) == -1, EBADF);
    CHECK(register_region(client, file, 0, PAGES * PAGE));
    FAILS(request_prefetching(client, &one, 1, 0) == -1, EINVAL);
    FAILS(request_prefetching(client, &one, 1, PF_SET | PF_APPEND) == -1, EINVAL);
    FAILS(request_prefetching(client, &one, 1, 16) == -1, EINVAL);
    FAILS(request_prefetching(client, NULL, 1, PF_SET) == -1, EFAULT);
    FAILS(request_prefetching(client, &negative, 1, PF_SET) == -1, EINVAL);
    one.fd = ends[0];
    FAILS(request_prefetching(client, &one, 1, PF_SET) == -1, EBADF);
    FAILS(request_prefetching(wrong, &one, 1, PF_SET) == -1, EINVAL);
    FAILS(ignore_accesses(wrong) == -1, EINVAL);
    FAILS(unignore_accesses(none) == -1, EINVAL);
    client_t second = register_client(NULL, NULL);
    FAILS(!register_region(second, file, 5 * PAGE, 6 * PAGE), EBUSY);
    FAILS(unregister_region(second, (region_t)(void *)1) == -1, EINVAL);
    one = entry(file, 3, true);
    errno = 4321;
    CHECK(request_prefetching(client, &one, 1, PF_DONE) == 1);
    CHECK(request_prefetching(client, NULL, 0, PF_APPEND) == 0 && errno == 4321);
    scan(file);
    client_t last = client;
    int made = 0;
    while (made < 1000 && (last = register_client(NULL, NULL)))
        made++;
    CHECK(made < 1000 && errno == ENOMEM);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *own_client(void *arg) {
    int number = (int)(size_t)arg;
    int fd = open(path, O_RDONLY);
    client_t mine = register_client(NULL, NULL);
    CHECK(fd >= 0 && mine);
    CHECK(register_region(mine, fd, number * 8 * PAGE, (number + 1) * 8 * PAGE));
    for (int round = 0; round < 50; round++) {
        struct access_entry list[8];
        for (int i = 0; i < 8; i++)
            list[i] = entry(fd, number * 8 + (i * 5 + round) % 8, i == 0);
        CHECK(request_prefetching(mine, list, 8, PF_SET | PF_DONE) == 8);
        chill(fd);
        for (int i = 0; i < 8; i++)
            read_page(fd, number * 8 + (i * 5 + round) % 8);
    }
    CHECK(unregister_client(mine) == 0 && close(fd) == 0);
    return NULL;
}

static void test_threads(void) {
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, own_client, (void *)i) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"signal", test_signal},     {"cancel", test_cancel}, {"fork", test_fork},
                 {"locks", test_locks},       {"closes", test_closes}, {"callback", test_callback},
                 {"mistakes", test_mistakes}, {"threads", test_threads}};
    CHECK(argc == 3);
    alarm(60);
    path = argv[2];
    CHECK((file = open(path, O_RDONLY)) >= 0);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, argv[1])) {
            tests[i].run();
            puts("done");
            return 0;
        }
    return 2;
}
