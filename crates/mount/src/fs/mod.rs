//! The file system: carries out the kernel's requests on the source, and keeps its caches correct.
//!
//! - `file_system` receives requests and replies.
//! - `source` carries them out and reports every change to the read path.
//! - `nodes` and `handles` are the files that the kernel knows and has open.
//! - `anchor` finds a file again without a descriptor.
//! - `caller` acts for the caller of a request.
//! - `kernel_cache` invalidates the kernel's caches.
//! - `slow_operations` keeps slow operations away from readers.
//! - `from_memory` answers reads out of the source's page cache; `passthrough` has the kernel read there.
//! - `windows` sets the kernel's read-ahead window.
//! - `look_ahead` looks up the inodes of a listing in order.
//! - `crew` decides how many threads wait for requests.
//! - `mounted` combines all of it into a mount on a `mount_point`.

mod anchor;
mod attributes;
mod caller;
mod crew;
mod directory;
mod file_system;
mod from_memory;
mod handles;
mod kernel_cache;
mod look_ahead;
pub(crate) mod mount_point;
pub(crate) mod mounted;
mod nodes;
mod passthrough;
mod slow_operations;
mod source;
mod windows;
