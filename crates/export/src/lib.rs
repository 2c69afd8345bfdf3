//! A block device out of a server: a FUSE file under a direct-I/O loop device, or an NBD export.
//!
//! A [`Server`] answers [`Request`]s for a range of bytes, each through a reply handle that may be
//! kept and used from any thread. [`Export::mount`] mounts a FUSE file system of one file whose
//! requests go to the server, and [`attach_loop`], called in another process, lays a loop device
//! over it. Requests of up to
//! [`REQUEST_LIMIT`] arrive whole and many at a time.
//! [`NbdExport::start`] serves the same over NBD (`foreseek-nbd` is the protocol), for programs and virtual machines without root.
//!
//! Limits: the mount must be by root (no libfuse is used). The kernel's loop driver asks for no
//! more than 1280 KiB at a time and has 128 requests under way at most.

mod export;
mod fuse_file;
mod nbd;
mod server;
mod teardown;

pub use export::{Export, ExportError, ExportOptions, attach_loop, loop_device_over, request_timeout};
pub use fuse_file::REQUEST_LIMIT;
pub use nbd::{NbdAddress, NbdExport};
pub use server::{DataReply, DoneReply, Errno, Failure, Request, Server};
pub use teardown::Wreck;
