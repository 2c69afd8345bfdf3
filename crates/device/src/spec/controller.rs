//! The description of a disk's controller: overheads by kind of command, read-ahead, write cache.
//!
//! The table `[controller]` is optional; without it every command costs `command_overhead_ms`, the disk reads
//! ahead until a segment is full, and writes through.

use super::error::ProfileError;
use super::keys::{Keys, bounds};
use super::limits::{BUFFER_SECTORS_LIMIT, LONGEST_MS};
use super::write::Writer;
use crate::controller::{After, Controller, Overheads, ReadAhead, SplitOverheads, Until, WriteCache};
use foreseek_units::{Nanos, Sectors};

/// The most ranges of the write cache; all are examined at each write.
const RANGES_LIMIT: u64 = 256;

/// The description of a controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControllerSpec {
    /// The overhead of a command.
    pub overhead: OverheadSpec,
    /// The end of read-ahead.
    pub read_ahead: Until,
    /// The most that is read ahead, in addition to a segment's limit.
    pub read_ahead_sectors: Option<u64>,
    /// Whether read-ahead must leave the request itself in its segment.
    pub read_ahead_keeps_request: bool,
    /// Whether sectors that pass under the head while it waits for a read's first sector are kept.
    pub reads_on_arrival: bool,
    /// Ranges in the write cache; 0 for none.
    pub write_cache_ranges: u64,
    /// Sectors in it; 0 for none.
    pub write_cache_sectors: u64,
    /// Whether written data can be read from the buffer afterwards.
    pub reads_written_data: bool,
}

/// Overheads in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OverheadSpec {
    /// A read that the buffer answers, after a read.
    pub read_hit_after_read: f64,
    /// The same after a write.
    pub read_hit_after_write: f64,
    /// A read that goes to the media, after a read.
    pub read_miss_after_read: f64,
    /// The same after a write.
    pub read_miss_after_write: f64,
    /// A write that the cache accepts, after a read.
    pub write_hit_after_read: f64,
    /// The same after a write.
    pub write_hit_after_write: f64,
    /// A write that goes to the media, after a read.
    pub write_miss_after_read: f64,
    /// The same after a write.
    pub write_miss_after_write: f64,
    /// From the end of a read's data to its completion.
    pub read_completion: f64,
    /// The same for a write.
    pub write_completion: f64,
}

/// The names of [`Until`] in a profile.
const READ_AHEAD: [(&str, Until); 5] = [
    ("none", Until::Nothing),
    ("track", Until::Track),
    ("cylinder", Until::Cylinder),
    ("segment", Until::Segment),
    ("next-track", Until::NextTrack),
];

impl OverheadSpec {
    /// Each time with its key.
    pub fn fields(&mut self) -> [(&'static str, &mut f64); 10] {
        [
            ("read_hit_after_read_ms", &mut self.read_hit_after_read),
            ("read_hit_after_write_ms", &mut self.read_hit_after_write),
            ("read_miss_after_read_ms", &mut self.read_miss_after_read),
            ("read_miss_after_write_ms", &mut self.read_miss_after_write),
            ("write_hit_after_read_ms", &mut self.write_hit_after_read),
            ("write_hit_after_write_ms", &mut self.write_hit_after_write),
            ("write_miss_after_read_ms", &mut self.write_miss_after_read),
            ("write_miss_after_write_ms", &mut self.write_miss_after_write),
            ("read_completion_ms", &mut self.read_completion),
            ("write_completion_ms", &mut self.write_completion),
        ]
    }

    fn split(&self) -> SplitOverheads {
        let ms = Nanos::from_millis_f64;
        let after = |read: f64, write: f64| After { read: ms(read), write: ms(write) };
        SplitOverheads {
            read_hit: after(self.read_hit_after_read, self.read_hit_after_write),
            read_miss: after(self.read_miss_after_read, self.read_miss_after_write),
            write_hit: after(self.write_hit_after_read, self.write_hit_after_write),
            write_miss: after(self.write_miss_after_read, self.write_miss_after_write),
            read_completion: ms(self.read_completion),
            write_completion: ms(self.write_completion),
        }
    }
}

impl ControllerSpec {
    /// Reads the table; an overhead that it does not have is `command_overhead_ms`.
    ///
    /// # Errors
    /// A key that is unknown, of the wrong type or out of range.
    pub fn read(mut keys: Keys<'_>, command_overhead_ms: f64) -> Result<Self, ProfileError> {
        let mut overhead = OverheadSpec::default();
        for (key, time) in overhead.fields() {
            let default = if key.ends_with("completion_ms") { 0.0 } else { command_overhead_ms };
            *time = keys.number_if(key, bounds(0.0, LONGEST_MS))?.unwrap_or(default);
        }
        let name = keys.text_or("read_ahead", "segment")?;
        let Some((_, read_ahead)) = READ_AHEAD.iter().find(|(known, _)| *known == name) else {
            let known = READ_AHEAD.map(|(name, _)| format!("'{name}'")).join(", ");
            return Err(keys.wrong("read_ahead", format!("is '{name}', must be one of {known}")));
        };
        let sectors = bounds(0, BUFFER_SECTORS_LIMIT);
        let spec = Self {
            overhead,
            read_ahead: *read_ahead,
            read_ahead_sectors: keys.whole_if("read_ahead_sectors", sectors)?,
            read_ahead_keeps_request: keys.truth_or("read_ahead_keeps_request", false)?,
            reads_on_arrival: keys.truth_or("reads_on_arrival", false)?,
            write_cache_ranges: keys.whole_if("write_cache_ranges", bounds(0, RANGES_LIMIT))?.unwrap_or(0),
            write_cache_sectors: keys.whole_if("write_cache_sectors", sectors)?.unwrap_or(0),
            reads_written_data: keys.truth_or("reads_written_data", false)?,
        };
        if (spec.write_cache_ranges == 0) != (spec.write_cache_sectors == 0) {
            let reason = "is 0 and write_cache_ranges is not, or the other way round: 0 in both for none";
            return Err(keys.wrong("write_cache_sectors", reason));
        }
        keys.finish()?;
        Ok(spec)
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.table("controller");
        for (key, time) in self.overhead.clone().fields() {
            to.number(key, *time);
        }
        if let Some((name, _)) = READ_AHEAD.iter().find(|(_, until)| *until == self.read_ahead) {
            to.text("read_ahead", name);
        }
        if let Some(sectors) = self.read_ahead_sectors {
            to.whole("read_ahead_sectors", sectors);
        }
        to.truth("read_ahead_keeps_request", self.read_ahead_keeps_request);
        if self.reads_on_arrival {
            to.truth("reads_on_arrival", true);
        }
        to.whole("write_cache_ranges", self.write_cache_ranges);
        to.whole("write_cache_sectors", self.write_cache_sectors);
        to.truth("reads_written_data", self.reads_written_data);
        to.end_table();
    }

    pub(crate) fn controller(&self) -> Controller {
        Controller {
            overheads: Overheads::Split(self.overhead.split()),
            read_ahead: ReadAhead {
                until: self.read_ahead,
                keeps_request: self.read_ahead_keeps_request,
                most: self.read_ahead_sectors.map(Sectors),
            },
            reads_on_arrival: self.reads_on_arrival,
            write_cache: WriteCache {
                ranges: self.write_cache_ranges as usize,
                sectors: Sectors(self.write_cache_sectors),
            },
            keeps_written: self.reads_written_data,
            by_sector: true,
        }
    }
}
