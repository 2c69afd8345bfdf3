//! What a prefetcher sees of the engine while it decides.

use super::look::{Look, held};
use super::pages::Table;
use crate::stream::View;
use foreseek_cache::{EvictionHistory, Status};
use foreseek_seam::Measured;
use foreseek_seam::objects::{Object, PageKey, Slot};
use foreseek_units::{Lba, PageIndex, PageSpan, Pages};

/// The view of one object.
pub(super) struct Sight<'a> {
    pub(super) slot: Slot,
    pub(super) object: &'a Object,
    pub(super) table: &'a Table,
    /// The pages of the read, and how each was found.
    pub(super) pages: PageSpan,
    pub(super) looks: &'a [Look],
    pub(super) history: &'a EvictionHistory<PageKey>,
    pub(super) bound: Pages,
    pub(super) congested: bool,
    pub(super) measured: Measured,
}

impl View for Sight<'_> {
    fn cached(&self, page: PageIndex) -> bool {
        held(self.pages, self.looks, page)
            || PageKey::new(self.slot, page).is_some_and(|key| self.table.has(&key))
    }

    fn congested(&self) -> bool {
        self.congested
    }

    fn lba(&self, page: PageIndex) -> Option<Lba> {
        self.object.lba(page)
    }

    fn bound(&self) -> Option<Pages> {
        Some(self.bound)
    }

    fn delivered(&self, page: PageIndex) -> bool {
        let key = PageKey::new(self.slot, page);
        key.is_some_and(|key| self.history.status(&key) == Some(Status::Lru))
    }

    fn measured(&self) -> Option<Measured> {
        Some(self.measured)
    }
}
