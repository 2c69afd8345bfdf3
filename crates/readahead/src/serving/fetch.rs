//! From wanted ranges to fetches, and the memory for them.

use super::flight::{Fetch, Progress};
use super::look::{Look, held};
use super::pace::PIECE;
use super::pages::{Flying, Held};
use super::state::{RESERVE, ServingEngine};
use foreseek_cache::Status;
use foreseek_seam::objects::{PageKey, Slot};
use foreseek_seam::{FetchId, FrameId, ProcessId, StreamId, Urgency};
use foreseek_units::{PageIndex, PageSpan, Pages, Span};

/// The read for which something is fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) stream: StreamId,
    pub(super) slot: Slot,
    pub(super) pid: ProcessId,
    /// Its pages, and how each was found.
    pub(super) pages: PageSpan,
    pub(super) looks: &'a [Look],
}

impl ServingEngine {
    /// Requests the pages of a range that are neither cached nor in flight. Beyond the read it stops where
    /// the object or the memory ends. Each missing page of the read itself has a frame reserved.
    pub(super) fn fetch(&mut self, wanted: &Wanted<'_>, range: PageSpan, marker: Option<PageIndex>) {
        self.flight.wanted_by(wanted.stream);
        let length = self.objects.get(wanted.slot).length.unwrap_or_default().pages_ceil();
        let end = (PageIndex::ZERO + length).max(wanted.pages.end).min(PageKey::END);
        let range = range.intersection(Span::new(PageIndex::ZERO, end));
        let mut owed = wanted.pages.iter().filter(|page| !self.has(wanted, *page)).count();
        let mut run = MissingRun::at(range.start);
        for page in range.iter() {
            if self.has(wanted, page) {
                self.ask(wanted, std::mem::replace(&mut run, MissingRun::at(page.next())), marker);
                continue;
            }
            let demand = wanted.pages.contains(page);
            owed -= usize::from(demand);
            if !demand && !self.may_read_ahead(owed, run.ahead) {
                self.stats.forgone += range.end - page;
                break;
            }
            let Some(frame) = self.frames.take() else { break };
            run.frames.push(frame);
            run.demand |= demand;
            run.ahead += u64::from(!demand);
        }
        self.ask(wanted, run, marker);
    }

    /// Whether a page is cached or in flight.
    fn has(&self, wanted: &Wanted<'_>, page: PageIndex) -> bool {
        held(wanted.pages, wanted.looks, page) || self.table.has(&PageKey::within(wanted.slot, page))
    }

    /// Whether one page more may be fetched ahead, beside `more` of this run. Makes room for it.
    fn may_read_ahead(&mut self, owed: usize, more: u64) -> bool {
        let ceiling = self.ceiling();
        while self.table.ahead() + Pages(more) >= ceiling {
            if !self.evict() {
                return false;
            }
        }
        let reserve = self.frames.budget().get() as usize / RESERVE;
        self.make_room(owed + reserve + 1)
    }

    /// Makes this many frames available; false where it cannot.
    pub(super) fn make_room(&mut self, frames: usize) -> bool {
        while self.frames.available() < frames {
            if !self.evict() {
                return false;
            }
        }
        true
    }

    /// Evicts a page of the prefetch cache; false where there is none.
    pub(super) fn evict(&mut self) -> bool {
        let Some(evicted) = self.table.evict(&self.activity) else { return false };
        self.frames.release(evicted.value.frame);
        self.unkeep(evicted.key.slot(), 1);
        if evicted.value.ahead {
            self.stats.dropped += Pages(1);
            self.history.evicted(evicted.key, Status::Prefetched);
        }
        true
    }

    /// Requests a run of pages, in [fetches](cuts).
    fn ask(&mut self, wanted: &Wanted<'_>, mut run: MissingRun, marker: Option<PageIndex>) {
        // The frame freed last is taken first. In ascending order most frames are adjacent in memory: the
        // device writes, and a reply reads, a few long pieces instead of many pages.
        run.frames.sort_unstable();
        let pages = Pages(run.frames.len() as u64);
        if pages.is_zero() {
            return;
        }
        let urgency = if run.demand { Urgency::Demand } else { Urgency::Prefetch };
        let single = self.flight.is_single(wanted.stream);
        let longest = if single { self.settings.fetch.min(PIECE) } else { self.settings.fetch };
        self.objects.get_mut(wanted.slot).kept += pages.get();
        for range in cuts(Span::at(run.start, pages), wanted.pages, longest) {
            let at = |page: PageIndex| (page - run.start).get() as usize;
            let frames = run.frames[at(range.start)..at(range.end)].to_vec();
            let fetch = self.begin_fetch(wanted, range, frames.clone(), urgency, range.start > run.start);
            for (page, frame) in range.iter().zip(frames) {
                let ahead = !wanted.pages.contains(page);
                let held = Held { frame, marker: marker == Some(page), ahead };
                let flying = Flying { fetch, held, claimed: false };
                if !self.checks.holds(self.table.asked(PageKey::within(wanted.slot, page), flying)) {
                    self.unkeep(wanted.slot, 1);
                }
            }
        }
    }

