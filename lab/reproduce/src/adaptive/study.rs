//! Learning without a machine: streams one after the other, in device time alone.
//!
//! As in an online policy, each stream is first read with what is known, then learnt. Its cost is that of the
//! papers' model (a switch and the transfer of each fetch), so that the numbers show the gain of learning
//! without the effects of queues and caches.

use foreseek_readahead::depth::Depths;
use foreseek_readahead::depth::{Plan, RatioBound};
use foreseek_readahead::learn::{Classes, Retention, Scheme};
use foreseek_seam::StreamInfo;
use foreseek_simulate::program::Workload;
use foreseek_simulate::truth;
use foreseek_units::{PageIndex, Pages};

/// After how many further streams a class is planned anew, as in the policy.
const PLAN_EVERY: u64 = 16;

/// A stream, with what a policy may know of it beforehand.
#[derive(Clone, Debug)]
pub(super) struct StudiedStream {
    pub(super) file: Pages,
    pub(super) from_start: bool,
    pub(super) directory: String,
    pub(super) program: String,
    pub(super) length: Pages,
    /// Whether it ended before the end of its file.
    pub(super) ended: bool,
    /// The rest of the file.
    pub(super) left: Pages,
}

/// The first streams of a workload's programs, which `program` makes.
pub(super) fn streams(
    workload: &mut dyn Workload,
    program: &str,
    seed: u64,
    most: u64,
) -> Vec<StudiedStream> {
    let mut reads = Vec::new();
    let mut nothing: Classes<()> = Classes::new(Scheme(&[&[]]), Retention::Fixed);
    truth::streams(workload, seed, most, &mut nothing, &mut |file, stream| {
        let pages = file.length.pages_ceil().max(stream.length);
        reads.push(StudiedStream {
            file: pages,
            from_start: stream.start == PageIndex::ZERO,
            directory: format!("{program}/{}", file.directory),
            program: program.to_owned(),
            length: stream.length,
            ended: stream.ended,
            left: (PageIndex::ZERO + pages - stream.start).max(stream.length),
        });
    });
    reads
}

/// Several lists as one, in turn, in proportion to their lengths: programs that run side by side.
pub(super) fn side_by_side(lists: Vec<Vec<StudiedStream>>) -> Vec<StudiedStream> {
    let mut all: Vec<(f64, StudiedStream)> = Vec::new();
    for list in lists {
        let count = list.len() as f64;
        all.extend(list.into_iter().enumerate().map(|(n, read)| ((n as f64 + 0.5) / count, read)));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    all.into_iter().map(|(_, read)| read).collect()
}

/// The device in units of a switch: the pages transferred in the time of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub(super) unit: f64,
}

impl Device {
    /// The cost with a known length of the stream.
    pub(super) fn optimum(self, read: &StudiedStream) -> f64 {
        1.0 + read.length.get() as f64 / self.unit
    }

    /// The cost of fixed depths (in pages).
    pub(super) fn fixed(self, depths: &Depths, read: &StudiedStream) -> f64 {
        let (mut at, mut cost) = (0.0, 0.0);
        for depth in depths.iter() {
            if at >= read.length.get() as f64 {
                break;
            }
            let depth = depth.min(read.left.get() as f64 - at);
            at += depth;
            cost += 1.0 + depth / self.unit;
        }
        cost
    }

    /// Competitive prefetching with slow start.
    pub(super) fn slow_start(self) -> Depths {
        Depths::slow_start(16.0, self.unit)
    }

    /// Competitive prefetching.
    pub(super) fn competitive(self) -> Depths {
        Depths::constant(self.unit)
    }
}

/// A policy that learns while it reads.
pub(super) struct Learner {
    classes: Classes<Option<(Plan, u64)>>,
    bound: RatioBound,
    learns: bool,
}

impl Learner {
    pub(super) fn new(scheme: Scheme, rho: f64, device: Device) -> Self {
        let classes = Classes::new(scheme, Retention::Fading);
        Self { classes, bound: RatioBound::new(rho, device.unit), learns: true }
    }

    /// A policy that knows the distribution of all streams and learns nothing.
    pub(super) fn known(reads: &[StudiedStream], rho: f64, device: Device) -> Self {
        let mut known = Self::new(foreseek_readahead::learn::SCHEME, rho, device);
        known.classes = Classes::new(foreseek_readahead::learn::SCHEME, Retention::Lasting);
        reads.iter().for_each(|read| known.learn(read));
        known.learns = false;
        known
    }

    /// Reads a stream and learns from it; returns its cost.
    pub(super) fn read(&mut self, read: &StudiedStream) -> f64 {
        let about = StreamInfo { directory: &read.directory, program: &read.program, kind: "" };
        let chain = self.classes.chain(read.file, read.from_start, &about);
        let longest = self.classes.longest(&chain);
        let (kept, seen) = self.classes.kept(&chain);
        let grown = kept.as_ref().is_none_or(|(_, then)| seen - then >= PLAN_EVERY.min(then / 2 + 1));
        if grown {
            let survival = self.classes.survival(&chain);
            let plan = Plan::solve(survival, self.bound, longest, 1.0);
            *self.classes.kept(&chain).0 = Some((plan, seen));
        }
        let cost =
            self.classes.kept(&chain).0.as_ref().map_or(0.0, |(plan, _)| plan.cost(read.length, read.left));
        if self.learns {
            self.classes.stream(&chain, read.length, read.ended);
        }
        cost
    }

    fn learn(&mut self, read: &StudiedStream) {
        let about = StreamInfo { directory: &read.directory, program: &read.program, kind: "" };
        let chain = self.classes.chain(read.file, read.from_start, &about);
        self.classes.stream(&chain, read.length, read.ended);
    }
}

/// The share of the oracle's throughput over these streams.
pub(super) fn share(
    reads: &[StudiedStream],
    device: Device,
    mut cost: impl FnMut(&StudiedStream) -> f64,
) -> f64 {
    let optimum: f64 = reads.iter().map(|read| device.optimum(read)).sum();
    optimum / reads.iter().map(&mut cost).sum::<f64>()
}
