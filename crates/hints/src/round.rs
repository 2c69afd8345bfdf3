//! One round of the access-list engine: questions, the judgement of the last round, the plan, and the commands.

use crate::entry::ListIndex;
use crate::held::Account;
use crate::objects::PageKey;
use crate::order::DiskAddress;
use crate::plan::{self, FetchRun, Manner, Walk};
use crate::state::{AccessListEngine, Look, Question, Round, Work};
use crate::trust::Verdict;
use foreseek_seam::{Command, Commands, Destination, FetchId, HintCommand, Urgency};
use foreseek_units::{Pages, Span};

impl AccessListEngine {
    /// Pages of the present round were evicted early, and the round is over.
    pub(crate) fn shrink(&mut self) {
        self.doubtful = true;
        let at_floor = self.contention.is_at_floor();
        self.contention.evicted();
        self.note_buffer();
        // The next round uses the pages that are left, and therefore eviction shows nothing about the list,
        // unless even the smallest buffer is evicted.
        if at_floor {
            self.judge_list(self.held.account(), false);
        }
    }

    /// The present round is over, not because of eviction; the next one begins at `from`.
    pub(crate) fn judge(&mut self, from: ListIndex) {
        let Some(round) = self.round.take() else { return };
        let mut account = self.held.account();
        let consumed = !round.abandoned && self.list.position() >= round.end;
        if consumed {
            self.contention.consumed(account.used, account.lost, account.wanted);
            self.pipeline.shaken = false;
            self.note_buffer();
        }
        if !consumed {
            // Pages that are still wanted and unread are not wasted.
            let next = plan::walk(&self.list, &self.objects, from, account.wanted);
            let unread = next.pages.iter().filter(|(page, _)| self.held.is_unread(*page));
            account.wanted -= Pages(unread.count() as u64);
        }
        self.judge_list(account, consumed);
    }

    fn judge_list(&mut self, account: Account, consumed: bool) {
        let buffer = self.contention.buffer();
        if self.trust.judge(account.wanted, account.used, consumed, buffer) == Verdict::Wasted {
            self.stats.wasted_rounds += 1;
        }
    }

    /// Asks the application what it will read.
    pub(crate) fn ask(&mut self, look: Look, page: PageKey, at: Option<ListIndex>, out: &mut Commands) {
        self.put(
            Question { look, page, at, missing: true, list: (ListIndex::default(), ListIndex::default()) },
            out,
        );
    }

    /// Asks the application for more before the list ends. `missing`: the read's page is not in memory.
    pub(crate) fn ask_on(
        &mut self,
        look: Look,
        page: PageKey,
        at: ListIndex,
        missing: bool,
        out: &mut Commands,
    ) {
        self.put(
            Question {
                look,
                page,
                at: Some(at),
                missing,
                list: (ListIndex::default(), ListIndex::default()),
            },
            out,
        );
    }

    fn put(&mut self, asked: Question, out: &mut Commands) {
        // Judges a round that was read to its end first, so that the application is asked for as much as the
        // new buffer holds.
        if self.round.is_some_and(|round| !round.abandoned && self.list.position() >= round.end) {
            self.judge(self.list.position());
        }
        let list = (self.list.position(), self.list.end());
        self.asked = Some(Question { list, ..asked });
        self.stats.callbacks += 1;
        let name = |key: PageKey| (self.objects.id(key.slot()), key.page());
        out.push(Command::Hint(HintCommand::Callback {
            request: asked.look.request,
            marked: self.list.marked().map(name),
            requested: name(asked.page),
        }));
    }

    /// Finds a waiting read on the present list, and follows its pages there.
    pub(crate) fn find_again(&mut self, asked: Question) -> Option<ListIndex> {
        let found = self.list.locate(asked.page)?;
        self.list.go_to(found);
        for page in Span::new(asked.page.page(), asked.look.span.end).iter() {
            PageKey::new(asked.look.slot, page).map(|key| self.list.read(key));
        }
        Some(found)
    }

    pub(crate) fn round_size(&self) -> Pages {
        self.trust.limit(self.contention.buffer())
    }

    /// Plans a round out of a walk and starts to fetch it.
    pub(crate) fn fetch_all(&mut self, look: Look, page: PageKey, walk: &Walk, out: &mut Commands) {
        let manner = Manner {
            order: self.settings.order,
            widest_gap: self.settings.infill,
            head: self.head,
            buffer: self.round_size(),
        };
        let plan = plan::plan(&self.objects, manner, walk, |page| !self.doubtful && self.held.contains(page));
        self.doubtful = false;
        // A round that can fetch nothing counts as well: it is not planned again before its end.
        let wanted = walk.pages[..plan.wanted].iter().map(|(page, _)| *page);
        self.held.begin(&plan.runs, &plan.kept, wanted);
        if plan.wanted == 0 {
            self.round = Some(Round { end: plan.end, abandoned: false });
            return self.pass(look.request, Some(page), out);
        }
        let forget = self.held.release(self.contention.buffer());
        self.round = Some(Round { end: plan.end, abandoned: false });
        self.stats.rounds += 1;
        let last_first = walk.pages[..plan.wanted].iter().rev().map(|(page, _)| *page);
        let again = last_first.filter(|_| self.settings.eviction_order).collect();
        self.work =
            Some(Work { forget: forget.into(), fetch: plan.runs.into(), again, request: look.request });
        self.work_on(out);
    }

    /// Gives as many commands as there is room for: first releases, then fetches, at last the read.
    pub(crate) fn work_on(&mut self, out: &mut Commands) {
        let Some(mut work) = self.work.take() else { return };
        while out.room() > 1 {
            if let Some((slot, range)) = work.forget.pop_front() {
                self.stats.forgotten += range.len();
                out.push(Command::Hint(HintCommand::Forget { object: self.objects.id(slot), range }));
            } else if let Some(run) = work.fetch.pop_front() {
                self.fetch(run, out);
            } else if let Some(page) = work.again.pop_front() {
                self.advise_again(page, out);
            } else {
                out.push(Command::Pass { request: work.request });
                return;
            }
        }
        self.work = Some(work);
    }

    /// Advises a page that is in memory or in flight, so that the kernel moves it to the young end of its list.
    fn advise_again(&mut self, page: PageKey, out: &mut Commands) {
        let span = Span::at(page.page(), Pages(1));
        let end = self.head.unwrap_or_else(|| DiskAddress::of(&self.objects, self.settings.order, page));
        self.command(FetchRun { slot: page.slot(), span, wanted: Pages(1), end }, out);
    }

    pub(crate) fn fetch(&mut self, run: FetchRun, out: &mut Commands) {
        if !self.command(run, out) {
            return;
        }
        self.stats.fetches += 1;
        self.stats.fetched += run.span.len();
        self.stats.infill += run.span.len() - run.wanted;
        self.head = Some(run.end);
    }

    /// Requests a run. Returns whether its object can be fetched.
    fn command(&mut self, run: FetchRun, out: &mut Commands) -> bool {
        let object = self.objects.get(run.slot);
        if object.unfetchable {
            // It was refused during this round.
            self.disown(run.slot, run.span);
            return false;
        }
        let fetch = FetchId(self.next_fetch);
        self.next_fetch += 1;
        out.push(Command::Fetch {
            fetch,
            object: object.id,
            range: run.span,
            epoch: object.epoch,
            into: Destination::PageCache,
            urgency: Urgency::Prefetch,
            apart: false,
        });
        self.under_way.push_back((fetch, run));
        true
    }
}