    fn begin_fetch(
        &mut self,
        wanted: &Wanted<'_>,
        range: PageSpan,
        frames: Vec<FrameId>,
        urgency: Urgency,
        follows: bool,
    ) -> FetchId {
        let object = self.objects.get(wanted.slot);
        self.flight.ask(Fetch {
            stream: wanted.stream,
            slot: wanted.slot,
            object: object.id,
            range,
            frames,
            urgency,
            follows,
            at_end: object.length.is_some_and(|length| range.end.offset().get() >= length.get()),
            alone: false,
            waiters: Vec::new(),
            pid: wanted.pid,
            ahead: range.len() - range.intersection(wanted.pages).len(),
            asked: self.now,
            progress: Progress::default(),
        })
    }

    /// The reader of a stream has moved elsewhere, or has closed it: cancels the stream's deferred fetches,
    /// except those that overlap this read.
    pub(super) fn leave(&mut self, stream: StreamId, wanted: PageSpan) {
        let goes = |fetch: &Fetch| fetch.stream == stream && !fetch.range.overlaps(wanted);
        self.cancel(goes);
    }

    /// Cancels deferred fetches: their pages are missing again, their frames free.
    pub(super) fn cancel(&mut self, goes: impl Fn(&Fetch) -> bool) {
        for (id, fetch) in self.flight.cancel(goes) {
            self.stats.cancelled += fetch.range.len();
            for (page, frame) in fetch.range.iter().zip(fetch.frames) {
                let gone = self.table.ended(&PageKey::within(fetch.slot, page), id);
                self.unkeep(fetch.slot, u64::from(gone.is_some()));
                self.frames.release(frame);
            }
        }
    }
}

/// The fetches of a run of missing pages, of similar length, none longer than `longest`. The pages that a
/// `read` waits for are one fetch where they would be several: none of the parts is useful alone, and the
/// device might seek between two.
fn cuts(run: PageSpan, read: PageSpan, longest: Pages) -> impl Iterator<Item = PageSpan> {
    let awaited = run.intersection(read);
    let is_one = awaited.start == run.start && awaited.len() > longest;
    let (first, rest) = if is_one { (Some(awaited), Span::new(awaited.end, run.end)) } else { (None, run) };
    let pieces = rest.len().get().div_ceil(longest.get());
    let cut = move |piece: u64| rest.start + rest.len() * piece / pieces;
    first.into_iter().chain((0..pieces).map(move |piece| Span::new(cut(piece), cut(piece + 1))))
}

/// Adjacent missing pages, with the frames taken for them.
struct MissingRun {
    start: PageIndex,
    frames: Vec<FrameId>,
    demand: bool,
    ahead: u64,
}

impl MissingRun {
    fn at(start: PageIndex) -> Self {
        Self { start, frames: Vec::new(), demand: false, ahead: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awaited_pages_are_one_fetch_and_the_rest_is_cut() {
        let span = |start, end| Span::new(PageIndex(start), PageIndex(end));
        let cut = |run, read| cuts(run, read, Pages(32)).collect::<Vec<_>>();
        assert_eq!(cut(span(700, 941), span(700, 941)), [span(700, 941)]);
        assert_eq!(
            cut(span(1000, 1320), span(1000, 1256)),
            [span(1000, 1256), span(1256, 1288), span(1288, 1320)]
        );
        assert_eq!(cut(span(0, 96), span(0, 32)), [span(0, 32), span(32, 64), span(64, 96)]);
        assert_eq!(cut(span(0, 70), span(0, 8)), [span(0, 23), span(23, 46), span(46, 70)]);
        // The pages before it are cached: only a part of the read is missing.
        assert_eq!(cut(span(40, 100), span(0, 90)), [span(40, 90), span(90, 100)]);
        // Read around a page.
        assert_eq!(cut(span(0, 64), span(20, 60)), [span(0, 32), span(32, 64)]);
    }
}
