//! The layout of an array: strips, rows, and the parity between them.
//!
//! A strip is contiguous on one member. A *row* (stripe) is the strips at one address of all members.
//!
//! - RAID-0 distributes the strips of a row in the order of the members.
//! - RAID-5 left-symmetric (the default of Linux md) has the parity of row `r` on member `n - 1 - r mod n`.
//!   The data strips begin on the member after it and wrap around: consecutive strips are on consecutive
//!   members throughout, so that any `n` of them use all members.
//! - RAID-6 left-symmetric (md's default) has a second parity on the member after the first, and the data
//!   strips begin after that.
//!
//! Source: `raid5_compute_sector` in Linux's `drivers/md/raid5.c`.

use crate::{Lba, SectorSpan, Sectors};

/// The redundancy of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Striping with rotating parity, left-symmetric.
    Raid5,
    /// Striping with two rotating parities, left-symmetric. No array of `foreseek-device` has it.
    Raid6,
}

impl Level {
    /// Its name in md and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
        }
    }

    /// Strips of parity in a row.
    #[must_use]
    pub const fn parities(self) -> u64 {
        match self {
            Self::Raid0 => 0,
            Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }

    /// The level of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Raid0, Self::Raid5, Self::Raid6].into_iter().find(|level| level.name() == name)
    }
}

/// The layout of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stripes {
    /// The redundancy.
    pub level: Level,
    /// The number of disks: at least one more than strips of parity.
    pub members: u64,
    /// The length of a strip, not zero.
    pub strip: Sectors,
}

/// The position of a sector within the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The row.
    pub row: u64,
    /// The data strip of the row.
    pub slot: u64,
    /// The offset in the strip.
    pub offset: Sectors,
}

impl Stripes {
    /// Data strips of a row.
    #[must_use]
    pub fn data_strips(&self) -> u64 {
        self.members - self.level.parities()
    }

    /// Data sectors of a row.
    #[must_use]
    pub fn row_sectors(&self) -> Sectors {
        self.strip * self.data_strips()
    }

    /// The position of a sector of the array.
    #[must_use]
    pub fn locate(&self, lba: Lba) -> Located {
        let strip = lba.get() / self.strip.get();
        let slots = self.data_strips();
        Located { row: strip / slots, slot: strip % slots, offset: Sectors(lba.get() % self.strip.get()) }
    }

    /// The member with the parity of a row, for RAID-6 the first; the second is on the member after it.
    #[must_use]
    pub fn parity(&self, row: u64) -> Option<u64> {
        (self.level != Level::Raid0).then(|| self.members - 1 - row % self.members)
    }

    /// The member with a data strip of a row.
    #[must_use]
    pub fn member(&self, row: u64, slot: u64) -> u64 {
        match self.parity(row) {
            None => slot,
            Some(parity) => (parity + self.level.parities() + slot) % self.members,
        }
    }

    /// A range of offsets of a row, on any member.
    #[must_use]
    pub fn on_member(&self, row: u64, from: Sectors, to: Sectors) -> SectorSpan {
        let start = Lba(row * self.strip.get());
        SectorSpan::new(start + from, start + to)
    }

    /// The rows that contain this many data sectors.
    #[must_use]
    pub fn rows_for(&self, sectors: Sectors) -> u64 {
        sectors.get().div_ceil(self.row_sectors().get())
    }

