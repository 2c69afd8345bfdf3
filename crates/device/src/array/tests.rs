//! A whole array compared with a naive model by sector: the transfers of its members for a request, and the
//! redundancy of their contents.

use super::{Array, Members, Plan};
use crate::build::array_of;
use crate::io::{Device, Io, IoId, Op, Outcome};
use crate::profile::{Profile, Spec};
use crate::{Build, Counters};
use foreseek_units::{Bytes, Lba, Level, SectorSpan, Sectors};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Sectors of the array: some rows of every layout below.
const SECTORS: u64 = 4096;

/// A layout: the number of members, a strip in KiB.
#[derive(Clone, Copy, Debug)]
struct Shape {
    level: Level,
    members: u64,
    strip_kib: u64,
}

impl Shape {
    fn array(self, failed: Option<u64>) -> Array {
        let level = if self.level == Level::Raid0 { "raid0" } else { "raid5" };
        let text = format!(
            "name = \"a\"\nkind = \"array\"\nlevel = \"{level}\"\nmembers = {}\nstrip_kib = {}\n\
             link_rate_mb_per_s = 320.0\ncommand_overhead_ms = 0.0\nmember = \"seagate-146g\"\n",
            self.members, self.strip_kib,
        );
        let profile = Profile::parse("a", &text).unwrap_or_else(|error| panic!("{error}"));
        let Spec::Array(spec) = profile.spec() else { panic!("an array") };
        let options = Build { failed_member: failed.map(|member| member as usize), ..Build::default() };
        array_of(spec, Sectors(SECTORS), &options)
    }

    /// Data strips of a row.
    fn data(self) -> u64 {
        if self.level == Level::Raid0 { self.members } else { self.members - 1 }
    }

    /// The member of a data strip and of the parity of a row, as in md (left-symmetric).
    fn member(self, row: u64, slot: u64) -> u64 {
        match self.level {
            Level::Raid0 => slot,
            Level::Raid5 => (self.parity(row) + 1 + slot) % self.members,
            Level::Raid6 => unreachable!("no array of this crate has it"),
        }
    }

    fn parity(self, row: u64) -> u64 {
        self.members - 1 - row % self.members
    }

    /// Row, slot and offset within the strip of a sector.
    fn place(self, sector: u64) -> (u64, u64, u64) {
        let strip = self.strip_kib * 2;
        let (strip_number, offset) = (sector / strip, sector % strip);
        (strip_number / self.data(), strip_number % self.data(), offset)
    }

