//! One round of the access-list engine: asking, judging the last, planning, and the commands.

use crate::access_engine::{AccessListEngine, Asked, Look};
use crate::access_list::Place;
use crate::held::Account;
use crate::objects::{PageKey, Slot};
use crate::plan::{self, Manner, Run, Walk};
use crate::trust::Verdict;
use foreseek_seam::{Command, Commands, FetchId, HintCommand, HintMode, Into, RequestId, Urgency};
use foreseek_units::{PageSpan, Pages, Span};
use std::collections::VecDeque;

/// The present round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// The first entry of the list that it does not answer.
    pub(crate) end: Place,
    /// The list was replaced before the application had come there.
    pub(crate) abandoned: bool,
}

/// Commands that are still to be given, as one event takes a bounded number.
#[derive(Debug)]
pub(crate) struct Work {
    forget: VecDeque<(Slot, PageSpan)>,
    fetch: VecDeque<Run>,
    /// The read that waits for them.
    request: RequestId,
}

impl Work {
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.forget.iter().map(|(slot, _)| *slot).chain(self.fetch.iter().map(|run| run.slot))
    }
}

impl AccessListEngine {
    /// Pages of the present round were evicted early, and the round is over.
    pub(crate) fn shrink(&mut self) {
        self.doubtful = true;
        let at_floor = self.contention.is_at_floor();
        self.contention.evicted();
        self.note_buffer();
        // What is still there goes on being of use in the next round, so this says nothing about
        // the list, unless not even the smallest buffer survives.
        if at_floor {
            self.judge_list(self.held.account(), false);
        }
    }

