//! The costs of a device, learnt from completed fetches: the positioning time and the rate.
//!
//! A fetch contributes when it was issued, when it completed and where it lay. A device that serves one
//! request at a time gives each request its *service time*. It lasts from the completion before it, or from
//! its own issue if that is later, to its completion. This holds for any queue and order. Adjacent fetches
//! that follow each other without a pause are one *visit*, also with a gap so small that it passes under the
//! head. A visit of length `S` takes `C + S / R`. A line through many visits yields both.
//!
//! Not every visit positions the head, and not every positioning is far:
//!
//! - *Near visits*, which lie [beside one of the last](super::buffered), may come out of the drive's buffer, or
//!   from a head that reads on. A seek is short there. They tell nothing of `C`: a line of their own, with
//!   the slope of the others, shows the rate alone. One that took hardly longer than its transfer is not used.
//!   As the buffer may have had a part of it, they only show that a device is slower, never that it is faster.
//! - *Quick visits* of other places took as long as a buffer's answer ([`QUICK`]). They are not used, unless
//!   [`ALL_QUICK`] of them and next to no slower one show that all of the device is as quick.
//! - A job that reads within one place, or only what the drive has in its buffer, leaves `C` as it was.
//!
//! - A block layer merges adjacent fetches into one request and reports their ends at once, in an order of
//!   its own. A late driver gets the ends of several requests at once. Fetches that end at the same time are
//!   therefore put together whatever their order. If they are several visits, their order is unknown: each
//!   gets its share of their time and of their length.
//! - Visits are put into bins by their length in octaves. Each bin keeps an exponentially weighted mean of
//!   length and time, over [`BIN_MEMORY`] visits. Only visits of its own length replace a bin's mean: a
//!   hundred long visits in a row do not displace the short ones, without which no line could be drawn.
//!   Visits of other bins make it fade slowly ([`AGE`]).
//! - A time far from its bin's mean is cut ([`CUT`] mean deviations): one stall of a second changes nothing.
//! - The line is a least-squares fit of relative errors through the bins. The initial guess takes part as two
//!   points and fades as visits accumulate that are not near.
//! - Visits of nearly one length show how long one takes, and next to nothing of the rate. With random blocks
//!   of 64 KiB, the line's slope follows the chance of seek and rotation.
//! - A rate other than the guess is therefore believed only as far as the visits outweigh half a visit that
//!   agrees with the guess ([`RATE_GUESS`]); that half does not fade.
//!
//! Effects of a queue: the order in which one disk serves its queue shortens its seeks, which is learnt as a
//! shorter positioning ([`UnloadedCosts`](super::UnloadedCosts) learns the positioning without a queue). A device that
//! serves several requests at once, an array or a remote volume, hides how long each took. There
//! ([`CostLearner::overlapping`]) only visits that were alone with the device count, and until there is one
//! the earlier costs stay.
//!
//! Limits: seeks of different lengths are one positioning. Where the short visits of a job are far apart and its long
//! ones some tens of megabytes, the rate comes out too high, by up to twice with forty such visits. A visit that
//! begins where the last one ended, but was requested later, may come out of the drive's own read-ahead, and is not
//! used. A rate that differs from zone to zone is averaged over the zones that are read.

use super::buffered::{Buffered, SEGMENT, apart};
use foreseek_seam::Measured;
use foreseek_units::{Bytes, Instant, Nanos, PAGE_SIZE, Rate, SectorSpan, Sectors};

/// A fetch that the device has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// When it was handed to the device.
    pub issued: Instant,
    /// When it was complete.
    pub completed: Instant,
    /// Its address; if that is unknown, any numbers that keep neighbours adjacent.
    pub range: SectorSpan,
    /// Whether the device has had only this visit since it was last idle.
    pub alone: bool,
}

