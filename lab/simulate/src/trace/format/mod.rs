//! The formats, one a module.
//!
//! To add one: a module with its parser, a line in [`Format`], one in `FORMATS`, a check of its first line in
//! `detect`, a sample in the reader's tests and a seed for its fuzz target.

mod blkparse;
pub(super) mod blktrace;
mod disksim;
mod fio;
mod libcachesim;
mod msr;
mod parser;
mod spc;
mod validation;

pub(super) use blkparse::is_device;

pub(super) use parser::{Binary, HEADER_LIMIT, LineParser, Parser};

/// The format of a trace.
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

/// Each format with its name and description.
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

    /// The format of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        FORMATS.iter().find(|(_, known, _)| *known == name).map(|(format, _, _)| *format)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Its description, in a few words.
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
