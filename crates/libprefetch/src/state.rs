//! The state under a client's lock: the driver, its page cache, and the objects of files.

use crate::shared::Reading;
use crate::{CallbackRequest, Entry, Error, HintMode, Settings, sink::AppendFile};
use foreseek_hints::{Driver, Order, Step};
use foreseek_seam::{Access, ObjectId, ProcessId, Recorder, RequestId, StreamId};
use foreseek_storage::{BackingDevice, HostFd, Identity, KernelPageCache, Notice, Options};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Pages, Position};
use rustc_hash::FxHashMap;
use std::os::fd::RawFd;

/// A file of the client.
struct Known {
    /// The length that was last passed to the engine.
    length: Bytes,
    /// The descriptor with which the application last named it.
    named: RawFd,
    /// Its watched regions; without any, it is removed.
    regions: usize,
}

pub(crate) struct State {
    driver: Driver,
    cache: KernelPageCache,
    known: FxHashMap<ObjectId, Known>,
    /// The number of files so far.
    files: u64,
    pub(crate) beyond_end: u64,
}

/// What a read does next.
pub(crate) enum Next {
    Go,
    /// Its descriptor belongs to another file than was assumed.
    Other,
    Ask(RequestId, CallbackRequest),
}

impl State {
    /// For a client whose first file is on `first`'s device.
    pub(crate) fn new(settings: &Settings, first: &Identity, recording: Option<AppendFile>) -> Self {
        let mut policy = settings.policy.clone();
        policy.infill = match settings.infill {
            Some(infill) => infill.pages_floor(),
            // A device that does not seek gains nothing from reading unwanted pages.
            None if BackingDevice::of(first.device).rotational == Some(false) => Pages::ZERO,
            None => policy.infill,
        };
        let cache = KernelPageCache::new(Options { file_order: policy.order == Order::File });
        let mut driver = Driver::new(policy);
        if let Some(file) = recording {
            driver.record_into(Recorder::new(Box::new(file)));
        }
        Self { driver, cache, known: FxHashMap::default(), files: 0, beyond_end: 0 }
    }

    pub(crate) fn stats(&self) -> foreseek_hints::Stats {
        *self.driver.stats()
    }

    pub(crate) fn has_fetched_all(&self) -> bool {
        self.driver.has_fetched_all()
    }

    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    pub(crate) fn closed(&mut self, fd: HostFd) {
        self.cache.closed(fd);
    }

    /// Call it at the end of a call; returns the notices to print.
    pub(crate) fn finish(&mut self) -> Vec<Notice> {
        self.cache.finish();
        self.cache.notices()
    }

    pub(crate) fn watch(&mut self, fd: HostFd, identity: Identity, length: Option<Bytes>, range: ByteSpan) {
        let (object, was_gone) = self.register(fd, identity, length);
        self.files += u64::from(!self.known.contains_key(&object));
        self.name(object, fd, was_gone);
        if let Some(known) = self.known.get_mut(&object) {
            known.regions += 1;
        }
        self.driver.watch(&mut self.cache, object, range);
    }

    pub(crate) fn unwatch(&mut self, identity: &Identity, range: ByteSpan) {
        let Some(object) = self.cache.object(identity) else { return };
        self.driver.unwatch(&mut self.cache, object, range);
        let Some(known) = self.known.get_mut(&object) else { return };
        known.regions -= 1;
        if known.regions == 0 {
            // A client may watch any number of files in turn.
            self.driver.close(&mut self.cache, stream_of(object));
            self.known.remove(&object);
            self.cache.remove(object);
        }
    }

    /// The object behind a descriptor, and whether the object had no open descriptor before.
    fn register(&mut self, fd: HostFd, identity: Identity, length: Option<Bytes>) -> (ObjectId, bool) {
        let was_gone = self.cache.object(&identity).is_none_or(|object| self.cache.is_gone(object));
        (self.cache.register(fd, identity, length), was_gone)
    }

    /// The application has named a file by this descriptor. Passes the file to the engine if it is new, has
    /// another length or had no open descriptor.
    fn name(&mut self, object: ObjectId, fd: HostFd, was_gone: bool) {
        let length = self.cache.length(object);
        let known = self.known.entry(object).or_insert(Known { length, named: fd.raw(), regions: 0 });
        known.named = fd.raw();
        if was_gone || known.length != length {
            self.open(object, length);
        }
    }

    /// Passes a file with its present length to the engine.
    fn open(&mut self, object: ObjectId, length: Bytes) {
        let Some(known) = self.known.get_mut(&object) else { return };
        let before = std::mem::replace(&mut known.length, length);
        if length < before {
            let cut = ByteSpan::new(ByteOffset::ZERO + length, ByteOffset::ZERO + before);
            self.driver.changed(&mut self.cache, object, cut);
        }
        self.driver.open(&mut self.cache, stream_of(object), object, length, pid());
    }

    /// The object of the entry at `index` of a hint; checks its descriptor.
    fn object_of(&mut self, index: usize, fd: RawFd) -> Result<ObjectId, Error> {
        let not_watched = || Error::NotWatched { index, fd };
        let fd = HostFd::new(fd).ok_or_else(not_watched)?;
        let (identity, length) = fd.identify().ok_or_else(not_watched)?;
        self.cache.object(&identity).ok_or_else(not_watched)?;
        let (object, was_gone) = self.register(fd, identity, length);
        self.name(object, fd, was_gone);
        Ok(object)
    }

