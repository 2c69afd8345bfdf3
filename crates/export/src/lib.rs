//! A block device out of a server: a FUSE file under a direct-I/O loop device.
//!
//! A [`Server`] answers [`Request`]s for a range of bytes, each through a reply handle that may be
//! kept and used from any thread. [`Export::mount`] mounts a FUSE file system of one file whose
//! requests go to the server, and [`attach_loop`], called in another process, lays a loop device
//! over it. Requests of up to
//! [`REQUEST_LIMIT`] arrive whole and many at a time.
//!
//! Besides, what any server of a FUSE mount needs: [`daemon`], [`wire`], [`run`], [`ServerFolder`], [`mount_table`] and
//! [`MountSettings`].
//!
//! Limits: the mount must be by root (no libfuse is used). The kernel's loop driver asks for no
//! more than 1280 KiB at a time and has 128 requests under way at most.

mod call;
pub mod daemon;
mod export;
mod folder;
mod fuse_file;
mod mount_settings;
pub mod mount_table;
pub mod run;
mod server;
pub mod wire;

pub use call::{CallError, Context};
pub use export::{Export, ExportError, ExportOptions, attach_loop, loop_device_over};
pub use folder::ServerFolder;
pub use mount_settings::MountSettings;
pub use server::{DataReply, DoneReply, Errno, Failure, Request, Server};

use foreseek_units::Bytes;

/// The largest request: the loop driver's 1280 KiB, and 64 KiB more so that one whose memory is not
/// aligned to pages still comes whole.
pub const REQUEST_LIMIT: Bytes = Bytes::kib(1280 + 64);
