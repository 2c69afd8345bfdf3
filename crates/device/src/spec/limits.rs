//! The limits of a profile's numbers, for those who read or make descriptions.

pub use crate::seek::TABLE_POINTS_LIMIT;

use foreseek_units::SECTOR_SIZE;

/// Most sectors of anything in the buffer: 1 GiB.
pub const BUFFER_SECTORS_LIMIT: u64 = 1 << 21;
/// Most heads of a disk: twice the largest stack of platters sold.
pub const HEADS_LIMIT: u64 = 64;
/// Slowest and fastest spindle: a tenth and ten times of what was ever sold.
pub const ROTATION_RPM: (f64, f64) = (360.0, 150_000.0);
/// Longest time that a profile may give for anything mechanical: ten times a slow full stroke.
pub const LONGEST_MS: f64 = 250.0;
/// Largest disk: fifty times today's.
pub(super) const CAPACITY_LIMIT: u64 = 1 << 50;
/// Rates, from a floppy disk to a hundred times today's disks.
pub(super) const RATE_MB_PER_S: (f64, f64) = (0.01, 100_000.0);
/// Most segments of the buffer; looked through at each request.
pub const SEGMENTS_LIMIT: u64 = 256;
/// Most zones. Fitted drives have up to 55; modern ones some hundreds.
pub const ZONES_LIMIT: usize = 1024;
/// Most cylinders: an order of magnitude above today's disks.
pub const CYLINDERS_LIMIT: u64 = 1 << 23;
/// Most tracks, so that a pass over the disk in nanoseconds stays far below 2^64.
pub(super) const TRACKS_LIMIT: u64 = 1 << 28;
/// Most sectors a track: two orders of magnitude above today's disks.
pub const SECTORS_PER_TRACK_LIMIT: u64 = 1 << 19;
/// Most slipped sectors of a zone, and most remapped ones: ten times what the worst fitted drive has.
pub const DEFECTS_LIMIT: usize = 1 << 13;
/// Most sectors of a disk, spares and defects among them: twice what its capacity may need, and few
/// enough that every time of the sequential pass fits into 64 bits, whatever the skews.
pub(super) const SECTORS_LIMIT: u64 = CAPACITY_LIMIT / SECTOR_SIZE * 2;
/// Most runs of all patterns of tracks, and most patterns: four times what the longest published
/// description has.
pub const RUNS_LIMIT: usize = 1 << 17;
/// Most sections of tracks: a layout that was measured cylinder by cylinder needs as many.
pub const SECTIONS_LIMIT: usize = 1 << 17;
/// Most slips, and most remapped sectors: several times what the longest published description has.
pub const SLIPS_LIMIT: usize = 1 << 17;
