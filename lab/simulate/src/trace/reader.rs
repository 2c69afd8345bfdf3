//! Streams records out of a trace.

use super::detect::{self, HEAD};
use super::format::{Binary, LineParser, Parser};
use super::{Format, Record, TraceError};
use std::io::{BufRead, Chain, Cursor, Read};

/// The longest line, in bytes. The longest of any known format (a blkparse message) is far shorter;
/// a file of another kind without line ends must not fill the memory.
pub const LINE_LIMIT: usize = 64 << 10;

/// The records of a trace, in order.
pub struct Reader<R> {
    file: String,
    format: Format,
    parser: Parser,
    input: Chain<Cursor<Vec<u8>>, R>,
    /// Lines read, or bytes of a binary trace.
    position: u64,
    line: Vec<u8>,
    /// The most records still to be read.
    left: u64,
    over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads a trace, whose name in errors is `file`, in the given format or in the one of its first line.
    ///
    /// # Errors
    /// The input cannot be read, is empty, or begins like no known format.
    pub fn new(file: &str, mut input: R, format: Option<Format>) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { file: file.to_owned(), near: 0, source };
        let mut head = Vec::new();
        input.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(io)?;
        let format = match format {
            Some(format) => format,
            None => detect::detect(file, &head)?,
        };
        Ok(Self {
            file: file.to_owned(),
            format,
            parser: format.parser(),
            input: Cursor::new(head).chain(input),
            position: 0,
            line: Vec::new(),
            left: u64::MAX,
            over: false,
        })
    }

    /// The same, ending after this many records.
    #[must_use]
    pub fn limited(self, records: u64) -> Self {
        Self { left: records, ..self }
    }

    /// The format, given or detected.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The name of the trace in errors.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The name of a file by its number in records, if the format has names.
    pub fn name(&self, number: u32) -> Option<&str> {
        match &self.parser {
            Parser::Lines(parser) => parser.name(number),
            Parser::Binary(_) => None,
        }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// The input cannot be read or is malformed.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.over || self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let Self { file, parser, input, position, line, .. } = self;
        let next = match parser {
            Parser::Lines(parser) => next_of_lines(file, &mut **parser, input, position, line),
            Parser::Binary(parser) => next_of_bytes(file, &mut **parser, input, position),
        };
        // After an error it is unknown where the next record begins.
        self.over = !matches!(next, Ok(Some(_)));
        next
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

fn next_of_lines(
    file: &str,
    parser: &mut dyn LineParser,
    input: &mut impl BufRead,
    number: &mut u64,
    line: &mut Vec<u8>,
) -> Result<Option<Record>, TraceError> {
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_LIMIT as u64 + 1).read_until(b'\n', line);
        let read = read.map_err(|source| TraceError::Io { file: file.to_owned(), near: *number, source })?;
        if read == 0 {
            return Ok(None);
        }
        *number += 1;
        let wrong = |reason| TraceError::Line { file: file.to_owned(), line: *number, reason };
        if line.len() > LINE_LIMIT {
            return Err(wrong(format!("is longer than {LINE_LIMIT} bytes")));
        }
        let text = std::str::from_utf8(line).map_err(|_| wrong("is not UTF-8 text".to_owned()))?.trim();
        if text.is_empty() {
            continue;
        }
        if let Some(record) = parser.parse(text).map_err(wrong)? {
            return Ok(Some(record));
        }
    }
}

fn next_of_bytes(
    file: &str,
    parser: &mut dyn Binary,
    input: &mut dyn BufRead,
    position: &mut u64,
) -> Result<Option<Record>, TraceError> {
    loop {
        let offset = *position;
        let wrong = |reason| TraceError::Byte { file: file.to_owned(), offset, reason };
        let mut header = [0; super::format::HEADER_LIMIT];
        let header = &mut header[..parser.header()];
        let io = |source| TraceError::Io { file: file.to_owned(), near: offset, source };
        let got = fill(input, header).map_err(io)?;
        if got == 0 {
            return Ok(None);
        }
        if got < header.len() {
            return Err(wrong(format!("ends within a record, {got} of {} bytes", header.len())));
        }
        let (record, payload) = parser.parse(header).map_err(wrong)?;
        let skipped = std::io::copy(&mut input.take(payload), &mut std::io::sink()).map_err(io)?;
        if skipped < payload {
            return Err(wrong(format!("ends within a record's {payload} further bytes")));
        }
        *position += header.len() as u64 + payload;
        if record.is_some() {
            return Ok(record);
        }
    }
}

/// Fills `buffer` as far as the input goes.
fn fill(input: &mut dyn BufRead, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(read) => got += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests;
