//! What a client's lock protects: the driver, its page cache, and which object is which file.

use crate::{Entry, Error, HintMode, Settings, Want, sink::AppendFile};
use foreseek_prefetch::engine::{Access, ObjectId, RequestId, StreamId, Who};
use foreseek_prefetch::{Driver, Order, Recorder, Step};
use foreseek_storage::{Backing, HostFd, Identity, KernelPageCache, Notice, Options};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Pages, Position};
use std::collections::HashMap;
use std::os::fd::RawFd;

/// A file of the client.
struct Known {
    /// The length that the engine was told.
    told: Bytes,
    /// The descriptor by which the application last named it.
    named: RawFd,
}

pub(crate) struct State {
    driver: Driver,
    cache: KernelPageCache,
    known: HashMap<ObjectId, Known>,
    pub(crate) beyond_end: u64,
}

/// What a read does next.
pub(crate) enum Next {
    Go,
    Ask(RequestId, Want),
}

impl State {
    /// For a client whose first file is on `first`'s device.
    pub(crate) fn new(settings: &Settings, first: &Identity, recording: Option<AppendFile>) -> Self {
        let mut policy = settings.policy.clone();
        policy.infill = match settings.infill {
            Some(infill) => infill.pages_floor(),
            // What does not seek gains nothing from reading what nobody wants.
            None if Backing::of(first.device).rotational == Some(false) => Pages::ZERO,
            None => policy.infill,
        };
        let cache = KernelPageCache::new(Options { file_order: policy.order == Order::File });
        let mut driver = Driver::new(policy);
        if let Some(file) = recording {
            driver.record_into(Recorder::new(Box::new(file)));
        }
        Self { driver, cache, known: HashMap::new(), beyond_end: 0 }
    }

    pub(crate) fn stats(&self) -> foreseek_prefetch::Stats {
        *self.driver.stats()
    }

    pub(crate) fn files(&self) -> u64 {
        self.known.len() as u64
    }

    pub(crate) fn closed(&mut self, fd: HostFd) {
        self.cache.closed(fd);
    }

    /// To be called when a call is over; what should be said.
    pub(crate) fn finish(&mut self) -> Vec<Notice> {
        self.cache.finish();
        self.cache.notices()
    }

    pub(crate) fn watch(&mut self, fd: HostFd, identity: Identity, length: Option<Bytes>, range: ByteSpan) {
        let (object, was_gone) = self.learn(fd, identity, length);
        self.name(object, fd, was_gone);
        self.driver.watch(&mut self.cache, object, range);
    }

    pub(crate) fn unwatch(&mut self, identity: &Identity, range: ByteSpan) {
        if let Some(object) = self.cache.object(identity) {
            self.driver.unwatch(&mut self.cache, object, range);
        }
    }

    /// The object behind a descriptor, and whether it had none before.
    fn learn(&mut self, fd: HostFd, identity: Identity, length: Option<Bytes>) -> (ObjectId, bool) {
        let was_gone = self.cache.object(&identity).is_none_or(|object| self.cache.is_gone(object));
        (self.cache.learn(fd, identity, length), was_gone)
    }

    /// The application names a file by this descriptor: the engine learns of it, of its length, or
    /// that it can be reached again.
    fn name(&mut self, object: ObjectId, fd: HostFd, was_gone: bool) {
        let length = self.cache.length(object);
        let known = self.known.entry(object).or_insert(Known { told: length, named: fd.raw() });
        known.named = fd.raw();
        if was_gone || known.told != length {
            self.open(object, length);
        }
    }

    /// Tells the engine about a file as it is now.
    fn open(&mut self, object: ObjectId, length: Bytes) {
        let Some(known) = self.known.get_mut(&object) else { return };
        let before = std::mem::replace(&mut known.told, length);
        if length < before {
            let cut = ByteSpan::new(ByteOffset::ZERO + length, ByteOffset::ZERO + before);
            self.driver.changed(&mut self.cache, object, cut);
        }
        self.driver.open(&mut self.cache, stream_of(object), object, length, who());
    }

    /// Which object the entry at `index` of a hint belongs to; its descriptor is looked at.
    fn object_of(&mut self, index: usize, fd: RawFd) -> Result<ObjectId, Error> {
        let not_watched = || Error::NotWatched { index, fd };
        let fd = HostFd::new(fd).ok_or_else(not_watched)?;
        let (identity, length) = fd.identify().ok_or_else(not_watched)?;
        self.cache.object(&identity).ok_or_else(not_watched)?;
        let (object, was_gone) = self.learn(fd, identity, length);
        self.name(object, fd, was_gone);
        Ok(object)
    }

    /// Passes accesses on; how many of the entries were taken.
    pub(crate) fn hint(&mut self, mode: HintMode, entries: &[Entry], done: bool) -> Result<usize, Error> {
        let mut objects: HashMap<RawFd, ObjectId> = HashMap::new();
        let mut accesses = Vec::with_capacity(entries.len());
        // For each access, which entry it was: entries beyond the end of their file are left out.
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

    /// A read is about to be made of a file of which this client watches something.
    pub(crate) fn read(
        &mut self,
        fd: HostFd,
        identity: Identity,
        length: Option<Bytes>,
        range: ByteSpan,
    ) -> Next {
        let (object, was_gone) = self.learn(fd, identity, length);
        let length = self.cache.length(object);
        let Some(told) = self.known.get(&object).map(|known| known.told) else { return Next::Go };
        let end = ByteOffset::ZERO + length;
        let range = ByteSpan::new(range.start.min(end), range.end.min(end));
        if range.is_empty() {
            return Next::Go;
        }
        // A file that grows is looked at anew when a read gets there, not at each append.
        if was_gone || length < told || range.end > ByteOffset::ZERO + told {
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
            Step::Want(want) => {
                let marked = want
                    .marked
                    .and_then(|(object, page)| Some((self.descriptor_for_host(object)?, page.offset())));
                // The page of the question is one of the read's; its first may begin before it.
                let offset = want.requested.1.offset().max(range.start);
                Next::Ask(want.request, Want { marked, requested: (fd.raw(), offset) })
            }
        }
    }

    /// A descriptor of an object that the application knows: the one that it last used for it, if
    /// that is still its.
    fn descriptor_for_host(&mut self, object: ObjectId) -> Option<RawFd> {
        let named = HostFd::new(self.known.get(&object)?.named)?;
        let is_still =
            named.identify().is_some_and(|(identity, _)| self.cache.object(&identity) == Some(object));
        if is_still { Some(named.raw()) } else { self.cache.descriptor(object).map(HostFd::raw) }
    }
}

/// All reads of a file are one stream: the list knows the order, not the descriptor.
fn stream_of(object: ObjectId) -> StreamId {
    StreamId(object.0)
}

fn who() -> Who {
    Who(std::process::id())
}