    /// Passes accesses to the engine. Returns how many of the entries were accepted.
    pub(crate) fn hint(&mut self, mode: HintMode, entries: &[Entry], done: bool) -> Result<usize, Error> {
        let mut objects: FxHashMap<RawFd, ObjectId> = FxHashMap::default();
        let mut accesses = Vec::with_capacity(entries.len());
        // The entry of each access: entries beyond the end of their file are left out.
        let mut origins = Vec::with_capacity(entries.len());
        let mut last: Option<(RawFd, ObjectId, Bytes)> = None;
        for (index, entry) in entries.iter().enumerate() {
            let (object, length) = match last {
                Some((fd, object, length)) if fd == entry.fd => (object, length),
                _ => {
                    let object = match objects.get(&entry.fd) {
                        Some(object) => *object,
                        None => self.object_of(index, entry.fd)?,
                    };
                    objects.insert(entry.fd, object);
                    let length = self.cache.length(object);
                    last = Some((entry.fd, object, length));
                    (object, length)
                }
            };
            if entry.offset.since(ByteOffset::ZERO) < length {
                accesses.push(Access { object, page: entry.offset.page(), mark: entry.mark });
                origins.push(index);
            }
        }
        let accepted = self.driver.hint(&mut self.cache, mode, &accesses, done);
        let taken = origins.get(accepted).copied().unwrap_or(entries.len());
        self.beyond_end += (taken - accepted.min(taken)) as u64;
        Ok(taken)
    }

    /// The application is about to read a file of which this client watches a region.
    pub(crate) fn read(&mut self, fd: HostFd, reading: &Reading, range: ByteSpan) -> Next {
        // It may have been unwatched since the caller's check.
        let Some(object) = self.cache.object(&reading.identity) else { return Next::Go };
        let Some(known_length) = self.known.get(&object).map(|known| known.length) else { return Next::Go };
        let was_gone = match reading.checked {
            Some(length) => self.register(fd, reading.identity, length).1,
            None if self.cache.has_all(object, fd, range) => false,
            // Something may follow from this read: the descriptor must belong to the file.
            None => match fd.identify() {
                Some((identity, length)) if identity == reading.identity => {
                    self.register(fd, identity, length).1
                }
                _ => return Next::Other,
            },
        };
        let length = self.cache.length(object);
        let end = ByteOffset::ZERO + length;
        let range = ByteSpan::new(range.start.min(end), range.end.min(end));
        if range.is_empty() {
            return Next::Go;
        }
        // The length of a growing file is updated when a read passes it, not at each append.
        if was_gone || length < known_length || range.end > ByteOffset::ZERO + known_length {
            self.open(object, length);
        }
        let step = self.driver.read(&mut self.cache, stream_of(object), range);
        self.next(step, fd, range)
    }

    /// The application has been asked.
    pub(crate) fn answered(&mut self, request: RequestId, fd: HostFd, range: ByteSpan) -> Next {
        let step = self.driver.answered(&mut self.cache, request);
        self.next(step, fd, range)
    }

    fn next(&mut self, step: Step, fd: HostFd, range: ByteSpan) -> Next {
        match step {
            Step::Pass => Next::Go,
            Step::Callback(want) => {
                let marked = want
                    .marked
                    .and_then(|(object, page)| Some((self.descriptor_for_host(object)?, page.offset())));
                // The page of the question is one of the read's; the first one may begin before the read.
                let offset = want.requested.1.offset().max(range.start);
                Next::Ask(want.request, CallbackRequest { marked, requested: (fd.raw(), offset) })
            }
        }
    }

    /// A descriptor of an object that the application knows: the one that it last used for it, if that still
    /// belongs to it.
    fn descriptor_for_host(&mut self, object: ObjectId) -> Option<RawFd> {
        let named = HostFd::new(self.known.get(&object)?.named)?;
        let is_still =
            named.identify().is_some_and(|(identity, _)| self.cache.object(&identity) == Some(object));
        if is_still { Some(named.raw()) } else { self.cache.descriptor(object).map(HostFd::raw) }
    }
}

/// All reads of a file are one stream: the order is that of the list, not of the descriptor.
fn stream_of(object: ObjectId) -> StreamId {
    StreamId(object.0)
}

fn pid() -> ProcessId {
    ProcessId(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn files_watched_in_turn_are_removed_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let range = ByteSpan::new(ByteOffset(0), ByteOffset(8192));
        let mut state: Option<State> = None;
        for number in 0..50 {
            let file = std::fs::File::create_new(directory.path().join(number.to_string())).unwrap();
            file.set_len(8192).unwrap();
            let fd = HostFd::new(file.as_raw_fd()).unwrap();
            let (identity, length) = fd.identify().unwrap();
            let state = state.get_or_insert_with(|| State::new(&Settings::default(), &identity, None));
            state.watch(fd, identity, length, range);
            state.watch(fd, identity, length, range);
            let entry = Entry { fd: fd.raw(), offset: ByteOffset(0), mark: false };
            state.unwatch(&identity, range);
            assert_eq!(state.hint(HintMode::Set, &[entry], true).unwrap(), 1, "one region is left");
            state.unwatch(&identity, range);
            state.finish();
            assert!(matches!(state.hint(HintMode::Set, &[entry], true), Err(Error::NotWatched { .. })));
            assert_eq!((state.cache.objects(), state.known.len(), state.files()), (0, 0, number + 1));
        }
    }
}
