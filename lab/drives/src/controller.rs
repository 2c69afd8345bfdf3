//! What a drive's controller does, which a `.model` file does not say: from a `.diskspecs` file, as published,
//! or assumed.

use super::block::{Reader, parse};
use super::error::ExtractedError;
use foreseek_device::spec::limits::{BUFFER_SECTORS_LIMIT, LONGEST_MS, SEGMENTS_LIMIT};
use foreseek_device::spec::{ControllerSpec, OverheadSpec, Until};
use foreseek_units::SECTOR_SIZE;

/// The largest scale of overheads.
const SCALE_LIMIT: f64 = 100.0;
/// Transfer of a sector over the bus where nothing is known: 5 MB/s, the asynchronous rate of the narrow SCSI
/// adapters with which the drives of such files were measured (all published ones have 0.099 to 0.134 ms).
const TYPICAL_SECTOR_MS: f64 = 0.1024;

/// A controller's times and rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Where they come from.
    pub(super) source: String,
    pub(super) bus_sector_ms: f64,
    pub(super) segments: u64,
    pub(super) segment_sectors: u64,
    pub(super) zero_latency: bool,
    pub(super) spec: ControllerSpec,
}

impl Controller {
    /// Where its times come from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What is assumed of a drive of which nothing is known: for each time the median over the six drives that
    /// DIXtrac extracted for the DiskSim 4.0 distribution, for each rule the most common one.
    #[must_use]
    pub fn typical() -> Self {
        Self {
            source: "assumed: medians of published drives".to_owned(),
            bus_sector_ms: TYPICAL_SECTOR_MS,
            segments: 4,
            segment_sectors: 328,
            zero_latency: false,
            spec: ControllerSpec {
                overhead: OverheadSpec {
                    read_hit_after_read: 0.082,
                    read_hit_after_write: 0.291,
                    read_miss_after_read: 0.268,
                    read_miss_after_write: 0.255,
                    write_hit_after_read: 0.444,
                    write_hit_after_write: 0.293,
                    write_miss_after_read: 0.486,
                    write_miss_after_write: 0.665,
                    read_completion: 0.0,
                    write_completion: 0.0,
                },
                read_ahead: Until::Segment,
                read_ahead_sectors: None,
                read_ahead_keeps_request: false,
                reads_on_arrival: false,
                write_cache_ranges: 1,
                write_cache_sectors: 328,
                reads_written_data: true,
            },
        }
    }

    /// Reads a `.diskspecs` file, or any file of whole simulations with such a block. `file` names the text in
    /// errors. What the file does not say is as in [`Controller::typical`].
    ///
    /// # Errors
    /// Text that does not follow the format, keys of the wrong type or out of range (with file, line
    /// and key), no block of a disk.
    pub fn parse(file: &str, text: &str) -> Result<Self, ExtractedError> {
        let blocks = parse(file, text)?;
        let Some(block) = blocks.iter().find(|block| block.kind.eq_ignore_ascii_case("disksim_disk")) else {
            let reason = "a block 'disksim_disk NAME { ... }' was expected, the file holds none".to_owned();
            return Err(ExtractedError::Syntax { file: file.to_owned(), line: 1, reason });
        };
        Self::read(Reader { file, block })
    }

