//! The memory behind an engine's frame numbers: pages of 4 KiB that I/O fills and replies read.
//!
//! The engine decides what a frame holds; this module ensures that no frame is read while it is written. A
//! frame is *empty*, *being filled* by one I/O, or *full* and read by any number of replies. [`Filling`] and
//! [`Reading`] are guards: the right to fill or read frames for as long as the I/O or the reply lasts. A
//! request for a frame in another state gets `None`. An error of an engine thus costs a prefetch, and never
//! returns wrong data.
//!
//! Address space is reserved once. A frame takes memory when it is first filled, or at the start
//! ([`touched`](Frames::touched)), and [`give_back`](Frames::give_back) returns the memory of empty frames. An
//! operation costs one atomic instruction for each frame.
#![allow(unsafe_code)]

use crate::region::{PAGE, Region};
use foreseek_seam::FrameId;
use foreseek_units::{Bytes, Pages};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Empty, without memory.
const BARE: u32 = 0;
/// Empty, with memory.
const EMPTY: u32 = 1;
/// An I/O fills it, or its memory is being returned.
const TAKEN: u32 = 2;
/// Full. The state less [`FULL`] is the number of replies that read it.
const FULL: u32 = 3;
/// A flag of a full frame: it becomes empty once the last reply has released it.
const DOOMED: u32 = 1 << 31;
/// The most replies that may read a frame: many times the number of requests.
const READERS_MOST: u32 = DOOMED / 2;

/// Page-sized buffers by number.
#[derive(Debug)]
pub struct Frames {
    region: Region,
    states: Box<[AtomicU32]>,
    /// How many frames have memory.
    backed: AtomicUsize,
}

/// Consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameRun {
    first: usize,
    count: usize,
}

impl Frames {
    /// `count` frames, all empty. `None` where there is no address space for them.
    #[must_use]
    pub fn new(count: Pages) -> Option<Arc<Self>> {
        Some(Self::over(Region::reserve(count.bytes())?, BARE, 0))
    }

    /// The same with memory for all of them, for a server that must not wait for memory later. `None` where
    /// there is no memory.
    #[must_use]
    pub fn touched(count: Pages) -> Option<Arc<Self>> {
        let region = Region::touched(count.bytes())?;
        let backed = region.pages();
        Some(Self::over(region, EMPTY, backed))
    }

    fn over(region: Region, state: u32, backed: usize) -> Arc<Self> {
        let states = (0..region.pages()).map(|_| AtomicU32::new(state)).collect();
        Arc::new(Self { region, states, backed: AtomicUsize::new(backed) })
    }

    /// Locks filled frames in memory, so that they are not swapped out. Returns whether the kernel allows it.
    #[must_use]
    pub fn lock_memory(&self) -> bool {
        self.region.lock()
    }

    /// The number of frames.
    #[must_use]
    pub fn count(&self) -> Pages {
        Pages(self.states.len() as u64)
    }

    /// The number of frames that have memory.
    #[must_use]
    pub fn backed(&self) -> Pages {
        Pages(self.backed.load(Ordering::Relaxed) as u64)
    }

    /// The right to fill these frames, in this order; what they held is lost. `None` where one is being
    /// filled or read, or does not exist.
    #[must_use]
    pub fn fill(self: &Arc<Self>, frames: &[FrameId]) -> Option<Filling> {
        for (at, frame) in frames.iter().enumerate() {
            if !self.claim(frame.0 as usize) {
                frames[..at].iter().for_each(|frame| self.set(frame.0 as usize, EMPTY));
                return None;
            }
        }
        Some(Filling { frames: Arc::clone(self), runs: runs(frames), count: frames.len() })
    }

    /// The right to read these frames, in this order. `None` where one is not full.
    #[must_use]
    pub fn read(self: &Arc<Self>, frames: &[FrameId]) -> Option<Reading> {
        for (at, frame) in frames.iter().enumerate() {
            let add = |state| (FULL..FULL + READERS_MOST).contains(&state).then_some(state + 1);
            let state = self.states.get(frame.0 as usize);
            let got = state
                .is_some_and(|state| state.fetch_update(Ordering::Acquire, Ordering::Relaxed, add).is_ok());
            if !got {
                frames[..at].iter().for_each(|frame| self.release(frame.0 as usize));
                return None;
            }
        }
        Some(Reading { frames: Arc::clone(self), runs: runs(frames) })
    }

