//! Whether a drive may have a read in its own buffer, by the places that were read last.
//!
//! [`RecentPlaces`] remembers some ranges that were read, and says for each read whether it lies beside one of them.
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
pub(super) struct RecentPlaces {
    places: VecDeque<SectorSpan>,
}

impl RecentPlaces {
    /// A range was read. Returns whether it lies beside one of the last.
    pub(super) fn read(&mut self, range: SectorSpan) -> bool {
        let beside = BESIDE.sectors_floor();
        let known = self.places.iter().position(|place| apart(range, *place) <= beside);
        let place = known.and_then(|at| self.places.remove(at)).map_or(range, |place| range.hull(place));
        self.places.push_front(around(range, place));
        self.places.truncate(PLACES);
        known.is_some()
    }
}

/// The part of a place that lies beside a read: a segment has what was read last.
fn around(range: SectorSpan, place: SectorSpan) -> SectorSpan {
    let beside = BESIDE.sectors_floor();
    SectorSpan::new(place.start.max(range.start - beside), place.end.min(range.end + beside))
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

    fn read(buffered: &mut RecentPlaces, mib: u64) -> bool {
        buffered.read(SectorSpan::at(Lba(mib * MIB), Sectors(8)))
    }

    #[test]
    fn what_lies_beside_one_of_the_last_places_may_be_in_the_buffer() {
        let mut buffered = RecentPlaces::default();
        assert!(!read(&mut buffered, 100));
        assert!(read(&mut buffered, 108) && read(&mut buffered, 93) && read(&mut buffered, 100));
        assert!(!read(&mut buffered, 200) && read(&mut buffered, 101));
        // A place has an end, however much was read there.
        assert!((103..160).all(|mib| read(&mut buffered, mib)));
        assert!(!read(&mut buffered, 130));
    }

    #[test]
    fn the_place_that_was_read_longest_ago_is_forgotten() {
        let mut buffered = RecentPlaces::default();
        for place in 0..PLACES as u64 {
            assert!(!read(&mut buffered, 100 * place));
        }
        assert!(read(&mut buffered, 0) && !read(&mut buffered, 50));
        assert!(read(&mut buffered, 0) && !read(&mut buffered, 100));
        assert_eq!(buffered.places.len(), PLACES);
    }
}
