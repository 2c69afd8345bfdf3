//! The file of a recording, which is only opened to append to it. A descriptor kept open in another program's
//! process could be lost: hosts close and reuse numbers wholesale.

use crate::aside::print_line;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How much is collected before it is appended: some thousand events.
const PIECE: usize = 1 << 20;

#[derive(Debug)]
struct Buffer {
    path: PathBuf,
    bytes: Vec<u8>,
    process: u32,
}

/// A file that is appended to in pieces; clones write to the same file.
#[derive(Clone, Debug)]
pub(crate) struct AppendFile {
    buffer: Arc<Mutex<Buffer>>,
}

impl AppendFile {
    /// Creates the file at `path`, or empties it.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        std::fs::File::create(&path)?;
        let buffer = Buffer { path, bytes: Vec::new(), process: std::process::id() };
        Ok(Self { buffer: Arc::new(Mutex::new(buffer)) })
    }
}

impl Buffer {
    fn append(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() || std::process::id() != self.process {
            return Ok(());
        }
        OpenOptions::new().append(true).open(&self.path)?.write_all(&bytes)
    }
}

impl Write for AppendFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.bytes.extend_from_slice(bytes);
        if buffer.bytes.len() >= PIECE {
            // The recorder stops silently at the first failure.
            buffer.append().inspect_err(|error| {
                print_line(&format!("cannot write the recording to {}: {error}", buffer.path.display()));
            })?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner).append()
    }
}
