//! The requests that a block device has completed, from the kernel's counters: do other programs use it?
//!
//! `/sys/dev/block/MAJOR:MINOR/stat` counts completed reads, writes and their sectors for the whole disk and
//! all programs. The reads of this program are subtracted; the rest are others'. Limits: anonymous devices
//! (network file systems, btrfs, overlays) have no counters, and a virtual machine's disk does not show what
//! other guests of the host do.

use foreseek_storage::{DeviceNumber, read_text};
use foreseek_units::{Bytes, Sectors};
use std::path::Path;

/// Counters since the device came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Activity {
    pub(super) reads: u64,
    pub(super) read: Bytes,
    pub(super) writes: u64,
    pub(super) written: Bytes,
}

impl Activity {
    /// The counters of a device; `None` where the kernel has none.
    pub(super) fn of(device: DeviceNumber) -> Option<Self> {
        let stat = Path::new("/sys/dev/block").join(device.to_string()).join("stat");
        Self::parse(&read_text(&stat).ok()?)
    }

    /// Fields as in Documentation/block/stat.rst: reads completed, merged, sectors, ticks, then the same for
    /// writes.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
        let mut field = |skip: usize| fields.nth(skip).flatten();
        Some(Self {
            reads: field(0)?,
            read: Sectors(field(1)?).bytes(),
            writes: field(1)?,
            written: Sectors(field(1)?).bytes(),
        })
    }

    /// The requests since an earlier reading of the counters.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read: self.read - earlier.read,
            writes: self.writes.saturating_sub(earlier.writes),
            written: self.written - earlier.written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_where_the_kernel_puts_them() {
        let text = "    1234       56    80000      777      99      11     4000      300        0      800     1077 0 0 0 0 5 6\n";
        let activity = Activity::parse(text).expect("a line of counters");
        let expected =
            Activity { reads: 1234, read: Bytes(80_000 * 512), writes: 99, written: Bytes(4000 * 512) };
        assert_eq!(activity, expected);
        assert_eq!(Activity::parse("1 2 3"), None);
        assert_eq!(Activity::parse("nothing"), None);
        assert_eq!(activity.since(Activity { reads: 1230, ..Activity::default() }).reads, 4);
    }
}
