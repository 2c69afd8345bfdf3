//! A recording in memory.

use super::Recorder;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The text of a recording that is made in memory, as tests make it: clones share it.
#[derive(Clone, Debug, Default)]
pub struct Text(Arc<Mutex<Vec<u8>>>);

impl Text {
    /// A recorder that writes into it.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder::new(Box::new(self.clone()))
    }

    /// What was recorded so far.
    #[must_use]
    pub fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
