//! Exports a server as a block device: a FUSE file under a direct-I/O loop device, or an NBD export.
//!
//! A [`Server`] answers [`Request`]s for a range of bytes, each through a reply handle that may be kept and
//! used from any thread. [`Export::mount`] mounts a FUSE file system of one file and passes its requests to
//! the server. [`attach_loop`], called in another process, attaches a loop device to the file. Requests of up
//! to [`REQUEST_LIMIT`] arrive unsplit and many at a time. [`NbdExport::start`] serves the same over NBD
//! (`foreseek-nbd` is the protocol), for programs and virtual machines without root.
//!
//! Limits: only root can mount (no libfuse is used). The kernel's loop driver sends requests of up to 1280
//! KiB, and at most 128 at a time.

mod export;
mod fuse_file;
mod nbd;
mod server;
mod teardown;

pub use export::{Export, ExportError, ExportOptions, attach_loop, loop_device_over, request_timeout};
pub use fuse_file::REQUEST_LIMIT;
pub use nbd::{NbdAddress, NbdExport};
pub use server::{DataReply, DoneReply, Errno, Failure, Request, Server};
pub use teardown::Leftovers;
