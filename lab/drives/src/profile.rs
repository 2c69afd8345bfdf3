//! Makes a device profile of a drive and its controller.

use super::controller::Controller;
use super::drive::{Drive, Seek};
use super::error::ExtractedError;
use foreseek_device::spec::{DiskSpec, SeekSpec};
use foreseek_device::{Profile, ProfileError};
use foreseek_units::SECTOR_SIZE;

/// The time to settle on a track again without a seek, as a share of the shortest seek. Nearly all of it is
/// settling. A head switch takes up to about half of the settling at the end of a seek (Ruemmler and Wilkes
/// 1994), and returning to the track where the head was a while ago no less. Extraction does not measure it:
/// the head switch times of such files are differences of hundredths of a millisecond.
pub(super) const RESETTLE_SHARE: f64 = 0.5;

impl Drive {
    /// The same with another share of the shortest seek for settling on a track again.
    #[must_use]
    pub fn with_resettle_share(self, share: f64) -> Self {
        Self { resettle_share: share, ..self }
    }

    /// The drive as a device profile, and notes on the parts of its description that were changed.
    ///
    /// # Errors
    /// Numbers that together make no valid device.
    pub fn profile(&self, controller: &Controller) -> Result<(Profile, Vec<String>), ExtractedError> {
        let because =
            |cause: ProfileError| ExtractedError::Profile { file: self.file.clone(), cause: Box::new(cause) };
        let mut spec = self.spec(controller);
        let mut notes = self.notes.clone();
        // The average seek and the capacity follow from the layout; the values that hold until then are
        // replaced.
        let held = spec.laid_out(&self.file).map_err(because)?.sectors().get();
        match self.blocks {
            Some(blocks) if blocks <= held => spec.capacity_bytes = blocks * SECTOR_SIZE,
            stated => {
                spec.capacity_bytes = held * SECTOR_SIZE;
                if let Some(stated) = stated {
                    notes.push(format!(
                        "{}: Block count is {stated}, but the zones hold {held}: {held} are taken",
                        self.file
                    ));
                }
            }
        }
        let mean_seek = spec.mean_seek(&self.file).map_err(because)?;
        if !matches!(self.mechanics.seek, Seek::Lee { .. }) {
            spec.average_seek_ms = mean_seek.as_millis_f64().max(0.001);
        }
        let name = plain_name(self.name());
        let description = format!("{}, extracted from the drive", self.name());
        let source = format!("{}; controller: {}", self.file, controller.source());
        let profile = Profile::of_disk(&name, &description, &source, spec).map_err(because)?;
        Ok((profile, notes))
    }

    pub(super) fn spec(&self, controller: &Controller) -> DiskSpec {
        let (seek, average_seek_ms) = match &self.mechanics.seek {
            Seek::Table(table) => {
                let distance_cylinders =
                    table.distances.iter().map(|distance| f64::from(*distance)).collect();
                (SeekSpec::Table { distance_cylinders, time_ms: table.times_ms.clone() }, 1.0)
            }
            Seek::Lee { shortest_ms, average_ms, longest_ms } => {
                let (track_to_track_ms, full_stroke_ms) = (*shortest_ms, *longest_ms);
                (SeekSpec::Lee { track_to_track_ms, full_stroke_ms }, *average_ms)
            }
        };
        let resettle_ms = seek.shortest_ms() * self.resettle_share;
        DiskSpec {
            capacity_bytes: SECTOR_SIZE,
            rotation_rpm: self.mechanics.rpm,
            average_seek_ms,
            sequential_rate_mb_per_s: None,
            infill_kib: None,
            command_overhead_ms: controller.spec.overhead.read_miss_after_read,
            skip_overhead_ms: 0.0,
            bus_rate_mb_per_s: controller.bus_rate_mb_per_s(),
            head_switch_ms: self.mechanics.head_switch_ms,
            heads: self.heads,
            layout: self.layout.spec.clone(),
            seek,
            segments: controller.segments,
            segment_kib: 0,
            segment_sectors: Some(controller.segment_sectors),
            write_settle_ms: self.mechanics.write_settle_ms,
            resettle_ms,
            zero_latency: controller.zero_latency,
            mapping: self.layout.mapping,
            spares: self.layout.spares,
            controller: Some(controller.spec.clone()),
        }
    }
}

/// A name that a profile may have.
fn plain_name(name: &str) -> String {
    /// Longest name of a profile.
    const LENGTH: usize = 64;
    let plain =
        |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(LENGTH).map(plain).collect();
    if name.is_empty() { "drive".to_owned() } else { name }
}
