//! What all background servers of this project share.
//!
//! A server is a process that outlives the program that started it: an emulated disk, a mount, an array, a
//! watcher. This crate knows of disks and file systems only that such servers exist ([`Kind`]). Its parts, in the
//! order in which a server needs them:
//!
//! | step | part |
//! |---|---|
//! | the starter runs the server | [`Launch`]: sends settings, carries out the server's requests, and returns its report or its error; frees what a server left that ended before it was ready |
//! | the server starts | [`run_detached`]: takes its kind's name, leaves the starter's session, reads the settings, starts, reports |
//! | it can be found | [`ServerFolder`]: one folder for each server below [`run_directory`], with a record, a control socket and a log |
//! | it is identified | [`ServerProcess`]: a process by its id and its start time, so that a reused id is not mistaken for it |
//! | it avoids deadlocks | [`leave_limited`], [`precautions`]: outside of limited memory, locked in memory, spared by the OOM killer, an I/O flusher |
//! | it answers and ends | [`Daemon`] and [`run_server`]: one request for each connection; ends on a signal, on request, or when what it serves is gone |
//! | clients send requests | [`Client`]: every call is bounded in time, and a dead server is distinguished from a silent one |
//! | devices in use are kept | [`Users`]: the users of a block device, named in errors; [`users_inside`]: the processes inside a mount |
//! | it is cleaned up | [`mount_table`], [`ServerProcess::kill`], [`Users::write_back`], [`ServerFolder::remove`] |
//!
//! *A new server* defines its requests ([`ServerRequest`]) and its [`Daemon`]. It writes its record into its
//! folder **before** it creates anything that outlives its process. Each step of its teardown succeeds if its
//! work is already done. The teardown of a hung server has an order in which no step waits for an answer that
//! cannot come: abort its FUSE connection, kill the process, unmount file systems on its device, free the
//! device, unmount its mount, remove the folder.
//!
//! *Limits:* root only. One client is answered at a time, within two seconds, so a request must not wait for
//! a disk. A line of the protocol has at most 1 MiB. Starter, server and client must be of the same version:
//! neither the protocol nor the record is kept compatible.

mod call;
mod cgroup;
mod client;
mod daemon;
mod error;
mod folder;
mod inside;
mod kind;
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

pub use call::{CallError, Context, NotRoot, absolute_path, ignore_missing};
pub use cgroup::{Left, leave_limited};
pub use client::{Client, Health};
pub use error::{Death, Error};
pub use folder::{ServerFolder, run_directory, state_directory};
pub use inside::users_inside;
pub use kind::Kind;
pub use launch::{Launch, Starter, run_detached};
pub use memory_group::MemoryGroup;
pub use mount_settings::MountSettings;
pub use process::ServerProcess;
pub use protocol::ServerRequest;
pub use serve::{Answer, Control, Daemon, EndSignals, Ending, run_server};
pub use users::Users;
