//! What a watcher has done so far, counted.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    /// What it is now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// See the module's documentation.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$about])* pub $name: Counter,)*
        }

        /// The counters at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct CounterValues {
            $($(#[$about])* pub $name: u64,)*
        }

        impl Counters {
            /// All of them now.
            #[must_use]
            pub fn now(&self) -> CounterValues {
                CounterValues { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Opens of directories that were seen.
    directories_opened,
    /// Opens of files that were seen, in directories of walks.
    files_opened,
    /// Events that did not count: own ones and those of other processes of this program.
    passed_over,
    /// Opens by processes that had ended before they could be looked at.
    gone,
    /// How often the kernel's queue of events overflowed.
    overflows,
    /// Directories that were listed ahead.
    listed,
    /// Directories that could not be, or must not be.
    unlistable,
    /// Files whose places were looked up.
    placed,
    /// Files and directories that the walkers could not have read.
    denied,
    /// Files left alone because of a lease.
    leased,
    /// Fetches that were refused because a user's allowance was used up.
    over_allowance,
    /// Bytes of inodes and directories that were read ahead.
    metadata_bytes,
    /// Bytes of contents that were read ahead.
    content_bytes,
    /// What the kernel took back on the whole machine while something was read ahead, at most as much as was read: what
    /// others may have lost by it.
    reclaimed_bytes,
    /// Those of them whose files were opened since.
    used_bytes,
    /// Files that had been read ahead when they were opened.
    files_found_read,
    /// Calls that failed: the device, or what vanished meanwhile.
    failed,
}
