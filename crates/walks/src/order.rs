//! The order in which a program opens the entries of a directory: votes on consecutive opens.
//!
//! Candidates are the order of the listing (grep -r, tar, find), of inode numbers (cp, borg), and of names
//! (rsync, git), and each of them reversed (rg). Two siblings that are opened one after the other are a vote
//! for each order:
//!
//! - If the second is the next one after the first, or close to it, the order gains.
//! - If the second is far ahead in the direction of the opens so far, the order gains a little, as a program
//!   that selects files opens so.
//! - If the second is behind, the order loses.
//!
//! The slack allows for several threads, which open almost in order. Votes are counted for each directory,
//! since some programs sort only large directories (fts: above 10,000 entries). A directory without enough
//! votes uses those of the walk, which are separate for small and large directories.
//!
//! Files and subdirectories vote apart ([`Orders`]): rsync reads files as they are listed, and then descends by
//! name.

use crate::Kind;

/// How far from its position in an order an entry may be opened: two entries for each of four threads.
pub(crate) const SLACK: usize = 8;
/// Votes that a directory needs before they replace those of its walk.
const OWN_VOTES: u32 = 8;
/// Votes after which it is said that no order fits, and how far all of them must be behind: of random opens, one
/// vote is -1.5 in the mean.
const AGAINST_VOTES: u32 = 16;
const AGAINST: i32 = -16;
/// Votes are halved when one order has this many, so that a change of order is noticed soon.
const SCORE_LIMIT: i32 = 64;
/// With more entries, fts sorts by inode number.
pub(crate) const LARGE: usize = 10_000;

/// The sort key of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The listing.
    Listing,
    /// Inode numbers.
    Inode,
    /// Names, as bytes.
    Name,
}

/// All of them; of two that fit equally, the earlier is taken.
pub(crate) const ALL: [By; 3] = [By::Listing, By::Inode, By::Name];

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// What it sorts by.
    pub(crate) by: By,
    /// Whether it is reversed.
    pub(crate) reversed: bool,
}

impl Order {
    /// The name for the status.
    pub(crate) fn name(self) -> &'static str {
        match (self.by, self.reversed) {
            (By::Listing, false) => "listing",
            (By::Listing, true) => "listing, reversed",
            (By::Inode, false) => "inode",
            (By::Inode, true) => "inode, reversed",
            (By::Name, false) => "name",
            (By::Name, true) => "name, reversed",
        }
    }
}

/// How well each order has fitted recently.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Votes {
    fits: [i32; 3],
    /// How many positions consecutive opens moved forward, less those by which they moved back.
    drift: [i32; 3],
    count: u32,
}

impl Votes {
    /// An entry was opened after another of the same kind and directory; `distances`: its distance from that in each
    /// order.
    fn vote(&mut self, distances: [i64; 3]) {
        self.count = self.count.saturating_add(1);
        for (at, distance) in distances.into_iter().enumerate() {
            let drift = i64::from(self.drift[at]);
            let on = drift == 0 || distance.signum() == drift.signum();
            self.fits[at] += match distance.unsigned_abs() {
                1 => [0, 4][usize::from(on)],
                far if far <= SLACK as u64 => [-2, 2][usize::from(on)],
                _ => [-4, 1][usize::from(on)],
            };
            self.drift[at] += distance.clamp(-(SLACK as i64), SLACK as i64) as i32;
        }
        if self.fits.iter().any(|score| score.abs() > SCORE_LIMIT) {
            self.fits.iter_mut().chain(&mut self.drift).for_each(|score| *score /= 2);
        }
    }

    /// The order that fits best; `None` if none fits.
    fn best(&self) -> Option<Order> {
        let mut best = None;
        for (at, by) in ALL.into_iter().enumerate() {
            if self.fits[at] > best.map_or(0, |(score, _)| score) {
                best = Some((self.fits[at], Order { by, reversed: self.drift[at] < 0 }));
            }
        }
        best.map(|(_, order)| order)
    }

    fn are_enough(&self) -> bool {
        self.count >= OWN_VOTES
    }