    /// Discards the content of these frames. A frame that is being read becomes empty once the last reply has
    /// released it; one that is being filled stays as it is.
    pub fn empty(&self, frames: &[FrameId]) {
        let doom = |state| match state {
            FULL => Some(EMPTY),
            BARE | EMPTY | TAKEN => None,
            read => Some(read | DOOMED),
        };
        for state in frames.iter().filter_map(|frame| self.states.get(frame.0 as usize)) {
            let _ = state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, doom);
        }
    }

    /// Returns the memory of those of these frames that are empty.
    pub fn give_back(&self, frames: &[FrameId]) {
        let take = |frame: &FrameId| self.take(frame.0 as usize);
        let taken: Vec<FrameId> = frames.iter().copied().filter(take).collect();
        runs(&taken).into_iter().for_each(|run| self.return_memory(run));
    }

    /// Returns the memory of frames that were empty and that the caller has taken.
    fn return_memory(&self, run: FrameRun) {
        // SAFETY: the frames were empty and are taken: no other thread fills or reads them.
        unsafe { self.region.give_back(run.first, run.count) };
        self.backed.fetch_sub(run.count, Ordering::Relaxed);
        (run.first..run.first + run.count).for_each(|frame| self.set(frame, BARE));
    }

    /// Takes a frame if it is empty and has memory.
    fn take(&self, frame: usize) -> bool {
        let take = |state: &AtomicU32| {
            state.compare_exchange(EMPTY, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.states.get(frame).is_some_and(take)
    }

    /// Takes a frame that is neither being filled nor read.
    fn claim(&self, frame: usize) -> bool {
        let Some(state) = self.states.get(frame) else { return false };
        let free = |state| matches!(state, BARE | EMPTY | FULL).then_some(TAKEN);
        match state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, free) {
            Ok(before) => {
                if before == BARE {
                    self.backed.fetch_add(1, Ordering::Relaxed);
                }
                true
            }
            Err(_) => false,
        }
    }

    fn set(&self, frame: usize, state: u32) {
        self.states[frame].store(state, Ordering::Release);
    }

    fn release(&self, frame: usize) {
        const LAST_OF_DOOMED: u32 = (FULL + 1) | DOOMED;
        let less = |state| Some(if state == LAST_OF_DOOMED { EMPTY } else { state - 1 });
        let _ = self.states[frame].fetch_update(Ordering::Release, Ordering::Relaxed, less);
    }
}

/// Frames as runs of consecutive numbers, in order.
fn runs(frames: &[FrameId]) -> Vec<FrameRun> {
    let mut runs: Vec<FrameRun> = Vec::new();
    for frame in frames.iter().map(|frame| frame.0 as usize) {
        match runs.last_mut() {
            Some(last) if last.first + last.count == frame => last.count += 1,
            _ => runs.push(FrameRun { first: frame, count: 1 }),
        }
    }
    runs
}

fn members(runs: &[FrameRun]) -> impl Iterator<Item = usize> + '_ {
    runs.iter().flat_map(|run| run.first..run.first + run.count)
}

/// The right to fill frames. If it is dropped unfinished, the frames are empty.
#[derive(Debug)]
pub struct Filling {
    frames: Arc<Frames>,
    runs: Vec<FrameRun>,
    count: usize,
}

impl Filling {
    /// How many bytes fit.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count * PAGE
    }

    /// Whether it has no frames.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The memory from byte `skip` on, in pieces. It belongs to the caller while this guard lives.
    pub(crate) fn pieces(&self, skip: usize) -> impl Iterator<Item = (*mut u8, usize)> + '_ {
        pieces(&self.runs, skip, usize::MAX)
            .map(|(page, within, length)| (self.frames.region.page(page).wrapping_add(within), length))
    }

    /// Copies bytes in from byte `skip` on, for data that came without I/O and for tests.
    pub fn copy_from(&mut self, skip: usize, mut bytes: &[u8]) {
        for (to, length) in self.pieces(skip) {
            let (now, later) = bytes.split_at(length.min(bytes.len()));
            // SAFETY: the piece is this Filling's alone, `length` bytes long, and outside of what
            // safe code can borrow.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), to, now.len()) };
            bytes = later;
        }
    }

    /// Ends the fill after `got` bytes. Their frames are full, and the rest of the last one is zero; the
    /// other frames are empty.
    pub fn finish(mut self, got: Bytes) {
        let got = usize::try_from(got.get()).unwrap_or(usize::MAX).min(self.len());
        let full = got.div_ceil(PAGE);
        if let Some((to, _)) = self.pieces(got).next().filter(|_| got < full * PAGE) {
            // SAFETY: from `got` to the end of its page lies within one piece.
            unsafe { to.write_bytes(0, full * PAGE - got) };
        }
        // From here on other threads may use them.
        let runs = std::mem::take(&mut self.runs);
        for (at, frame) in members(&runs).enumerate() {
            self.frames.set(frame, if at < full { FULL } else { EMPTY });
        }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        members(&self.runs).for_each(|frame| self.frames.set(frame, EMPTY));
    }
}

