//! A disk's volatile write cache, and its power.
//!
//! Writes reach the backing file at once. The previous content of their sectors is kept until the end of a
//! flush. When the power goes off, that content is written back: the disk then holds what the last flush
//! covered and nothing newer. A real cache destages in its own order, so that part of the newer data may
//! survive. This one loses all of it, the worst case for software.
//!
//! Changes are made one at a time, so that a write is either before a flush or after it.
//!
//! Limits: a write is lost as a whole, so torn writes do not occur; a full cache is flushed.

use crate::backing::BackingFile;
use foreseek_export::Failure;
use foreseek_storage::Arena;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, SECTOR_SIZE};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Read or written back at a time: a small part of the memory for data in flight.
const PIECE: Bytes = Bytes::kib(256);
const SECTOR: usize = SECTOR_SIZE as usize;

/// The content of sectors before they were written, by sector number.
type Before = BTreeMap<u64, [u8; SECTOR]>;

/// See the module's documentation.
pub(crate) struct VolatileCache {
    /// The most bytes that are kept.
    limit: Bytes,
    before: Mutex<Before>,
    off: AtomicBool,
    arena: Arc<Arena>,
}

impl VolatileCache {
    /// A cache of this size; with size zero every write is durable.
    pub(crate) fn new(limit: Bytes, arena: Arc<Arena>) -> Self {
        Self { limit, before: Mutex::default(), off: AtomicBool::new(false), arena }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    /// Fails while the power is off.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_off() { Err(Failure::Io) } else { Ok(()) }
    }

    /// Changes this range.
    pub(crate) fn change(
        &self,
        backing: &BackingFile,
        range: ByteSpan,
        make: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.limit.is_zero() {
            self.check()?;
            return make();
        }
        let mut before = self.lock();
        self.check()?;
        let held = Bytes(before.len() as u64 * SECTOR_SIZE);
        if held + range.len() > self.limit {
            backing.flush()?;
            before.clear();
        }
        if range.len() <= self.limit {
            for piece in pieces(range) {
                let mut memory = self.arena.take(piece.len().get() as usize).ok_or(Failure::Io)?;
                backing.read(piece, &mut memory)?;
                let first = piece.start.get() / SECTOR_SIZE;
                for (sector, held) in (first..).zip(memory.as_chunks::<SECTOR>().0) {
                    before.entry(sector).or_insert(*held);
                }
            }
            return make();
        }
        // A write larger than the cache goes through it.
        make()?;
        backing.flush()
    }

    /// Makes everything written durable.
    pub(crate) fn flush(&self, backing: &BackingFile) -> Result<(), Failure> {
        let mut before = self.lock();
        self.check()?;
        backing.flush()?;
        before.clear();
        Ok(())
    }

