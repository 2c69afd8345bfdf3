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
 Replace what follows the most recently accessed marked entry of the access list.
 */
#define PF_SET_FROM_MARK 4

/*
 There is no more to tell for now. To be combined with one of the other three.
 */
#define PF_DONE 8

/*
 What a client_t points to; it has no contents.
 */
struct prefetch_client;

/*
 What a region_t points to; it has no contents.
 */
struct prefetch_region;

/*
 A client: one access list and its regions.
 */
typedef struct prefetch_client *client_t;

/*
 Called by a read of a registered region when the access list has ended, or when the read is not on
 it, so that the application brings the list up to date with request_prefetching.

 arg is what register_client was given. lastMarkedFD and lastMarkedOffset tell the most recently
 accessed marked entry (an entry counts as accessed when a later one was); both are -1 if there is
 none. requestedFD and requestedOffset tell the read that led to the call.

 It runs in the reading thread. Reads and closes that it makes itself pass the library unseen, as
 between ignore_accesses and unignore_accesses. It may call every function of this library. It must
 return: no longjmp, no C++ exception, no pthread_exit.
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
   Offset of any byte of the page that will be read.
   */
  loff_t pageOffset;
  /*
   Any open descriptor of the file.
   */
  int fd;
  /*
   Whether the entry is a landmark that the callback is told about.
   */
  bool mark;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes a client with an empty access list. cb may be NULL: then the application brings the list up
 to date of its own accord.

 Several clients may be registered, as long as their regions do not overlap. A forked child
 inherits none.

 Returns NULL with errno ENOMEM if there are too many clients.
 */
client_t register_client(callback_t cb, void *arg);

/*
 Ends a client and its regions. A callback of it that runs in another thread is not waited for.

 Returns 0, or -1 with errno EINVAL if there is no such client.
 */
int unregister_client(client_t c);

/*
 Watches the reads of the bytes from start up to and without end of a file, through whichever of
 its descriptors. The file may be shorter. The region outlives the descriptor.

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
 Tells what will be read: n entries in order of access. type is one of PF_SET, PF_APPEND and
 PF_SET_FROM_MARK, with PF_DONE if there is no more to tell for now. PF_DONE alone counts as
 PF_APPEND | PF_DONE.

 Returns how many entries were taken: fewer than n once the access list is full; the callback
 will then be called when there is room. Returns -1 with errno EINVAL (no such client, another
 type, a negative offset), EFAULT (no entries given) or EBADF (an entry of a file of which this
 client has no region) if none was taken.
 */
ssize_t request_prefetching(client_t c, const struct access_entry *a, size_t n, int type);

/*
 From now on this thread's reads of the client's regions are not taken as progress through the
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
