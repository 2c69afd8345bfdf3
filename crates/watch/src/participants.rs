//! Who takes part in a walk, and whose rights therefore count.
//!
//! A walk may consist of several processes (`find | xargs`), and different users may come to one tree. What is read
//! ahead in a walk must be permitted to **all** who drive it: those that have opened [`DRIVES`] directories or files in
//! it lately. As many must be opened before anything is read ahead. With nobody of that kind all count who opened
//! anything in it lately. A user who looks into a directory of a backup thus takes nothing from it. Nor does one who is
//! busy in a single directory of the backup: for directories beside that one such opens drive nothing.
//!
//! While nothing is opened (a program examines inodes, or reads a large file), those of the last opens count on, for
//! [`STILL`].
//!
//! A process that has ended before it was examined may have been anybody. If such processes drive a walk and nobody
//! else does, nothing is read ahead. Nor is it where nobody took part lately, or where more than [`MOST`] drive it.
//!
//! Pure: its inputs are opens and times.

use foreseek_storage::Credentials;
use foreseek_walks::Node;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an open counts: after such a time without events, the engine considers a walk over.
pub(crate) const RECENT: Duration = Duration::from_secs(10);
/// How long the last opens count if no others follow.
const STILL: Duration = Duration::from_secs(60);
/// Opens that drive a walk: the engine fetches nothing for fewer.
const DRIVES: u32 = 8;
/// Different credentials in one walk within [`RECENT`]: each is a check of each file.
const MOST: usize = 16;

/// The credentials with which something may be read: all of these must be permitted to.
pub(crate) type Rights = Vec<Arc<Credentials>>;

/// Opens, counted in intervals of [`RECENT`]: the one that began at `since` and the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Opens {
    last: Option<Instant>,
    since: Option<Instant>,
    counts: [u32; 2],
}

impl Opens {
    fn add(&mut self, at: Instant) {
        self.counts = self.counts_at(at);
        self.since = match self.since {
            Some(since) if at < since + RECENT => Some(since),
            Some(since) if at < since + 2 * RECENT => Some(since + RECENT),
            _ => Some(at),
        };
        self.counts[0] = self.counts[0].saturating_add(1);
        self.last = self.last.max(Some(at));
    }

    /// The counts of the interval in which `now` lies and of the one before.
    fn counts_at(&self, now: Instant) -> [u32; 2] {
        match self.since {
            Some(since) if now < since + RECENT => self.counts,
            Some(since) if now < since + 2 * RECENT => [0, self.counts[0]],
            _ => [0, 0],
        }
    }

    fn are_recent(&self, now: Instant) -> bool {
        is_recent(self.last, now)
    }

    /// How many they are; none if the last one is long ago.
    fn count(&self, now: Instant) -> u32 {
        let [of_this, of_the_last] = self.counts_at(now);
        if self.are_recent(now) { of_this.saturating_add(of_the_last) } else { 0 }
    }
}

fn is_recent(at: Option<Instant>, now: Instant) -> bool {
    is_within(RECENT, at, now)
}

fn is_within(time: Duration, at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < time)
}

/// Processes with the same credentials.
#[derive(Clone, Debug)]
struct Participant {
    credentials: Arc<Credentials>,
    opens: Opens,
    /// The directory in this one in which, or below which, all of them lie; `None` if they do not lie in a single one.
    branch: Option<Node>,
    /// When one last opened the directory itself, to list it.
    listed: Option<Instant>,
}

impl Participant {
    /// Whether it may come to this directory of the one where it took part; `None` for all that lies there.
    fn comes_to(&self, branch: Option<Node>) -> bool {
        branch.is_none() || self.branch.is_none() || self.branch == branch
    }
}

/// What was opened: the directory itself, to list it, a file in it, or anything in or below this directory in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Itself,
    Within,
    Below(Node),
}

/// Those that opened a directory, or anything below it in the same walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Participants {
    list: Vec<Participant>,
    /// Opens by others, for which there was no room, and by processes that could not be examined.
    others: Opens,
    unknown: Opens,
    /// When a walk came here last.
    last: Option<Instant>,
}

impl Participants {
    /// A walk comes here, or below.
    pub(crate) fn visited(&mut self, at: Instant) {
        self.last = self.last.max(Some(at));
    }

