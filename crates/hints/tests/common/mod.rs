//! An access-list engine over a page cache that holds every page that was fetched or read until a test evicts
//! it.
#![allow(dead_code)]

use foreseek_hints::{AccessListEngine, Mode, Settings, Share};
use foreseek_seam::{
    Access, Command, Commands, Engine, Event, Extent, FetchOutcome, HintCommand, HintEvent, HintMode,
    ObjectId, ProcessId, Refusal, RequestId, StreamId,
};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Lba, Nanos, PageIndex, PageSpan, Pages, Span};
use std::collections::{BTreeSet, VecDeque};

pub(crate) const FILE: ObjectId = ObjectId(7);
pub(crate) const STREAM: StreamId = StreamId(1);

pub(crate) fn access(page: u64) -> Access {
    Access { object: FILE, page: PageIndex(page), mark: false }
}

pub(crate) fn page(at: u64) -> ByteSpan {
    Span::at(PageIndex(at).offset(), Bytes(4096))
}

/// An engine and a page cache that holds every page that was fetched or read until a test evicts it.
pub(crate) struct World {
    pub(crate) engine: AccessListEngine,
    now: Instant,
    pub(crate) cached: BTreeSet<u64>,
    /// Every command, in order.
    pub(crate) commands: Vec<Command>,
    pub(crate) refuse: Option<Refusal>,
    /// Fetches return at most so many pages.
    pub(crate) clamp: Pages,
    next_request: u64,
    /// The application's answers: mode, list, done.
    pub(crate) answers: VecDeque<(HintMode, Vec<u64>, bool)>,
    pub(crate) callbacks: Vec<(Option<u64>, u64)>,
}

impl World {
    /// A file of `pages` pages, all watched, and memory for `memory` pages.
    pub(crate) fn new(settings: Settings, pages: u64, memory: u64) -> Self {
        let mut world = Self {
            engine: AccessListEngine::new(settings),
            now: Instant(1),
            cached: BTreeSet::new(),
            commands: Vec::new(),
            refuse: None,
            clamp: Pages(u64::MAX),
            next_request: 0,
            answers: VecDeque::new(),
            callbacks: Vec::new(),
        };
        let length = Pages(pages).bytes();
        world.notify(Event::Opened { stream: STREAM, object: FILE, length, pid: ProcessId(1) });
        let extents = [Extent { page: PageIndex(0), pages: Pages(pages), lba: Lba(800) }];
        world.notify(Event::Placed { object: FILE, extents: &extents });
        world.notify(Event::Hint(HintEvent::Watched {
            object: FILE,
            range: Span::at(ByteOffset::ZERO, length),
        }));
        world.notify(Event::Budget { pages: Pages(memory) });
        world
    }

    pub(crate) fn hint(&mut self, mode: HintMode, pages: &[u64], done: bool) {
        let accesses: Vec<Access> = pages.iter().map(|page| access(*page)).collect();
        let accesses = &accesses[..accesses.len().min(self.engine.room(mode))];
        self.notify(Event::Hint(HintEvent::Hinted { mode, accesses, done }));
    }

    /// Reads a range; the read must get its answer. Returns the commands meanwhile.
    pub(crate) fn read(&mut self, range: ByteSpan) -> Vec<Command> {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        let before = self.commands.len();
        let mut answer = self.notify(Event::Read { request, stream: STREAM, range, pid: None });
        if let Some(Command::Hint(HintCommand::Callback { marked, requested, .. })) = answer {
            self.callbacks.push((marked.map(|(_, page)| page.0), requested.1.0));
            if let Some((mode, pages, done)) = self.answers.pop_front() {
                self.hint(mode, &pages, done);
            }
            answer = self.notify(Event::Hint(HintEvent::Answered { request }));
        }
        assert_eq!(answer, Some(Command::Pass { request }), "a read must end with Pass");
        assert_eq!(self.engine.stats().internal_errors, 0);
        self.cached.extend(range.pages().iter().map(|page| page.0));
        self.commands[before..].to_vec()
    }

    pub(crate) fn evict(&mut self, pages: &[u64]) {
        self.cached.retain(|page| !pages.contains(page));
    }

    pub(crate) fn read_page(&mut self, at: u64) -> Vec<Command> {
        self.read(page(at))
    }

    /// Passes an event to the engine and carries out its commands until there are none; returns the last `Pass`
    /// or `Callback`.
    pub(crate) fn notify(&mut self, event: Event<'_>) -> Option<Command> {
        let mut out = Commands::new();
        self.engine.on(self.now, event, &mut out);
        let mut queue: VecDeque<Command> = out.drain().collect();
        let mut answer = None;
        loop {
            while let Some(command) = queue.pop_front() {
                self.commands.push(command.clone());
                self.now += Nanos(10);
                match command {
                    Command::Hint(HintCommand::AskResident { query, range, .. }) => {
                        let runs: Vec<PageSpan> = range
                            .iter()
                            .filter(|page| self.cached.contains(&page.0))
                            .map(|page| Span::at(page, Pages(1)))
                            .collect();
                        self.engine.on(
                            self.now,
                            Event::Hint(HintEvent::Resident { query, runs: Some(&runs) }),
                            &mut out,
                        );
                    }
                    Command::Fetch { fetch, range, epoch, .. } => {
                        let event = match self.refuse {
                            Some(why) => Event::Refused { fetch, why },
                            None => {
                                let got = range.len().min(self.clamp);
                                self.cached.extend(Span::at(range.start, got).iter().map(|page| page.0));
                                let outcome = FetchOutcome::Issued;
                                Event::Done { fetch, epoch, got, outcome, in_flight: 0 }
                            }
                        };
                        self.engine.on(self.now, event, &mut out);
                    }
                    Command::Hint(HintCommand::Forget { range, .. }) => {
                        range.iter().for_each(|page| {
                            self.cached.remove(&page.0);
                        });
                    }
                    Command::Pass { .. } | Command::Hint(HintCommand::Callback { .. }) => {
                        answer = Some(command)
                    }
                    other => panic!("not for this interface: {other:?}"),
                }
                queue.extend(out.drain());
            }
            match self.engine.deadline() {
                Some(deadline) if deadline <= self.now => self.engine.on(self.now, Event::Tick, &mut out),
                _ => return answer,
            }
            queue.extend(out.drain());
        }
    }
}

pub(crate) fn fetched(commands: &[Command]) -> Vec<PageSpan> {
    commands
        .iter()
        .filter_map(|command| match command {
            Command::Fetch { range, .. } => Some(*range),
            _ => None,
        })
        .collect()
}

pub(crate) fn forgotten(commands: &[Command]) -> Vec<u64> {
    commands
        .iter()
        .filter_map(|command| match command {
            Command::Hint(HintCommand::Forget { range, .. }) => Some(*range),
            _ => None,
        })
        .flat_map(|range| range.iter().map(|page| page.0).collect::<Vec<_>>())
        .collect()
}

pub(crate) fn pages(spans: &[PageSpan]) -> Vec<u64> {
    spans.iter().flat_map(|span| span.iter()).map(|page| page.0).collect()
}

/// Rounds without infill, so that a test can check each page.
pub(crate) fn settings() -> Settings {
    Settings { infill: Pages::ZERO, share: Share::Stock, mode: Mode::Blocking, ..Settings::default() }
}