    fn read(reader: Reader<'_>) -> Result<Self, ExtractedError> {
        let typical = Self::typical();
        let truth = |key: &str| Ok::<_, ExtractedError>(reader.whole_if(key, 1)?.map(|value| value == 1));
        let mut segments =
            reader.whole_if("Number of buffer segments", SEGMENTS_LIMIT)?.unwrap_or(typical.segments);
        let segment = reader
            .whole_if("Segment size (in blks)", BUFFER_SECTORS_LIMIT)?
            .unwrap_or(typical.segment_sectors);
        if reader.whole_if("Enable caching in buffer", 2)? == Some(0) {
            segments = 0;
        }
        let read_ahead = match reader.whole_if("Buffer continuous read", 4)? {
            Some(0) => Until::Nothing,
            Some(1) => Until::Track,
            Some(2) => Until::Cylinder,
            Some(4) => Until::NextTrack,
            _ => Until::Segment,
        };
        let over = reader.number_if("Read-ahead over requested", -1.0..=1.0)?;
        let write_segments = match reader.whole_if("Fast write level", 2)? {
            Some(0) => 0,
            _ => reader.whole_if("Maximum number of write segments", SEGMENTS_LIMIT)?.unwrap_or(1),
        };
        let separate = truth("Use separate write segment")?.unwrap_or(false);
        let kept = truth("Allow read hits on write data")?.unwrap_or(typical.spec.reads_written_data);
        let immediate = [truth("Immediate buffer read")?, truth("Immediate buffer write")?];
        let bus = reader.number_if("Bulk sector transfer time", 0.0..=LONGEST_MS)?;
        Ok(Self {
            source: reader.file.to_owned(),
            // Zero leaves it to the bus of the simulated machine.
            bus_sector_ms: bus.filter(|time| *time > 0.0).unwrap_or(typical.bus_sector_ms),
            segments,
            segment_sectors: segment,
            zero_latency: immediate.contains(&Some(true)),
            spec: ControllerSpec {
                overhead: overheads(reader, &typical.spec.overhead)?,
                read_ahead,
                read_ahead_sectors: reader.whole_if("Maximum read-ahead (blks)", BUFFER_SECTORS_LIMIT)?,
                read_ahead_keeps_request: over.is_some_and(|over| over <= 0.0),
                reads_on_arrival: truth("Read any free blocks")?.unwrap_or(false),
                write_cache_ranges: write_segments,
                write_cache_sectors: write_segments * segment,
                reads_written_data: kept && !separate,
            },
        })
    }

    /// The rate of its bus in MB/s.
    pub(super) fn bus_rate_mb_per_s(&self) -> f64 {
        SECTOR_SIZE as f64 / self.bus_sector_ms / 1e3
    }
}

fn overheads(reader: Reader<'_>, typical: &OverheadSpec) -> Result<OverheadSpec, ExtractedError> {
    let times = 0.0..=LONGEST_MS;
    let each = reader.number_if("Per-request overhead time", times.clone())?.unwrap_or(0.0);
    let scale = reader.number_if("Time scale for overheads", 0.0..=SCALE_LIMIT)?.unwrap_or(1.0);
    let time = |key: &str, typical: f64| -> Result<f64, ExtractedError> {
        let stated = reader.number_if(key, times.clone())?;
        Ok((stated.map_or(typical, |time| time * scale) + each).min(LONGEST_MS))
    };
    let after = |key: &str| -> Result<f64, ExtractedError> {
        Ok(reader.number_if(key, times.clone())?.unwrap_or(0.0) * scale)
    };
    let prepared = after("Data preparation overhead")?;
    Ok(OverheadSpec {
        read_hit_after_read: time("Read hit over. after read", typical.read_hit_after_read)?,
        read_hit_after_write: time("Read hit over. after write", typical.read_hit_after_write)?,
        read_miss_after_read: time("Read miss over. after read", typical.read_miss_after_read)?,
        read_miss_after_write: time("Read miss over. after write", typical.read_miss_after_write)?,
        write_hit_after_read: time("Write hit over. after read", typical.write_hit_after_read)?,
        write_hit_after_write: time("Write hit over. after write", typical.write_hit_after_write)?,
        write_miss_after_read: time("Write miss over. after read", typical.write_miss_after_read)?,
        write_miss_after_write: time("Write miss over. after write", typical.write_miss_after_write)?,
        read_completion: (prepared + after("Read completion overhead")?).min(LONGEST_MS),
        write_completion: (prepared + after("Write completion overhead")?).min(LONGEST_MS),
    })
}
