//! Streams by name: a table indexed with the name, so that a touch costs no hashing.

use foreseek_seam::StreamId;
use rustc_hash::FxHashMap;

/// Names below this one index the table; the state of a stream has some hundred bytes, so that the table
/// stays below 128 MiB. Larger names are looked up in a map; a driver with dense names never gives them.
const TABLE_LIMIT: u64 = 1 << 20;

/// The open streams.
#[derive(Debug)]
pub(super) struct Slab<S> {
    table: Vec<Option<S>>,
    beyond: FxHashMap<StreamId, S>,
}

impl<S> Slab<S> {
    pub(super) fn new() -> Self {
        Self { table: Vec::new(), beyond: FxHashMap::default() }
    }

    /// A stream of this name is opened; it replaces an open one of this name.
    pub(super) fn insert(&mut self, name: StreamId, stream: S) {
        if name.0 >= TABLE_LIMIT {
            self.beyond.insert(name, stream);
            return;
        }
        let at = name.0 as usize;
        if at >= self.table.len() {
            self.table.resize_with(at + 1, || None);
        }
        self.table[at] = Some(stream);
    }

    pub(super) fn remove(&mut self, name: StreamId) {
        match self.table.get_mut(name.0 as usize) {
            Some(stream) => *stream = None,
            None => drop(self.beyond.remove(&name)),
        }
    }

    pub(super) fn get_mut(&mut self, name: StreamId) -> Option<&mut S> {
        if name.0 < TABLE_LIMIT {
            self.table.get_mut(name.0 as usize)?.as_mut()
        } else {
            self.beyond.get_mut(&name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_near_and_far_are_found_until_they_are_removed() {
        let mut slab = Slab::new();
        for name in [0, 7, TABLE_LIMIT - 1, TABLE_LIMIT, u64::MAX] {
            assert!(slab.get_mut(StreamId(name)).is_none());
            slab.insert(StreamId(name), name);
            assert_eq!(slab.get_mut(StreamId(name)), Some(&mut name.clone()));
            slab.insert(StreamId(name), 1);
            assert_eq!(slab.get_mut(StreamId(name)), Some(&mut 1));
            slab.remove(StreamId(name));
            assert!(slab.get_mut(StreamId(name)).is_none());
            slab.remove(StreamId(name));
        }
    }
}
