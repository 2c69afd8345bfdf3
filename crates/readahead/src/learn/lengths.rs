//! The lengths of the streams of one class: a life table on the grid of [`Survival`], with ageing.
//!
//! **Kaplan and Meier's estimate, online.** Each cell of the grid has two weights: of the streams that
//! reached it (*exposed*) and of those that ended in it. Their quotient is the cell's hazard. The product of
//! the complements of the hazards is the survival function (Kaplan and Meier 1958; on a grid, the actuaries'
//! life table). A stream is exposed to a cell once that is decided: when it has read beyond the cell, or has
//! ended there. A stream that is still open therefore counts for what it has shown.
//!
//! The end of a stream may be unseen: the file ended, or a cache served the rest. Such a stream counts up to
//! where it was seen, and not as an end. In the cell where it was lost it counts for the share of it that it
//! passed. Taking such lengths as ends, or leaving them out, would make streams look shorter than they are.
//!
//! **Ageing.** A stream counts `1/e` after [`MEMORY`] others. A second table remembers only [`SHORT_MEMORY`]
//! streams. For each decided cell, the logarithm of how much better the short table predicted it is added to
//! a sum that never falls below zero (Page's CUSUM). At [`CHANGE`] the behaviour has changed, and the short
//! table replaces the long one.
//!
//! **Prior.** A cell has the hazard of a prior until [`PRIOR_WEIGHT`] streams have reached it. The prior of a
//! class is the estimate of the coarser class that holds it; the coarsest class has [`prior`]: a stream is as
//! likely as not to become twice as long.
//!
//! A touch costs one comparison, a decided cell some additions; nothing grows.

use crate::depth::Survival;
use crate::depth::grid::{CELLS, point};
use foreseek_units::Pages;

/// After how many streams an old one counts a third (1/e) of a new one. Some hundred lengths describe a
/// distribution well enough; a change is detected earlier.
const MEMORY: f64 = 512.0;
/// The same for the table that detects changes: a dozen streams or two show that something is different, not
/// what.
const SHORT_MEMORY: f64 = 24.0;
/// How much better the short table must have predicted, as a logarithm: a thousand times. By Ville's
/// inequality chance alone does so about once in a thousand streams; a false alarm loses what a hundred
/// streams have taught.
const CHANGE: f64 = 6.9;
/// The weight of the prior in each cell, in streams. There are four cells an octave, so that two streams that
/// read on outweigh it.
const PRIOR_WEIGHT: f64 = 0.5;
/// The prior of all: half of all streams are longer than this; `P(S > x) = 1 / (1 + x / PRIOR_LENGTH)`. It is
/// so short that a cold start fetches no more than slow start's 16 pages first, on disks with competitive
/// sizes of 400 to 600 KB.
const PRIOR_LENGTH: f64 = 1.0;
/// Weights above this are rescaled.
const SCALE_LIMIT: f64 = 1e9;

/// The hazard of a cell before any stream.
pub(super) fn prior(cell: usize) -> f64 {
    let (low, high) = (point(cell) as f64, point(cell + 1) as f64);
    1.0 - (PRIOR_LENGTH + low) / (PRIOR_LENGTH + high)
}

/// Whether records age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// They age.
    #[default]
    Fading,
    /// They do not age: for gathering a true distribution beforehand.
    Lasting,
    /// Nothing is recorded: for a policy with a given distribution.
    Fixed,
}

/// A life table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    /// The weight of a new stream. It grows with each; thus old ones fade.
    scale: f64,
    exposed: Box<[f64; CELLS]>,
    ended: Box<[f64; CELLS]>,
}

impl Default for Table {
    fn default() -> Self {
        Self { scale: 1.0, exposed: Box::new([0.0; CELLS]), ended: Box::new([0.0; CELLS]) }
    }
}

impl Table {
    /// The weights of the streams that reached a cell and of those that ended there; a new one weighs one.
    pub(super) fn weights(&self, cell: usize) -> (f64, f64) {
        (self.exposed[cell] / self.scale, self.ended[cell] / self.scale)
    }

    /// A table with these weights. An invalid weight becomes zero, and no more can have ended than reached a
    /// cell.
    pub(super) fn of(weights: impl IntoIterator<Item = (usize, f64, f64)>) -> Self {
        let weight = |value: f64| if value.is_finite() { value.clamp(0.0, SCALE_LIMIT) } else { 0.0 };
        let mut table = Self::default();
        for (cell, exposed, ended) in weights {
            if cell < CELLS {
                table.exposed[cell] = weight(exposed);
                table.ended[cell] = weight(ended).min(table.exposed[cell]);
            }
        }
        table
    }

    fn decided(&mut self, cell: usize, share: f64, ended: bool) {
        self.exposed[cell] += self.scale * share;
        if ended {
            self.ended[cell] += self.scale;
        }
    }

