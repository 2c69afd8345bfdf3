//! Page frames: the memory of the page cache.

use super::names::{FileNo, FrameNo};
use foreseek_units::{PageIndex, Pages};

/// No process.
pub(super) const NOBODY: u32 = u32::MAX;

/// A page in memory or in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) file: FileNo,
    pub(super) page: u32,
    /// The opening of the file that it was read for, to which its eviction counts.
    pub(super) opening: u32,
    /// The first process that waits for it; further ones are linked through the processes.
    pub(super) waiter: u32,
    /// The number of reasons not to reclaim it: in flight in either direction, dirty, about to be used.
    pub(super) holds: u16,
    pub(super) in_flight: bool,
    /// Read ahead, and not used yet.
    pub(super) ahead: bool,
    /// Touching it makes the prefetcher go on.
    pub(super) marker: bool,
    pub(super) dirty: bool,
    pub(super) writing: bool,
    /// It is in a page table.
    pub(super) mapped: bool,
    pub(super) swap: Swapping,
}

/// The state of a page of private memory that is being swapped out; it is on no list then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swapping {
    No,
    /// It is freed when it is written.
    Out,
    /// It was touched meanwhile and stays.
    Restored,
}

impl Frame {
    pub(super) fn page(&self) -> PageIndex {
        PageIndex(u64::from(self.page))
    }
}

/// The frames in use, by number; numbers of freed ones are reused first.
#[derive(Debug, Default)]
pub(super) struct Frames {
    frames: Vec<Frame>,
    free: Vec<u32>,
}

impl Frames {
    pub(super) fn used(&self) -> Pages {
        Pages((self.frames.len() - self.free.len()) as u64)
    }

    pub(super) fn insert(&mut self, frame: Frame) -> FrameNo {
        if let Some(at) = self.free.pop() {
            self.frames[at as usize] = frame;
            return FrameNo(at);
        }
        self.frames.push(frame);
        FrameNo(self.frames.len() as u32 - 1)
    }

    pub(super) fn remove(&mut self, frame: FrameNo) -> Frame {
        self.free.push(frame.0);
        self.frames[frame.0 as usize]
    }

    pub(super) fn get(&self, frame: FrameNo) -> &Frame {
        &self.frames[frame.0 as usize]
    }

    pub(super) fn get_mut(&mut self, frame: FrameNo) -> &mut Frame {
        &mut self.frames[frame.0 as usize]
    }
}
