//! The members that a row's part of a request reads and writes.
//!
//! A *piece* is a range of offsets of one row at which the same data strips are concerned; each member has
//! one transfer at these offsets for it. A contiguous write of a row makes up to three pieces: where only the
//! last strip is written, where first and last are, where only the first.
//!
//! A write without lost redundancy reads the data for parity in the cheaper way, as md does
//! (`handle_stripe_dirtying` of drivers/md/raid5.c). It reads the old data and the old parity
//! (read-modify-write), or the strips that are not written (reconstruct-write). If both read the same number,
//! it is the latter. If all strips are written nothing is read. If a member has failed only one way remains:
//! the failed member's data must not be needed, or are written anew.

use foreseek_units::{Lba, Located, SectorSpan, Sectors, Stripes};

/// A set of members, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(pub(crate) u64);

impl Members {
    pub(crate) fn one(member: u64) -> Self {
        Self(1 << member)
    }

    pub(crate) fn all(count: u64) -> Self {
        Self(u64::MAX >> (64 - count))
    }

    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, member: u64) -> bool {
        self.0 >> member & 1 == 1
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The members, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(self.0), |bits| Some(bits & bits.wrapping_sub(1)))
            .take_while(|bits| *bits != 0)
            .map(|bits| u64::from(bits.trailing_zeros()))
    }
}

/// Offsets of a row at which the same data strips are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) row: u64,
    pub(crate) from: Sectors,
    pub(crate) to: Sectors,
    /// The members whose data are read or written.
    pub(crate) data: Members,
}

/// The transfers for a piece: first all reads, then all writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub(crate) reads: Members,
    pub(crate) writes: Members,
}

/// The transfers that requests need on an array's layout.
pub(crate) trait Plan {
    /// Cuts the part of a request that lies within one row into pieces.
    fn pieces(&self, part: SectorSpan) -> [Option<Piece>; 3];

    /// A member's part of a request's part within one row.
    fn on_member_of(&self, part: SectorSpan, member: u64) -> SectorSpan;

    /// The sectors of a member that hold unreadable ones of the array: sorted and disjoint. If whole rows are
    /// unreadable so is their parity.
    fn unreadable_on(&self, spans: &[SectorSpan], member: u64) -> Vec<SectorSpan>;

    /// The transfers of a read of a piece; `None` if its data are lost.
    fn read(&self, piece: &Piece, failed: Members) -> Option<Transfers>;

    /// The transfers of a write of a piece; `None` if it is impossible.
    fn write(&self, piece: &Piece, failed: Members) -> Option<Transfers>;
}

impl Plan for Stripes {
    fn pieces(&self, part: SectorSpan) -> [Option<Piece>; 3] {
        let first = self.locate(part.start);
        let last = self.locate(Lba(part.end.get() - 1));
        let (a, b) = (first.offset, last.offset + Sectors(1));
        let piece = |from: Sectors, to: Sectors| {
            let concerned = |slot: &u64| {
                (*slot != first.slot || from >= a) && (*slot != last.slot || to <= b) && from < to
            };
            let slots = (first.slot..=last.slot).filter(concerned);
            let data = slots
                .fold(Members::default(), |set, slot| set.with(Members::one(self.member(first.row, slot))));
            (!data.is_empty()).then_some(Piece { row: first.row, from, to, data })
        };
        let (low, high) = (a.min(b), a.max(b));
        [piece(Sectors::ZERO, low), piece(low, high), piece(high, self.strip)]
    }

    fn on_member_of(&self, part: SectorSpan, member: u64) -> SectorSpan {
        let Located { row, .. } = self.locate(part.start);
        let pieces = self.pieces(part);
        let mine = pieces.iter().flatten().filter(|piece| piece.data.has(member));
        mine.fold(SectorSpan::default(), |hull, piece| hull.hull(self.on_member(row, piece.from, piece.to)))
    }