    fn hazard(&self, cell: usize, prior: f64) -> f64 {
        let (exposed, ended) = self.weights(cell);
        (ended + PRIOR_WEIGHT * prior) / (exposed + PRIOR_WEIGHT)
    }

    fn fade(&mut self, retention: f64) {
        self.scale /= 1.0 - 1.0 / retention;
        if self.scale > SCALE_LIMIT {
            let scale = std::mem::replace(&mut self.scale, 1.0);
            for weight in self.exposed.iter_mut().chain(self.ended.iter_mut()) {
                *weight /= scale;
            }
        }
    }
}

/// The lengths of a class's streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lengths {
    retention: Retention,
    long: Table,
    short: Table,
    /// By how much the short table has predicted better lately.
    change: f64,
    seen: u64,
    changes: u64,
}

impl Lengths {
    /// Without any stream.
    #[must_use]
    pub fn new(retention: Retention) -> Self {
        Self { retention, ..Self::default() }
    }

    pub(super) fn restored(retention: Retention, seen: u64, long: Table) -> Self {
        Self { retention, short: long.clone(), long, seen, ..Self::default() }
    }

    pub(super) fn table(&self) -> &Table {
        &self.long
    }

    /// A stream has read all of a cell.
    pub(super) fn passed(&mut self, cell: usize) {
        self.decided(cell, 1.0, false);
    }

    /// A stream has ended in a cell.
    pub(super) fn ended_in(&mut self, cell: usize) {
        self.decided(cell, 1.0, true);
    }

    /// A stream was lost, or its file ended, when it had read this much.
    pub(super) fn lost_in(&mut self, cell: usize, length: Pages) {
        let (low, high) = (point(cell) as f64, point(cell + 1) as f64);
        let share = ((length.get() as f64 - low) / (high - low)).clamp(0.0, 1.0);
        self.decided(cell, share, false);
    }

    /// One more stream is over, in any way.
    pub(super) fn over(&mut self) {
        self.seen += 1;
        if self.retention == Retention::Fading {
            self.long.fade(MEMORY);
            self.short.fade(SHORT_MEMORY);
        }
    }

    fn decided(&mut self, cell: usize, share: f64, ended: bool) {
        if self.retention == Retention::Fading {
            let long = self.long.hazard(cell, prior(cell));
            let short = self.short.hazard(cell, prior(cell));
            let better = if ended { short / long } else { ((1.0 - short) / (1.0 - long)).powf(share) };
            self.change = (self.change + better.ln()).max(0.0);
            self.short.decided(cell, share, ended);
        }
        self.long.decided(cell, share, ended);
        if self.change > CHANGE {
            self.long = self.short.clone();
            self.change = 0.0;
            self.changes += 1;
        }
    }

    /// Records a whole stream: how much of it was seen, and whether it ended there. A stream of no pages is
    /// ignored.
    pub fn stream(&mut self, length: Pages, ended: bool) {
        if length.is_zero() {
            return;
        }
        let last = crate::depth::grid::cell(length);
        (0..last.unwrap_or(CELLS)).for_each(|cell| self.passed(cell));
        match last {
            Some(cell) if ended => self.ended_in(cell),
            Some(cell) => self.lost_in(cell, length),
            None => {}
        }
        self.over();
    }

    /// The hazard of a cell, given that of the class that holds this one.
    pub(super) fn hazard(&self, cell: usize, prior: f64) -> f64 {
        self.long.hazard(cell, prior)
    }

    /// The survival function, from [`prior`] on.
    #[must_use]
    pub fn survival(&self) -> Survival {
        Survival::of_hazards(|cell| self.hazard(cell, prior(cell)))
    }