    /// Sectors that each member reads and writes for a request; `None` where it must fail.
    fn cost(self, op: Op, range: SectorSpan, failed: Option<u64>) -> Option<HashMap<(u64, Op), u64>> {
        // The requested sectors, by row and offset: the set of slots.
        let mut asked: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        for sector in range.start.get()..range.end.get() {
            let (row, slot, offset) = self.place(sector);
            asked.entry((row, offset)).or_default().push(slot);
        }
        let mut cost = HashMap::new();
        for ((row, _), slots) in asked {
            let mut add = |member: u64, op: Op| *cost.entry((member, op)).or_insert(0) += 1;
            let wanted: Vec<u64> = slots.iter().map(|slot| self.member(row, *slot)).collect();
            let lost = failed.filter(|member| wanted.contains(member));
            if self.level == Level::Raid0 {
                if lost.is_some() {
                    return None;
                }
                wanted.iter().for_each(|member| add(*member, op));
                continue;
            }
            let parity = self.parity(row);
            let well = |member: &u64| Some(*member) != failed;
            let others = |of: &[u64]| -> Vec<u64> {
                (0..self.members).filter(|member| *member != parity && !of.contains(member)).collect()
            };
            if op == Op::Read {
                match lost {
                    None => wanted.iter().for_each(|member| add(*member, Op::Read)),
                    // From all the others, including the parity.
                    Some(_) => (0..self.members).filter(well).for_each(|member| add(member, Op::Read)),
                }
                continue;
            }
            let rest = others(&wanted);
            let old: Vec<u64> = wanted.iter().copied().chain([parity]).collect();
            let reads = match failed {
                Some(member) if member == parity => Vec::new(),
                Some(_) if lost.is_some() => rest,
                Some(_) => old.clone(),
                None if old.len() < rest.len() => old.clone(),
                None => rest,
            };
            reads.iter().for_each(|member| add(*member, Op::Read));
            old.iter().filter(|member| well(member)).for_each(|member| add(*member, Op::Write));
        }
        Some(cost)
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let level = prop_oneof![Just(Level::Raid0), Just(Level::Raid5)];
    (level, 3..7u64, prop::sample::select(&[1u64, 4, 16][..])).prop_map(|(level, members, strip_kib)| Shape {
        level,
        members,
        strip_kib,
    })
}

fn range() -> impl Strategy<Value = SectorSpan> {
    (0..SECTORS - 1, prop_oneof![3 => 1..40u64, 1 => 1..600u64])
        .prop_map(|(start, length)| SectorSpan::new(Lba(start), Lba((start + length).min(SECTORS))))
}

/// Serves one request alone; returns its outcome.
fn serve(array: &mut Array, op: Op, range: SectorSpan) -> Outcome {
    let mut done = Vec::new();
    let now = array.clock.now();
    array.submit(now, Io { id: IoId(0), op, range }).expect("an idle array has room");
    while let Some(next) = array.next() {
        array.advance(next, &mut done);
    }
    assert_eq!(done.len(), 1);
    done[0].outcome
}

/// The transfers of each member so far.
fn transferred(array: &Array) -> Vec<Counters> {
    array.parts.disks.iter().map(|disk| disk.counters()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// Small writes read, full stripes do not, a lost member is read around: by sector.
    #[test]
    fn members_transfer_the_same_as_a_naive_model(
        shape in shape(),
        lost in prop_oneof![Just(None), (0..3u64).prop_map(Some)],
        requests in prop::collection::vec((any::<bool>(), range()), 1..12),
    ) {
        let mut array = shape.array(lost);
        for (write, range) in requests {
            let op = if write { Op::Write } else { Op::Read };
            let before = transferred(&array);
            let outcome = serve(&mut array, op, range);
            let Some(cost) = shape.cost(op, range, lost) else {
                prop_assert_eq!(outcome, Outcome::Failed);
                continue;
            };
            prop_assert_eq!(outcome, Outcome::Done);
            for (member, (now, before)) in (0..).zip(transferred(&array).iter().zip(before)) {
                let sectors = |op| Sectors(cost.get(&(member, op)).copied().unwrap_or(0)).bytes();
                let moved = |now: Bytes, before: Bytes| Bytes(now.get() - before.get());
                prop_assert_eq!(moved(now.read, before.read), sectors(Op::Read), "{:?} {:?}: member {} reads", op, range, member);
                prop_assert_eq!(moved(now.written, before.written), sectors(Op::Write), "{:?} {:?}: member {} writes", op, range, member);
            }
        }
    }

    /// The transfers of the plan suffice: with them alone, on members that hold one number for each sector,
    /// written data are read back, whichever member is then lost.
    #[test]
    fn written_data_are_read_back_whichever_member_is_lost(
        shape in shape(),
        writes in prop::collection::vec(range(), 1..10),
        lost_at in 0..10usize,
    ) {
        let shape = Shape { level: Level::Raid5, ..shape };
        let stripes = shape.array(None).parts.stripes;
        let mut held: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
        let lost = lost_at as u64 % shape.members;
        for (number, range) in (1..).zip(&writes) {
            // From some write on a member has failed.
            let failed = if number > lost_at as u64 { Members::one(lost) } else { Members::default() };
            let mut rest = *range;
            while !rest.is_empty() {
                let part = stripes.first_row_of(rest);
                rest = SectorSpan::new(part.end, rest.end);
                for piece in stripes.pieces(part).into_iter().flatten() {
                    let transfers = stripes.write(&piece, failed).expect("one lost member is borne");
                    write_piece(shape, &piece, (transfers.reads, transfers.writes, failed), number, &mut held);
                }
            }
            for sector in range.start.get()..range.end.get() {
                wanted.insert(sector, number << 20 | sector);
            }
        }
        for (sector, value) in wanted {
            let (row, slot, offset) = shape.place(sector);
            let at = row * shape.strip_kib * 2 + offset;
            let get = |member: u64| held.get(&(member, at)).copied().unwrap_or(0);
            let member = shape.member(row, slot);
            let others = (0..shape.members).filter(|other| *other != member).fold(0, |sum, other| sum ^ get(other));
            if member != lost {
                prop_assert_eq!(get(member), value, "sector {} on member {}", sector, member);
            }
            let after = writes.len() > lost_at;
            if !after || member == lost {
                prop_assert_eq!(others, value, "sector {} from the other members", sector);
            }
        }
    }
}

/// Writes a piece as a controller would that has only the data of the plan's reads.
fn write_piece(
    shape: Shape,
    piece: &super::plan::Piece,
    (reads, writes, failed): (Members, Members, Members),
    number: u64,
    held: &mut BTreeMap<(u64, u64), u64>,
) {
    let strip = shape.strip_kib * 2;
    let parity = shape.parity(piece.row);
    for offset in piece.from.get()..piece.to.get() {
        let at = piece.row * strip + offset;
        let known: BTreeMap<u64, u64> =
            reads.iter().map(|member| (member, held.get(&(member, at)).copied().unwrap_or(0))).collect();
        let mut new: BTreeMap<u64, u64> = BTreeMap::new();
        for slot in 0..shape.data() {
            let member = shape.member(piece.row, slot);
            if piece.data.has(member) {
                let sector = (piece.row * shape.data() + slot) * strip + offset;
                new.insert(member, number << 20 | sector);
            }
        }
        let sum = new.values().fold(0, |sum, value| sum ^ value);
        let others: Vec<u64> =
            (0..shape.members).filter(|member| *member != parity && !new.contains_key(member)).collect();
        let parity_value = if others.iter().all(|member| known.contains_key(member)) {
            // Reconstruct: the new data and those of all others.
            Some(others.iter().fold(sum, |sum, member| sum ^ known[member]))
        } else if new.keys().chain([&parity]).all(|member| known.contains_key(member)) {
            // Read, modify, write: the old parity, without the old data, with the new.
            Some(new.keys().fold(sum ^ known[&parity], |sum, member| sum ^ known[member]))
        } else {
            assert!(failed.has(parity), "the parity cannot be computed from {known:?}");
            None
        };
        new.extend(parity_value.map(|value| (parity, value)));
        for member in writes.iter() {
            held.insert((member, at), new[&member]);
        }
    }
}
