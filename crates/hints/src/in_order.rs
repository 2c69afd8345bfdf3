//! Whether it pays to fetch reads in disk order: the pages that they skip in their own order, and sorted.
//!
//! A scan by an index whose order is about that of the rows, or a join of tables that were filled together,
//! reads forward in a few streams at a time. When these pages are read, the kernel's read-ahead and the drive's
//! buffer have most of them in memory. Sorting such reads saves nothing, and to find and to advise each read
//! costs some 25 us of processor time.

use foreseek_units::{PageSpan, Pages, Span};
use rustc_hash::FxHashSet;

/// The number of reads that are remembered: a join of two tables by an index reads four streams.
const STREAMS: usize = 4;
/// Fewer reads than these do not show whether they go forward.
const FEW: usize = 16;
/// Fewer reads than these show little of the skipped pages, as the first read of each stream seeks in any case.
const MANY: usize = 128;

/// The last reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentReads(Vec<PageSpan>);

impl RecentReads {
    /// How many pages lie between a read and the one that it follows; `None` if it seeks. A seek takes as long
    /// as the transfer of `seek` pages. A read at most half as far ahead costs less than that: on a rotating
    /// disk 32 pages, the default window of the kernel's read-ahead.
    pub(crate) fn read(&mut self, read: PageSpan, seek: Pages) -> Option<Pages> {
        let window = Pages(seek.get() / 2);
        let follows = |last: &PageSpan| last.start <= read.start && read.start <= last.end + window;
        // Of several, the nearest.
        let at = (0..self.0.len()).filter(|&at| follows(&self.0[at])).max_by_key(|&at| self.0[at].end);
        let gap = at.map(|at| {
            let last = self.0.remove(at);
            if last.end < read.start { Span::new(last.end, read.start).len() } else { Pages::ZERO }
        });
        if self.0.len() == STREAMS {
            self.0.remove(0);
        }
        self.0.push(read);
        gap
    }
}

/// Whether these reads, in this order, go forward in a few streams. `false` for too few reads.
pub fn are_forward(reads: impl Iterator<Item = PageSpan>, seek: Pages) -> bool {
    let mut recent = RecentReads::default();
    let (mut count, mut seeks) = (0, 0);
    for read in reads {
        count += 1;
        seeks += usize::from(recent.read(read, seek).is_none());
    }
    count >= FEW && seeks < STREAMS
}

/// Whether these reads, made in this order, cost a fifth less when they are sorted. A single read takes as long
/// as the transfer of `seek` pages. `true` for too few reads.
pub fn sorting_gains(reads: impl Iterator<Item = PageSpan>, seek: Pages) -> bool {
    let (mut seen, mut pages) = (FxHashSet::default(), Vec::new());
    let mut recent = RecentReads::default();
    let (mut count, mut unsorted) = (0, Pages::ZERO);
    for read in reads {
        count += 1;
        if seen.insert(read.start) {
            pages.push(read);
            unsorted += read.len() + recent.read(read, seek).unwrap_or(seek);
        }
    }
    pages.sort_unstable_by_key(|page| page.start);
    // A jump of a sorted batch is short, and takes half the time of a single read.
    let short = Pages(seek.get() / 2);
    let gaps = pages.windows(2).map(|pair| Span::new(pair[0].end, pair[1].start).len().min(short));
    let sorted: Pages = pages.iter().map(|page| page.len()).chain(gaps).sum();
    // To find a read costs half of the transfer time of a page.
    let known = Pages(count as u64 / 2);
    count < MANY || unsorted * 4 > sorted * 5 + known * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::PageIndex;

    fn spans(pages: impl IntoIterator<Item = u64>) -> impl Iterator<Item = PageSpan> {
        pages.into_iter().map(|page| Span::at(PageIndex(page), Pages(1)))
    }

    fn gains(pages: impl IntoIterator<Item = u64>) -> bool {
        sorting_gains(spans(pages), Pages(64))
    }

    fn forward(pages: impl IntoIterator<Item = u64>) -> bool {
        are_forward(spans(pages), Pages(64))
    }

    #[test]
    fn reads_forward_in_a_few_streams_gain_nothing() {
        assert!(!gains(0..1000));
        assert!(!gains((0..1000).map(|read| read * 20)));
        assert!(!gains((0..1000).flat_map(|read| [5 * read, 10_000 + read, 90_000 + 7 * read])));
        // Several rows of a page.
        assert!(!gains((0..1000).map(|read| read / 10)));
        // Two jumps.
        assert!(!gains((0..200).map(|read| read + read / 100 * 5000)));
    }

    #[test]
    fn scattered_reads_backward_reads_and_several_passes_gain() {
        let scattered = |count: u64, among: u64| (0..count).map(move |read| read * 7919 % among);
        assert!(gains(scattered(200, 100_000)));
        assert!(gains(scattered(1000, 500)), "a table of 2 MiB");
        assert!(gains(scattered(1000, 100)), "of 400 KiB");
        assert!(gains((0..1000).rev().map(|read| read * 3)));
        assert!(gains((0..1000).map(|read| read * 20 % 5001)));
        // Runs of eight.
        assert!(gains((0..800).map(|read| (read / 8) * 7919 % 5000 + read % 8)));
        assert!(gains(0..MANY as u64 - 1), "too few to judge");
    }

    #[test]
    fn a_few_reads_show_whether_they_go_forward() {
        assert!(forward(0..50));
        assert!(forward((0..20).flat_map(|read| [read, 5000 + 3 * read, 90_000 + 9 * read])));
        assert!(!forward((0..16).map(|read| read * 7919 % 100_000)));
        assert!(!forward((0..40).map(|read| (read / 8) * 7919 % 5000 + read % 8)));
        assert!(!forward((0..20).rev()));
        assert!(!forward(0..FEW as u64 - 1), "too few to judge");
    }
}
