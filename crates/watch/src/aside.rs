//! Work that may have to wait for another process, done in a thread of its own.
//!
//! Much of what the kernel shows of a process (`exe`, `fd/`, `ns/`) is not shown while that begins another program. It
//! closes files then, and a file server of its own user (FUSE) may take its time for one. Whoever asks waits for
//! [`PATIENCE`] at most. A thread that is late is left to itself, and ends once its work is over.
//!
//! Bounds: for [`PENALTY`] after a user's process was late, and for as long as it is, it counts. Nothing is asked of a
//! user with [`EACH`] of them, and of nobody where there are [`MOST`].

use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long work is waited for. It takes some 0.05 ms; on a busy machine a thread waits for a processor.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long it counts that a process was late. Those of a user thus take a fiftieth of the time, and all a sixth.
const PENALTY: Duration = Duration::from_secs(10);
/// Late ones of one user, and of all.
const EACH: usize = 4;
const MOST: usize = 32;
/// Threads that wait for work: as many as there are on two disks.
const IDLE: usize = 16;

type Work = Box<dyn FnOnce() + Send>;

/// Work that was not waited for.
#[derive(Debug)]
struct Late {
    user: Option<u32>,
    since: Instant,
    /// The work has the other one, until it is over.
    token: Arc<()>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Sender<Work>>,
    late: Vec<Late>,
}

impl State {
    /// Whether something may be asked of the processes of a user, who is asked for only if some were late.
    fn may_ask(&mut self, user: impl FnOnce() -> Option<u32>, now: Instant) -> bool {
        self.late.retain(|late| Arc::strong_count(&late.token) > 1 || now < late.since + PENALTY);
        if self.late.is_empty() {
            return true;
        }
        let user = user();
        self.late.len() < MOST && self.late.iter().filter(|late| late.user == user).count() < EACH
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
        let token = Arc::new(());
        let its_token = token.clone();
        let work = Box::new(move || {
            let _ = answer.send(work());
            drop(its_token);
        });
        thread.send(work).ok()?;
        let found = answered.recv_timeout(PATIENCE).ok();
        if found.is_none() {
            let late = Late { user: user(), since: Instant::now(), token };
            self.state().late.push(late);
            return None;
        }
        let mut state = self.state();
        if state.idle.len() < IDLE {
            state.idle.push(thread);
        }
        found
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

    #[test]
    fn who_is_late_makes_nobody_wait_for_long_and_others_go_on() {
        static BLOCKED: Mutex<()> = Mutex::new(());
        let aside = Aside::default();
        assert_eq!(aside.run(|| unreachable!("nobody was late"), || 5), Some(5));
        let blocked = BLOCKED.lock().unwrap();
        let wait = || drop(BLOCKED.lock().unwrap());
        let late = || aside.state().late.len();
        let begun = Instant::now();
        (0..200).for_each(|_| assert_eq!(aside.run(|| Some(1000), wait), None));
        assert_eq!(late(), EACH);
        assert!(begun.elapsed() < PATIENCE * 100, "{:?}", begun.elapsed());
        // A machine may be so busy that one of another user's is late.
        let is_done = |user| (0..EACH).any(|_| aside.run(|| Some(user), || 7) == Some(7));
        assert!(is_done(1001) && !is_done(1000));
        (2000..2100).for_each(|user| assert_eq!(aside.run(|| Some(user), wait), None));
        assert_eq!(late(), MOST);
        assert!(!is_done(1002));
        // They count for a while.
        drop(blocked);
        assert!(!aside.state().may_ask(|| Some(1000), Instant::now()));
        let later = || Instant::now() + PENALTY * 2;
        while !aside.state().may_ask(|| Some(1000), later()) || late() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "they do not end");
            std::thread::yield_now();
        }
        assert!(is_done(1000));
    }
}
