//! The costs of a device, learnt from completed fetches: the positioning time and the rate.
//!
//! [`CostLearner`] computes both from when each fetch was issued, when it completed and where it lay. Fetches are put
//! together to *visits* ([`super::visits`]). A visit of length `S` takes `C + S / R`, where `C` is the positioning time
//! and `R` the rate. A line through the mean times of many visits by their length ([`super::bins`], [`super::line`])
//! yields both.
//!
//! Which visits count:
//!
//! - *Far visits* position the head. The line is drawn through them.
//! - *Near visits*, which lie [beside one of the last](super::buffered), may come out of the drive's buffer, or
//!   from a head that reads on. A seek is short there. They tell nothing of `C`: a line of their own, with
//!   the slope of the others, shows the rate alone. One that took hardly longer than its transfer is not used.
//!   As the buffer may have had a part of it, they only show that a device is slower, never that it is faster.
//! - *Quick visits* of other places took as long as a buffer's answer ([`QUICK`]). They are not used, unless
//!   [`ALL_QUICK`] of them and next to no slower one show that all of the device is as quick.
//! - *Continued visits* are the rest of one that was cut, without a positioning. They show the rate alone.
//! - A visit that begins where the last one ended, but was requested later, may come out of the drive's own read-ahead,
//!   and is not used.
//! - A job that reads within one place, or only what the drive has in its buffer, leaves `C` as it was.
//!
//! How the line is drawn:
//!
//! - It is a least-squares fit of relative errors through the bins. The initial guess takes part as two
//!   points and fades as far visits accumulate.
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
//! ones some tens of megabytes, the rate comes out too high, by up to twice with forty such visits.
//! A rate that differs from zone to zone is averaged over the zones that are read.

use super::bins::{Bin, Bins};
use super::buffered::{RecentPlaces, SEGMENT};
use super::line::{Slope, Sums};
use super::visits::{Assembly, Begins, Together, Visit};
use foreseek_seam::Measured;
use foreseek_units::{Bytes, Nanos, Rate};

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