    /// How many streams were over.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How often the behaviour has changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pseudo-random numbers, the same each time.
    fn shares(seed: u64) -> impl Iterator<Item = f64> {
        let step = |state: &u64| {
            Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        };
        std::iter::successors(step(&(seed + 1)), step).map(|state| (state >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Streams of 16 to 1024 pages, evenly distributed. Each is lost at a point spread evenly between 1 and
    /// 1024 pages, if it has not ended before.
    fn censored(count: usize) -> Vec<(Pages, Pages)> {
        let mut shares = shares(7);
        let mut next =
            |least: f64, most: f64| Pages((least + (most - least) * shares.next().expect("endless")) as u64);
        (0..count).map(|_| (next(16.0, 1025.0), next(1.0, 1025.0))).collect()
    }

    /// Compares Kaplan and Meier's estimate with the mean of the lengths seen, and with leaving out the lost
    /// streams.
    #[test]
    fn lost_streams_do_not_make_streams_look_shorter() {
        let streams = censored(20_000);
        let (mut lengths, mut naive, mut dropped) = (
            Lengths::new(Retention::Lasting),
            Lengths::new(Retention::Lasting),
            Lengths::new(Retention::Lasting),
        );
        for (length, lost) in &streams {
            let ended = length <= lost;
            lengths.stream(*length.min(lost), ended);
            naive.stream(*length.min(lost), true);
            if ended {
                dropped.stream(*length, true);
            }
        }
        let truth = Survival::of(streams.iter().map(|(length, _)| *length));
        for x in [64, 128, 256, 512, 768].map(Pages) {
            let (truth, ours) = (truth.beyond(x), lengths.survival().beyond(x));
            assert!((ours - truth).abs() < 0.015, "{x}: {ours} of {truth}");
        }
        let half = Pages(512);
        let (truth, naive, dropped) =
            (truth.beyond(half), naive.survival().beyond(half), dropped.survival().beyond(half));
        assert!(naive < truth - 0.2 && dropped < truth - 0.15, "{truth}, {naive}, {dropped}");
    }

    /// Readers of whole files of different lengths: none of them has stopped by itself.
    #[test]
    fn readers_of_whole_files_would_have_read_on() {
        let mut lengths = Lengths::default();
        (0..300).for_each(|n| lengths.stream(Pages(100 + n * 37 % 900), false));
        let left = lengths.survival().beyond(Pages(900));
        assert!(left > 0.85, "{left}");
    }

    #[test]
    fn a_stream_that_is_open_counts_for_what_it_has_shown() {
        let mut lengths = Lengths::default();
        (0..20).for_each(|_| lengths.stream(Pages(16), true));
        let before = lengths.survival().beyond(Pages(16));
        // Twenty more have read beyond that, and are still open.
        (0..20).for_each(|_| (0..20).for_each(|cell| lengths.passed(cell)));
        let after = lengths.survival().beyond(Pages(16));
        assert!(before < 0.05 && (0.4..0.6).contains(&after), "{before}, {after}");
    }

    /// How many streams of the new behaviour are needed until the estimate follows.
    fn until_believed(before: &[u64], after: u64) -> usize {
        let mut lengths = Lengths::default();
        before.iter().cycle().take(3000).for_each(|length| lengths.stream(Pages(*length), true));
        let truth = Survival::of([Pages(after)]);
        let points = [8, 32, 256, 900].map(Pages);
        let far = |lengths: &Lengths| {
            let survival = lengths.survival();
            points.iter().map(|x| (survival.beyond(*x) - truth.beyond(*x)).abs()).fold(0.0, f64::max)
        };
        let believed = (1..3000).find(|_| {
            lengths.stream(Pages(after), true);
            far(&lengths) < 0.25
        });
        believed.unwrap_or(3000)
    }

    #[test]
    fn a_change_of_behaviour_is_followed_within_eighty_streams() {
        for (before, after) in
            [(&[16][..], 1024), (&[1024], 16), (&[16, 1024], 1024), (&[16, 64, 256, 1024], 16)]
        {
            let streams = until_believed(before, after);
            assert!(streams <= 80, "{before:?} to {after}: {streams}");
        }
    }

    /// Ville's inequality gives one in a thousand. The short table is not fixed, so that it is a little more.
    #[test]
    fn without_a_change_false_alarms_are_rare() {
        let mut lengths = Lengths::default();
        let mut shares = shares(3);
        for share in shares.by_ref().take(20_000) {
            lengths.stream(Pages(16 + (share * 1008.0) as u64), true);
        }
        assert!(lengths.changes() <= 40, "{}", lengths.changes());
        assert!((lengths.survival().beyond(Pages(512)) - 0.5).abs() < 0.1);
    }

    #[test]
    fn many_streams_leave_the_weights_finite() {
        let mut lengths = Lengths::default();
        (0..200_000).for_each(|n| lengths.stream(Pages(1 + n % 64), true));
        let (exposed, ended) = lengths.table().weights(0);
        assert!((MEMORY * 0.9..MEMORY * 1.1).contains(&exposed) && ended < exposed, "{exposed}, {ended}");
    }

    proptest! {
        #[test]
        fn whatever_was_seen_it_is_a_survival_function(
            streams in prop::collection::vec((0..1u64 << 20, any::<bool>()), 0..400), x in 0..1u64 << 19,
        ) {
            let mut lengths = Lengths::default();
            streams.iter().for_each(|(length, ended)| lengths.stream(Pages(*length), *ended));
            let survival = lengths.survival();
            let (near, far) = (survival.beyond(Pages(x)), survival.beyond(Pages(x * 2 + 1)));
            prop_assert!((0.0..=1.0).contains(&near) && far <= near, "{near}, {far}");
        }
    }
}
