//! Which window the kernel in front is to have for a file, by who opens it.
//!
//! A window as long as a FUSE request lets calls of up to a megabyte through whole, one request each instead of nine, and nothing beyond
//! them is asked for. But the kernel also reads ahead by it: up to two windows beyond where a sequence ends, and one around each page
//! fault. So only a process has it whose last long read was one call, and whoever opens a [file of columns](is_of_columns), for files
//! that are longer than a window and that cannot be run: programs and libraries are mapped.
//!
//! Where many streams share little memory the window is shorter ([`window_of_share`]): no stream reads further ahead than its share (TR-840 section
//! 4.2), in the kernel's cache as in ours.
//!
//! Limits: a file keeps the window with which it was opened. So the first file that a process reads in long calls has the short one,
//! unless its kind tells.

use super::settings::READ_LIMIT;
use foreseek_units::Bytes;

/// The window of all others: what every kernel has for a FUSE mount, as its `read_ahead_kb`.
pub const SHORT: Bytes = Bytes::kib(128);
/// The shortest: a fetch below it costs a disk hardly less.
const LEAST: Bytes = Bytes::kib(16);
/// A stream has its window and the one ahead of it in memory. All of them together have half of what there is, since pages that were read stay in
/// memory for a while.
const SHARES: u64 = 4;
/// What a FUSE request holds at most.
const LONG: Bytes = READ_LIMIT.bytes();
/// Kinds of files whose columns lie in parts of about a megabyte. Their readers read a part by one call, or announce many parts at once by
/// `posix_fadvise`, of each of which the kernel asks for one window. Kinds that are mapped (Arrow, Feather) are none of them.
const COLUMNS: [&str; 2] = ["parquet", "orc"];
/// Processes that are remembered. Whoever is one too many has the short window until its next call.
const KNOWN: usize = 64;

/// The processes that read in calls longer than a window, the last one first.
#[derive(Clone, Debug, Default)]
pub struct LongCallers(Vec<u32>);

impl LongCallers {
    /// A process was found in a read of this length, of which at least a short window was missing.
    pub fn saw(&mut self, process: u32, length: Bytes) {
        self.0.retain(|known| *known != process);
        if length > SHORT {
            self.0.truncate(KNOWN - 1);
            self.0.insert(0, process);
        }
    }

    /// Whether there are any.
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

/// A file that is opened.
#[derive(Clone, Copy, Debug)]
pub struct FileOpening {
    /// Its length.
    pub length: Bytes,
    /// Whether it could be run.
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

/// Whether files of this kind, the extension in lower case, are read in parts of columns.
#[must_use]
pub fn is_of_columns(kind: &str) -> bool {
    COLUMNS.contains(&kind)
}

/// The window with which so many streams share what their control group leaves for cached pages: a power of two, so that it seldom changes.
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
    fn who_reads_in_long_calls_has_the_long_window_for_long_files_until_it_does_not() {
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
    fn a_long_file_of_columns_has_the_long_window_whoever_opens_it() {
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
        /// All windows and those ahead of them have room in half of the memory, but for the least that each has.
        #[test]
        fn all_windows_have_room(kib in 0..1u64 << 30, streams in 1..100_000u64) {
            let memory = Bytes::kib(kib);
            let window = window_of_share(memory, streams);
            assert!(window == LEAST || window.get() * 2 * streams <= memory.get() / 2, "{window}");
            assert!((LEAST..=LONG).contains(&window));
        }
    }

    #[test]
    fn so_many_are_remembered() {
        let mut callers = LongCallers::default();
        (0..=KNOWN as u32).for_each(|process| callers.saw(process, LONG));
        let window = |process| callers.window(process, file(Bytes::mib(2)));
        assert_eq!((window(0), window(1), window(KNOWN as u32)), (SHORT, LONG, LONG));
    }
}
