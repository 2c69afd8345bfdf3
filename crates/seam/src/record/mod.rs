//! Recording the events and commands of an engine, and comparing another run with it.
//!
//! A recording is text. It has a line that names the format and a line with the settings. Then it has a line
//! for each event with its time, followed by a line for each command of the engine:
//!
//! ```text
//! foreseek-recording 2
//! settings share=stock memory=- infill=8 order=disk mode=blocking first_round=- growth=4 list_limit=4194304
//! 1200 opened 1 7 1048576 4711
//! 1200 placed 7 0+256@2048
//! 1300 watched 7 0..1048576
//! 2500 read 0 1 0..4096
//! > ask 0 7 0..1
//! 3100 resident 0 0..1
//! > pass 0
//! ```
//!
//! The second line is the engine's own ([`Header`]): an access-list engine's begins with `settings`, a serving
//! engine's with `serving`.
//!
//! Times are nanoseconds of the driver's clock. Ranges are half-open, those of `read` in bytes and the others
//! in pages; `-` is none. [`replay`] feeds the events to an engine in virtual time and compares its commands
//! one by one: programs and the simulator run the same policy (rule 1 of the house). The replay detects an
//! engine that depends on anything except its events.
//!
//! An engine with events and commands of its own says how they are written ([`Line`]) and how its events are
//! read ([`Replay`]).

pub mod fields;
mod read;
mod replay;
mod text;
mod write;

pub use replay::{Recording, Replay, ReplayError, Replayed, replay, replay_with};
pub use text::Text;
pub use write::words;

use fields::{Fields, Reason};
use foreseek_units::Instant;
use std::fmt::Write as _;
use std::io::Write;

/// The version of the format, raised when a line changes its meaning.
pub const FORMAT: u32 = 2;

/// The first word of a recording.
const MAGIC: &str = "foreseek-recording";

/// The prefix of a line with a command.
const COMMAND: &str = "> ";

/// The last line of a recording that was cut at [`RECORDING_LIMIT`].
const CUT: &str = "cut";

/// A recording ends at this length: about ten million reads. It is meant for a test or an afternoon, and a
/// forgotten one must not fill a disk.
pub const RECORDING_LIMIT: u64 = 1 << 30;

/// What is written into a line of a recording: an event, a command, or a part of one.
pub trait Line {
    /// Adds it to the line.
    fn write(&self, line: &mut String);
}

/// The memory for a line that is kept for the next one.
const LINE_KEPT: usize = 1 << 20;

/// The settings of an engine: the second line of its recording.
pub trait Header: Sized {
    /// Adds them to the line.
    fn write(&self, line: &mut String);

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    fn read(fields: &mut Fields<'_>) -> Result<Self, Reason>;
}

/// Writes a recording. A failed write ends it without an error in the program; the owner of the sink can
/// detect it there.
pub struct Recorder {
    sink: Option<Box<dyn Write + Send>>,
    line: String,
    written: u64,
    limit: u64,
}

impl Recorder {
    /// A recorder that writes to `sink`, line by line; the sink should buffer.
    #[must_use]
    pub fn new(sink: Box<dyn Write + Send>) -> Self {
        Self { sink: Some(sink), line: String::new(), written: 0, limit: RECORDING_LIMIT }
    }

    /// The same, with a limit of this many bytes.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Begins the recording of a new engine. Its driver then calls [`event`](Self::event) for each event, and
    /// [`commands`](Self::commands) for the commands that follow.
    pub fn begin(&mut self, settings: &impl Header) {
        // Writing to a string cannot fail.
        self.line.clear();
        let _ = writeln!(self.line, "{MAGIC} {FORMAT}");
        settings.write(&mut self.line);
        self.line.push('\n');
        self.put();
    }

    /// Records an event.
    pub fn event(&mut self, now: Instant, event: &impl Line) {
        if self.sink.is_some() {
            self.line.clear();
            let _ = write!(self.line, "{} ", now.0);
            event.write(&mut self.line);
            self.line.push('\n');
            self.put();
        }
    }

    /// Records commands.
    pub fn commands(&mut self, commands: &[impl Line]) {
        if self.sink.is_some() && !commands.is_empty() {
            self.line.clear();
            for command in commands {
                self.line.push_str(COMMAND);
                command.write(&mut self.line);
                self.line.push('\n');
            }
            self.put();
        }
    }

    /// Whether it has ended: at its limit, or because the sink took no more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.sink.is_none()
    }

    /// Writes the line; ends the recording on an error or at the limit.
    fn put(&mut self) {
        let Some(sink) = &mut self.sink else { return };
        self.written += self.line.len() as u64;
        let cut = self.written > self.limit;
        if cut {
            self.line.clear();
            self.line.push_str(CUT);
            self.line.push('\n');
        }
        if sink.write_all(self.line.as_bytes()).is_err() || cut {
            self.sink = None;
        }
        // A listing of a large directory is one line.
        self.line.clear();
        self.line.shrink_to(LINE_KEPT);
    }
}
