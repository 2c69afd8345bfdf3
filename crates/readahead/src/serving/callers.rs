//! The kernel's read-ahead window for an opened file, chosen by the process that opens it.
//!
//! With a window as long as a FUSE request, a call of up to a megabyte arrives as one request instead of
//! nine, and the kernel requests nothing beyond it. But this window is also the kernel's read-ahead: up to
//! two windows beyond the end of a sequence, and one around each page fault. The long window is therefore
//! given only:
//!
//! - to a process whose last long read was one call, and to any process that opens a [file of
//!   columns](is_of_columns);
//! - for files that are longer than the window and not executable: programs and libraries are mapped.
//!
//! Where many streams share little memory the window is shorter ([`window_of_share`]): no stream reads
//! further ahead than its share (TR-840 section 4.2), in the kernel's cache as in ours.
//!
//! Limits: a file keeps the window with which it was opened. The first file that a process reads in long
//! calls has the short window, unless it is a file of columns.

use super::settings::READ_LIMIT;
use foreseek_units::Bytes;

/// The default window, the kernel's `read_ahead_kb` for a FUSE mount.
pub const SHORT: Bytes = Bytes::kib(128);
/// The shortest window: a shorter fetch costs a disk hardly less.
const LEAST: Bytes = Bytes::kib(16);
/// A stream has its window and the one ahead of it in memory. All streams together get half of the memory,
/// since pages that were read stay there for a while.
const SHARES: u64 = 4;
/// The longest FUSE request.
const LONG: Bytes = READ_LIMIT.bytes();
/// Kinds of files whose columns lie in parts of about a megabyte. Their readers read a part in one call, or
/// announce many parts at once by `posix_fadvise`. The kernel requests one window of each part announced.
/// Kinds that are mapped (Arrow, Feather) are not among them.
const COLUMNS: [&str; 2] = ["parquet", "orc"];
/// Processes that are remembered. A process beyond them has the short window until its next long call.
const KNOWN: usize = 64;

/// The processes that read in calls longer than a window, the latest first.
#[derive(Clone, Debug, Default)]
pub struct LongCallers(Vec<u32>);

impl LongCallers {
    /// A process was seen in a read of this length that missed at least a short window.
    pub fn saw(&mut self, process: u32, length: Bytes) {
        self.0.retain(|known| *known != process);
        if length > SHORT {
            self.0.truncate(KNOWN - 1);
            self.0.insert(0, process);
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kernel's window for a file that a process opens.
    #[must_use]
    pub fn window(&self, process: u32, file: FileOpening) -> Bytes {
        let calls = file.is_of_columns || self.0.contains(&process);
        if file.may_have_long() && calls { LONG } else { SHORT }
    }
}

/// A file that is being opened.
#[derive(Clone, Copy, Debug)]
pub struct FileOpening {
    /// The length.
    pub length: Bytes,
    /// Whether it is executable.
    pub runs: bool,
    /// Whether it is a [file of columns](is_of_columns).
    pub is_of_columns: bool,
}

impl FileOpening {
    /// Whether it may have the long window, whatever its kind.
    #[must_use]
    pub fn may_have_long(&self) -> bool {
        self.length > LONG && !self.runs
    }
}

/// Whether files with this extension (lower case) are read in parts of columns.
#[must_use]
pub fn is_of_columns(kind: &str) -> bool {
    COLUMNS.contains(&kind)
}

/// The window for this many streams in the memory that their control group has for cached pages. It is a
/// power of two, so that it seldom changes.
#[must_use]
pub fn window_of_share(memory: Bytes, streams: u64) -> Bytes {
    let share = memory.get() / (SHARES * streams.max(1));
    Bytes(share.checked_ilog2().map_or(0, |log| 1 << log)).clamp(LEAST, LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(length: Bytes) -> FileOpening {
        FileOpening { length, runs: false, is_of_columns: false }
    }

    #[test]
    fn a_process_has_the_long_window_for_long_files_while_it_reads_in_long_calls() {
        let mut callers = LongCallers::default();
        let long = file(Bytes::mib(100));
        assert_eq!((callers.is_empty(), callers.window(1, long)), (true, SHORT));
        callers.saw(1, SHORT + Bytes(1));
        assert_eq!((callers.window(1, long), callers.window(2, long)), (LONG, SHORT));
        assert_eq!(
            (callers.window(1, file(LONG)), callers.window(1, FileOpening { runs: true, ..long })),
            (SHORT, SHORT)
        );
        callers.saw(2, SHORT);
        assert_eq!(callers.window(1, long), LONG);
        callers.saw(1, SHORT);
        assert_eq!((callers.is_empty(), callers.window(1, long)), (true, SHORT));
    }

    #[test]
    fn a_long_file_of_columns_has_the_long_window_for_every_process() {
        let (callers, long) = (LongCallers::default(), file(Bytes::mib(100)));
        let columns = |file: FileOpening| FileOpening { is_of_columns: true, ..file };
        assert_eq!(callers.window(1, columns(long)), LONG);
        assert_eq!(callers.window(1, columns(file(LONG))), SHORT);
        assert_eq!(callers.window(1, columns(FileOpening { runs: true, ..long })), SHORT);
        assert!(is_of_columns("parquet") && !is_of_columns("arrow") && !is_of_columns(""));
    }

    #[test]
    fn golden_many_streams_in_little_memory_have_short_windows() {
        for (mib, streams, kib) in [
            (38, 256, 32),
            (64, 512, 32),
            (20, 512, 16),
            (38, 64, 128),
            (1024, 512, 512),
            (24 * 1024, 512, 1024),
            (0, 0, 16),
            (1, 4096, 16),
        ] {
            assert_eq!(window_of_share(Bytes::mib(mib), streams), Bytes::kib(kib), "{mib} MiB, {streams}");
        }
    }

    proptest::proptest! {
        /// All windows and the ones ahead of them fit into half of the memory, except the least window of
        /// each stream.
        #[test]
        fn all_windows_have_room(kib in 0..1u64 << 30, streams in 1..100_000u64) {
            let memory = Bytes::kib(kib);
            let window = window_of_share(memory, streams);
            assert!(window == LEAST || window.get() * 2 * streams <= memory.get() / 2, "{window}");
            assert!((LEAST..=LONG).contains(&window));
        }
    }

    #[test]
    fn the_latest_processes_are_remembered() {
        let mut callers = LongCallers::default();
        (0..=KNOWN as u32).for_each(|process| callers.saw(process, LONG));
        let window = |process| callers.window(process, file(Bytes::mib(2)));
        assert_eq!((window(0), window(1), window(KNOWN as u32)), (SHORT, LONG, LONG));
    }
}
