//! Shares of users in what all have in common: known directories and entries, unanswered listings, held bytes, and live
//! walks.
//!
//! Each has one bound for all users together. Without shares, one user could take everything, and nothing would be
//! read ahead for others. A user may therefore have at most [`PART`] times as much as nobody has. A single user can
//! take four fifths, a second one four fifths of the rest, and so on. This is the rule of *dynamic thresholds* (A. K.
//! Choudhury and E. L. Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM Transactions on
//! Networking 6(2), 1998). Nothing of it is taken away from a user.
//!
//! Walks are different, as one more takes the place of another: the user with the most gives one up.
//!
//! A walk counts for the user that began it, a directory for the one that opened it first or in whose directory it was
//! found. Processes whose user is not known count as one user.

use crate::Node;
use crate::state::{State, WALKS_LIMIT};
use foreseek_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// How many times as much a user may have as is left.
const PART: u64 = 4;
/// Unanswered listings: a driver's threads list a few at a time, and others wait behind them.
const LISTS: u64 = bound_for(512);

/// The bound with which a single user gets so much.
pub(crate) const fn bound_for(single: u64) -> u64 {
    single.saturating_add(single.div_ceil(PART))
}

/// How much more a user may take that has `own` of the `all` that is taken, where there are `most`.
#[must_use]
pub fn share_left(own: u64, all: u64, most: u64) -> u64 {
    // The most that keeps own + it <= PART x (most - all - it).
    let left = most.saturating_sub(all);
    PART.saturating_mul(left).saturating_sub(own) / (PART + 1)
}

impl State {
    fn user(&self, at: usize) -> Option<u32> {
        self.walks[at].as_ref().and_then(|walk| walk.user)
    }

    /// The bytes that may be held in addition for a walk.
    pub(crate) fn memory_left(&self, at: usize) -> Bytes {
        let user = self.user(at);
        let own = self.live().filter(|walk| walk.user == user).map(|walk| walk.held.get()).sum();
        Bytes(share_left(own, self.held.get(), bound_for(self.settings.budget.get())))
    }

    /// Whether one more directory may be listed for a walk. The program's next open asks again.
    pub(crate) fn may_list(&self, at: usize) -> bool {
        let user = self.user(at);
        let own = self.lists.values().filter(|of| **of == user).count();
        share_left(own as u64, self.lists.len() as u64, LISTS) > 0
    }

    /// A listing is requested for a walk.
    pub(crate) fn lists_one(&mut self, at: usize, directory: Node) {
        let user = self.user(at);
        self.lists.insert(directory, user);
    }

