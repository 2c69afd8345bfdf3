//! An adversary that searches for the worst case of a policy: coordinate ascent with restarts.
//!
//! A [`Case`] is one choice for each of some parameters:
//!
//! - the disk: two zones, the border between them, switch times;
//! - what is read before: lengths that mislead;
//! - how idle the device is;
//! - how the reader reads: calls or page faults, pages of a call, gaps;
//! - what changes while it reads: distance and frequency of others' requests, measured switch cost and rate.
//!
//! [`Case::run`] runs a [trial](Trial) of the policy. The reader
//! could stop after any call, so that one run covers all lengths. From a random case one parameter after the
//! other is set to the choice that costs most, until none costs more. Then the search begins again from another
//! random case, as long as it has runs left. The same seed finds the same.
//!
//! Limits: one stream at a time, forward, in a memory that keeps all. There may be worse cases that it does not
//! find.

use crate::trial::{Costly, Trial};
use crate::zoned::Zoned;
use foreseek_readahead::stream::{Prefetcher, Settings};
use foreseek_seam::Measured;
use foreseek_units::{Bytes, DeviceCosts, Lba, Nanos, PageIndex, Pages, Position, Rate, Sectors, Span};
use std::fmt;
use std::sync::Arc;

/// Makes a policy for a device; `None` where it cannot.
pub type Make<'a> = &'a dyn Fn(&Arc<dyn DeviceCosts>) -> Option<Box<dyn Prefetcher>>;

/// A parameter: its name and its choices.
type Knob = (&'static str, &'static [f64]);

/// The parameters in the order of [`Case`].
const KNOBS: [Knob; 17] = [
    ("page faults instead of calls", &[0.0, 1.0]),
    ("outer rate, MB/s", &[125.0, 40.0, 66.0, 250.0]),
    ("inner rate over outer", &[1.0, 0.9, 0.75, 0.56, 0.35]),
    ("border of the zones, page", &[0.0, 3.0, 20.0, 40.0, 64.0, 100.0, 130.0, 200.0, 300.0, 700.0, 1500.0]),
    ("longest switch, ms", &[10.5, 0.8, 3.0, 6.0, 20.0]),
    ("shortest switch over longest", &[1.0, 0.6, 0.3, 0.1]),
    ("most streams before, pages", &[16.0, 1.0, 3.0, 8.0, 24.0, 64.0, 130.0, 200.0, 500.0, 1024.0, 4000.0]),
    ("other streams before, pages", &[16.0, 1.0, 3.0, 8.0, 24.0, 64.0, 130.0, 200.0, 500.0, 1024.0, 4000.0]),
    ("one of the others in", &[2.0, 3.0, 5.0, 9.0, 20.0]),
    ("idle time over busy time", &[0.0, 0.2, 0.5, 1.0, 3.0, 9.0, 30.0]),
    ("distance of seeks, share of the disk", &[0.3, 0.0001, 0.01, 0.1, 1.0]),
    ("pages a call", &[1.0, 4.0, 16.0, 64.0, 256.0]),
    ("pages left out between calls", &[0.0, 1.0, 4.0, 7.0, 16.0, 24.0, 32.0, 33.0]),
    ("load changes at page", &[0.0, 5.0, 20.0, 50.0, 100.0, 180.0, 300.0, 600.0, 1200.0]),
    ("distance of seeks after it", &[0.3, 0.0001, 0.01, 0.1, 1.0]),
    ("measured switch after over before, 0: not measured", &[0.0, 1.0, 0.1, 0.3, 0.7, 1.5, 4.0]),
    ("measured rate after over before", &[1.0, 0.2, 0.5, 0.8, 1.3, 3.0]),
];

/// The longest stream that is tried: some dozen fetches.
const LONGEST: Pages = Pages(4096);
/// Streams that are read before: more than a class needs to be used.
const LESSONS: usize = 24;
/// Requests of others, by which the policy estimates seek distances and idle time: several times the weights of
/// both averages.
const REQUESTS: usize = 80;
const CAPACITY: Sectors = Bytes::gib(36).sectors_floor();
/// A file that is longer than any stream.
const FILE: Pages = Pages(1 << 19);

/// What a policy is tried with: a choice for each parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case([usize; KNOBS.len()]);

/// What the adversary has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundWorst {
    /// The case.
    pub case: Case,
    /// The stream.
    pub costly: Costly,
    /// How many cases were run.
    pub runs: usize,
}

