//! Entries with reusable numbers: it allocates only when there are more entries than ever before.

/// Entries, each with a number that is its own until it is removed.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, entry: T) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[at] = Some(entry);
        at
    }

    pub(super) fn get(&mut self, at: usize) -> Option<&mut T> {
        self.entries.get_mut(at)?.as_mut()
    }

    pub(super) fn take(&mut self, at: usize) -> Option<T> {
        let entry = self.entries.get_mut(at)?.take();
        if entry.is_some() {
            self.free.push(at);
        }
        entry
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn position(&self, is: impl Fn(&T) -> bool) -> Option<usize> {
        self.entries.iter().position(|entry| entry.as_ref().is_some_and(&is))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }
}