    /// The part of a range in the row of its first sector.
    #[must_use]
    pub fn first_row_of(&self, range: SectorSpan) -> SectorSpan {
        let row = range.start.get() / self.row_sectors().get();
        let end = Lba((row + 1) * self.row_sectors().get());
        SectorSpan::new(range.start, range.end.min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn stripes() -> impl Strategy<Value = Stripes> {
        (prop_oneof![Just(Level::Raid0), Just(Level::Raid5), Just(Level::Raid6)], 4..9u64, 1..9u64)
            .prop_map(|(level, members, strip)| Stripes { level, members, strip: Sectors(strip) })
    }

    fn on_disk(stripes: &Stripes, lba: u64) -> (u64, u64) {
        let Located { row, slot, offset } = stripes.locate(Lba(lba));
        let span = stripes.on_member(row, offset, offset + Sectors(1));
        (stripes.member(row, slot), span.start.get())
    }

    /// Linux md's left-symmetric layout by dealing. Parity moves from the last member to the first; each data
    /// strip goes to the member after the one of the strip before.
    fn dealt(members: u64, rows: u64) -> (Vec<(u64, u64)>, Vec<u64>) {
        let (mut data, mut parities, mut parity) = (Vec::new(), Vec::new(), members - 1);
        for row in 0..rows {
            let mut member = parity;
            for _ in 0..members - 1 {
                member = if member + 1 == members { 0 } else { member + 1 };
                data.push((member, row));
            }
            parities.push(parity);
            parity = if parity == 0 { members - 1 } else { parity - 1 };
        }
        (data, parities)
    }

    #[test]
    fn four_members_left_symmetric_as_in_md() {
        let stripes = Stripes { level: Level::Raid5, members: 4, strip: Sectors(1) };
        // Row by row, member by member; 99 is the parity.
        let drawn = [[0, 1, 2, 99], [4, 5, 99, 3], [8, 99, 6, 7], [99, 9, 10, 11], [12, 13, 14, 99]];
        for (row, members) in (0u64..).zip(drawn) {
            for (member, strip) in (0u64..).zip(members) {
                if strip == 99 {
                    assert_eq!(stripes.parity(row), Some(member));
                } else {
                    assert_eq!(on_disk(&stripes, strip), (member, row), "strip {strip}");
                }
            }
        }
    }

    #[test]
    fn five_members_of_raid_6_left_symmetric_as_in_md() {
        let stripes = Stripes { level: Level::Raid6, members: 5, strip: Sectors(1) };
        // Row by row, member by member; 98 is the first parity, 99 the second.
        let dealt = [
            [99, 0, 1, 2, 98],
            [3, 4, 5, 98, 99],
            [7, 8, 98, 99, 6],
            [11, 98, 99, 9, 10],
            [98, 99, 12, 13, 14],
            [99, 15, 16, 17, 98],
        ];
        for (row, members) in (0u64..).zip(dealt) {
            for (member, strip) in (0u64..).zip(members) {
                match strip {
                    98 => assert_eq!(stripes.parity(row), Some(member)),
                    99 => assert_eq!(stripes.parity(row), Some((member + 4) % 5)),
                    strip => assert_eq!(on_disk(&stripes, strip), (member, row), "strip {strip}"),
                }
            }
        }
    }

    proptest! {
        #[test]
        fn sectors_have_distinct_addresses_without_parity(stripes in stripes(), rows in 1..40u64) {
            let sectors = rows * stripes.row_sectors().get();
            let mut owner = HashMap::new();
            for lba in 0..sectors {
                let place = on_disk(&stripes, lba);
                prop_assert!(place.0 < stripes.members);
                prop_assert_eq!(owner.insert(place, lba), None, "two sectors at {:?}", place);
                let row = place.1 / stripes.strip.get();
                let parities = (0..stripes.level.parities()).map(|next| (stripes.parity(row).unwrap_or(0) + next) % stripes.members);
                prop_assert!(parities.into_iter().all(|parity| parity != place.0));
            }
            // The rest is the parity: the members are full.
            let parity = stripes.level.parities() * rows * stripes.strip.get();
            prop_assert_eq!(sectors + parity, stripes.members * rows * stripes.strip.get());
            prop_assert_eq!(stripes.rows_for(Sectors(sectors)), rows);
            prop_assert_eq!(stripes.rows_for(Sectors(sectors + 1)), rows + 1);
        }

        #[test]
        fn raid_5_equals_md(members in 3..9u64, strip in 1..5u64, rows in 1..40u64) {
            let stripes = Stripes { level: Level::Raid5, members, strip: Sectors(strip) };
            let (data, parities) = dealt(members, rows);
            for (number, (member, row)) in (0u64..).zip(data) {
                prop_assert_eq!(on_disk(&stripes, number * strip), (member, row * strip));
            }
            for (row, parity) in (0u64..).zip(parities) {
                prop_assert_eq!(stripes.parity(row), Some(parity));
            }
        }

        #[test]
        fn parity_is_spread_evenly(members in 3..9u64, turns in 1..5u64) {
            let stripes = Stripes { level: Level::Raid5, members, strip: Sectors(1) };
            for member in 0..members {
                let rows = (0..members * turns).filter(|row| stripes.parity(*row) == Some(member));
                prop_assert_eq!(rows.count() as u64, turns);
            }
        }
    }
}