/// Bins of length: octaves from a page to [`VISIT_LIMIT`].
const BINS: usize = 15;
/// A longer visit is cut here, and continues as one without a positioning.
const VISIT_LIMIT: Bytes = Bytes::mib(64);
/// Over how many visits of its own length a bin averages. The deviation of a seek and half a rotation is some
/// 40 % of their mean: that leaves 5 % of the mean of two such bins. The mean follows a change within a
/// second or two of a busy disk.
const BIN_MEMORY: f64 = 32.0;
/// After how many visits of other lengths a bin's weight is halved: many more than [`BIN_MEMORY`], and a
/// minute or less of a busy disk.
const AGE: f64 = 1024.0;
/// The most visits that end at the same time. More are a burst after a stall, and further fetches count as a
/// visit by themselves. It is as many requests as a drive queues.
const RUNS_MOST: usize = 32;
/// A time is cut at this many mean deviations from the mean. Rotation and seek of a random visit stay within
/// 3; a retry or a stall is at 10 and more.
const CUT: f64 = 6.0;
/// The weight of the guess, in visits.
const GUESS: f64 = 4.0;
/// After how many visits the guess has half of that weight; then it fades fast.
const GUESS_FADES: f64 = 24.0;
/// Lengths of the guess's two points on the line: a short and a long read-ahead.
const GUESS_AT: [Bytes; 2] = [Bytes::kib(16), Bytes::mib(1)];
/// The weight of the guess, in visits without a positioning, where the line has another rate; it does not fade.
/// A visit's time deviates by 0.4 of its mean: half of one is off by a factor of 1.6 or so, as a guess is.
/// Thirty visits of each of two octaves outweigh it ten times over.
const RATE_GUESS: f64 = 0.5;
/// A buffer answers within this time, and its bus takes the rest: the slowest are those of SATA and SCSI, of some
/// 250 MB/s. A command takes 0.1 to 0.3 ms, and a busy driver is late by some of that. A disk's positioning is
/// quicker in one of ten under a queue.
const QUICK: Nanos = Nanos::from_millis(1);
const BUS: f64 = 250e6;
/// So many quick visits, each slower one taken for [`SLOW`] of them, are not by chance. A drive's buffer has 8 to
/// 32 segments, so that visits of other places do not find theirs there as often.
const ALL_QUICK: u32 = 16;
const SLOW: u32 = 4;
/// A near visit shows the rate if it took this part of the guessed positioning time longer than its transfer.
const POSITIONED: f64 = 0.25;
/// A shorter one may have come out of the buffer for the most part.
const NEAR_LEAST: Bytes = Bytes::kib(256);
/// The least positioning time, that of memory. It keeps the depth above zero.
const POSITIONING_LEAST: f64 = 1e-6;

/// Visits of similar length.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    visits: f64,
    /// Mean length in bytes.
    length: f64,
    /// Mean time in seconds.
    time: f64,
    /// Mean deviation from it.
    deviation: f64,
    /// The number of the last visit.
    last: u64,
}

impl Bin {
    fn add(&mut self, length: f64, time: f64, number: u64) {
        self.visits = (self.visits + 1.0).min(BIN_MEMORY);
        let weight = 1.0 / self.visits;
        let off = time - self.time;
        // The first few show how far times deviate.
        let cut = if self.visits > 4.0 { CUT * self.deviation } else { f64::INFINITY };
        let off = if self.visits > 1.0 { off.clamp(-cut, cut) } else { off };
        self.time += off * weight;
        self.length += (length - self.length) * weight;
        if self.visits > 1.0 {
            let weight = 1.0 / (self.visits - 1.0);
            self.deviation += (off.abs() - self.deviation) * weight;
        }
        self.last = number;
    }

    /// Its weight in the fit, by the time that such a visit should take: errors grow with that.
    fn weight(&self, expected: f64, now: u64) -> f64 {
        let age = (now - self.last) as f64 / AGE;
        self.visits * 0.5f64.powf(age) / (expected * expected).max(1e-18)
    }
}

/// The visit that is being assembled: several, where they ended at the same time.
#[derive(Clone, Debug)]
struct Open {
    /// Its addresses; each run is a visit.
    runs: Vec<SectorSpan>,
    time: Nanos,
    begins: Begins,
    alone: bool,
}

impl Open {
    /// Whether a fetch is adjacent to one of its runs, or so near that the gap passes under the head.
    fn is_beside(&self, range: SectorSpan, near: Sectors) -> bool {
        self.runs.iter().any(|run| apart(*run, range) <= near)
    }

    /// Adds a fetch. If it lies between two runs, they become one.
    fn add(&mut self, mut range: SectorSpan, near: Sectors) {
        self.runs.retain(|run| {
            let beside = apart(*run, range) <= near;
            if beside {
                range = range.hull(*run);
            }
            !beside
        });
        self.runs.push(range);
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.runs.iter().map(|run| run.len().bytes().get()).sum())
    }
}

/// How a visit begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// With positioning.
    Switch,
    /// Where the last one was cut.
    Going,
    /// Where the last one ended, some time after it: possibly out of the drive's own read-ahead.
    Later,
}

/// Visits with one positioning time, by their length.
#[derive(Clone, Debug, Default)]
struct Visits {
    bins: [Bin; BINS],
    count: u64,
}

