//! An active and an inactive list of frames: the lists by which Linux chooses what it reclaims.
//!
//! A frame is inserted at the young end of the *inactive* list. The first reference marks it, the second
//! moves it to the young end of the *active* list. Reclaim takes from the old end of the inactive list,
//! marked or not (unmapped pages get no second chance there). Held frames (locked by I/O, or about to be
//! copied) are not taken. A held frame at the old end moves to the young end, as `shrink_list` puts back the
//! frames that it cannot free.
//!
//! Before it takes one, reclaim moves frames from the old end of the active list to the inactive one. The
//! [`Balance`] decides how many.
//!
//! Each list is a ring with a hand at its oldest frame, so that held frames are only skipped. It counts its
//! frames that are not held: where memory is full of reads in flight, nearly all are held.
//!
//! Left out: the detection of refaults (since 3.15) and the multi-generational lists.

/// No frame; the neighbours of a frame that is in no list.
const NONE: u32 = u32::MAX;

/// How reclaim refills the inactive list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// While the active list is the longer one: the current rule of Linux for a small memory.
    Equal,
    /// For each frame examined, active / 2 inactive frames, with fractions carried over: the rule of
    /// `shrink_zone` up to 2.6.27. It keeps at most two thirds of the cache active and lets a short active
    /// list age slowly.
    Proportional,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    young: u32,
    old: u32,
    active: bool,
    referenced: bool,
    held: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    frames: u64,
    /// How many of them are not held.
    resting: u64,
}

impl List {
    const EMPTY: Self = Self { oldest: NONE, frames: 0, resting: 0 };
}

/// The lists. A frame is a number that the owner chooses; numbers should be dense.
#[derive(Debug)]
pub struct TwoLists {
    links: Vec<Link>,
    inactive: List,
    active: List,
    balance: Balance,
    /// Active frames that are due to be moved, in units of 1 / (2 inactive + 1).
    due: u64,
}

impl TwoLists {
    /// Empty lists.
    #[must_use]
    pub fn new(balance: Balance) -> Self {
        Self { links: Vec::new(), inactive: List::EMPTY, active: List::EMPTY, balance, due: 0 }
    }