    fn unreadable_on(&self, spans: &[SectorSpan], member: u64) -> Vec<SectorSpan> {
        let mut found: Vec<SectorSpan> = Vec::new();
        let mut add = |span: SectorSpan| match found.last_mut().filter(|last| last.end >= span.start) {
            _ if span.is_empty() => {}
            Some(last) => *last = last.hull(span),
            None => found.push(span),
        };
        for span in spans {
            let first = self.first_row_of(*span);
            add(self.on_member_of(first, member));
            let rest = SectorSpan::new(first.end, span.end);
            if rest.is_empty() {
                continue;
            }
            let last_row = self.locate(Lba(rest.end.get() - 1)).row;
            let whole = self.on_member(self.locate(rest.start).row, Sectors::ZERO, Sectors::ZERO).start;
            add(SectorSpan::new(whole, self.on_member(last_row, Sectors::ZERO, Sectors::ZERO).start));
            let last_start = Lba(last_row * self.row_sectors().get());
            add(self.on_member_of(SectorSpan::new(last_start, rest.end), member));
        }
        found
    }

    fn read(&self, piece: &Piece, failed: Members) -> Option<Transfers> {
        let lost = piece.data.and(failed);
        if lost.is_empty() {
            return Some(Transfers { reads: piece.data, writes: Members::default() });
        }
        self.parity(piece.row)?;
        (failed.count() == 1)
            .then(|| Transfers { reads: Members::all(self.members).without(failed), ..Transfers::default() })
    }