impl Visits {
    fn add(&mut self, length: f64, time: f64) {
        self.count += 1;
        let octave = (length as u64 / PAGE_SIZE).max(1).ilog2() as usize;
        self.bins[octave.min(BINS - 1)].add(length, time, self.count);
    }
}

/// Learns a device's costs.
#[derive(Clone, Debug)]
pub struct CostLearner {
    guess: Measured,
    /// Whether only visits count that were alone with the device.
    overlapping: bool,
    /// What may be in the drive's buffer.
    buffered: Buffered,
    /// How many quick visits weigh up the slower ones, up to twice [`ALL_QUICK`].
    quick: u32,
    far: Visits,
    near: Visits,
    /// Visits without a positioning.
    going: Bin,
    open: Option<Open>,
    last: Instant,
    visits: u64,
    now: Measured,
}

impl CostLearner {
    /// A learner that starts from a guess.
    #[must_use]
    pub fn new(guess: Measured) -> Self {
        Self {
            guess,
            overlapping: false,
            buffered: Buffered::default(),
            quick: 0,
            far: Visits::default(),
            near: Visits::default(),
            going: Bin::default(),
            open: None,
            last: Instant::ZERO,
            visits: 0,
            now: guess,
        }
    }

    /// The same for a device that serves several requests at once.
    #[must_use]
    pub fn overlapping(guess: Measured) -> Self {
        Self { overlapping: true, ..Self::new(guess) }
    }

    /// The learnt costs.
    #[must_use]
    pub fn costs(&self) -> Measured {
        self.now
    }

    /// The number of visits learnt from.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// The device has completed a fetch. Call it in the order of completion.
    pub fn completed(&mut self, visit: Visit) {
        let Visit { issued, completed, range, alone } = visit;
        if range.is_empty() {
            return;
        }
        let waited = issued <= self.last;
        let time = completed - issued.max(self.last);
        self.last = self.last.max(completed);
        let near = self.now.gap().sectors_floor();
        let beside = self.open.as_ref().is_some_and(|open| open.is_beside(range, near));
        match &mut self.open {
            Some(open) if waited && (beside || (time.is_zero() && open.runs.len() < RUNS_MOST)) => {
                open.add(range, near);
                open.time += time;
                open.alone &= alone;
                if open.bytes() >= VISIT_LIMIT {
                    self.close();
                    let runs = vec![SectorSpan::new(range.end, range.end)];
                    self.open = Some(Open { runs, time: Nanos::ZERO, begins: Begins::Going, alone });
                }
            }
            _ => {
                self.close();
                let begins = if beside { Begins::Later } else { Begins::Switch };
                self.open = Some(Open { runs: vec![range], time, begins, alone });
            }
        }
    }