/// The worst case within this many runs for the policies that `make` returns.
///
/// `make` gets the costs of a device and returns a new policy with these settings for every run.
pub fn worst(make: Make<'_>, settings: &Settings, seed: u64, runs: usize) -> FoundWorst {
    let mut random = Random(seed);
    let mut all = FoundWorst { case: Case([0; KNOBS.len()]), costly: Costly::default(), runs: 0 };
    while all.runs < runs {
        let case = Case(KNOBS.map(|(_, choices)| random.below(choices.len())));
        let begin = FoundWorst { case, costly: case.run(make, settings), runs: all.runs + 1 };
        let top = climb(begin, make, settings, &mut random, runs);
        all.runs = top.runs;
        if top.costly.but_a_page > all.costly.but_a_page {
            (all.case, all.costly) = (top.case, top.costly);
        }
    }
    all
}

/// Sets one parameter after the other to the choice that costs most, until none costs more.
fn climb(
    mut best: FoundWorst,
    make: Make<'_>,
    settings: &Settings,
    random: &mut Random,
    runs: usize,
) -> FoundWorst {
    // Parameters in a row that did not raise the cost.
    let mut vain = 0;
    let first = random.below(KNOBS.len());
    for knob in (0..KNOBS.len()).cycle().skip(first) {
        let mut gained = false;
        for choice in 0..KNOBS[knob].1.len() {
            if best.runs >= runs {
                return best;
            }
            let mut case = best.case;
            if std::mem::replace(&mut case.0[knob], choice) == choice {
                continue;
            }
            best.runs += 1;
            let costly = case.run(make, settings);
            if costly.but_a_page > best.costly.but_a_page {
                (best.case, best.costly, gained) = (case, costly, true);
            }
        }
        vain = if gained { 0 } else { vain + 1 };
        if vain == KNOBS.len() {
            break;
        }
    }
    best
}

impl Case {
    /// The stream that costs a policy most in this case.
    pub fn run(&self, make: Make<'_>, settings: &Settings) -> Costly {
        let [.., often, idle, far, call, gap, change, far_then, positioning_then, rate_then] = self.chosen();
        let disk = self.disk();
        let costs: Arc<dyn DeviceCosts> = Arc::new(disk.clone());
        let Some(policy) = make(&costs) else { return Costly::default() };
        let mut trial = Trial::new(policy, settings, &costs);
        let measured = Measured { positioning: disk.average_seek(), rate: disk.mean_rate() };
        let then = Measured {
            positioning: measured.positioning.scale(positioning_then),
            rate: Rate::bytes_per_second(measured.rate.as_bytes_per_second() * rate_then),
        };
        let is_measured = positioning_then > 0.0;
        trial.measure(is_measured.then_some(measured));
        let serve = |trial: &mut Trial, far: f64| {
            let distance = Sectors((CAPACITY.get() as f64 * far) as u64).max(Sectors(1));
            let busy = disk.seek_time(distance).as_secs_f64();
            trial.serve(REQUESTS, distance, Nanos::from_secs_f64(busy * (1.0 + idle)));
        };
        serve(&mut trial, far);
        let [faults, _, _, border, _, _, most, other, ..] = self.chosen();
        let lba = Lba::ZERO + (CAPACITY / 2 - Pages(border as u64).sectors());
        for lesson in 0..LESSONS {
            let length = if lesson % often as usize == 0 { other } else { most };
            trial.open(FILE, lba);
            trial.call(Span::at(PageIndex::ZERO, Pages(length as u64)));
            trial.close();
        }
        trial.forget();
        trial.open(FILE, lba);
        let (mut page, mut changed) = (PageIndex::ZERO, change == 0.0);
        while page.since(PageIndex::ZERO) < LONGEST {
            if !changed && page.get() as f64 >= change {
                changed = true;
                serve(&mut trial, far_then);
                trial.measure(is_measured.then_some(then));
            }
            let pages = Span::at(page, Pages(call as u64));
            if faults > 0.0 {
                pages.iter().for_each(|page| trial.fault(page));
            } else {
                trial.call(pages);
            }
            page += Pages((call + gap) as u64);
        }
        trial.worst()
    }

    fn chosen(&self) -> [f64; KNOBS.len()] {
        std::array::from_fn(|knob| KNOBS[knob].1[self.0[knob]])
    }

    /// Two zones that meet in the middle of the disk.
    fn disk(&self) -> Zoned {
        let [_, outer, inner, _, longest, shortest, ..] = self.chosen();
        let (outer, inner) = (Rate::mb_per_second(outer), Rate::mb_per_second(outer * inner));
        let longest = Nanos::from_millis_f64(longest);
        Zoned {
            zones: vec![(Lba::ZERO, outer), (Lba::ZERO + CAPACITY / 2, inner)],
            shortest: longest.scale(shortest),
            longest,
            capacity: CAPACITY,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, ((name, _), value)) in KNOBS.iter().zip(self.chosen()).enumerate() {
            let comma = if at == 0 { "" } else { "; " };
            write!(f, "{comma}{name} {value}")?;
        }
        Ok(())
    }
}

/// A small generator (SplitMix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % count as u64) as usize
    }
}
