//! Work that may have to wait for another process, done in a thread of its own.
//!
//! Much of what the kernel shows of a process (`exe`, `fd/`, `ns/`) is not shown while that begins another program. It
//! closes files then, and a file server of its own user (FUSE) may take its time for one. Whoever asks waits for
//! [`PATIENCE`] at most. A thread that is late is left to itself, and ends once its work is over.
//!
//! Bounds: the waits count for [`PENALTY`], and late work for as long as it goes on. Nothing is asked of a user whose
//! processes have taken [`EACH`], nor of anybody but root where all have taken [`ALL`]. Work that takes less than
//! [`NOTICED`] does not count: its process takes as long to begin. Nor does work that waits for a processor before it
//! begins, other than that it is late.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long work is waited for. It takes some 0.05 ms.
const PATIENCE: Duration = Duration::from_millis(50);
/// Shorter work does not count.
const NOTICED: Duration = Duration::from_millis(1);
/// How long it counts.
const PENALTY: Duration = Duration::from_secs(10);
/// What the processes of one user may take within that time, and those of all: a fiftieth and a sixth of it.
const EACH: Duration = Duration::from_millis(200);
const ALL: Duration = Duration::from_millis(1600);
/// Threads that wait for work: as many as there are on two disks.
const IDLE: usize = 16;

type Work = Box<dyn FnOnce() + Send>;

/// Work that was waited for.
#[derive(Debug)]
struct Wait {
    whose: Whose,
    ended: Instant,
    took: Duration,
    /// Late work has the other one, until it is over.
    late: Option<Arc<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// That of a user's process; `None` if it has ended.
    User(Option<u32>),
    /// The machine had no processor for it.
    Machine,
}

impl Wait {
    fn counts(&self, now: Instant) -> bool {
        self.late.as_ref().is_some_and(|token| Arc::strong_count(token) > 1)
            || self.whose != Whose::Machine && now < self.ended + PENALTY
    }
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Sender<Work>>,
    waits: Vec<Wait>,
}

impl State {
    /// Whether something may be asked of the processes of a user, who is asked for only if some have taken long.
    fn may_ask(&mut self, user: impl FnOnce() -> Option<u32>, now: Instant) -> bool {
        self.waits.retain(|wait| wait.counts(now));
        if self.waits.is_empty() {
            return true;
        }
        let user = user();
        let took = |of: &dyn Fn(&Wait) -> bool| -> Duration {
            self.waits.iter().filter(|wait| of(wait)).map(|wait| wait.took).sum()
        };
        let is_root = user == Some(0);
        took(&|wait| wait.whose == Whose::User(user)) < EACH && (is_root || took(&|_| true) < ALL)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Aside(Mutex<State>);

impl Aside {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does some work on a process of a user; `None` if that is not over in time.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        user: impl Fn() -> Option<u32>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let mut state = self.state();
        if !state.may_ask(&user, Instant::now()) {
            return None;
        }
        let idle = state.idle.pop();
        drop(state);
        let thread = idle.or_else(start)?;
        let (answer, answered) = sync_channel(1);
        let (token, has_begun) = (Arc::new(()), Arc::new(AtomicBool::new(false)));
        let (its_token, begins) = (token.clone(), has_begun.clone());
        let work = Box::new(move || {
            begins.store(true, Relaxed);
            let begun = Instant::now();
            let found = work();
            let _ = answer.send((found, begun.elapsed()));
            drop(its_token);
        });
        thread.send(work).ok()?;
        let answer = answered.recv_timeout(PATIENCE).ok();
        let took = answer.as_ref().map_or(PATIENCE, |(_, took)| *took);
        if took >= NOTICED {
            let whose = if has_begun.load(Relaxed) { Whose::User(user()) } else { Whose::Machine };
            let late = answer.is_none().then_some(token);
            self.state().waits.push(Wait { whose, ended: Instant::now(), took, late });
        }
        let (found, _) = answer?;
        let mut state = self.state();
        if state.idle.len() < IDLE {
            state.idle.push(thread);
        }
        Some(found)
    }
}

/// A thread that works until nobody has work for it.
fn start() -> Option<Sender<Work>> {
    let (to, from) = channel::<Work>();
    let works = move || from.into_iter().for_each(|work| work());
    let started = std::thread::Builder::new().name("watch-aside".to_owned()).spawn(works);
    started.is_ok().then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much those of a user have taken.
    fn taken(aside: &Aside, user: u32) -> Duration {
        let state = aside.state();
        state.waits.iter().filter(|wait| wait.whose == Whose::User(Some(user))).map(|wait| wait.took).sum()
    }

    #[test]
    fn who_is_late_makes_nobody_wait_for_long_and_others_go_on() {
        static BLOCKED: Mutex<()> = Mutex::new(());
        let aside = Aside::default();
        assert_eq!(aside.run(|| Some(1000), || 5), Some(5));
        let blocked = BLOCKED.lock().unwrap();
        let wait = || drop(BLOCKED.lock().unwrap());
        let late = || aside.state().waits.iter().filter(|wait| wait.late.is_some()).count();
        let begun = Instant::now();
        (0..200).for_each(|_| assert_eq!(aside.run(|| Some(1000), wait), None));
        // On a busy machine some have not begun, and are nobody's.
        assert!(taken(&aside, 1000) >= EACH && taken(&aside, 1000) < EACH + PATIENCE, "{:?}", aside.0);
        assert!(begun.elapsed() < PATIENCE * 100, "{:?}", begun.elapsed());
        // A machine may be so busy that one of another user's is late.
        let is_done = |user| (0..4).any(|_| aside.run(|| Some(user), || 7) == Some(7));
        assert!(is_done(1001) && !is_done(1000));
        (2000..2100).for_each(|user| assert_eq!(aside.run(|| Some(user), wait), None));
        assert!(late() as u32 <= ALL.as_millis() as u32 / PATIENCE.as_millis() as u32, "{}", late());
        assert!(!is_done(1002) && is_done(0), "root's are looked at");
        // They count for as long as they are late, and for a while after that.
        let later = || Instant::now() + PENALTY * 2;
        assert!(!aside.state().may_ask(|| Some(1000), later()));
        drop(blocked);
        assert!(!aside.state().may_ask(|| Some(1000), Instant::now()));
        while !aside.state().may_ask(|| Some(1000), later()) || late() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not end");
            std::thread::yield_now();
        }
        assert!(is_done(1000));
    }