    fn write(&self, piece: &Piece, failed: Members) -> Option<Transfers> {
        let Some(parity) = self.parity(piece.row) else {
            let writes = piece.data;
            return writes.and(failed).is_empty().then_some(Transfers { reads: Members::default(), writes });
        };
        if failed.count() > 1 {
            return None;
        }
        let parity = Members::one(parity);
        let writes = piece.data.with(parity).without(failed);
        let old = piece.data.with(parity);
        let rest = Members::all(self.members).without(old);
        let reads = match () {
            () if parity == failed => Members::default(),
            () if !piece.data.and(failed).is_empty() => rest,
            () if !rest.and(failed).is_empty() => old,
            () if old.count() < rest.count() => old,
            () => rest,
        };
        Some(Transfers { reads, writes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Level;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn part() -> impl Strategy<Value = (Stripes, SectorSpan)> {
        (3..7u64, 1..6u64, 0..12u64, prop_oneof![Just(Level::Raid0), Just(Level::Raid5)]).prop_flat_map(
            |(members, strip, row, level)| {
                let stripes = Stripes { level, members, strip: Sectors(strip) };
                let sectors = stripes.row_sectors().get();
                (0..sectors, 1..=sectors).prop_map(move |(start, length)| {
                    let base = row * sectors;
                    let end = (start + length).min(sectors);
                    (stripes, SectorSpan::new(Lba(base + start), Lba(base + end)))
                })
            },
        )
    }

    /// (member, sector on it) of each sector, one by one.
    fn naive(stripes: &Stripes, part: SectorSpan) -> BTreeSet<(u64, u64)> {
        let place = |lba| {
            let at = stripes.locate(Lba(lba));
            (stripes.member(at.row, at.slot), at.row * stripes.strip.get() + at.offset.get())
        };
        (part.start.get()..part.end.get()).map(place).collect()
    }

    fn sectors(span: SectorSpan, member: u64) -> impl Iterator<Item = (u64, u64)> {
        (span.start.get()..span.end.get()).map(move |sector| (member, sector))
    }

    proptest! {
        #[test]
        fn the_pieces_of_a_part_cover_its_sectors_once((stripes, part) in part()) {
            let mut found = BTreeSet::new();
            for piece in stripes.pieces(part).iter().flatten() {
                for member in piece.data.iter() {
                    for place in sectors(stripes.on_member(piece.row, piece.from, piece.to), member) {
                        prop_assert!(found.insert(place), "{:?} twice", place);
                    }
                }
            }
            prop_assert_eq!(&found, &naive(&stripes, part));
            let whole = (0..stripes.members).flat_map(|m| sectors(stripes.on_member_of(part, m), m));
            prop_assert_eq!(whole.collect::<BTreeSet<_>>(), found);
        }

        /// Every way of writing must leave enough to compute the parity: the new data, with either the old
        /// data and parity, or the data of all the others.
        #[test]
        fn a_write_reads_enough_to_compute_the_parity((stripes, part) in part(), failed in 0..8u64) {
            let failed = if failed < stripes.members { Members::one(failed) } else { Members::default() };
            for piece in stripes.pieces(part).iter().flatten() {
                let Some(Transfers { reads, writes }) = stripes.write(piece, failed) else {
                    prop_assert!(stripes.level == Level::Raid0 && !piece.data.and(failed).is_empty());
                    continue;
                };
                prop_assert!(reads.with(writes).and(failed).is_empty());
                let Some(parity) = stripes.parity(piece.row).map(Members::one) else {
                    prop_assert_eq!((reads, writes), (Members::default(), piece.data));
                    continue;
                };
                prop_assert_eq!(writes, piece.data.with(parity).without(failed));
                let old = piece.data.with(parity);
                let rest = Members::all(stripes.members).without(old);
                prop_assert!(failed == parity || reads == old || reads == rest);
                if failed.is_empty() {
                    prop_assert_eq!(reads.count(), old.count().min(rest.count()));
                }
                // The failed member's data can still be derived from the others.
                if reads == rest && !rest.is_empty() {
                    prop_assert!(rest.and(failed).is_empty());
                }
            }
        }

        #[test]
        fn a_degraded_read_reads_around((stripes, part) in part(), failed in 0..8u64) {
            let failed = if failed < stripes.members { Members::one(failed) } else { Members::default() };
            for piece in stripes.pieces(part).iter().flatten() {
                let hit = !piece.data.and(failed).is_empty();
                match stripes.read(piece, failed) {
                    None => prop_assert!(hit && stripes.level == Level::Raid0),
                    Some(Transfers { reads, .. }) if hit => {
                        prop_assert_eq!(reads, Members::all(stripes.members).without(failed));
                    }
                    Some(Transfers { reads, .. }) => prop_assert_eq!(reads, piece.data),
                }
            }
        }
    }

    #[test]
    fn small_writes_of_five_members_as_md_does_them() {
        let stripes = Stripes { level: Level::Raid5, members: 5, strip: Sectors(8) };
        let reads = |start: u64, end: u64| {
            let pieces = stripes.pieces(SectorSpan::new(Lba(start), Lba(end)));
            let pieces: Vec<_> = pieces.into_iter().flatten().collect();
            assert_eq!(pieces.len(), 1);
            let transfers = stripes.write(&pieces[0], Members::default()).expect("nothing has failed");
            (transfers.reads.0, transfers.writes.0)
        };
        // Row 0: data on members 0 to 3, parity on 4. One strip: old data and parity, 2 reads of 3.
        assert_eq!(reads(0, 8), (0b10001, 0b10001));
        // Two strips: 3 old reads against 2 others.
        assert_eq!(reads(0, 16), (0b01100, 0b10011));
        // Three strips: 1 other.
        assert_eq!(reads(8, 32), (0b00001, 0b11110));
        // All: none.
        assert_eq!(reads(0, 32), (0, 0b11111));
    }

    #[test]
    fn with_two_members_lost_raid_5_has_nothing_left() {
        let stripes = Stripes { level: Level::Raid5, members: 4, strip: Sectors(8) };
        let pieces = stripes.pieces(SectorSpan::new(Lba(0), Lba(8)));
        let piece = pieces.into_iter().flatten().next().expect("one piece");
        assert_eq!(stripes.read(&piece, Members(0b0011)), None);
        assert_eq!(stripes.write(&piece, Members(0b0011)), None);
        // A strip on a healthy member can still be read.
        assert_eq!(stripes.read(&piece, Members(0b0110)).map(|t| t.reads.0), Some(1));
    }
}
