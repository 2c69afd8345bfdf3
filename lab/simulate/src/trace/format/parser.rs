//! The interface of a format's parser.

use crate::trace::record::Record;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, SECTOR_SIZE};

/// Reads a format.
pub(in crate::trace) enum Parser {
    /// One record for each line.
    Lines(Box<dyn LineParser>),
    /// Records of bytes.
    Binary(Box<dyn Binary>),
}

/// Reads lines.
pub(in crate::trace) trait LineParser: Send {
    /// The record of a line that is not empty; `None` if the line is not a request. The error says what is
    /// wrong with the line.
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String>;
    /// The name of the file of this number.
    fn name(&self, _number: u32) -> Option<&str> {
        None
    }
}

/// The longest header of a binary record: blktrace's.
pub(in crate::trace) const HEADER_LIMIT: usize = 48;

/// Reads binary records: a header of a fixed length, and the data that it announces.
pub(in crate::trace) trait Binary: Send {
    /// Bytes of a header, at most [`HEADER_LIMIT`].
    fn header(&self) -> usize;
    /// The record of a header, if it is a request, and how many bytes after it are to be skipped.
    fn parse(&mut self, header: &[u8]) -> Result<(Option<Record>, u64), String>;
}

/// Sectors as a range of bytes; an error where that is beyond any device.
pub(super) fn sectors(lba: u64, count: u64) -> Result<ByteSpan, String> {
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR_SIZE);
    match (bytes(lba), bytes(count)) {
        (Some(start), Some(length)) => span(start, length),
        _ => Err(format!("sector {lba} and {count} more lie beyond any device")),
    }
}

/// Bytes as a range; an error where that is empty or beyond any device.
pub(super) fn span(start: u64, length: u64) -> Result<ByteSpan, String> {
    /// Half of the range of 64 bits: sums of positions stay in range.
    const END: u64 = 1 << 63;
    if length == 0 {
        return Err("asks for nothing: its length is 0".to_owned());
    }
    match start.checked_add(length) {
        Some(end) if end <= END => Ok(ByteSpan::at(ByteOffset(start), Bytes(length))),
        _ => Err(format!("offset {start} and {length} more lie beyond any device")),
    }
}

/// The empty range of a flush.
pub(super) fn nothing() -> ByteSpan {
    ByteSpan::at(ByteOffset(0), Bytes::ZERO)
}
