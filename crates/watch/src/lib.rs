//! Recognises tree walks of any program, and reads ahead of them into the page cache.
//!
//! A program that lists a directory and opens its files shows which files it will open next. This daemon gets
//! these events from the kernel (fanotify), whatever the program is linked with. It reads inodes, directories
//! and contents into the page cache ahead of the program, in disk order. The program is not changed, nothing is
//! mounted, nothing is copied.
//!
//! `foreseek_walks` decides, with one engine for each disk ([`Engine`]). This crate observes and carries out:
//!
//! | file | what |
//! |---|---|
//! | `driver` | one thread that receives opens, passes them on, and has commands carried out |
//! | `attention`, `all_opens` | when opens of all files are observed, and what is made of them |
//! | `handles` | nodes and paths of the directories that events name |
//! | `processes`, `directories` | the processes, their rights and opens; the listings of directories |
//! | `aside` | a thread for what may wait for another process |
//! | `mounts`, `watched`, `file_system` | the watched file systems, and access to their files |
//! | `reach`, `leases` | opening only files that a walker could open itself |
//! | `work`, `disks` | the threads of a disk |
//! | `recorded` | a recording of each disk's engine |
//! | `reported` | the same for a server in this process that reports opens itself |
//! | `unused`, `budget`, `division`, `room` | limits of unused reads, of held pages, of those of each disk, and of listings |
//! | [`daemon`] | the watcher in its own process |
//!
//! - *It never makes a program wait*: it only requests notifications, and reads with the lowest ordinary
//!   priority.
//! - *It reads nothing that the walker could not read*: see `reach`.
//! - *It keeps nothing in use*: see `file_system`.
//! - *It leaves nothing behind*: marks are removed with the process.
#![forbid(unsafe_code)]

mod all_opens;
mod aside;
mod attention;
mod budget;
mod counters;
pub mod daemon;
mod directories;
mod disks;
mod division;
mod driver;
mod engine;
mod error;
mod file_system;
mod handles;
mod leases;
mod mounts;
mod options;
mod participants;
mod processes;
mod reach;
mod recorded;
pub mod reported;
mod room;
mod silence;
mod status;
#[cfg(test)]
mod test_disk;
mod unreported;
mod unused;
mod waiting;
mod wake;
mod watched;
mod watcher;
mod work;

pub use budget::current_window;
pub use counters::{CounterValues, Counters};
pub use engine::{Engine, MakeEngine};
pub use error::{Error, Result};
pub use options::{MEMORY_LEAST, Options, SHARE};
pub use status::{Disk, LeftAlone, Walk, WatchStatus, Watched};
pub use watcher::Watcher;
