//! Counters of a watcher.

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

    /// Its present value.
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

        /// The values of the counters at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct CounterValues {
            $($(#[$about])* pub $name: u64,)*
        }

        impl Counters {
            /// The present values.
            #[must_use]
            pub fn now(&self) -> CounterValues {
                CounterValues { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Opens of directories.
    directories_opened,
    /// Those of them that were never examined, since the disk read nothing for as long as their programs went on.
    unexamined,
    /// Times in which opens of directories were not reported, since programs opened many and the disks read nothing.
    silences,
    /// Opens of files in directories of walks.
    files_opened,
    /// Ignored events: the daemon's own and those of other processes of this program.
    passed_over,
    /// Opens by processes that had ended before they could be examined, or whose rights are not known.
    gone,
    /// Overflows of the kernel's queue of events.
    overflows,
    /// Directories that were listed ahead.
    listed,
    /// Directories that could not, or must not, be listed.
    unlistable,
    /// Files whose addresses were looked up.
    placed,
    /// Files and directories that the walkers could not have read.
    denied,
    /// Files that were skipped because of a lease.
    leased,
    /// Fetches that were refused because a user's allowance was used up.
    over_allowance,
    /// Bytes of inodes and directories that were read ahead.
    metadata_bytes,
    /// Bytes of contents that were read ahead.
    content_bytes,
    /// Bytes that the kernel reclaimed on the whole machine during fetches, at most as many as were fetched:
    /// the most that other programs may have lost.
    reclaimed_bytes,
    /// Bytes of contents that were read ahead and whose files were opened since.
    used_bytes,
    /// Files that had been read ahead when they were opened.
    files_found_read,
    /// Calls that failed: the device, or files that vanished meanwhile.
    failed,
}
