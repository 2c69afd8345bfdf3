//! Trace files: opened, decompressed, with a bar for how far they have been read.

use super::Source;
use anyhow::Context;
use flate2::bufread::MultiGzDecoder;
use foreseek_simulate::trace::{Format, Reader, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};

/// How gzip files begin (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What is read at a time: a file's read-ahead.
const BUFFER: usize = 128 << 10;

/// The format of a name, for the command line.
pub(super) fn format(name: &str) -> Result<Format, String> {
    Format::by_name(name).ok_or_else(|| {
        format!("no trace format is called so: there are {}", Format::names().collect::<Vec<_>>().join(", "))
    })
}

/// A bar of so many steps on a terminal, nothing elsewhere.
pub(super) fn bar(quiet: bool, steps: u64, what: &str) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:40} {percent:>3}%  {msg} {eta} left") {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar
}

impl Source {
    /// Begins to read the trace; `bar` moves with the bytes of the file.
    pub(super) fn open(&self, bar: &ProgressBar) -> anyhow::Result<Reader<Box<dyn BufRead>>> {
        let name = self.file.display().to_string();
        let cannot = || format!("cannot read the trace {name}");
        let file = File::open(&self.file).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        anyhow::ensure!(
            metadata.is_file(),
            "cannot read the trace {name}: it is not a regular file, and it is read twice; write it to one"
        );
        bar.set_length(metadata.len());
        let mut plain = BufReader::with_capacity(BUFFER, bar.wrap_read(file));
        let compressed = plain.fill_buf().with_context(cannot)?.starts_with(&GZIP);
        let input: Box<dyn BufRead> = match compressed {
            true => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain))),
            false => Box::new(plain),
        };
        let reader = Reader::new(&name, input, self.kind)?;
        Ok(match self.limit {
            Some(limit) => reader.limited(limit),
            None => reader,
        })
    }

    /// Reads the trace to its end.
    pub(super) fn summary(&self, quiet: bool) -> anyhow::Result<Summary> {
        let bar = bar(quiet, 0, "reading");
        let summary =
            Summary::of(self.open(&bar)?, &mut |requests| bar.set_message(format!("{requests} requests")));
        bar.finish_and_clear();
        Ok(summary?)
    }
}
