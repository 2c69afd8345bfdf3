/* libprefetch: application-directed prefetching.
 *
 * The interface of VanDeBogart, Frost, Kohler: "Reducing Seek Overhead with Application-Directed
 * Prefetching", USENIX ATC 2009, figure 6.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Generated from the library's source by `make header`; do not edit.
 *
 * A call that succeeds leaves errno as it was. Every function may be called from any thread, none
 * from a signal handler.
 */

#ifndef LIBPREFETCH_H
#define LIBPREFETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
/* loff_t is missing from <sys/types.h> in strict ISO C. */
#if defined(__GLIBC__) && !defined(__USE_MISC)
typedef __loff_t loff_t;
#endif

/*
 Extend the access list.
 */
#define PF_APPEND 1

/*
 Replace the access list.
 */
#define PF_SET 2

/*
 Replace the entries after the most recently accessed marked entry of the access list.
 */
#define PF_SET_FROM_MARK 4

/*
 There are no more entries for now. Combine it with one of the other three.
 */
#define PF_DONE 8

/*
 The target of a client_t; it has no contents.
 */
struct prefetch_client;

/*
 The target of a region_t; it has no contents.
 */
struct prefetch_region;

/*
 A client: one access list and its regions.
 */
typedef struct prefetch_client *client_t;

/*
 Called by a read of a registered region when the access list has ended, or when the read is not on
 it. The application then updates the list with request_prefetching.

 arg is the argument of register_client. lastMarkedFD and lastMarkedOffset are the most recently
 accessed marked entry (an entry counts as accessed when a later one was); both are -1 if there is
 none. requestedFD and requestedOffset are the read that led to the call.

 It runs in the reading thread. Its own reads and closes pass the library unseen, as between
 ignore_accesses and unignore_accesses. It may call every function of this library. It must return:
 no longjmp, no C++ exception, no pthread_exit.
 */
typedef void (*callback_t)(void *arg,
                           int lastMarkedFD,
                           loff_t lastMarkedOffset,
                           int requestedFD,
                           loff_t requestedOffset);

/*
 A registered region of a client.
 */
typedef struct prefetch_region *region_t;

/*
 One intended read.
 */
struct access_entry {
  /*
   Offset of any byte of the page.
   */
  loff_t pageOffset;
  /*
   Any open descriptor of the file.
   */
  int fd;
  /*
   Whether the entry is a landmark, which is passed to the callback.
   */
  bool mark;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Creates a client with an empty access list. cb may be NULL: then the application updates the list
 without being called.

 Several clients may be registered, as long as their regions do not overlap. A forked child
 inherits none.

 Returns NULL with errno ENOMEM if there are too many clients.
 */
client_t register_client(callback_t cb, void *arg);

/*
 Ends a client and its regions. It does not wait for a callback of the client in another thread.

 Returns 0, or -1 with errno EINVAL if there is no such client.
 */
int unregister_client(client_t c);

/*
 Watches the reads of a file's bytes from start up to, but not including, end, through any of its
 descriptors. The file may be shorter. The region outlives the descriptor.

 Returns NULL with errno EINVAL (no such client, start negative or not below end, or neither a
 regular file nor a block device, or opened with O_DIRECT), EBADF (not open for reading), EBUSY (it
 overlaps a region of another client) or ENOMEM (too many regions).
 */
region_t register_region(client_t c, int fd, loff_t start, loff_t end);

/*
 Ends a region.

 Returns 0, or -1 with errno EINVAL if there is no such client or region.
 */
int unregister_region(client_t c, region_t r);

/*
 Announces coming reads: n entries in order of access. type is one of PF_SET, PF_APPEND and
 PF_SET_FROM_MARK, with PF_DONE if there are no more entries for now. PF_DONE alone counts as
 PF_APPEND | PF_DONE.

 Returns how many entries were accepted: fewer than n once the access list is full; the callback is
 then called when there is room. If none was accepted, returns -1 with errno EINVAL (no such
 client, another type, a negative offset), EFAULT (no entries given) or EBADF (an entry of a file
 without a region of this client).
 */
ssize_t request_prefetching(client_t c, const struct access_entry *a, size_t n, int type);

/*
 From now on this thread's reads of the client's regions do not count as progress through the
 access list, until unignore_accesses; the two nest. Returns 0, or -1 with errno EINVAL if there is
 no such client.
 */
int ignore_accesses(client_t c);

/*
 Ends ignore_accesses. Returns 0, or -1 with errno EINVAL if there is no such client or this thread
 ignores none of its reads.
 */
int unignore_accesses(client_t c);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIBPREFETCH_H */
