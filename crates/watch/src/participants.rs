//! Who takes part in a walk, and whose rights therefore count.
//!
//! A walk may consist of several processes (`find | xargs`), and different users may come to one tree. What is read
//! ahead in a walk must be permitted to **all** who drive it: those that have opened [`DRIVES`] directories or files in
//! it lately. As many must be opened before anything is read ahead. With nobody of that kind all count who opened
//! anything in it lately. A user who looks into a directory of a backup thus takes nothing from it.
//!
//! A process that has ended before it was examined may have been anybody. If such processes drive a walk and nobody
//! else does, nothing is read ahead. Nor is it where nobody took part lately, or more than [`MOST`] took part and nobody
//! drives.
//!
//! Pure: its inputs are opens and times.

use foreseek_storage::Credentials;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an open counts: after such a time without events, the engine considers a walk over.
pub(crate) const RECENT: Duration = Duration::from_secs(10);
/// Opens that drive a walk: the engine fetches nothing for fewer.
const DRIVES: u32 = 8;
/// Different credentials in one walk within [`RECENT`]: each is a check of each file.
const MOST: usize = 16;

/// The credentials with which something may be read: all of these must be permitted to.
pub(crate) type Rights = Vec<Arc<Credentials>>;

/// Opens, counted in intervals of [`RECENT`]: this one and the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Opens {
    last: Option<Instant>,
    since: Option<Instant>,
    counts: [u32; 2],
}

impl Opens {
    fn add(&mut self, at: Instant) {
        let age = self.since.map_or(Duration::MAX, |since| at.saturating_duration_since(since));
        if age >= RECENT {
            self.since = Some(at);
            self.counts = [0, if age < 2 * RECENT { self.counts[0] } else { 0 }];
        }
        self.counts[0] = self.counts[0].saturating_add(1);
        self.last = self.last.max(Some(at));
    }

    fn are_recent(&self, now: Instant) -> bool {
        is_recent(self.last, now)
    }

    /// How many they are; none if the last one is long ago.
    fn count(&self, now: Instant) -> u32 {
        if self.are_recent(now) { self.counts[0].saturating_add(self.counts[1]) } else { 0 }
    }
}

fn is_recent(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < RECENT)
}

/// Processes with the same credentials.
#[derive(Clone, Debug)]
struct Participant {
    credentials: Arc<Credentials>,
    opens: Opens,
    /// When one last opened the directory itself, to list it.
    listed: Option<Instant>,
}

/// What was opened: the directory itself, to list it, or a file in it or anything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Itself,
    Within,
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
        let found = self.list.iter().position(|known| known.credentials == *by);
        let found = found.or_else(|| {
            self.list.retain(|known| known.opens.are_recent(at));
            (self.list.len() < MOST).then(|| {
                // Most directories have one.
                self.list.reserve_exact(1);
                self.list.push(Participant {
                    credentials: by.clone(),
                    opens: Opens::default(),
                    listed: None,
                });
                self.list.len() - 1
            })
        });
        let Some(found) = found else { return self.others.add(at) };
        let known = &mut self.list[found];
        known.opens.add(at);
        if what == What::Itself {
            known.listed = known.listed.max(Some(at));
        }
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

/// All whose rights count in a walk, the last one that opened something first. `seen` are its participants as seen from
/// several of its directories. `None` if they are not known.
pub(crate) fn rights<'a>(
    seen: impl Iterator<Item = &'a Participants> + Clone,
    now: Instant,
) -> Option<Rights> {
    let all = seen.clone().flat_map(|here| &here.list);
    let lately = all.filter(|known| known.opens.are_recent(now));
    let any_drives = lately.clone().any(|known| known.opens.count(now) >= DRIVES);
    let least = if any_drives { DRIVES } else { 0 };
    let is_known = |here: &Participants| !here.others.are_recent(now) && here.unknown.count(now) < DRIVES;
    if !any_drives && !seen.clone().all(is_known) {
        return None;
    }
    let mut count: Vec<&Participant> = lately.filter(|known| known.opens.count(now) >= least).collect();
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
        let rights = rights(std::iter::once(all), now)?;
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
}