    /// The number of frames in both.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.inactive.frames + self.active.frames
    }

    /// The number of frames in the active list.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.active.frames
    }

    /// Puts a frame at the young end of the inactive list.
    pub fn insert(&mut self, frame: u32, held: bool) {
        let link = Link { young: NONE, old: NONE, active: false, referenced: false, held };
        let at = frame as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, link);
        }
        self.links[at] = link;
        self.link(frame, false);
    }

    /// Protects a frame from reclaim, or ends that.
    pub fn hold(&mut self, frame: u32, held: bool) {
        let link = &mut self.links[frame as usize];
        let (active, before, listed) =
            (link.active, std::mem::replace(&mut link.held, held), link.young != NONE);
        if listed && before != held {
            let list = self.list(active);
            list.resting = if held { list.resting - 1 } else { list.resting + 1 };
        }
    }

    /// Whether a frame is protected from reclaim.
    #[must_use]
    pub fn held(&self, frame: u32) -> bool {
        self.links[frame as usize].held
    }

    /// A frame is referenced.
    pub fn referenced(&mut self, frame: u32) {
        let link = &mut self.links[frame as usize];
        if !link.referenced {
            link.referenced = true;
        } else if !link.active {
            link.referenced = false;
            self.unlink(frame);
            self.link(frame, true);
        }
    }

    /// Moves a frame to the young end of the inactive list, as if it were new.
    pub fn renew(&mut self, frame: u32) {
        self.unlink(frame);
        self.link(frame, false);
    }

    /// Removes a frame.
    pub fn remove(&mut self, frame: u32) {
        self.unlink(frame);
    }

    /// Removes the frame to reclaim first; `None` if every frame is held.
    pub fn victim(&mut self) -> Option<u32> {
        self.refill();
        let frame = self.oldest_at_rest(false).or_else(|| self.oldest_at_rest(true))?;
        self.unlink(frame);
        Some(frame)
    }

    fn refill(&mut self) {
        let moved = match self.balance {
            Balance::Equal => (self.active.frames + 1).saturating_sub(self.inactive.frames) / 2,
            Balance::Proportional => {
                let unit = 2 * self.inactive.frames + 1;
                self.due += self.active.frames;
                let moved = (self.due / unit).min(self.active.frames);
                self.due %= unit;
                moved
            }
        };
        for _ in 0..moved {
            let frame = self.active.oldest;
            self.unlink(frame);
            self.links[frame as usize].referenced = false;
            self.link(frame, false);
        }
    }

    /// The oldest frame of a list that is not held; held frames are skipped.
    fn oldest_at_rest(&mut self, active: bool) -> Option<u32> {
        let list = *self.list(active);
        // Skipping all of them changes nothing.
        if list.resting == 0 {
            return None;
        }
        let mut frame = list.oldest;
        while self.links[frame as usize].held {
            frame = self.links[frame as usize].young;
        }
        self.list(active).oldest = frame;
        Some(frame)
    }

    fn list(&mut self, active: bool) -> &mut List {
        if active { &mut self.active } else { &mut self.inactive }
    }

    /// Links a frame at the young end: in front of the oldest.
    fn link(&mut self, frame: u32, active: bool) {
        let held = self.links[frame as usize].held;
        let list = self.list(active);
        list.frames += 1;
        list.resting += u64::from(!held);
        let young = if list.oldest == NONE { frame } else { list.oldest };
        list.oldest = young;
        let link = &mut self.links[frame as usize];
        (link.active, link.young, link.old) = (active, young, young);
        if young != frame {
            let old = std::mem::replace(&mut self.links[young as usize].old, frame);
            self.links[old as usize].young = frame;
            self.links[frame as usize].old = old;
        }
    }

    fn unlink(&mut self, frame: u32) {
        let Link { young, old, active, held, .. } = self.links[frame as usize];
        self.links[young as usize].old = old;
        self.links[old as usize].young = young;
        (self.links[frame as usize].young, self.links[frame as usize].old) = (NONE, NONE);
        let list = self.list(active);
        list.frames -= 1;
        list.resting -= u64::from(!held);
        if list.oldest == frame {
            list.oldest = if young == frame { NONE } else { young };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(frames: u32, balance: Balance) -> TwoLists {
        let mut lists = TwoLists::new(balance);
        for frame in 0..frames {
            lists.insert(frame, false);
        }
        lists
    }

    #[test]
    fn held_frames_are_skipped() {
        let mut lists = with(3, Balance::Equal);
        lists.hold(0, true);
        assert_eq!(lists.victim(), Some(1));
        lists.hold(0, false);
        // 0 moved behind 2.
        assert_eq!([lists.victim(), lists.victim(), lists.victim()], [Some(2), Some(0), None]);
    }

    #[test]
    fn a_short_active_list_ages_slowly() {
        let mut lists = with(10, Balance::Proportional);
        for frame in [0, 0, 1, 1] {
            lists.referenced(frame);
        }
        assert_eq!(lists.active(), 2);
        // 2 of 2 * 8 + 1, then of 15, 13, 11 and so on: the seventh examination moves one.
        let victims: Vec<u32> = (0..6).filter_map(|_| lists.victim()).collect();
        assert_eq!(victims, [2, 3, 4, 5, 6, 7]);
        assert!(lists.active() < 2, "an active frame has aged");
    }

    proptest! {
        /// Against two plain vectors, oldest first.
        #[test]
        fn the_lists_are_two_queues(
            proportional: bool,
            ops in proptest::collection::vec((0..8u8, 0..12u32), 0..200),
        ) {
            let balance = if proportional { Balance::Proportional } else { Balance::Equal };
            let mut lists = TwoLists::new(balance);
            let (mut inactive, mut active) = (Vec::<(u32, bool)>::new(), Vec::<(u32, bool)>::new());
            let mut due = 0;
            let mut held = std::collections::BTreeSet::new();
            for (op, frame) in ops {
                let there = inactive.iter().chain(&active).any(|one| one.0 == frame);
                match op {
                    0 | 1 if !there => {
                        lists.insert(frame, false);
                        inactive.push((frame, false));
                    }
                    2 if there => {
                        lists.referenced(frame);
                        if let Some(at) = inactive.iter().position(|one| one.0 == frame) {
                            if inactive[at].1 {
                                inactive.remove(at);
                                active.push((frame, false));
                            } else {
                                inactive[at].1 = true;
                            }
                        } else if let Some(one) = active.iter_mut().find(|one| one.0 == frame) {
                            one.1 = true;
                        }
                    }
                    3 if there => {
                        lists.remove(frame);
                        held.remove(&frame);
                        inactive.retain(|one| one.0 != frame);
                        active.retain(|one| one.0 != frame);
                    }
                    4 => {
                        due += active.len();
                        let unit = 2 * inactive.len() + 1;
                        while match balance {
                            Balance::Equal => active.len() > inactive.len(),
                            Balance::Proportional => due >= unit && !active.is_empty(),
                        } {
                            inactive.push((active.remove(0).0, false));
                            due = due.saturating_sub(unit);
                        }
                        due %= unit;
                        let oldest = |list: &mut Vec<(u32, bool)>| {
                            let at = list.iter().position(|one| !held.contains(&one.0))?;
                            list.rotate_left(at);
                            Some(list.remove(0).0)
                        };
                        let expected = oldest(&mut inactive).or_else(|| oldest(&mut active));
                        prop_assert_eq!(lists.victim(), expected);
                    }
                    7 if there => {
                        lists.renew(frame);
                        let at = inactive.iter().position(|one| one.0 == frame);
                        let moved = match at {
                            Some(at) => inactive.remove(at),
                            None => {
                                let at = active.iter().position(|one| one.0 == frame).expect("it is there");
                                active.remove(at)
                            }
                        };
                        inactive.push(moved);
                    }
                    5 | 6 if there => {
                        lists.hold(frame, op == 5);
                        if op == 5 { held.insert(frame) } else { held.remove(&frame) };
                    }
                    _ => {}
                }
                prop_assert_eq!(lists.active(), active.len() as u64);
                prop_assert_eq!(lists.frames(), (active.len() + inactive.len()) as u64);
            }
        }
    }
}