    /// Whether enough votes were given, and all orders have lost.
    pub(crate) fn is_against_all(&self) -> bool {
        self.count >= AGAINST_VOTES && self.fits.iter().all(|score| *score <= AGAINST)
    }

    /// The order of a directory, given the votes of its walk.
    fn within(&self, walk: &Self) -> Option<Order> {
        if self.are_enough() { self.best() } else { walk.best().or_else(|| self.best()) }
    }

    /// Joins the votes of two walks that are one.
    fn join(&mut self, other: &Self) {
        for at in 0..ALL.len() {
            self.fits[at] += other.fits[at];
            self.drift[at] += other.drift[at];
        }
        self.count += other.count;
    }
}

/// The votes on files and on subdirectories.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Orders {
    pub(crate) files: Votes,
    below: Votes,
}

impl Orders {
    /// An entry was opened after another one of its kind.
    pub(crate) fn vote(&mut self, kind: Kind, distances: [i64; 3]) {
        let votes = if kind == Kind::Directory { &mut self.below } else { &mut self.files };
        votes.vote(distances);
    }

    /// The order of a directory's files. Without votes on files it is that of subdirectories.
    pub(crate) fn of_files(&self, walk: &Self) -> Option<Order> {
        if self.files.count == 0 && walk.files.count == 0 {
            return self.below.within(&walk.below);
        }
        self.files.within(&walk.files)
    }

    /// The order of a directory's subdirectories. Without enough votes on them it is that of files.
    pub(crate) fn of_directories(&self, walk: &Self) -> Option<Order> {
        let enough = self.below.are_enough() || walk.below.are_enough();
        let own = if enough { self.below.within(&walk.below) } else { None };
        own.or_else(|| self.of_files(walk))
    }

    /// The order that fits best, of files if there are votes on them.
    pub(crate) fn usual(&self) -> Option<Order> {
        self.of_files(&Self::default())
    }

    /// Joins those of two walks that are one.
    pub(crate) fn join(&mut self, other: &Self) {
        self.files.join(&other.files);
        self.below.join(&other.below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shuffled(count: usize, seed: u64) -> Vec<usize> {
        let mut all: Vec<usize> = (0..count).collect();
        let mut state = seed | 1;
        for at in (1..count).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all.swap(at, (state >> 33) as usize % (at + 1));
        }
        all
    }

    proptest! {
        /// Each of the six orders, with and without threads, is found within two dozen opens, in a directory of
        /// 40 and more entries.
        #[test]
        fn each_order_is_found(
            which in 0..3usize, reversed: bool, threads in 1..4usize, seed in any::<u64>(), count in 40..300usize,
        ) {
            // The rank of each entry in each order.
            let ranks = [(0..count).collect(), shuffled(count, seed), shuffled(count, seed ^ 0x5555)];
            let mut opens: Vec<usize> = vec![0; count];
            for (entry, rank) in ranks[which].iter().enumerate() {
                opens[if reversed { count - 1 - *rank } else { *rank }] = entry;
            }
            // Threads overtake each other.
            for chunk in opens.chunks_mut(threads) {
                chunk.reverse();
            }
            let mut votes = Votes::default();
            for two in opens.windows(2).take(24) {
                votes.vote([0, 1, 2].map(|order| ranks[order][two[1]] as i64 - ranks[order][two[0]] as i64));
            }
            prop_assert_eq!(votes.best().map(|order| order.by), Some(ALL[which]));
            prop_assert_eq!(votes.best().map(|order| order.reversed), Some(reversed));
        }
    }

    #[test]
    fn random_opens_have_no_order() {
        let ranks = [shuffled(2000, 1), shuffled(2000, 2), shuffled(2000, 3)];
        let mut votes = Votes::default();
        for at in 0..500 {
            votes.vote([0, 1, 2].map(|order| ranks[order][at + 1] as i64 - ranks[order][at] as i64));
        }
        assert_eq!(votes.best(), None);
        assert!(votes.is_against_all());
    }
}