    /// The walk that a new one of this user replaces: one of the user with the most. Of these it is one without
    /// fetches, and of these the one without events for longest.
    pub(crate) fn least(&self, user: Option<u32>) -> usize {
        let mut counts: FxHashMap<Option<u32>, u32> = FxHashMap::from_iter([(user, 1)]);
        self.live().for_each(|walk| *counts.entry(walk.user).or_default() += 1);
        let value = |at: &usize| {
            self.walks[*at].as_ref().map(|walk| {
                let count = counts.get(&walk.user).copied().unwrap_or_default();
                (Reverse(count), walk.user != user, walk.account.spent > Nanos::ZERO, walk.last)
            })
        };
        (0..WALKS_LIMIT).min_by_key(value).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceNo, Entry, Kind, Settings};
    use foreseek_device::Profile;
    use foreseek_seam::ProcessId;
    use foreseek_units::Instant;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        /// Users take as much as they may, in any order, and give some back.
        #[test]
        fn the_bound_holds_and_whoever_comes_finds_something(
            most in 3_000u64..1 << 40, acts in prop::collection::vec((0..4usize, 1..u64::MAX, any::<bool>()), 1..60),
        ) {
            let mut users = [0u64; 5];
            for (user, amount, takes) in acts {
                let all = users.iter().sum();
                let left = share_left(users[user], all, most);
                if takes {
                    users[user] += amount.min(left);
                } else {
                    users[user] -= amount % (users[user] + 1);
                }
                let all: u64 = users.iter().sum();
                prop_assert!(all <= most);
                if takes && left > 0 {
                    prop_assert!(users[user] <= PART * (most - all), "{users:?} of {most}");
                }
                // Four others have a fifth of what is left after each: 1/5 x 1/5 x 1/5 x 1/5.
                prop_assert!(share_left(users[4], all, most) >= most / 625 / 5 * PART, "{users:?} of {most}");
            }
        }
    }

    fn node(inode: u64) -> Node {
        Node { device: DeviceNo(1), inode }
    }

    /// An engine's state, and the opens of two users: processes have the numbers of their users.
    fn state() -> State {
        let profile = Profile::builtin("barracuda-500g").expect("built in");
        let mut state =
            State::new(Settings { budget: Bytes(1000), ..Settings::default() }, Arc::new(profile));
        for user in [1, 2] {
            state.classes.runs(ProcessId(user), user, b"program");
        }
        state
    }

    fn opens(state: &mut State, user: u32, inode: u64) {
        state.now = Instant(state.now.get() + 1);
        state.directory_opened(state.now, ProcessId(user), node(inode), None);
        state.outbox.clear();
    }

    fn tops(state: &State, user: u32) -> Vec<u64> {
        let of_user = state.live().filter(|walk| walk.user == Some(user));
        of_user.filter_map(|walk| Some(state.tree.get(walk.top)?.node.inode)).collect()
    }

    #[test]
    fn the_user_with_the_most_walks_gives_one_up() {
        let mut state = state();
        for at in 0..10_000 {
            opens(&mut state, 1, 1_000 + at);
            if at % 1_000 == 0 {
                opens(&mut state, 2, at / 1_000);
            }
        }
        assert_eq!((tops(&state, 1).len(), tops(&state, 2).len()), (WALKS_LIMIT - 10, 10));
        // Of its own, the one without events for longest.
        let mut own = tops(&state, 1);
        own.sort_unstable();
        assert_eq!(own.first(), Some(&(11_000 - (WALKS_LIMIT - 10) as u64)));
        // With as many as the other it replaces its own.
        for at in 0..10_000 {
            opens(&mut state, 2, 20_000 + at);
        }
        assert_eq!((tops(&state, 1).len(), tops(&state, 2).len()), (WALKS_LIMIT / 2, WALKS_LIMIT / 2));
        assert!(tops(&state, 2).contains(&29_999));
    }

    #[test]
    fn a_user_that_has_taken_its_share_leaves_room_for_another() {
        let mut state = state();
        (1..=2).for_each(|user| opens(&mut state, user, user.into()));
        let at = |state: &State, user: u32| {
            state
                .walks
                .iter()
                .position(|walk| walk.as_ref().is_some_and(|it| it.user == Some(user)))
                .expect("live")
        };
        let [one, two] = [1, 2].map(|user| at(&state, user));
        // Held bytes.
        assert_eq!(state.memory_left(one), Bytes(1000));
        state.held = Bytes(1000);
        state.walks[one].as_mut().expect("live").held = Bytes(1000);
        assert_eq!((state.memory_left(one), state.memory_left(two)), (Bytes(0), Bytes(200)));
        // Unanswered listings.
        (0..512).for_each(|inode| state.lists_one(one, node(1 << 40 | inode)));
        assert!(!state.may_list(one) && state.may_list(two));
        state.lists.remove(&node(1 << 40));
        assert!(state.may_list(one));
        // Directories and entries.
        let mut inode = 10;
        while state.tree.has_room(Some(1)) {
            state.tree.add(node(inode), None, Some(1), one as u32);
            inode += 1;
        }
        // Another user has one.
        assert_eq!(state.tree.counts().0, 1 << 16);
        assert!(state.tree.has_room(Some(2)) && state.tree.has_room(None));
        opens(&mut state, 2, 5);
        assert!(tops(&state, 2).contains(&5));
        let entries: Vec<Entry<'_>> = (0..1 << 16).map(|at| entry(1 << 32 | at)).collect();
        for inode in 10..30 {
            let key = state.tree.key(node(inode)).expect("added");
            state.tree.list(key, &entries, |_| 0);
        }
        assert_eq!((state.tree.counts().1, state.tree.entries_left(Some(1))), (1 << 20, 0));
        assert_eq!(state.tree.entries_left(Some(2)), (1 << 18) * 4 / 5);
    }

    fn entry(inode: u64) -> Entry<'static> {
        Entry { node: node(inode), kind: Kind::File, name: b"", inode_at: None, inode_in_memory: false }
    }

    #[test]
    fn a_single_user_gets_all_of_its_part() {
        for single in [1, 2, 3, 4, 5, 1000, 1001, 1 << 16, 1 << 20, (1 << 40) + 3] {
            let most = bound_for(single);
            for own in [0, 1, single / 3, single - 1, single] {
                assert_eq!(share_left(own, own, most), single - own, "{own} of {single}");
            }
        }
        assert!(share_left(0, 0, u64::MAX) > u64::MAX / 8, "no bound");
        assert_eq!(share_left(0, 7, 5), 0, "the bound has fallen");
    }
}
