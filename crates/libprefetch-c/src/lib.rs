//! Application-directed prefetching: the C library, libprefetch.so, and its interposition.
//!
//! The interface is that of ATC'09 figure 6, a thin layer over `foreseek-libprefetch`. Linked with a
//! program or loaded with `LD_PRELOAD`, the library replaces the C library's `read`, `pread`,
//! `readv`, `preadv`, `preadv2` and their variants, so that it sees the reads of registered regions,
//! and `close`, `dup2`, `dup3`, `close_range` and `closefrom`, so that it lets go of descriptors.
//!
//! How it behaves as a guest:
//!
//! - While no client is registered, a replaced function costs one load and a jump.
//! - errno is left as it was; what the real function sets stays.
//! - The real function is called with nothing of ours on the stack and the caller's cancellation
//!   state: a thread that waits in `read` can be cancelled as ever. Our own work is not cancelled
//!   halfway.
//! - No panic leaves the library; one makes it step aside for good.
//! - In a child process (fork, vfork, `posix_spawn`) it does nothing until the child registers a
//!   client of its own.
//! - A read in a signal handler passes unseen if it interrupts the library. One that interrupts the
//!   C library's allocator may not read a registered region (pipes, sockets and other files may be
//!   read there as ever).
//!
//! Limits: reads inside the C library (`fread`, `mmap`) are not seen; glibc only.

pub mod api;
mod clients;
pub mod closes;
mod edge;
mod next;
pub mod reads;