    /// The open visit is complete.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let visits = open.runs.len() as f64;
        let bytes = open.bytes().get() as f64 / visits;
        let time = open.time.as_secs_f64() / visits;
        // All runs are noted.
        let near = open.runs.iter().filter(|run| self.buffered.read(**run)).count() > 0;
        let hidden = self.overlapping && !open.alone;
        // If several ended at once, some of them may have continued from where the last one was cut; which
        // ones is unknown.
        let unclear = open.begins == Begins::Going && visits > 1.0;
        if bytes == 0.0 || hidden || unclear || open.begins == Begins::Later {
            return;
        }
        match open.begins {
            Begins::Switch if self.is_answered(near, bytes, time) => return,
            Begins::Switch if near => self.near.add(bytes, time),
            Begins::Switch => self.far.add(bytes, time),
            _ => self.going.add(bytes, time, self.visits),
        }
        self.visits += 1;
        self.fit();
    }

    /// Whether a visit may have been answered without a positioning. Visits that are not near tell whether all of
    /// the device is quick.
    fn is_answered(&mut self, near: bool, bytes: f64, time: f64) -> bool {
        let held = bytes.min(SEGMENT.get() as f64);
        if near {
            let positioned = self.guess.positioning.scale(POSITIONED).max(QUICK).as_secs_f64();
            let slow = bytes >= NEAR_LEAST.get() as f64
                && time >= positioned + held / self.now.rate.as_bytes_per_second();
            return !slow && self.quick < ALL_QUICK;
        }
        let slow = time >= QUICK.as_secs_f64() + held / BUS;
        self.quick = if slow { self.quick.saturating_sub(SLOW) } else { (self.quick + 1).min(2 * ALL_QUICK) };
        !slow && self.quick < ALL_QUICK
    }

    /// How long a visit should take by the learnt costs.
    fn expected(&self, positioned: f64, length: f64) -> f64 {
        positioned * self.now.positioning.as_secs_f64() + length / self.now.rate.as_bytes_per_second()
    }

    /// Fits the lines.
    fn fit(&mut self) {
        let (mut far, mut near) = (Sums::default(), Sums::default());
        let (mut guess, mut going) = (Sums::default(), Sums::default());
        let fade = GUESS / (1.0 + (self.far.count as f64 / GUESS_FADES).powi(3));
        for at in GUESS_AT {
            let length = at.get() as f64;
            let expected = self.expected(1.0, length);
            let time = (self.guess.positioning + self.guess.rate.time_for(at)).as_secs_f64();
            guess.add(fade / (expected * expected), length, time);
        }
        for (sums, visits) in [(&mut far, &self.far), (&mut near, &self.near)] {
            for bin in visits.bins.iter().filter(|bin| bin.visits > 0.0) {
                let expected = self.expected(1.0, bin.length);
                sums.add(bin.weight(expected, visits.count), bin.length, bin.time);
            }
        }
        if self.going.visits > 0.0 {
            let expected = self.expected(0.0, self.going.length);
            going.add(self.going.weight(expected, self.visits), self.going.length, self.going.time);
        }
        let guessed = 1.0 / self.guess.rate.as_bytes_per_second();
        let before = 1.0 / self.now.rate.as_bytes_per_second();
        let with_guess = |seen: Slope| {
            let above = seen.and(far.slope()).value() < guessed;
            let expected = if above { guessed } else { before.max(guessed) };
            seen.and(Slope::of(RATE_GUESS / (expected * expected), guessed))
        };
        // The guess has a line of its own as well: a positioning unlike it says nothing of the rate.
        let seen = going.through(0.0).and(guess.slope());
        let (alone, together) = (with_guess(seen), with_guess(seen.and(near.slope())));
        let each_of = |others: Slope| others.and(far.slope()).value();
        let others = if each_of(together) > each_of(alone) { together } else { alone };
        let mut each = each_of(others);
        let visits = far.and(guess);
        let mut positioning = visits.intercept(each);
        if positioning < POSITIONING_LEAST {
            positioning = POSITIONING_LEAST;
            each = others.and(visits.through(positioning)).value();
        }
        if each < 1.0 / Measured::RATES.1 {
            each = before;
            positioning = visits.intercept(each).max(POSITIONING_LEAST);
        }
        if positioning.is_finite() && each.is_finite() && each > 0.0 {
            self.now = Measured {
                positioning: Nanos::from_secs_f64(positioning),
                rate: Rate::bytes_per_second((1.0 / each).clamp(Measured::RATES.0, Measured::RATES.1)),
            };
        }
    }
}

/// The sums of a weighted least-squares fit of `time = positioning + each * length`.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    ones: f64,
    lengths: f64,
    squares: f64,
    times: f64,
    moments: f64,
}

impl Sums {
    fn add(&mut self, weight: f64, length: f64, time: f64) {
        self.ones += weight;
        self.lengths += weight * length;
        self.squares += weight * length * length;
        self.times += weight * time;
        self.moments += weight * length * time;
    }

    fn and(self, other: Self) -> Self {
        Self {
            ones: self.ones + other.ones,
            lengths: self.lengths + other.lengths,
            squares: self.squares + other.squares,
            times: self.times + other.times,
            moments: self.moments + other.moments,
        }
    }

    /// The slope if the positioning is unknown.
    fn slope(&self) -> Slope {
        if self.ones == 0.0 {
            return Slope::default();
        }
        Slope {
            squares: self.squares - self.lengths * self.lengths / self.ones,
            moments: self.moments - self.lengths * self.times / self.ones,
        }
    }

    /// The slope with this positioning.
    fn through(&self, positioning: f64) -> Slope {
        Slope { squares: self.squares, moments: self.moments - self.lengths * positioning }
    }

    /// The positioning with this slope.
    fn intercept(&self, each: f64) -> f64 {
        (self.times - self.lengths * each) / self.ones
    }
}

/// A slope, in seconds for a byte, and its weight.
#[derive(Clone, Copy, Debug, Default)]
struct Slope {
    squares: f64,
    moments: f64,
}

impl Slope {
    fn of(weight: f64, each: f64) -> Self {
        Self { squares: weight, moments: weight * each }
    }

    fn and(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, moments: self.moments + other.moments }
    }

    /// It may by chance be zero or negative.
    fn value(self) -> f64 {
        self.moments / self.squares
    }
}
