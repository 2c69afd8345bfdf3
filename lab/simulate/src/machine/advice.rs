//! Advice and questions: what a process passes to the kernel about its reads, and the kernel's answers.
//!
//! Advice to fetch (Linux's `force_page_cache_readahead`) makes requests for the missing pages, each as long as
//! possible and unplugged separately. The caller sleeps while the queue is full, never for data. A page without
//! free memory ends the call: the kernel does not try hard for read-ahead (`__GFP_NORETRY`). Pages in memory
//! keep their places in the lists. Advice to forget drops clean pages that are neither in flight nor about to
//! be used.
//!
//! With [`Memory::advice_moves`](super::Memory::advice_moves) pages in memory move to the young end of the
//! inactive list, as in the kernel of ATC'09 (section 4.5).

use super::files::PageEntry;
use super::names::FileNo;
use super::process::{Doing, Wait};
use super::processors::Turn;
use super::reading::Touched;
use super::reclaim::Why;
use super::{Machine, MachineError};
use crate::program::{Answer, Question};
use foreseek_device::Op;
use foreseek_seam::ProcessId;
use foreseek_units::{PageIndex, PageSpan, Pages, Span};

impl Machine {
    /// The next request of an advice to fetch.
    pub(super) fn advise(
        &mut self,
        process: u32,
        stream: u32,
        first: PageIndex,
        left: PageSpan,
    ) -> Result<Turn, MachineError> {
        let Some(file) = self.file_of(stream) else { return Ok(Turn::GoesOn) };
        let table = &self.files[file.0 as usize];
        let within = left.intersection(Span::new(PageIndex::ZERO, table.end()));
        let missing = within.iter().find(|page| !table.cached(*page));
        if self.settings.memory.advice_moves {
            self.renew(file, Span::new(within.start, missing.unwrap_or(within.end)));
        }
        let Some(start) = missing else {
            return Ok(self.reply(process, Answer::Advised(left.end - first)));
        };
        if !self.takes_reads() {
            self.set_doing(process, Doing::Advise { stream, first, left: PageSpan::new(start, left.end) });
            self.wait(process, Wait::Queue);
            self.flight.short_of_queue.push_back(process);
            return Ok(Turn::Waits);
        }
        let (_, piece) = self.address(file, start)?;
        let longest = self.block.longest().bytes().pages_floor().max(Pages(1));
        let most = PageSpan::at(start, piece.min(longest)).intersection(within);
        let mut end = start;
        for page in most.iter() {
            if self.files[file.0 as usize].cached(page) || !self.room() {
                break;
            }
            let touched = Touched { process, stream, page, request: Pages(1), first: false, mapped: false };
            self.insert(touched, file, page, Why::Ahead, false);
            end = page.next();
        }
        let run = PageSpan::new(start, end);
        if run.is_empty() {
            self.metrics.counters.dropped += left.end - start;
            return Ok(self.reply(process, Answer::Advised(start - first)));
        }
        let pid = self.processes.get(process as usize).map_or(ProcessId(0), |one| one.pid);
        self.metrics.submitted(run.len());
        self.submit(Op::Read, file, run, pid, true);
        self.block.unplug(self.now);
        self.look_at_block();
        let left = PageSpan::new(end, left.end);
        self.set_doing(process, Doing::Advise { stream, first, left });
        Ok(Turn::GoesOn)
    }

    /// Moves pages in memory to the young end of their list.
    fn renew(&mut self, file: FileNo, pages: PageSpan) {
        for page in pages.iter() {
            if let PageEntry::Held(frame) = self.files[file.0 as usize].entry(page) {
                self.bill += self.settings.costs.look_up;
                self.reclaim.renewed(self.now, frame);
            }
        }
    }

    /// Whether the block layer would take a read now.
    fn takes_reads(&self) -> bool {
        self.flight.unsent[0].is_empty() && self.block.room(Op::Read)
    }

    /// Requests are complete: processes that wait for room in the queue try again.
    pub(super) fn queue_came(&mut self) {
        if self.flight.short_of_queue.is_empty() || !self.takes_reads() {
            return;
        }
        for process in std::mem::take(&mut self.flight.short_of_queue) {
            self.ready(process);
        }
    }

    /// Drops the clean and unused ones of some pages.
    pub(super) fn forget(&mut self, process: u32, stream: u32, pages: PageSpan) -> Turn {
        let Some(file) = self.file_of(stream) else { return Turn::GoesOn };
        for page in pages.iter() {
            let PageEntry::Held(frame) = self.files[file.0 as usize].entry(page) else { continue };
            if self.frames.get(frame).holds == 0 {
                self.bill += self.settings.costs.reclaim;
                self.reclaim.removed(frame);
                self.evict(frame);
            }
        }
        self.memory_came();
        self.reply(process, Answer::Forgotten)
    }

    /// Answers a question.
    pub(super) fn answer(&mut self, process: u32, stream: u32, question: Question) -> Turn {
        let Some(file) = self.file_of(stream) else { return Turn::GoesOn };
        let table = &self.files[file.0 as usize];
        match question {
            Question::Resident(pages) => {
                let runs = resident(pages, |page| table.cached(page));
                self.reply(process, Answer::Resident(&runs))
            }
            Question::Extents => {
                let extents = table.extents().to_vec();
                self.reply(process, Answer::Extents(&extents))
            }
            Question::Budget => {
                let budget = self.cache_limit();
                self.reply(process, Answer::Budget(budget))
            }
        }
    }

    /// Gives an answer to a program, which goes on at once.
    fn reply(&mut self, process: u32, answer: Answer<'_>) -> Turn {
        if let Some(one) = self.processes.get_mut(process as usize) {
            one.program.answered(answer);
            one.doing = Doing::Next;
        }
        Turn::GoesOn
    }
}

/// The runs of cached pages.
fn resident(pages: PageSpan, cached: impl Fn(PageIndex) -> bool) -> Vec<PageSpan> {
    let mut runs: Vec<PageSpan> = Vec::new();
    for page in pages.iter().filter(|page| cached(*page)) {
        match runs.last_mut().filter(|run| run.end == page) {
            Some(run) => run.end = page.next(),
            None => runs.push(Span::at(page, Pages(1))),
        }
    }
    runs
}
