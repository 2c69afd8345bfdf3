//! The table of classes: bounded, looked up by hash, the least used class evicted first.

use super::class::{Common, Known, LEVELS_LIMIT, Scheme};
use super::lengths::{self, Lengths, Retention};
use crate::depth::Survival;
use crate::depth::grid::cell;
use foreseek_seam::StreamInfo;
use foreseek_units::Pages;
use rustc_hash::FxHashMap;

/// The most classes: some 8 MiB with their plans. A class is worth keeping where streams recur; directories
/// that were read once are evicted.
pub const CLASSES_LIMIT: usize = 1024;

/// Streams that a class must have seen before it gets a plan of its own. With fewer it hardly differs from
/// the class that holds it, and a plan costs more than it brings.
const OWN_PLAN: u64 = 3;

/// A reference to a class that is valid while the class is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Name {
    at: u32,
    generation: u32,
}

/// The classes of a stream, from the coarsest to the finest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    names: [Name; LEVELS_LIMIT],
    levels: usize,
}

/// A class, and what the owner of the table keeps with it.
#[derive(Clone, Debug)]
pub(super) struct Class<K> {
    pub(super) common: Common,
    pub(super) lengths: Lengths,
    /// The longest file of its streams.
    pub(super) longest: Pages,
    kept: K,
    key: u64,
    generation: u32,
    /// Whether it was looked up since the hand last passed.
    used: bool,
}

/// All classes; `K` is what the owner keeps with each, its plan.
#[derive(Clone, Debug)]
pub struct Classes<K> {
    scheme: Scheme,
    retention: Retention,
    all: Vec<Class<K>>,
    by_key: FxHashMap<u64, u32>,
    /// Where the search for a class to evict continues. The first class, which holds all, is never evicted.
    hand: usize,
}

impl<K: Default> Classes<K> {
    /// Only the class that holds all streams.
    #[must_use]
    pub fn new(scheme: Scheme, retention: Retention) -> Self {
        let mut classes = Self { scheme, retention, all: Vec::new(), by_key: FxHashMap::default(), hand: 1 };
        classes.class(Common::default());
        classes
    }

    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(super) fn retention(&self) -> Retention {
        self.retention
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Class<K>> {
        self.all.iter()
    }

    /// The classes of a stream: by the length of its file, whether it begins at the first page, and what is
    /// known about it.
    pub fn chain(&mut self, length: Pages, start: bool, about: &StreamInfo<'_>) -> Chain {
        self.chain_of(length, start, &Known::of(about))
    }

    pub(super) fn chain_of(&mut self, length: Pages, start: bool, known: &Known) -> Chain {
        let mut chain = Chain::default();
        for features in self.scheme.0.iter().take(LEVELS_LIMIT) {
            let at = self.class(Common::of(features, length, start, known));
            self.all[at].longest = self.all[at].longest.max(length);
            chain.names[chain.levels] = Name { at: at as u32, generation: self.all[at].generation };
            chain.levels += 1;
        }
        chain
    }

    /// Inserts a class as it was saved.
    pub(super) fn restore(&mut self, common: Common, longest: Pages, lengths: Lengths) {
        let at = self.class(common);
        let class = &mut self.all[at];
        (class.longest, class.lengths, class.kept) = (longest, lengths, K::default());
    }

    /// The index of a class, which is added if it is missing.
    fn class(&mut self, common: Common) -> usize {
        let key = common.key();
        if let Some(at) = self.by_key.get(&key) {
            let at = *at as usize;
            self.all[at].used = true;
            return at;
        }
        let at = if self.all.len() < CLASSES_LIMIT { self.all.len() } else { self.least_used() };
        let generation = self.all.get(at).map_or(0, |old| old.generation.wrapping_add(1));
        let lengths = Lengths::new(self.retention);
        let class =
            Class { common, lengths, longest: Pages::ZERO, kept: K::default(), key, generation, used: true };
        match self.all.get_mut(at) {
            Some(old) => {
                self.by_key.remove(&old.key);
                *old = class;
            }
            None => self.all.push(class),
        }
        self.by_key.insert(key, at as u32);
        at
    }

    /// A class that was not looked up since the hand last passed (second chance).
    fn least_used(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = if at + 1 < self.all.len() { at + 1 } else { 1 };
            if !std::mem::take(&mut self.all[at].used) {
                return at;
            }
        }
    }

