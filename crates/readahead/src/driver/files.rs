//! The files that an engine knows as objects: their versions and epochs, and those that are open.
//!
//! What is known of a file outlives its last close: when it is opened again, the pages prefetched meanwhile
//! are found, as long as its version is the same. The number of closed files that are remembered is bounded;
//! a forgotten file starts anew.

use super::backing::Version;
use foreseek_seam::{Epoch, ObjectId};
use foreseek_units::Bytes;
use rustc_hash::FxHashMap;

/// Closed files that are remembered: some 100 bytes each.
const CLOSED_MOST: usize = 65_536;

/// All known files; `F` is an open file, `V` a version.
#[derive(Debug)]
pub(super) struct Files<F, V> {
    known: FxHashMap<ObjectId, File<F, V>>,
    closed: usize,
    /// The last epoch given. Each change gets a new one, so that no fetch of an older one fits.
    epoch: u32,
}

#[derive(Debug)]
struct File<F, V> {
    version: V,
    /// The number of its streams; `file` is set while there is one.
    streams: usize,
    file: Option<F>,
}

impl<F, V> Default for Files<F, V> {
    fn default() -> Self {
        Self { known: FxHashMap::default(), closed: 0, epoch: 0 }
    }
}

impl<F: Clone, V: Version> Files<F, V> {
    /// The file of an object that is open.
    pub(super) fn file(&self, object: ObjectId) -> Option<F> {
        self.known.get(&object)?.file.clone()
    }

    /// The length of an object.
    pub(super) fn length(&self, object: ObjectId) -> Bytes {
        self.known.get(&object).map_or(Bytes::ZERO, |file| file.version.length())
    }

    /// An object was opened once more. Returns its new epoch where it is new or its version has changed.
    pub(super) fn open(&mut self, object: ObjectId, version: V, opened: F) -> Option<Epoch> {
        let mut new = false;
        let file = self.known.entry(object).or_insert_with(|| {
            new = true;
            File { version, streams: 0, file: None }
        });
        self.closed -= usize::from(!new && file.streams == 0);
        file.streams += 1;
        file.file.get_or_insert(opened);
        (new || file.version != version).then(|| self.change(object, version))
    }

    /// A stream of an object was closed. Returns its file where the stream was the last.
    pub(super) fn close(&mut self, object: ObjectId) -> Option<F> {
        let file = self.known.get_mut(&object)?;
        file.streams = file.streams.saturating_sub(1);
        if file.streams > 0 {
            return None;
        }
        let closed = file.file.take();
        self.closed += 1;
        if self.closed > CLOSED_MOST {
            self.known.retain(|_, file| file.streams > 0);
            self.closed = 0;
        }
        closed
    }

    /// The version of an object, where one is known.
    pub(super) fn version(&self, object: ObjectId) -> Option<V> {
        self.known.get(&object).map(|file| file.version)
    }

    /// An object has another version. Returns its new epoch.
    pub(super) fn change(&mut self, object: ObjectId, version: V) -> Epoch {
        self.epoch = self.epoch.wrapping_add(1);
        if let Some(file) = self.known.get_mut(&object) {
            file.version = version;
        }
        Epoch(self.epoch)
    }
}
