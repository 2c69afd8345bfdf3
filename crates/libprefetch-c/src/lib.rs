//! Application-directed prefetching: the C library, libprefetch.so, and its interposition.
//!
//! The interface is that of ATC'09 figure 6, a thin layer over `foreseek-libprefetch`. Linked with a program or
//! loaded with `LD_PRELOAD`, the library replaces functions of the C library. It replaces `read`, `pread`,
//! `readv`, `preadv`, `preadv2` and their variants to see the reads of registered regions, and `close`, `dup2`,
//! `dup3`, `close_range` and `closefrom` to release descriptors.
//!
//! Its behaviour as a guest:
//!
//! - While no client is registered, a replaced function costs one load and a jump.
//! - errno is preserved; values that the real function sets stay.
//! - The real function is called with nothing of the library on the stack and the caller's cancellation state:
//!   a thread that waits in `read` can be cancelled. The library's own work is not cancelled halfway.
//! - No panic leaves the library; one makes it step aside for good.
//! - In a child process (fork, vfork, `posix_spawn`) it does nothing until the child registers its own client.
//! - A read in a signal handler passes unseen if it interrupts the library. If the signal interrupts the C
//!   library's allocator, its handler must not read a registered region (it may read pipes, sockets and other
//!   files).
//!
//! Limits: reads inside the C library (`fread`, `mmap`) are not visible; glibc only.

pub mod api;
mod clients;
pub mod closes;
mod edge;
mod next;
pub mod reads;