    /// An answer that comes just in time makes others wait as well.
    #[test]
    fn who_is_slow_is_not_asked_for_long() {
        let aside = Aside::default();
        let slow = || std::thread::sleep(PATIENCE / 5);
        let asked = (0..1000).filter(|_| aside.run(|| Some(1000), slow).is_some()).count();
        assert!((1..=20).contains(&asked), "{asked}");
        assert!(taken(&aside, 1000) >= EACH && taken(&aside, 1001).is_zero(), "{:?}", aside.0);
        assert!(!aside.state().may_ask(|| Some(1000), Instant::now()));
        assert!(aside.state().may_ask(|| Some(1001), Instant::now()));
        assert!(aside.state().may_ask(|| Some(1000), Instant::now() + PENALTY));
    }

    #[test]
    fn what_has_not_begun_is_charged_to_nobody_and_counts_until_it_is_over() {
        let (token, now) = (Arc::new(()), Instant::now());
        let wait = |whose| Wait { whose, ended: now, took: PATIENCE, late: Some(token.clone()) };
        let mut state = State::default();
        state.waits.extend((0..31).map(|_| wait(Whose::Machine)));
        assert!(state.may_ask(|| Some(1000), now));
        state.waits.push(wait(Whose::Machine));
        assert!(!state.may_ask(|| Some(1000), now) && state.may_ask(|| Some(0), now));
        state.waits.iter_mut().for_each(|wait| wait.late = Some(Arc::new(())));
        assert!(state.may_ask(|| unreachable!("none counts"), now));
    }

    #[test]
    fn few_threads_wait_for_work() {
        let aside = Arc::new(Aside::default());
        let together = Arc::new(std::sync::Barrier::new(IDLE * 2));
        let asks = (0..IDLE * 2).map(|_| {
            let (aside, together) = (aside.clone(), together.clone());
            std::thread::spawn(move || {
                together.wait();
                aside.run(|| Some(1000), || ())
            })
        });
        let asks: Vec<_> = asks.collect();
        for ask in asks {
            let _ = ask.join().unwrap();
        }
        assert!(aside.state().idle.len() <= IDLE);
    }
}