    /// Something was opened; `by` is `None` for a process that could not be examined.
    pub(crate) fn add(&mut self, by: Option<&Arc<Credentials>>, what: What, at: Instant) {
        self.visited(at);
        let Some(by) = by else { return self.unknown.add(at) };
        let branch = if let What::Below(branch) = what { Some(branch) } else { None };
        let found = self.list.iter().position(|known| known.credentials == *by);
        let found = found.or_else(|| {
            self.list.retain(|known| is_within(STILL, known.opens.last, at));
            if self.list.len() >= MOST {
                self.list.retain(|known| known.opens.are_recent(at));
            }
            (self.list.len() < MOST).then(|| {
                // Most directories have one.
                self.list.reserve_exact(1);
                self.list.push(Participant {
                    credentials: by.clone(),
                    opens: Opens::default(),
                    branch,
                    listed: None,
                });
                self.list.len() - 1
            })
        });
        let Some(found) = found else { return self.others.add(at) };
        let known = &mut self.list[found];
        if !is_within(STILL, known.opens.last, at) {
            known.branch = branch;
        } else if known.branch != branch {
            known.branch = None;
        }
        known.opens.add(at);
        if what == What::Itself {
            known.listed = known.listed.max(Some(at));
        }
    }

    /// Drops those whose opens do not count any more, whatever follows.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.list.retain(|known| is_within(STILL + RECENT, known.opens.last, now));
        self.list.shrink_to_fit();
    }

    /// Whether a walk came here lately.
    pub(crate) fn are_active(&self, now: Instant) -> bool {
        is_recent(self.last, now)
    }

    /// Whether one with these credentials opened the directory itself lately; with `None`, anyone.
    pub(crate) fn have_listed(&self, by: Option<&Arc<Credentials>>, now: Instant) -> bool {
        let of = |known: &&Participant| by.is_none_or(|by| known.credentials == *by);
        self.list.iter().filter(of).any(|known| is_recent(known.listed, now))
    }
}

