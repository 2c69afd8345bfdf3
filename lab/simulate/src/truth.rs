//! The true lengths of a workload's streams: its programs run without a machine and without time.
//!
//! Learning is measured against a policy that knows the distribution of lengths. The distribution is taken from
//! the workload's own programs, with another seed than any run's, as the policy itself would follow them if it
//! saw every touch and forgot nothing.

use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Step, Workload};
use foreseek_readahead::learn::{self, Classes, FinishedStream, Follower, Retention, SCHEME};
use foreseek_units::{ByteOffset, ByteSpan, Instant, PageIndex, PageSpan, Pages, Span};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The seed of the programs: runs have small ones.
const SEED: u64 = 0x7275_7468;
/// Streams after which a distribution is known: for a share of one in ten the error is then below 3 % of it.
const STREAMS: u64 = 10_000;
/// Pages after which it counts as known in any case: a few seconds of work.
const PAGES_LIMIT: u64 = 50_000_000;
/// The most programs, for programs that read nothing.
const PROGRAMS_LIMIT: u64 = 100_000;

/// What was learnt from a workload's programs, as text ([`Classes::load`]).
#[must_use]
pub fn truth(workload: &mut dyn Workload) -> String {
    let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Lasting);
    streams(workload, SEED, STREAMS, &mut classes, &mut |_, _| {});
    classes.save()
}

/// Follows the streams of a workload's programs, one program after the other, until there are enough streams
/// (or too many pages or programs); `each` is called with every closed stream and its file.
pub fn streams<K: Default>(
    workload: &mut dyn Workload,
    seed: u64,
    most: u64,
    classes: &mut Classes<K>,
    each: &mut dyn FnMut(&FileSpec, FinishedStream),
) {
    let mut files = workload.files();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let programs = match workload.drive() {
        Drive::Closed => PROGRAMS_LIMIT,
        Drive::Jobs(jobs) => u64::from(jobs),
    };
    let mut seen = Seen { classes, each, open: Vec::new(), streams: 0, pages: 0 };
    for number in 0..programs {
        let mut program = workload.program(number, &mut random);
        seen.run(&mut *program, &mut files, &mut random, most);
        if seen.streams >= most || seen.pages >= PAGES_LIMIT {
            return;
        }
    }
}

/// The open streams, and the results of closed ones.
struct Seen<'a, K> {
    classes: &'a mut Classes<K>,
    each: &'a mut dyn FnMut(&FileSpec, FinishedStream),
    open: Vec<(Handle, FileNumber, Follower)>,
    streams: u64,
    pages: u64,
}

impl<K: Default> Seen<'_, K> {
    fn run(&mut self, program: &mut dyn Program, files: &mut [FileSpec], random: &mut Pcg64Mcg, most: u64) {
        while self.streams < most && self.pages < PAGES_LIMIT {
            match program.next(Instant::ZERO, random) {
                Step::Open { handle, file, .. } => self.open(handle, file, files),
                Step::Read { handle, range } => self.read(handle, range, files),
                Step::Touch { handle, page } => self.touch(handle, Span::at(page, Pages(1)), files),
                Step::Write { handle, range } => self.write(handle, range, files),
                Step::Close { handle } => self.close(handle, files),
                // The programs of workloads need no answers.
                Step::Advise { .. } | Step::Forget { .. } | Step::Ask { .. } | Step::Hold(_) => {}
                Step::DirectWrite { .. } | Step::Sync { .. } | Step::Unlink { .. } => {}
                Step::Direct { .. } | Step::Stat { .. } | Step::List { .. } | Step::Await => {}
                Step::Compute(_) | Step::Sleep(_) | Step::Begun | Step::Finished => {}
                Step::Exit => break,
            }
        }
        while let Some((handle, ..)) = self.open.last() {
            self.close(*handle, files);
        }
    }

    fn open(&mut self, handle: Handle, file: FileNumber, files: &[FileSpec]) {
        let Some(spec) = files.get(file.0 as usize) else { return };
        self.open.push((handle, file, Follower::new(spec.length.pages_ceil())));
    }

    fn read(&mut self, handle: Handle, range: ByteSpan, files: &[FileSpec]) {
        let Some((_, file, _)) = self.open.iter().find(|(open, ..)| *open == handle) else { return };
        let Some(spec) = files.get(file.0 as usize) else { return };
        let pages = range.pages();
        let end = PageIndex::ZERO + spec.length.pages_ceil();
        self.touch(handle, pages.intersection(Span::new(PageIndex::ZERO, end)), files);
    }

    fn touch(&mut self, handle: Handle, pages: PageSpan, files: &[FileSpec]) {
        let Some((_, file, follower)) = self.open.iter_mut().find(|(open, ..)| *open == handle) else {
            return;
        };
        self.pages += pages.len().get();
        for page in pages.iter() {
            let step = follower.touch(self.classes, page, |_| false);
            if let learn::Step::Began(Some(stream)) = step {
                self.streams += 1;
                (self.each)(&files[file.0 as usize], stream);
            }
        }
    }

    /// A file grows where it is written beyond its end.
    fn write(&mut self, handle: Handle, range: ByteSpan, files: &mut [FileSpec]) {
        let Some((_, file, _)) = self.open.iter().find(|(open, ..)| *open == handle) else { return };
        if let Some(spec) = files.get_mut(file.0 as usize) {
            spec.length = spec.length.max(range.end - ByteOffset::ZERO);
        }
    }

    fn close(&mut self, handle: Handle, files: &[FileSpec]) {
        let Some(at) = self.open.iter().position(|(open, ..)| *open == handle) else { return };
        let (_, file, mut follower) = self.open.swap_remove(at);
        if let Some(stream) = follower.leave(self.classes, |_| false) {
            self.streams += 1;
            (self.each)(&files[file.0 as usize], stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Parameters, by_name};

    fn quantiles(workload: &str) -> Vec<(u64, bool)> {
        let mut workload = by_name(workload, &Parameters::default()).expect("a workload");
        let mut lengths = Vec::new();
        let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Lasting);
        streams(&mut *workload, 1, 2000, &mut classes, &mut |_, stream| {
            lengths.push((stream.length.get(), stream.ended));
        });
        lengths.sort_unstable();
        lengths
    }

    #[test]
    fn the_streams_of_the_microbenchmarks_are_what_they_say() {
        let chunks = quantiles("four-64kb-0");
        assert!(chunks.iter().all(|(length, _)| *length == 16) && chunks.len() == 2000);
        assert!(quantiles("one-whole-0").iter().all(|stream| *stream == (1024, false)));
        let portions = quantiles("one-rand-10");
        let (first, middle, last) = (portions[0].0, portions[1000].0, portions[1999].0);
        assert!(first >= 16 && last <= 1024 && (480..560).contains(&middle), "{first} {middle} {last}");
    }

    #[test]
    fn the_truth_is_told_and_taken_up() {
        let mut workload = by_name("two-rand-0", &Parameters::default()).expect("a workload");
        let text = truth(&mut *workload);
        let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Fixed);
        assert!(classes.load(&text).is_ok_and(|loaded| loaded.classes > 1 && loaded.left_out == 0));
    }
}
