//! Contents of files: batches, and what depends on whether a walk's opens follow an order.

use crate::plan::Found;
use crate::state::{About, FetchKind, State};
use crate::sweep::Sweep;
use crate::tree::{Item, Key, Tree, flag};
use crate::walk::Walk;
use crate::{Command, PARTS_LIMIT, Part, Stopped};
use foreseek_seam::Extent;
use foreseek_units::{Bytes, Lba, Nanos, PageSpan, Position, Span};

/// If more than an eighth of the expected entries is unknown, a pass over all of them cannot be priced.
pub(crate) const KNOWN_SHARE: u64 = 8;

/// Whether a pass is cheaper than single reads by a quarter. A smaller gain is not certain, and small batches
/// would consume the allowance of a better larger one.
pub(crate) fn pays(price: Nanos, alone: Nanos) -> bool {
    price * 4 <= alone * 3
}

/// The plan for a walk's contents: [`crate::ordered`] or [`crate::random`].
pub(crate) trait Manner {
    /// Visits the entries that the walk is expected to open: files that were neither opened nor passed, and
    /// directories. It ends when the visitor returns `false`.
    fn expect(&self, walk: &Walk, tree: &Tree, visit: &mut dyn FnMut(Key, u32, &Item) -> bool);

    /// Of each class, whether its files are worth fetching.
    fn classes(&self, walk: &Walk, tree: &Tree) -> Vec<bool>;

    /// Whether a walk that is allowed so much has cost too little for a round.
    fn is_too_early(&self, state: &State, walk: &Walk, allowed: Nanos) -> bool;

    /// Why contents must not be fetched, whatever the allowance.
    fn obstacle(&self, _state: &State, _walk: &Walk) -> Option<Stopped> {
        None
    }

    /// The most expected files that a look searches for.
    fn horizon(&self, state: &State, walk: &Walk, allowed: Nanos) -> u64;

    /// Whether a batch of so many files may skip so many that cannot be fetched yet.
    fn may_skip(&self, _unknown: u64, _files: u64) -> bool {
        true
    }

    /// Whether half of a batch is to be used before the next one.
    fn waits_for_use(&self) -> bool {
        true
    }

    /// Whether directories and inodes are to wait for these contents.
    fn saves_for(&self, _state: &State, _at: usize, _files: &[About]) -> bool {
        false
    }

    /// Fetches the contents of found files; returns why nothing more is fetched.
    fn fetch(&self, state: &mut State, at: usize, found: Found) -> Stopped;
}

/// The contents of one pass.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) taken: Vec<About>,
    /// How many of them are the next expected ones; the others lie on the way.
    pub(crate) first: u64,
    pub(crate) price: Nanos,
    bytes: Bytes,
    /// The cost of a pass over all expected files that fit into memory, and their number.
    pub(crate) whole: Nanos,
    pub(crate) all: usize,
    /// The cost of reading them in the order in which they are expected.
    pub(crate) alone: Nanos,
    /// The same of the first ones.
    pub(crate) first_alone: Nanos,
    /// The same of all.
    pub(crate) all_alone: Nanos,
}

impl State {
    /// As many of these files as the walk is allowed and memory holds.
    pub(crate) fn batch_of(&self, at: usize, files: &[About]) -> Batch {
        self.batch(files, self.allowed(at), self.memory_left(at))
    }

    /// As many of these as one pass fits of the allowed cost and memory, and of the others those on its way, which cost
    /// it nothing.
    pub(crate) fn batch(&self, expected: &[About], allowed: Nanos, room: Bytes) -> Batch {
        let mut batch = Batch::default();
        let (mut whole, mut parts, mut waiting) = (Sweep::default(), 0, Bytes::ZERO);
        let mut pass: Option<Sweep> = None;
        let model = self.ledger.model();
        let mut head: Option<Lba> = None;
        for about in expected {
            let Some(item) = self.tree.item(about.directory, about.entry) else { continue };
            let pieces = self.tree.pieces(item);
            let size = self.tree.missing(item);
            parts += pieces.len();
            waiting += size;
            if waiting > room || parts > PARTS_LIMIT {
                // More does not fit at once, after any wait.
                break;
            }
            batch.all += 1;
            let mut alone = Nanos::ZERO;
            for span in pieces.iter().map(Extent::sectors) {
                whole.insert(model, span);
                alone +=
                    head.map_or(model.near(), |head| model.step(head, span.start)) + model.transfer(span);
                head = Some(span.end);
            }
            batch.all_alone += alone;
            batch.whole = self.ledger.price(&whole);
            if batch.whole <= allowed {
                batch.price = batch.whole;
                batch.first += 1;
                batch.first_alone += alone;
            } else {
                let pass = pass.get_or_insert_with(|| self.pass_over(&batch.taken));
                if !pieces.iter().all(|piece| pass.covers(piece.sectors())) {
                    continue;
                }
            }
            batch.bytes += size;
            batch.alone += alone;
            batch.taken.push(*about);
        }
        batch
    }

    fn pass_over(&self, files: &[About]) -> Sweep {
        let items = files.iter().filter_map(|about| self.tree.item(about.directory, about.entry));
        let pieces = items.flat_map(|item| self.tree.pieces(item));
        Sweep::over(self.ledger.model(), pieces.map(Extent::sectors))
    }

    /// Whether a pass over so many expected files, which cost so much in the program's own order, is cheaper than
    /// its reads of those that it will open.
    pub(crate) fn pays_for(&self, at: usize, files: u64, price: Nanos, alone: Nanos) -> bool {
        let walk = self.walks[at].as_ref();
        walk.is_some_and(|walk| pays(self.speed.time_of(price), walk.without_fetches(files, alone)))
    }

    /// Requests the contents of a batch.
    pub(crate) fn fetch_batch(&mut self, at: usize, batch: Batch) -> Stopped {
        self.mark(&batch.taken, flag::FETCHED);
        let parts = self.parts(&batch.taken);
        let count = batch.taken.len() as u64;
        self.held += batch.bytes;
        if let Some(walk) = &mut self.walks[at] {
            walk.held += batch.bytes;
            walk.batch = walk.batch_left() + batch.first;
            walk.done_at_batch = walk.done();
            walk.fetched += count;
            walk.files_at_batch = walk.files.saturating_sub(walk.used);
            walk.price = Some(batch.price / count);
            walk.prepared = Nanos::ZERO;
        }
        let fetch = self.start_fetch(at, FetchKind::Contents, batch.taken, batch.price, Bytes::ZERO);
        self.outbox.push_back(Command::Fetch { fetch, parts });
        Stopped::No
    }

    /// Their pieces in disk order.
    pub(crate) fn parts(&self, taken: &[About]) -> Vec<Part> {
        let mut parts = Vec::with_capacity(taken.len());
        for about in taken {
            let (Some(file), Some(item)) = (self.name(*about), self.tree.item(about.directory, about.entry))
            else {
                continue;
            };
            parts.extend(self.tree.pieces(item).iter().map(|piece| {
                let pages: PageSpan = Span::new(piece.page, piece.page.after(piece.pages));
                Part { file, pages, lba: piece.lba }
            }));
        }
        parts.sort_unstable_by_key(|part| (part.lba, part.file));
        parts
    }
}