/// All whose rights count in a directory of a walk, the last one that opened something first; `None` if they are not
/// known. `seen` has the participants of the directory and of those above it. With those above comes the directory in
/// them that leads to it.
pub(crate) fn rights(seen: &[(Participants, Option<Node>)], now: Instant) -> Option<Rights> {
    let last = seen.iter().filter_map(|(here, _)| here.last).max()?;
    if !is_within(STILL, Some(last), now) {
        return None;
    }
    // While nothing is opened, those of the last opens count.
    let now = if is_recent(Some(last), now) { now } else { last };
    let all = seen.iter().flat_map(|(here, branch)| here.list.iter().map(move |known| (known, *branch)));
    let lately = all.filter(|(known, _)| known.opens.are_recent(now));
    let drives = |(known, branch): &(&Participant, Option<Node>)| {
        known.opens.count(now) >= DRIVES && known.comes_to(*branch)
    };
    let any_drives = lately.clone().any(|known| drives(&known));
    let (others, unknown) = if any_drives { (DRIVES, u32::MAX) } else { (1, DRIVES) };
    let is_known = |(here, _): &(Participants, Option<Node>)| {
        here.others.count(now) < others && here.unknown.count(now) < unknown
    };
    if !seen.iter().all(is_known) {
        return None;
    }
    let count = lately.filter(|known| !any_drives || drives(known));
    let mut count: Vec<&Participant> = count.map(|(known, _)| known).collect();
    count.sort_by_key(|known| std::cmp::Reverse(known.opens.last));
    let mut rights = Rights::new();
    for known in count {
        if !rights.contains(&known.credentials) {
            rights.push(known.credentials.clone());
        }
    }
    Some(rights).filter(|rights| !rights.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: u32) -> Arc<Credentials> {
        let status = format!("Uid:\t{number}\t0\t0\t{number}\nGid:\t0\t0\t0\t0\nGroups:\t\nCapEff:\t0\n");
        Arc::new(Credentials::parse(&status, true).unwrap())
    }

    fn opened(all: &mut Participants, by: Option<u32>, times: usize, at: Instant) {
        (0..times).for_each(|_| all.add(by.map(user).as_ref(), What::Within, at));
    }

    fn users(all: &Participants, now: Instant) -> Option<Vec<u32>> {
        let rights = rights(&[(all.clone(), None)], now)?;
        Some(rights.iter().map(|it| it.user).collect())
    }

    #[test]
    fn who_looks_in_takes_nothing_from_those_who_drive_a_walk() {
        let (mut all, now) = (Participants::default(), Instant::now());
        opened(&mut all, Some(0), 7, now);
        opened(&mut all, Some(5), 7, now + RECENT / 10);
        assert_eq!(users(&all, now).unwrap(), [5, 0], "nobody drives it yet");
        opened(&mut all, Some(0), 1, now + RECENT / 5);
        assert_eq!(users(&all, now + RECENT / 5).unwrap(), [0]);
        opened(&mut all, Some(5), 1, now + RECENT / 2);
        assert_eq!(users(&all, now + RECENT / 2).unwrap(), [5, 0]);
        // Slow ones drive nothing.
        for round in 1..40 {
            opened(&mut all, Some(0), 1, now + RECENT / 2 * round);
            opened(&mut all, Some(6), 10, now + RECENT / 2 * round);
        }
        assert_eq!(users(&all, now + RECENT / 2 * 39).unwrap(), [6]);
        assert!(users(&all, now + RECENT * 30).is_none());
    }

    #[test]
    fn processes_that_nobody_knows_may_be_anybody() {
        let (mut all, now) = (Participants::default(), Instant::now());
        opened(&mut all, None, 1, now);
        assert!(users(&all, now).is_none());
        opened(&mut all, Some(0), 1, now);
        assert_eq!(users(&all, now).unwrap(), [0]);
        opened(&mut all, None, 7, now);
        assert!(users(&all, now).is_none(), "they drive the walk");
        opened(&mut all, Some(0), 7, now);
        assert_eq!(users(&all, now).unwrap(), [0], "it does, too");
        let later = now + RECENT;
        opened(&mut all, None, 1, later);
        assert!(users(&all, later).is_none());
        assert!(all.are_active(later) && !all.are_active(later + RECENT));
    }

    #[test]
    fn too_many_are_known_only_by_those_who_drive() {
        let (mut all, now) = (Participants::default(), Instant::now());
        for number in 0..MOST as u32 {
            opened(&mut all, Some(number), 1, now);
            assert_eq!(users(&all, now).unwrap().len(), number as usize + 1);
        }
        opened(&mut all, Some(1000), 1, now);
        assert!(users(&all, now).is_none());
        opened(&mut all, Some(3), 7, now);
        assert_eq!(users(&all, now).unwrap(), [3]);
        // There is room again.
        opened(&mut all, Some(1000), 1, now + RECENT);
        assert_eq!(users(&all, now + RECENT).unwrap(), [1000]);
    }

    #[test]
    fn while_nothing_is_opened_the_last_opens_count_on() {
        let (mut all, now) = (Participants::default(), Instant::now());
        opened(&mut all, Some(0), 9, now);
        assert_eq!(users(&all, now + STILL / 2).unwrap(), [0]);
        assert!(users(&all, now + STILL).is_none());
        // With further opens, only theirs.
        opened(&mut all, Some(5), 1, now + STILL / 2);
        assert_eq!(users(&all, now + STILL / 2).unwrap(), [5]);
        opened(&mut all, None, 8, now + STILL / 2 + RECENT);
        assert!(users(&all, now + STILL / 2 + RECENT).is_none());
    }

    #[test]
    fn only_those_that_count_are_kept() {
        let (mut all, now) = (Participants::default(), Instant::now());
        opened(&mut all, Some(0), 9, now);
        opened(&mut all, Some(5), 9, now + RECENT / 2);
        // The last moment at which both count.
        let last = now + RECENT / 2 + STILL - RECENT / 10;
        all.forget(last);
        assert_eq!(users(&all, last).unwrap(), [5, 0]);
        all.forget(now + STILL + RECENT);
        assert_eq!(all.list.len(), 1);
        all.forget(now + STILL + RECENT * 2);
        assert!(all.list.is_empty());
    }

    #[test]
    fn opens_count_for_two_intervals_at_most() {
        let (mut all, now) = (Participants::default(), Instant::now());
        let at = |tenths| now + RECENT * tenths / 10;
        opened(&mut all, Some(0), 100, now);
        for tenths in [9, 18] {
            opened(&mut all, Some(0), 1, at(tenths));
        }
        opened(&mut all, Some(5), 1, at(19));
        assert_eq!(users(&all, at(19)).unwrap(), [0], "it drives the walk, the other one does not");
        opened(&mut all, Some(0), 1, at(27));
        opened(&mut all, Some(5), 1, at(27));
        assert_eq!(users(&all, at(27)).unwrap(), [0, 5], "nobody drives it");
    }

    #[test]
    fn who_is_in_one_directory_does_not_count_beside_it() {
        let (mut all, now) = (Participants::default(), Instant::now());
        let [one, other, third] = [1, 2, 3].map(|inode| Node { device: foreseek_walks::DeviceNo(1), inode });
        let counts = |all: &Participants, branch, at| {
            let rights = rights(&[(Participants::default(), None), (all.clone(), Some(branch))], at);
            rights.map(|all| all.iter().map(|it| it.user).collect::<Vec<_>>()).unwrap_or_default()
        };
        let below = |all: &mut Participants, by, node, at| {
            (0..9).for_each(|_| all.add(Some(&user(by)), What::Below(node), at))
        };
        all.add(Some(&user(0)), What::Itself, now);
        below(&mut all, 0, one, now);
        below(&mut all, 5, other, now);
        assert_eq!(counts(&all, one, now), [0]);
        assert_eq!(counts(&all, other, now), [0, 5]);
        assert_eq!(counts(&all, third, now), [0]);
        // Then it goes on beside it.
        below(&mut all, 5, one, now);
        assert_eq!(counts(&all, third, now), [0, 5]);
        // A long time later it is in one only.
        below(&mut all, 5, one, now + STILL);
        assert_eq!(counts(&all, third, now + STILL), [5], "nobody else is left");
        assert_eq!(counts(&all, one, now + STILL), [5]);
    }
}
