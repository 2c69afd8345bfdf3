//! The limits of a profile's numbers, for code that reads or makes descriptions.

pub use crate::seek::TABLE_POINTS_LIMIT;

use foreseek_units::SECTOR_SIZE;

/// Most sectors of anything in the buffer: 1 GiB.
pub const BUFFER_SECTORS_LIMIT: u64 = 1 << 21;
/// Most heads of a disk: twice the largest stack of platters sold.
pub const HEADS_LIMIT: u64 = 64;
/// Slowest and fastest spindle: a tenth and ten times of any product's.
pub const ROTATION_RPM: (f64, f64) = (360.0, 150_000.0);
/// Longest mechanical time in a profile: ten times a slow full stroke.
pub const LONGEST_MS: f64 = 250.0;
/// Largest disk: fifty times current ones.
pub(super) const CAPACITY_LIMIT: u64 = 1 << 50;
/// Rates, from a floppy disk to a hundred times current disks.
pub(super) const RATE_MB_PER_S: (f64, f64) = (0.01, 100_000.0);
/// Most segments of the buffer; all are examined at each request.
pub const SEGMENTS_LIMIT: u64 = 256;
/// Most zones. Fitted drives have up to 55; modern ones some hundreds.
pub const ZONES_LIMIT: usize = 1024;
/// Most cylinders: an order of magnitude above current disks.
pub const CYLINDERS_LIMIT: u64 = 1 << 23;
/// Most tracks, so that a pass over the disk in nanoseconds stays far below 2^64.
pub(super) const TRACKS_LIMIT: u64 = 1 << 28;
/// Most sectors per track: two orders of magnitude above current disks.
pub const SECTORS_PER_TRACK_LIMIT: u64 = 1 << 19;
/// Most slipped sectors of a zone, and most remapped ones: ten times what the worst fitted drive has.
pub const DEFECTS_LIMIT: usize = 1 << 13;
/// Most sectors of a disk, including spares and defects: twice what its capacity may need, and few enough
/// that every time of the sequential pass fits into 64 bits, for any skews.
pub(super) const SECTORS_LIMIT: u64 = CAPACITY_LIMIT / SECTOR_SIZE * 2;
/// Most runs of all patterns of tracks, and most patterns: four times what the longest published
/// description has.
pub const RUNS_LIMIT: usize = 1 << 17;
/// Most sections of tracks: as many as a layout that was measured by cylinder needs.
pub const SECTIONS_LIMIT: usize = 1 << 17;
/// Most slips, and most remapped sectors: several times what the longest published description has.
pub const SLIPS_LIMIT: usize = 1 << 17;
