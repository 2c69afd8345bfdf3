//! The costs of a device, learnt from completed fetches: the positioning time and the rate.
//!
//! A fetch contributes when it was issued, when it completed and where it lay. A device that serves one
//! request at a time gives each request its *service time*. It lasts from the completion before it, or from
//! its own issue if that is later, to its completion. This holds for any queue and order. Adjacent fetches
//! that follow each other without a pause are one *visit*, also with a gap so small that it passes under the
//! head. A visit of length `S` takes `C + S / R`. A line through many visits yields both.
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
//!   points and fades as visits accumulate.
//! - Visits of nearly one length show how long one takes, and next to nothing of the rate. With random blocks
//!   of 64 KiB, the line's slope followed the chance of seek and rotation. The rate came out anywhere from
//!   half of the disk's to a thousand times that, and depths grew with it.
//! - A rate above the guess is therefore believed only as far as the visits outweigh half a visit that agrees
//!   with the guess ([`RATE_GUESS`]); that half does not fade. A rate below the guess is believed: the time
//!   of a visit bounds how slow the device can be. Nothing else bounds how fast.
//!
//! Effects of a queue: the order in which one disk serves its queue shortens its seeks, which is learnt as a
//! shorter positioning ([`UnloadedCosts`](super::UnloadedCosts) learns the positioning without a queue). A device that
//! serves several requests at once, an array or a remote volume, hides how long each took. There
//! ([`CostLearner::overlapping`]) only visits that were alone with the device count, and until there is one
//! the earlier costs stay.
//!
//! Limits: a visit that begins where the last one ended, but was requested later, may come out of the drive's
//! own read-ahead, and is not used. A rate that differs from zone to zone is averaged over the zones that are
//! read.

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
/// The weight of the guess, in visits without a positioning, where the line has a rate above it; it does not fade.
/// A visit's time deviates by 0.4 of its mean: half of one is off by a factor of 1.6 or so, as a guess is.
/// Thirty visits of each of two octaves outweigh it ten times over.
const RATE_GUESS: f64 = 0.5;
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

/// The distance between two ranges.
fn apart(one: SectorSpan, other: SectorSpan) -> Sectors {
    (other.start - one.end).max(one.start - other.end)
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

/// Learns a device's costs.
#[derive(Clone, Debug)]
pub struct CostLearner {
    guess: Measured,
    /// Whether only visits count that were alone with the device.
    overlapping: bool,
    bins: [Bin; BINS],
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
        let bins = [Bin::default(); BINS];
        let going = Bin::default();
        let (open, last) = (None, Instant::ZERO);
        Self { guess, overlapping: false, bins, going, open, last, visits: 0, now: guess }
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
        let hidden = self.overlapping && !open.alone;
        // If several ended at once, some of them may have continued from where the last one was cut; which
        // ones is unknown.
        let unclear = open.begins == Begins::Going && visits > 1.0;
        if bytes == 0.0 || hidden || unclear || open.begins == Begins::Later {
            return;
        }
        self.visits += 1;
        let bin = match open.begins {
            Begins::Switch => {
                let octave = (bytes as u64 / PAGE_SIZE).max(1).ilog2() as usize;
                &mut self.bins[octave.min(BINS - 1)]
            }
            _ => &mut self.going,
        };
        bin.add(bytes, time, self.visits);
        self.fit();
    }

    /// How long a visit should take by the learnt costs.
    fn expected(&self, positioned: f64, length: f64) -> f64 {
        positioned * self.now.positioning.as_secs_f64() + length / self.now.rate.as_bytes_per_second()
    }

    /// Fits the line.
    fn fit(&mut self) {
        let mut line = LeastSquares::default();
        let fade = GUESS / (1.0 + (self.visits as f64 / GUESS_FADES).powi(3));
        for at in GUESS_AT {
            let length = at.get() as f64;
            let expected = self.expected(1.0, length);
            let time = (self.guess.positioning + self.guess.rate.time_for(at)).as_secs_f64();
            line.add(fade / (expected * expected), 1.0, length, time);
        }
        for bin in self.bins.iter().filter(|bin| bin.visits > 0.0) {
            let expected = self.expected(1.0, bin.length);
            line.add(bin.weight(expected, self.visits), 1.0, bin.length, bin.time);
        }
        if self.going.visits > 0.0 {
            let expected = self.expected(0.0, self.going.length);
            line.add(self.going.weight(expected, self.visits), 0.0, self.going.length, self.going.time);
        }
        let guess = 1.0 / self.guess.rate.as_bytes_per_second();
        if line.each() < guess {
            line.add(RATE_GUESS / (guess * guess), 0.0, 1.0, guess);
        }
        let before = 1.0 / self.now.rate.as_bytes_per_second();
        if let Some((positioning, each)) = line.solve(before) {
            self.now = Measured {
                positioning: Nanos::from_secs_f64(positioning),
                rate: Rate::bytes_per_second((1.0 / each).clamp(Measured::RATES.0, Measured::RATES.1)),
            };
        }
    }
}

/// The sums of a weighted least-squares fit of `time = positioning * positioned + each * length`.
#[derive(Clone, Copy, Debug, Default)]
struct LeastSquares {
    ones: f64,
    cross: f64,
    squares: f64,
    times: f64,
    moments: f64,
}

impl LeastSquares {
    fn add(&mut self, weight: f64, positioned: f64, length: f64, time: f64) {
        self.ones += weight * positioned;
        self.cross += weight * positioned * length;
        self.squares += weight * length * length;
        self.times += weight * positioned * time;
        self.moments += weight * length * time;
    }

    fn determinant(&self) -> f64 {
        self.ones * self.squares - self.cross * self.cross
    }

    /// The seconds for a byte, which may by chance be zero or negative.
    fn each(&self) -> f64 {
        (self.ones * self.moments - self.cross * self.times) / self.determinant()
    }

    /// The positioning time in seconds and the seconds for a byte; `before` is the earlier value of the latter,
    /// used where the visits give zero or less.
    fn solve(&self, before: f64) -> Option<(f64, f64)> {
        let mut positioning = (self.times * self.squares - self.moments * self.cross) / self.determinant();
        let mut each = self.each();
        if positioning < POSITIONING_LEAST {
            positioning = POSITIONING_LEAST;
            each = (self.moments - self.cross * positioning) / self.squares;
        }
        if each < 1.0 / Measured::RATES.1 {
            each = before;
            positioning = ((self.times - self.cross * each) / self.ones).max(POSITIONING_LEAST);
        }
        (positioning.is_finite() && each.is_finite() && each > 0.0).then_some((positioning, each))
    }
}