/// Learns a device's costs.
#[derive(Clone, Debug)]
pub struct CostLearner {
    guess: Measured,
    /// Whether only visits count that were alone with the device.
    overlapping: bool,
    assembly: Assembly,
    /// What may be in the drive's buffer.
    recent: RecentPlaces,
    /// How many quick visits weigh up the slower ones, up to twice [`ALL_QUICK`].
    quick: u32,
    far: Bins,
    near: Bins,
    /// Visits without a positioning.
    continued: Bin,
    /// The number of visits learnt from.
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
            assembly: Assembly::default(),
            recent: RecentPlaces::default(),
            quick: 0,
            far: Bins::default(),
            near: Bins::default(),
            continued: Bin::default(),
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
        if visit.range.is_empty() {
            return;
        }
        if let Some(over) = self.assembly.completed(visit, self.now.gap().sectors_floor()) {
            self.learn(&over);
        }
    }

    /// Learns from visits that are over.
    fn learn(&mut self, over: &Together) {
        // All runs are noted, not only those up to the first near one.
        let near = over.runs.iter().filter(|run| self.recent.read(**run)).count() > 0;
        if !self.is_clear(over) {
            return;
        }
        let visits = over.runs.len() as f64;
        let length = over.bytes().get() as f64 / visits;
        let time = over.time.as_secs_f64() / visits;
        match over.begins {
            Begins::Continued => self.continued.add(length, time, self.visits),
            _ if near && !self.near_shows_rate(length, time) => return,
            _ if near => self.near.add(length, time),
            _ if self.is_quick(length, time) => return,
            _ => self.far.add(length, time),
        }
        self.visits += 1;
        self.fit();
    }

    /// Whether the time of each of these visits is known.
    fn is_clear(&self, over: &Together) -> bool {
        let hidden = self.overlapping && !over.alone;
        let is_known = match over.begins {
            Begins::Positioned => true,
            // If several ended at once, some of them may have continued from where the last one was cut; which
            // ones is unknown.
            Begins::Continued => over.runs.len() == 1,
            Begins::Later => false,
        };
        is_known && !hidden && !over.bytes().is_zero()
    }

    /// Whether a near visit took so much longer than its transfer that the drive's buffer did not answer it, or
    /// the whole device is quick.
    fn near_shows_rate(&self, length: f64, time: f64) -> bool {
        let positioned = self.guess.positioning.scale(POSITIONED).max(QUICK).as_secs_f64();
        let is_slow = length >= NEAR_LEAST.get() as f64
            && time >= positioned + in_buffer(length) / self.now.rate.as_bytes_per_second();
        is_slow || self.is_all_quick()
    }

    /// Whether a far visit was so quick that the drive's buffer may have answered it, on a device that is not all
    /// quick.
    fn is_quick(&mut self, length: f64, time: f64) -> bool {
        let is_slow = time >= QUICK.as_secs_f64() + in_buffer(length) / BUS;
        self.quick =
            if is_slow { self.quick.saturating_sub(SLOW) } else { (self.quick + 1).min(2 * ALL_QUICK) };
        !is_slow && !self.is_all_quick()
    }

    fn is_all_quick(&self) -> bool {
        self.quick >= ALL_QUICK
    }

    /// Fits the lines, and takes over what they show.
    fn fit(&mut self) {
        let lines = self.lines();
        let others = self.slope_beside(&lines);
        let visits = lines.far.and(lines.guess);
        let mut per_byte = others.and(lines.far.slope()).value();
        let mut positioning = visits.intercept(per_byte);
        if positioning < POSITIONING_LEAST {
            positioning = POSITIONING_LEAST;
            per_byte = others.and(visits.through(positioning)).value();
        }
        if per_byte < 1.0 / Measured::RATES.1 {
            per_byte = seconds_per_byte(self.now.rate);
            positioning = visits.intercept(per_byte).max(POSITIONING_LEAST);
        }
        if positioning.is_finite() && per_byte.is_finite() && per_byte > 0.0 {
            self.now = Measured {
                positioning: Nanos::from_secs_f64(positioning),
                rate: Rate::bytes_per_second((1.0 / per_byte).clamp(Measured::RATES.0, Measured::RATES.1)),
            };
        }
    }

    /// The points of each line, as sums.
    fn lines(&self) -> Lines {
        let mut continued = Sums::default();
        if !self.continued.is_empty() {
            self.add_bin(&mut continued, &self.continued, 0.0, self.visits);
        }
        Lines { far: self.line(&self.far), near: self.line(&self.near), continued, guess: self.guess_line() }
    }

    /// A line through visits with a positioning.
    fn line(&self, visits: &Bins) -> Sums {
        let mut sums = Sums::default();
        visits.filled().for_each(|bin| self.add_bin(&mut sums, bin, 1.0, visits.visits()));
        sums
    }

    fn add_bin(&self, sums: &mut Sums, bin: &Bin, positioned: f64, now: u64) {
        let expected = self.expected(positioned, bin.length);
        sums.add(bin.weight(expected, now), bin.length, bin.time);
    }

    /// The guess as two points, which fade.
    fn guess_line(&self) -> Sums {
        let mut sums = Sums::default();
        let weight = GUESS / (1.0 + (self.far.visits() as f64 / GUESS_FADES).powi(3));
        for at in GUESS_AT {
            let length = at.get() as f64;
            let expected = self.expected(1.0, length);
            let time = (self.guess.positioning + self.guess.rate.time_for(at)).as_secs_f64();
            sums.add(weight / (expected * expected), length, time);
        }
        sums
    }

    /// How long a visit should take by the learnt costs.
    fn expected(&self, positioned: f64, length: f64) -> f64 {
        positioned * self.now.positioning.as_secs_f64() + length / self.now.rate.as_bytes_per_second()
    }

    /// The slope of all that shows the rate beside the far visits. Near visits are a part of it only where they show a
    /// slower device.
    fn slope_beside(&self, lines: &Lines) -> Slope {
        let far = lines.far.slope();
        // The guess has a line of its own as well: a positioning unlike it says nothing of the rate.
        let seen = lines.continued.through(0.0).and(lines.guess.slope());
        let without_near = self.with_guess(seen, far);
        let with_near = self.with_guess(seen.and(lines.near.slope()), far);
        if with_near.and(far).value() > without_near.and(far).value() { with_near } else { without_near }
    }

    /// A slope with the half visit that agrees with the guess.
    fn with_guess(&self, seen: Slope, far: Slope) -> Slope {
        let guessed = seconds_per_byte(self.guess.rate);
        let is_faster = seen.and(far).value() < guessed;
        let expected = if is_faster { guessed } else { seconds_per_byte(self.now.rate).max(guessed) };
        seen.and(Slope::of(RATE_GUESS / (expected * expected), guessed))
    }
}

/// The lines through visits, each with a positioning of its own.
struct Lines {
    far: Sums,
    near: Sums,
    continued: Sums,
    guess: Sums,
}

/// How much of a visit the drive's buffer may have held, in bytes.
fn in_buffer(length: f64) -> f64 {
    length.min(SEGMENT.get() as f64)
}

fn seconds_per_byte(rate: Rate) -> f64 {
    1.0 / rate.as_bytes_per_second()
}
