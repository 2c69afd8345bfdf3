//! The kernel's window for the file that is opened next (`read_ahead_kb` of the mount).
//!
//! The kernel takes it when a file has been opened, right after the answer. So it is set before the answer, where it is to be
//! another one than for the file before ([`LongCallers`] decides). Limits: of two files that are opened at the same
//! moment one may have the other's window, which costs time and no byte; where `/sys` cannot be written, all have the short one.

use crate::call::call_of;
use foreseek_readahead::serving::{LongCallers, SHORT};
use foreseek_seam::ProcessId;
use foreseek_storage::process_of;
use foreseek_units::{ByteSpan, Bytes};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    callers: LongCallers,
    /// Where the window is set, if it can be.
    setting: Option<File>,
    now: Option<Bytes>,
    /// Opens with the long window.
    opens: u64,
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

    /// A file of this length is opened; `runs` where it could be run.
    pub(crate) fn opened(&self, thread: u32, length: Bytes, runs: bool) {
        if self.lock().callers.is_empty() && self.lock().now.is_none() {
            return;
        }
        let process = process_of(thread).unwrap_or(0);
        let mut state = self.lock();
        let window = state.callers.window(process, length, runs);
        state.set(window);
    }

    /// Opens with the long window.
    pub(crate) fn opens(&self) -> u64 {
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
        self.opens += u64::from(window > SHORT);
    }
}
