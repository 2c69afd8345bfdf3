//! The kernel's read-ahead window for the next file to be opened (`read_ahead_kb` of the mount).
//!
//! The kernel takes the window when a file has been opened, right after the answer. It is therefore set
//! before the answer, if it differs from that of the file before. [`LongCallers`] chooses it, and
//! [`window_of_share`] if many files are open and the memory of the program's control group is short.
//!
//! Limits:
//!
//! - The streams of all programs are counted, even if only one group is short.
//! - Of two files that are opened at the same moment one may have the other's window, which costs time and no
//!   byte.
//! - If `/sys` cannot be written, all have the short window.

use crate::call::call_of;
use crate::reader::kind_of;
use foreseek_readahead::serving::{FileOpening, LongCallers, SHORT, is_of_columns, window_of_share};
use foreseek_seam::ProcessId;
use foreseek_storage::{available_to, process_of};
use foreseek_units::{ByteSpan, Bytes};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// With at most this many open files, all windows fit into any control group in which programs can run: 16 of
/// them and as many ahead take 4 MiB.
const FEW: usize = 16;
/// The memory of a process's groups is read again after this time.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Processes for which it is remembered.
const KNOWN: usize = 64;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    callers: LongCallers,
    /// The file that sets the window, if it can be written.
    setting: Option<File>,
    now: Option<Bytes>,
    /// The memory that the control groups of processes that opened files lately have for cached pages, the
    /// latest first.
    memory: Vec<Memory>,
    opens: Opens,
}

/// The memory that the control groups of a process leave to it.
#[derive(Clone, Copy, Debug)]
struct Memory {
    process: u32,
    read: Instant,
    left: Option<Bytes>,
}

/// Opens with another window than the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opens {
    /// The long one.
    pub(crate) long: u64,
    /// A shorter one.
    pub(crate) short: u64,
}

impl Windows {
    /// The mount exists: `connection` is its number.
    pub(crate) fn begin(&self, connection: u32) {
        let path = format!("/sys/class/bdi/0:{connection}/read_ahead_kb");
        match File::options().write(true).open(&path) {
            Ok(setting) => self.lock().setting = Some(setting),
            Err(error) => tracing::info!("{path}: {error}: long calls come in windows of {SHORT}"),
        }
    }

    /// The call in which a reader waits, of which a read of these bytes is a part, if it is longer.
    pub(crate) fn look(&self, pid: ProcessId, range: ByteSpan) -> Option<ByteSpan> {
        let call = call_of(pid, range)?;
        let is_new = call.len() > SHORT || !self.lock().callers.is_empty();
        if is_new && let Some(process) = process_of(pid.0) {
            self.lock().callers.saw(process, call.len());
        }
        Some(call).filter(|call| call.end > range.end)
    }

    /// A file of this length is opened beside `others`; `runs` if it is executable.
    pub(crate) fn opened(&self, thread: u32, file: &File, length: Bytes, runs: bool, others: usize) {
        let mut opened = FileOpening { length, runs, is_of_columns: false };
        let are_many = {
            let mut state = self.lock();
            if state.setting.is_none() {
                return;
            }
            opened.is_of_columns = opened.may_have_long() && is_of_columns(&kind_of(file));
            // Long windows of a few files can be too much for a small group.
            let are_many = others > FEW || opened.is_of_columns;
            if !are_many && state.callers.is_empty() {
                // The default window, for any process.
                return state.set(SHORT);
            }
            are_many
        };
        let process = process_of(thread).unwrap_or(0);
        let share = if are_many { self.share(process, others as u64 + 1) } else { None };
        let mut state = self.lock();
        let window = state.callers.window(process, opened);
        state.set(share.map_or(window, |share| share.min(window)));
    }

    /// The window of one of this many streams, if a control group limits the process's memory.
    fn share(&self, process: u32, streams: u64) -> Option<Bytes> {
        let known = |state: &State| state.memory.iter().find(|one| one.process == process).copied();
        let known = known(&self.lock()).filter(|one| one.read.elapsed() < KNOWN_FOR);
        let left = match known {
            Some(known) => known.left,
            None => {
                let left = available_to(process);
                let memory = &mut self.lock().memory;
                memory.retain(|one| one.process != process);
                memory.truncate(KNOWN - 1);
                memory.insert(0, Memory { process, read: Instant::now(), left });
                left
            }
        };
        left.map(|left| window_of_share(left, streams))
    }

    /// Opens with another window than the default.
    pub(crate) fn opens(&self) -> Opens {
        self.lock().opens
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set(&mut self, window: Bytes) {
        let Some(setting) = &self.setting else { return };
        if self.now.unwrap_or(SHORT) != window {
            let text = format!("{}\n", window.get() / 1024);
            if let Err(error) = setting.write_all_at(text.as_bytes(), 0) {
                tracing::info!("the window of the mount cannot be set: {error}");
                self.setting = None;
                return;
            }
            self.now = Some(window);
        }
        self.opens.long += u64::from(window > SHORT);
        self.opens.short += u64::from(window < SHORT);
    }
}