    fn of(&self, chain: &Chain) -> impl DoubleEndedIterator<Item = usize> + use<K> {
        let kept = chain.names.map(|name| {
            let at = name.at as usize;
            self.all.get(at).is_some_and(|class| class.generation == name.generation).then_some(at)
        });
        kept.into_iter().take(chain.levels).flatten()
    }

    /// Updates the lengths of each class of a stream.
    pub(super) fn teach(&mut self, chain: &Chain, lesson: impl Fn(&mut Lengths)) {
        if self.retention == Retention::Fixed {
            return;
        }
        for at in self.of(chain) {
            lesson(&mut self.all[at].lengths);
        }
    }

    /// A stream of these classes is over: the cells before its last one are recorded.
    pub(super) fn over(&mut self, chain: &Chain, length: Pages, ended: bool) {
        let last = cell(length);
        self.teach(chain, |lengths| {
            match last {
                Some(cell) if ended => lengths.ended_in(cell),
                Some(cell) => lengths.lost_in(cell, length),
                None => {}
            }
            lengths.over();
        });
    }

    /// Records a whole stream at once: how much of it was seen, and whether it ended there.
    pub fn stream(&mut self, chain: &Chain, length: Pages, ended: bool) {
        self.teach(chain, |lengths| lengths.stream(length, ended));
    }

    /// The finest class that has seen enough streams for a plan.
    fn planned(&self, chain: &Chain) -> usize {
        self.of(chain).rev().find(|at| self.all[*at].lengths.seen() >= OWN_PLAN).unwrap_or(0)
    }

    /// What the owner keeps with the class that plans for a stream, and the number of streams that this class
    /// has seen.
    pub fn kept(&mut self, chain: &Chain) -> (&mut K, u64) {
        let at = self.planned(chain);
        let class = &mut self.all[at];
        (&mut class.kept, class.lengths.seen())
    }

    /// The longest file of that class.
    #[must_use]
    pub fn longest(&self, chain: &Chain) -> Pages {
        self.all[self.planned(chain)].longest
    }

    /// The distribution of lengths in that class. A class with few streams leans on the estimate of the class
    /// that holds it.
    #[must_use]
    pub fn survival(&self, chain: &Chain) -> Survival {
        let last = self.planned(chain);
        let mut levels: Vec<usize> = Vec::with_capacity(LEVELS_LIMIT);
        for at in self.of(chain) {
            levels.push(at);
            if at == last {
                break;
            }
        }
        self.blended(&levels)
    }

    fn blended(&self, levels: &[usize]) -> Survival {
        let hazard = |cell| {
            let from = lengths::prior(cell);
            levels.iter().fold(from, |prior, at| self.all[*at].lengths.hazard(cell, prior))
        };
        Survival::of_hazards(hazard)
    }

    /// The classes that have seen a stream.
    pub(super) fn met(&self) -> impl Iterator<Item = &Class<K>> {
        self.all.iter().filter(|class| class.lengths.seen() > 0)
    }

    /// How many classes have seen a stream.
    #[must_use]
    pub fn count(&self) -> usize {
        self.met().count()
    }

    /// The current distribution of lengths in a class, for reports.
    pub(super) fn survival_of(&self, class: &Class<K>) -> Survival {
        let levels: Vec<usize> =
            self.holders(class).chain(self.by_key.get(&class.key).map(|at| *at as usize)).collect();
        self.blended(&levels)
    }

    /// The coarser classes that hold a class.
    fn holders(&self, class: &Class<K>) -> impl Iterator<Item = usize> {
        let level = class.common.level(self.scheme).unwrap_or(0);
        let coarser = self.scheme.0.iter().take(level).map(|features| class.common.only(features).key());
        coarser.filter_map(|key| self.by_key.get(&key)).map(|at| *at as usize)
    }
}
