//! What a drive may have in its own buffer, by what was read of it.
//!
//! A drive keeps what it has read in a dozen or more segments, and reads on behind a request until a segment is
//! full or another request comes. Many drives keep what passed under the head before the request as well. A read
//! beside one of the last may therefore be answered without a positioning, in whole or in part. The head is
//! near it, too.
//!
//! Limits: reads by others, as those of inodes by the file system, are not seen.

use foreseek_units::{Bytes, SectorSpan, Sectors};
use std::collections::VecDeque;

/// How much a drive may have beside what was read: a segment of its buffer, or a track. Segments have 0.5 to 4 MiB,
/// tracks 0.5 to 2.
pub(super) const SEGMENT: Bytes = Bytes::mib(2);

/// How far a read lies beside another one: some segments, since a queue is served out of order.
const BESIDE: Bytes = Bytes::mib(8);

/// The places that are remembered: as many segments as most buffers have.
const PLACES: usize = 16;

/// The places that were read last, the latest one first.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffered {
    places: VecDeque<SectorSpan>,
}

impl Buffered {
    /// A range was read. Returns whether it lies beside one of the last.
    pub(super) fn read(&mut self, range: SectorSpan) -> bool {
        let beside = BESIDE.sectors_floor();
        let found = self.places.iter().position(|place| apart(range, *place) <= beside);
        let place = found.and_then(|at| self.places.remove(at));
        let hull = place.map_or(range, |place| range.hull(place));
        // A segment has what was read last.
        let kept = SectorSpan::new(hull.start.max(range.start - beside), hull.end.min(range.end + beside));
        self.places.push_front(kept);
        self.places.truncate(PLACES);
        found.is_some()
    }
}

/// The distance between two ranges.
pub(super) fn apart(one: SectorSpan, other: SectorSpan) -> Sectors {
    (other.start - one.end).max(one.start - other.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Lba;

    const MIB: u64 = 2048;

    fn read(buffered: &mut Buffered, mib: u64) -> bool {
        buffered.read(SectorSpan::at(Lba(mib * MIB), Sectors(8)))
    }

    #[test]
    fn what_lies_beside_one_of_the_last_places_may_be_in_the_buffer() {
        let mut buffered = Buffered::default();
        assert!(!read(&mut buffered, 100));
        assert!(read(&mut buffered, 108) && read(&mut buffered, 93) && read(&mut buffered, 100));
        assert!(!read(&mut buffered, 200) && read(&mut buffered, 101));
        // A place has an end, however much was read there.
        assert!((103..160).all(|mib| read(&mut buffered, mib)));
        assert!(!read(&mut buffered, 130));
    }

    #[test]
    fn the_place_that_was_read_longest_ago_is_forgotten() {
        let mut buffered = Buffered::default();
        for place in 0..PLACES as u64 {
            assert!(!read(&mut buffered, 100 * place));
        }
        assert!(read(&mut buffered, 0) && !read(&mut buffered, 50));
        assert!(read(&mut buffered, 0) && !read(&mut buffered, 100));
        assert_eq!(buffered.places.len(), PLACES);
    }
}