/// The right to read frames.
#[derive(Debug)]
pub struct Reading {
    frames: Arc<Frames>,
    runs: Vec<FrameRun>,
}

impl Reading {
    /// `length` bytes from byte `skip` on, one slice for each run of consecutive frames.
    #[must_use]
    pub fn slices(&self, skip: usize, length: usize) -> Vec<&[u8]> {
        pieces(&self.runs, skip, length)
            .map(|(page, within, length)| {
                // SAFETY: the bytes lie within full frames, which no thread writes while this guard lives.
                unsafe {
                    std::slice::from_raw_parts(self.frames.region.page(page).wrapping_add(within), length)
                }
            })
            .collect()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        members(&self.runs).for_each(|frame| self.frames.release(frame));
    }
}

/// `length` bytes of runs from byte `skip` on: the page, the offset in it, the number of bytes.
fn pieces(runs: &[FrameRun], skip: usize, length: usize) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    let (mut skip, mut left) = (skip, length);
    runs.iter().filter_map(move |run| {
        let bytes = run.count * PAGE;
        let from = skip.min(bytes);
        skip -= from;
        let take = (bytes - from).min(left);
        left -= take;
        (take > 0).then_some((run.first + from / PAGE, from % PAGE, take))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(numbers: &[u32]) -> Vec<FrameId> {
        numbers.iter().copied().map(FrameId).collect()
    }

    fn filled(frames: &Arc<Frames>, numbers: &[u32], bytes: &[u8]) {
        let mut filling = frames.fill(&ids(numbers)).expect("free");
        filling.copy_from(0, bytes);
        filling.finish(Bytes(bytes.len() as u64));
    }

    #[test]
    fn consecutive_frames_are_one_slice_and_others_several() {
        let frames = Frames::new(Pages(8)).expect("memory");
        let bytes: Vec<u8> = (0..4 * PAGE).map(|at| (at / 1000) as u8).collect();
        filled(&frames, &[3, 4, 5, 1], &bytes);
        let reading = frames.read(&ids(&[3, 4, 5, 1])).expect("full");
        let slices = reading.slices(100, 3 * PAGE);
        assert_eq!(slices.iter().map(|slice| slice.len()).collect::<Vec<_>>(), [3 * PAGE - 100, 100]);
        assert_eq!(slices.concat(), bytes[100..3 * PAGE + 100]);
        assert_eq!(reading.slices(4 * PAGE, 10), Vec::<&[u8]>::new());
    }

    #[test]
    fn nothing_is_read_while_it_is_written_nor_written_while_it_is_read() {
        let frames = Frames::new(Pages(3)).expect("memory");
        let filling = frames.fill(&ids(&[0, 1])).expect("free");
        assert!(frames.read(&ids(&[1])).is_none());
        assert!(frames.fill(&ids(&[2, 1])).is_none());
        filling.finish(Bytes(2 * PAGE as u64));
        assert!(frames.read(&ids(&[0, 2])).is_none(), "2 was released again, and is empty");
        let (one, two) = (frames.read(&ids(&[0])).expect("full"), frames.read(&ids(&[0])).expect("full"));
        drop(one);
        assert!(frames.fill(&ids(&[0])).is_none());
        frames.empty(&ids(&[0, 1]));
        assert!(frames.read(&ids(&[0])).is_none() && frames.read(&ids(&[1])).is_none());
        frames.give_back(&ids(&[0, 1, 2, 3]));
        assert_eq!(frames.backed(), Pages(1), "0 is still being read");
        drop(two);
        frames.give_back(&ids(&[0, 1]));
        assert_eq!(frames.backed(), Pages(0));
        assert!(frames.fill(&ids(&[0])).is_some());
        assert!(frames.fill(&ids(&[3])).is_none(), "there is none");
    }

    #[test]
    fn what_came_short_is_zero_to_the_end_of_its_page_and_empty_beyond() {
        let frames = Frames::new(Pages(3)).expect("memory");
        filled(&frames, &[0, 1, 2], &[9; 3 * PAGE]);
        let filling = frames.fill(&ids(&[0, 1, 2])).expect("free");
        filling.finish(Bytes(PAGE as u64 + 10));
        assert!(frames.read(&ids(&[2])).is_none());
        let reading = frames.read(&ids(&[0, 1])).expect("full");
        let bytes = reading.slices(0, 2 * PAGE).concat();
        assert!(bytes[..PAGE + 10].iter().all(|byte| *byte == 9));
        assert!(bytes[PAGE + 10..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_fill_that_is_dropped_leaves_nothing() {
        let frames = Frames::new(Pages(1)).expect("memory");
        drop(frames.fill(&ids(&[0])));
        assert!(frames.read(&ids(&[0])).is_none());
        drop(frames.fill(&ids(&[0])).expect("free again"));
    }

    #[test]
    fn the_memory_of_empty_frames_alone_is_given_back() {
        let frames = Frames::new(Pages(10)).expect("memory");
        assert_eq!(frames.backed(), Pages(0));
        filled(&frames, &[0, 1, 2, 3, 4, 5], &[9; 6 * PAGE]);
        assert_eq!(frames.backed(), Pages(6));
        frames.empty(&ids(&[1, 2, 4]));
        frames.give_back(&ids(&[0, 2]));
        assert_eq!(frames.backed(), Pages(5));
        frames.give_back(&ids(&[0, 1, 2, 3, 4, 5]));
        assert_eq!(frames.backed(), Pages(3));
        for full in [0, 3, 5] {
            let reading = frames.read(&ids(&[full])).expect("untouched");
            assert!(reading.slices(0, PAGE).concat().iter().all(|byte| *byte == 9));
        }
        filled(&frames, &[4], &[]);
        assert_eq!(frames.backed(), Pages(4));
    }

    #[test]
    fn touched_frames_have_memory_before_they_are_filled() {
        let frames = Frames::touched(Pages(4)).expect("memory");
        assert_eq!(frames.backed(), Pages(4));
        assert!(frames.read(&ids(&[0])).is_none(), "empty");
        filled(&frames, &[0, 1], &[9; 2 * PAGE]);
        assert_eq!(frames.backed(), Pages(4));
        frames.give_back(&ids(&[0, 1, 2]));
        assert_eq!(frames.backed(), Pages(3), "two are full, one was not given back");
    }

    #[test]
    fn threads_that_fill_read_and_give_back_see_whole_frames() {
        let frames = Frames::new(Pages(16)).expect("memory");
        std::thread::scope(|scope| {
            for thread in 0..3u32 {
                let frames = &frames;
                scope.spawn(move || {
                    for turn in 0..4000u32 {
                        let pair = ids(&[(turn * 7 + thread) % 16, (turn * 3 + thread * 5) % 16]);
                        let mark = [(turn % 251) as u8; 2 * PAGE];
                        if let Some(mut filling) = frames.fill(&pair) {
                            filling.copy_from(0, &mark);
                            filling.finish(Bytes(2 * PAGE as u64));
                        }
                        if let Some(reading) = frames.read(&pair[..1]) {
                            let bytes = reading.slices(0, PAGE).concat();
                            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "torn");
                        }
                        frames.empty(&pair);
                        if turn % 64 == 0 {
                            frames.give_back(&pair);
                        }
                    }
                });
            }
        });
        let all = ids(&(0..16).collect::<Vec<_>>());
        frames.empty(&all);
        frames.give_back(&all);
        assert_eq!(frames.backed(), Pages(0));
    }

    proptest! {
        #[test]
        fn pieces_are_the_bytes_asked_for(
            numbers in prop::collection::vec(0..64u32, 0..40), skip in 0..90_000usize, length in 0..90_000usize
        ) {
            let found: Vec<(usize, usize, usize)> = pieces(&runs(&ids(&numbers)), skip, length).collect();
            let all = numbers.len() * PAGE;
            let bytes = found.iter().flat_map(|(page, within, length)| {
                (0..*length).map(move |at| page * PAGE + within + at)
            });
            let wanted = (skip.min(all)..skip.saturating_add(length).min(all))
                .map(|at| numbers[at / PAGE] as usize * PAGE + at % PAGE);
            prop_assert!(bytes.eq(wanted));
        }
    }
}
