//! The formats, one a module.
//!
//! Adding one: a module with its parser, a line in [`Format`], one in `FORMATS`, the way its first
//! line is recognised in `detect`, a sample in the reader's tests and a seed for its fuzz target.

mod blkparse;
pub(super) mod blktrace;
mod disksim;
mod fio;
mod libcachesim;
mod msr;
mod spc;
mod validation;

pub(super) use blkparse::is_device;

use super::Record;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, SECTOR_SIZE};

/// What a trace may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Storage Performance Council: `ASU,LBA,bytes,op,seconds`.
    Spc,
    /// Microsoft Research Cambridge: `filetime,host,disk,Read|Write,offset,bytes,response`.
    Msr,
    /// The text that `blkparse` prints.
    Blkparse,
    /// The records that `blktrace` writes.
    Blktrace,
    /// fio's `write_iolog`, version 2 or 3.
    Fio,
    /// DiskSim's ASCII traces: `ms device LBA blocks flags`.
    DiskSim,
    /// DiskSim's validation traces: `R|W Hit|Miss LBA blocks response_us gap_us`.
    Validation,
    /// libCacheSim's CSV of CloudPhysics: `version,time,op,size,lbn`.
    LibCacheSim,
}

/// Each format with its name and what it is.
const FORMATS: [(Format, &str, &str); 8] = [
    (Format::Spc, "spc", "Storage Performance Council ASCII"),
    (Format::Msr, "msr", "MSR Cambridge CSV"),
    (Format::Blkparse, "blkparse", "text of blkparse"),
    (Format::Blktrace, "blktrace", "records of blktrace"),
    (Format::Fio, "fio", "fio iolog, version 2 or 3"),
    (Format::DiskSim, "disksim", "DiskSim ASCII"),
    (Format::Validation, "disksim-validation", "DiskSim validation trace"),
    (Format::LibCacheSim, "libcachesim", "libCacheSim CSV (CloudPhysics)"),
];

impl Format {
    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FORMATS.iter().map(|(_, name, _)| *name)
    }

    /// The format of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        FORMATS.iter().find(|(_, known, _)| *known == name).map(|(format, _, _)| *format)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.entry().2
    }

    fn entry(self) -> (Self, &'static str, &'static str) {
        // Each format has its line; a test holds that.
        *FORMATS.iter().find(|(format, _, _)| *format == self).unwrap_or(&FORMATS[0])
    }

    /// A parser at the start of a trace.
    pub(super) fn parser(self) -> Parser {
        match self {
            Self::Spc => Parser::Lines(Box::new(spc::Spc)),
            Self::Msr => Parser::Lines(Box::new(msr::Msr::default())),
            Self::Blkparse => Parser::Lines(Box::new(blkparse::Blkparse::default())),
            Self::Blktrace => Parser::Binary(Box::new(blktrace::Blktrace)),
            Self::Fio => Parser::Lines(Box::new(fio::Fio::default())),
            Self::DiskSim => Parser::Lines(Box::new(disksim::DiskSim)),
            Self::Validation => Parser::Lines(Box::new(validation::Validation)),
            Self::LibCacheSim => Parser::Lines(Box::new(libcachesim::LibCacheSim)),
        }
    }
}

/// Reads a format.
pub(super) enum Parser {
    /// A record a line.
    Lines(Box<dyn LineParser>),
    /// Records of bytes.
    Binary(Box<dyn Binary>),
}

/// Reads lines.
pub(super) trait LineParser: Send {
    /// The record of a line that is not empty; `None` where the format says that it bears none. The
    /// error tells what is wrong with the line.
    fn parse(&mut self, line: &str) -> Result<Option<Record>, String>;
    /// The name of the file of this number.
    fn name(&self, _number: u32) -> Option<&str> {
        None
    }
}

/// The longest header of a binary record: blktrace's.
pub(super) const HEADER_LIMIT: usize = 48;

/// Reads records of bytes: a header of one length, and what it says follows.
pub(super) trait Binary: Send {
    /// Bytes of a header, at most [`HEADER_LIMIT`].
    fn header(&self) -> usize;
    /// The record of a header, if it bears one, and how many bytes follow that are to be skipped.
    fn parse(&mut self, header: &[u8]) -> Result<(Option<Record>, u64), String>;
}

/// Sectors as a range of bytes; an error where that is beyond any device.
fn sectors(lba: u64, count: u64) -> Result<ByteSpan, String> {
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR_SIZE);
    match (bytes(lba), bytes(count)) {
        (Some(start), Some(length)) => span(start, length),
        _ => Err(format!("sector {lba} and {count} more lie beyond any device")),
    }
}

/// Bytes as a range; an error where that is empty or beyond any device.
fn span(start: u64, length: u64) -> Result<ByteSpan, String> {
    /// Half of what 64 bits count: sums of positions stay in range.
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
fn nothing() -> ByteSpan {
    ByteSpan::at(ByteOffset(0), Bytes::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_a_name() {
        for (format, name, description) in FORMATS {
            assert_eq!((format.name(), format.description()), (name, description));
            assert_eq!(Format::by_name(name), Some(format));
        }
        assert_eq!(Format::by_name("srt"), None);
    }
}