    /// The present round is over, for a reason other than eviction; the next one begins at `from`.
    pub(crate) fn judge(&mut self, from: Place) {
        let Some(round) = self.round.take() else { return };
        let mut account = self.held.account();
        let consumed = !round.abandoned && self.list.place() >= round.end;
        if consumed {
            self.contention.consumed(account.used, account.lost, account.wanted);
            self.pipeline.shaken = false;
            self.note_buffer();
        }
        if !consumed {
            // What is still wanted and not read yet is not wasted.
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
    pub(crate) fn ask(&mut self, look: Look, page: PageKey, at: Option<Place>, out: &mut Commands) {
        self.put(Asked { look, page, at, missing: true, list: (Place::default(), Place::default()) }, out);
    }

    /// Asks it for more, while the list goes on. `missing`: the read's page is not in memory.
    pub(crate) fn ask_on(&mut self, look: Look, page: PageKey, at: Place, missing: bool, out: &mut Commands) {
        self.put(
            Asked { look, page, at: Some(at), missing, list: (Place::default(), Place::default()) },
            out,
        );
    }

    fn put(&mut self, asked: Asked, out: &mut Commands) {
        // A round that was read to its end is judged first, so that the application is asked for as
        // much as the buffer holds from now on.
        if self.round.is_some_and(|round| !round.abandoned && self.list.place() >= round.end) {
            self.judge(self.list.place());
        }
        let list = (self.list.place(), self.list.end());
        self.asked = Some(Asked { list, ..asked });
        self.stats.wants += 1;
        let name = |key: PageKey| (self.objects.id(key.slot()), key.page());
        out.push(Command::Hint(HintCommand::Want {
            request: asked.look.request,
            marked: self.list.marked().map(name),
            requested: name(asked.page),
        }));
    }

    /// The application has answered.
    pub(crate) fn answered(&mut self, request: RequestId, out: &mut Commands) {
        let asked = self.asked.take_if(|asked| asked.look.request == request);
        let Some(asked) = self.checks.some(asked) else {
            out.push(Command::Pass { request });
            return;
        };
        let gained = self.list.end() != asked.list.1;
        let replaced = self.list.place() != asked.list.0;
        let from = match asked.at.filter(|_| !replaced) {
            Some(at) => Some(at),
            None => self.find_again(asked),
        };
        self.patience.answered(gained && from.is_some());
        match from.or(replaced.then(|| self.list.place())) {
            Some(from) if self.pipeline.is_touring() && asked.at.is_some() => {
                self.tour_from(asked.look, from, asked.missing, out);
            }
            Some(from) if self.work.is_none() => {
                self.judge(from);
                let walk = plan::walk(&self.list, &self.objects, from, self.round_size());
                self.begin_with(asked.look, asked.page, from, &walk, out);
            }
            _ if self.pipeline.is_touring() => self.tour_on(request, out),
            _ => self.pass(request, Some(asked.page), out),
        }
    }

    /// Looks a waiting read up on the list as it is now, and notes its pages there.
    fn find_again(&mut self, asked: Asked) -> Option<Place> {
        let found = self.list.locate(asked.page)?;
        self.list.go_to(found);
        for page in Span::new(asked.page.page(), asked.look.span.end).iter() {
            PageKey::new(asked.look.slot, page).map(|key| self.list.read(key));
        }
        Some(found)
    }

    /// Begins a round at an entry, after a question where the list is short of a buffer-full.
    pub(crate) fn begin(&mut self, look: Look, page: PageKey, at: Place, out: &mut Commands) {
        let walk = plan::walk(&self.list, &self.objects, at, self.round_size());
        let more = !self.list.is_complete() && self.list.room(HintMode::Append) > 0;
        if walk.ended && more && self.patience.may_ask() {
            return self.ask(look, page, Some(at), out);
        }
        self.begin_with(look, page, at, &walk, out);
    }

    fn begin_with(&mut self, look: Look, page: PageKey, from: Place, walk: &Walk, out: &mut Commands) {
        if self.may_tour(walk) {
            return self.tour_from(look, from, true, out);
        }
        self.end_tour();
        self.fetch_all(look, page, walk, out);
    }

    fn round_size(&self) -> Pages {
        self.trust.limit(self.contention.buffer())
    }

    /// Plans a round out of a walk and starts to fetch it.
    fn fetch_all(&mut self, look: Look, page: PageKey, walk: &Walk, out: &mut Commands) {
        let manner = Manner {
            order: self.settings.order,
            widest_gap: self.settings.infill,
            head: self.head,
            buffer: self.round_size(),
        };
        let plan = plan::plan(&self.objects, manner, walk, |page| !self.doubtful && self.held.contains(page));
        self.doubtful = false;
        // Also a round that can fetch nothing is one: it is not planned again before its end.
        let wanted = walk.pages[..plan.wanted].iter().map(|(page, _)| *page);
        self.held.begin(&plan.runs, &plan.kept, wanted);
        if plan.wanted == 0 {
            self.round = Some(Round { end: plan.end, abandoned: false });
            return self.pass(look.request, Some(page), out);
        }
        let forget = self.held.release(self.contention.buffer());
        self.round = Some(Round { end: plan.end, abandoned: false });
        self.stats.rounds += 1;
        self.work = Some(Work { forget: forget.into(), fetch: plan.runs.into(), request: look.request });
        self.work_on(out);
    }

    /// Gives as many commands as there is room for: first what is given back, then what is fetched,
    /// at last the read.
    pub(crate) fn work_on(&mut self, out: &mut Commands) {
        let Some(mut work) = self.work.take() else { return };
        while out.room() > 1 {
            if let Some((slot, range)) = work.forget.pop_front() {
                self.stats.forgotten += range.len();
                out.push(Command::Hint(HintCommand::Forget { object: self.objects.id(slot), range }));
            } else if let Some(run) = work.fetch.pop_front() {
                self.fetch(run, out);
            } else {
                out.push(Command::Pass { request: work.request });
                return;
            }
        }
        self.work = Some(work);
    }

    pub(crate) fn fetch(&mut self, run: Run, out: &mut Commands) {
        let object = self.objects.get(run.slot);
        if object.unfetchable {
            // Refused while this round was being given out.
            self.disown(run.slot, run.span);
            return;
        }
        let fetch = FetchId(self.next_fetch);
        self.next_fetch += 1;
        out.push(Command::Fetch {
            fetch,
            object: object.id,
            range: run.span,
            epoch: object.epoch,
            into: Into::PageCache,
            urgency: Urgency::Prefetch,
            apart: false,
        });
        self.stats.fetches += 1;
        self.stats.fetched += run.span.len();
        self.stats.infill += run.span.len() - run.wanted;
        self.head = Some(run.end);
        self.under_way.push_back((fetch, run));
    }
}