    /// Switches the power off, which loses what was not flushed and makes requests fail, or on again.
    pub(crate) fn set_power(&self, backing: &BackingFile, on: bool) -> Result<(), Failure> {
        let mut before = self.lock();
        self.off.store(!on, Ordering::SeqCst);
        let most = PIECE.get() as usize / SECTOR;
        while let Some((&first, _)) = before.first_key_value() {
            let run =
                (first..).zip(before.range(first..)).take(most).take_while(|(at, (sector, _))| at == *sector);
            let held: Vec<[u8; SECTOR]> = run.map(|(_, (_, held))| *held).collect();
            let mut memory = self.arena.take(held.len() * SECTOR).ok_or(Failure::Io)?;
            memory.copy_from_slice(held.as_flattened());
            let start = ByteOffset(first * SECTOR_SIZE);
            backing.write(ByteSpan::at(start, Bytes(memory.len() as u64)), &memory)?;
            *before = before.split_off(&(first + held.len() as u64));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Before> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pieces(range: ByteSpan) -> impl Iterator<Item = ByteSpan> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let piece = ByteSpan::new(at, range.end.min(at + PIECE));
        at = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttachOptions, Backing};
    use proptest::prelude::*;

    const SIZE: Bytes = Bytes::kib(64);

    struct Fixture {
        cache: VolatileCache,
        backing: BackingFile,
        _directory: tempfile::TempDir,
    }

    fn fixture(limit: Bytes) -> Fixture {
        let directory = tempfile::tempdir().expect("a directory");
        let options = AttachOptions {
            backing: Backing::File(directory.path().join("disk")),
            ..AttachOptions::new("none", SIZE)
        };
        let backing = BackingFile::open(&options, "t").expect("opens");
        let arena = Arena::new(Bytes::mib(1)).expect("memory");
        Fixture { cache: VolatileCache::new(limit, arena), backing, _directory: directory }
    }

    impl Fixture {
        fn write(&self, sector: u64, sectors: u64, mark: u8) -> Result<(), Failure> {
            let range = ByteSpan::at(ByteOffset(sector * SECTOR_SIZE), Bytes(sectors * SECTOR_SIZE));
            self.cache.change(&self.backing, range, || {
                let mut memory = self.cache.arena.take(range.len().get() as usize).expect("memory");
                memory.fill(mark);
                self.backing.write(range, &memory)
            })
        }

        fn content(&self) -> Vec<u8> {
            let mut memory = self.cache.arena.take(SIZE.get() as usize).expect("memory");
            self.backing.read(ByteSpan::at(ByteOffset::ZERO, SIZE), &mut memory).expect("reads");
            memory.chunks(SECTOR).map(|sector| sector[0]).collect()
        }
    }

    #[test]
    fn what_was_not_flushed_is_lost_with_the_power() {
        let disk = fixture(SIZE);
        disk.write(8, 8, 1).expect("written");
        disk.cache.flush(&disk.backing).expect("flushed");
        disk.write(12, 8, 2).expect("written");
        disk.write(14, 1, 3).expect("written");
        disk.cache.set_power(&disk.backing, false).expect("lost");
        assert_eq!(disk.write(8, 8, 4), Err(Failure::Io));
        assert_eq!(
            (disk.cache.check(), disk.cache.flush(&disk.backing)),
            (Err(Failure::Io), Err(Failure::Io))
        );
        disk.cache.set_power(&disk.backing, true).expect("on");
        assert_eq!(disk.content()[..20], [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]);
        disk.write(8, 1, 5).expect("written again");
    }

    #[test]
    fn without_a_cache_nothing_is_lost() {
        let disk = fixture(Bytes::ZERO);
        disk.write(8, 1, 1).expect("written");
        disk.cache.set_power(&disk.backing, false).expect("off");
        assert_eq!(disk.write(8, 1, 2), Err(Failure::Io));
        assert_eq!(disk.content()[8], 1);
    }

    proptest! {
        /// The model is a disk that saves its whole content at each flush. A cache that overflows may keep
        /// more, never less.
        #[test]
        fn it_is_as_after_the_last_flush(
            changes in proptest::collection::vec((0..120u64, 1..9u64, 0..5u8), 1..40), limit in prop_oneof![Just(4u64), Just(64)],
        ) {
            let disk = fixture(Bytes::kib(limit));
            let (mut now, mut flushed) = (vec![0u8; 128], vec![0u8; 128]);
            for (number, (sector, sectors, kind)) in (1..).zip(changes) {
                if kind == 0 {
                    disk.cache.flush(&disk.backing).expect("flushed");
                    flushed.clone_from(&now);
                } else {
                    disk.write(sector, sectors, number).expect("written");
                    now[sector as usize..(sector + sectors) as usize].fill(number);
                }
            }
            disk.cache.set_power(&disk.backing, false).expect("lost");
            let found = disk.content();
            if limit == 64 {
                prop_assert_eq!(found, flushed);
            } else {
                // Marks rise, and none is older than the last flush.
                prop_assert!(found.iter().zip(&flushed).all(|(found, flushed)| found >= flushed));
            }
        }
    }
}
