//! What every background server of ours shares, whatever it serves.
//!
//! A server is a process of its own that outlives whoever started it: an emulated disk, a mount, an
//! array, a watcher. This crate knows neither disks nor file systems. What it has, in the order in
//! which a server needs it:
//!
//! | step | what there is |
//! |---|---|
//! | the starter runs the server | [`Launch`]: settings go in, the server's own questions are answered, and either it is ready or it says why not |
//! | the server starts | [`run_detached`]: leaves the starter's session, reads the settings, starts, reports |
//! | it can be found | [`ServerFolder`]: one folder a server below [`run_directory`], with a record, a control socket and a log |
//! | it cannot be confused with another | [`ServerProcess`]: a process by its number and its start, so that a reused number is not taken for it |
//! | it cannot wait for itself | [`leave_limited`], [`precautions`]: out of limited memory, locked, spared, an I/O flusher |
//! | it answers and ends | [`Daemon`] and [`tend`]: one request a connection; ends on a signal, when asked to, or when what it serves is gone |
//! | clients ask | [`Client`]: every call is bounded in time, and a dead server is told from a silent one |
//! | nobody is robbed of a device | [`Users`]: who holds a block device, named in errors; [`users_inside`]: who is in a mount |
//! | it is cleaned up after | [`mount_table`], [`ServerProcess::kill`], [`Users::write_back`], [`ServerFolder::remove`] |
//!
//! *A new server* defines its requests ([`ServerRequest`]) and its [`Daemon`], writes its record into its folder
//! **before** it makes anything that outlives its process, and has a teardown whose every step is fine
//! with finding its work done. Teardown of a server that hangs goes in this order, so that no step waits
//! for an answer that cannot come: abort its FUSE connection, kill the process, unmount what lies on its
//! device, free the device, take its mount away, remove the folder.
//!
//! *Limits:* root only, as all of this is; one client is answered at a time, within two seconds, so that a
//! request must not wait for a disk; a line of the protocol has at most 1 MiB. Starter, server and client
//! are of one version: neither the protocol nor the record is kept compatible.

mod call;
mod cgroup;
mod client;
mod daemon;
mod error;
mod folder;
mod inside;
mod launch;
mod memory_group;
mod mount_settings;
pub mod mount_table;
pub mod precautions;
mod process;
mod protocol;
mod serve;
mod users;
mod wire;

pub use call::{CallError, Context, NotRoot, ignore_missing};
pub use cgroup::{Left, leave_limited};
pub use client::{Client, Health};
pub use error::Error;
pub use folder::{ServerFolder, run_directory, state_directory};
pub use inside::users_inside;
pub use launch::{Launch, Starter, run_detached};
pub use memory_group::MemoryGroup;
pub use mount_settings::MountSettings;
pub use process::ServerProcess;
pub use protocol::ServerRequest;
pub use serve::{Answer, Control, Daemon, Ending, run_server};
pub use users::Users;
