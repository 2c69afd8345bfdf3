//! The file system: the kernel's requests carried out on the source, and its caches kept true.
//!
//! From the kernel down: `file_system` takes requests and replies; `source` carries them out and tells the
//! read path of every change; `nodes` and `handles` are what the kernel knows and has open, `anchor` how a
//! file is found again without a descriptor; `caller` acts for whoever asked; `kernel_cache` has the kernel
//! forget, `slow_operations` keeps what is slow away from readers, `from_memory` answers what the source has in memory, `passthrough` has the
//! kernel read it there; `look_ahead` has inodes of a listing read in order; `crew` decides how many threads wait for requests. `mounted` is all of it as one mount on a `mount_point`.

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
