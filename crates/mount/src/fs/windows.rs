//! The kernel's window for the file that is opened next (`read_ahead_kb` of the mount).
//!
//! The kernel takes it when a file has been opened, right after the answer. So it is set before the answer, where it is to be
//! another one than for the file before ([`LongCallers`] decides, and [`window_of_share`] where many files are open and the memory of the program's
//! control group is short). Limits: the streams counted are those of all programs, also where one group alone is short; of two files that are opened at the same
//! moment one may have the other's window, which costs time and no byte; where `/sys` cannot be written, all have the short one.

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

/// With no more open files than this all windows have room in any control group in which programs run at all: 16 of them and as many ahead take 4 MiB.
const FEW: usize = 16;
/// What a process's groups leave is read anew after this time.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Processes of which it is known.
const KNOWN: usize = 64;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    callers: LongCallers,
    /// Where the window is set, if it can be.
    setting: Option<File>,
    now: Option<Bytes>,
    /// What the control groups of processes that opened files lately leave for cached pages, the last one first.
    memory: Vec<Memory>,
    opens: Opens,
}

/// What the control groups of a process leave it.
#[derive(Clone, Copy, Debug)]
struct Memory {
    process: u32,
    read: Instant,
    left: Option<Bytes>,
}

/// How many files were opened with another window than that of all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opens {
    /// The long one.
    pub(crate) long: u64,
    /// A shorter one.
    pub(crate) short: u64,
}

impl Windows {
    /// The mount is there: `connection` is its number.
    pub(crate) fn begin(&self, connection: u32) {
        let path = format!("/sys/class/bdi/0:{connection}/read_ahead_kb");
        match File::options().write(true).open(&path) {
            Ok(setting) => self.lock().setting = Some(setting),
            Err(error) => tracing::info!("{path}: {error}: long calls come in windows of {SHORT}"),
        }
    }

    /// The call in which a reader waits, of which a read of these bytes is a part, if it is longer.
    pub(crate) fn look(&self, who: ProcessId, range: ByteSpan) -> Option<ByteSpan> {
        let call = call_of(who, range)?;
        let is_new = call.len() > SHORT || !self.lock().callers.is_empty();
        if is_new && let Some(process) = process_of(who.0) {
            self.lock().callers.saw(process, call.len());
        }
        Some(call).filter(|call| call.end > range.end)
    }

    /// A file of this length is opened beside so many others; `runs` where it could be run.
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
                // Whoever opens it: the window of all.
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

    /// The window of one of so many streams, where a control group limits the process's memory.
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

    /// Files that were opened with another window than that of all.
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
