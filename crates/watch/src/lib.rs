//! Recognised tree walks of any program, read ahead of it into the page cache.
//!
//! A program that lists a directory and opens its files tells which files it will open next. This daemon
//! hears of it from the kernel (fanotify), whatever the program is linked with, and reads inodes, directories
//! and contents into the page cache ahead of it, in the order of the disk. The program stays as it is,
//! nothing is mounted, nothing is copied.
//!
//! What is decided is decided by `foreseek_walks`, one engine for each disk ([`Engine`]). Here are the eyes and the hands:
//!
//! | file | what |
//! |---|---|
//! | `driver` | one thread that hears of opens, hands them on, and has commands carried out |
//! | `processes`, `directories` | who opened what, as whom it acts, what a directory lists |
//! | `mounts`, `watched`, `file_system` | which file systems, and the way to their files |
//! | `reach`, `leases` | opening what a walker could open itself, and nothing else |
//! | `work`, `disks` | the threads of a disk |
//! | `told` | the same for a server in this process that says by itself what programs open |
//! | `unused`, `budget` | what may be read for nothing, and held |
//! | [`daemon`] | a process of its own |
//!
//! *It can never make a program wait*: it asks for notifications alone, and reads with the lowest ordinary
//! priority. *It reads nothing that the walker could not*: `reach`. *It holds nothing*: `file_system`. *It leaves
//! nothing behind*: marks go with the process.
#![forbid(unsafe_code)]

mod budget;
mod counters;
pub mod daemon;
mod directories;
mod disks;
mod driver;
mod engine;
mod error;
mod file_system;
mod leases;
mod mounts;
mod options;
mod processes;
mod reach;
pub mod reported;
mod status;
mod unused;
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
