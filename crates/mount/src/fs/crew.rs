//! How many of the server's threads wait for requests: as few as are needed.
//!
//! The kernel gives the next request to the thread that has waited longest, even if another thread is about
//! to ask for one. With many waiting, each call of a program is answered by another thread, and waking it
//! takes several times as long as the answer. A thread that has carried out a request therefore *rests* while
//! enough others wait ([`RequestGuard`]).
//!
//! A *foreman* checks each [`TICK`], as long as there are requests. It recalls threads in two cases:
//!
//! - No thread waits, and no request began for a tick: all of them are blocked, mostly by a disk. Twice as
//!   many threads wait from then on, until none was blocked for [`CALM`].
//! - No thread waits, and a request does: there is more work than the awake threads can do.
//!
//! Limits: if all awake threads are blocked, a request waits for up to two ticks.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Period of the foreman's checks: a tenth of an access to a disk. Each check costs some microseconds.
const TICK: Duration = Duration::from_micros(500);
/// Ticks without blocked threads after which half as many threads wait: finding out takes a hundredth of the
/// time.
const CALM: u32 = 200;
/// Ticks without a request after which the foreman sleeps.
const IDLE: u32 = 40;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Crew {
    /// The connection to the kernel.
    device: OwnedFd,
    /// Threads that wait for a request, or are about to.
    waiting: AtomicUsize,
    /// How many threads should wait.
    wanted: AtomicUsize,
    /// The number of requests that have begun.
    begun: AtomicU64,
    rest: Mutex<Rest>,
    called: Condvar,
    foreman_sleeps: AtomicBool,
    foreman: Mutex<Option<Thread>>,
}

#[derive(Debug, Default)]
struct Rest {
    /// Threads that rest.
    resting: usize,
    /// How many of them are recalled to wait for requests.
    calls: usize,
    /// All of them are recalled: the session ends.
    ended: bool,
}

/// A request that is being carried out. Afterwards the thread rests, or waits for the next.
#[derive(Debug)]
pub(crate) struct RequestGuard<'a> {
    crew: &'a Crew,
    rests: bool,
}

impl Crew {
    /// This many threads wait for requests of the connection.
    pub(crate) fn new(device: OwnedFd, threads: usize) -> Self {
        Self {
            device,
            waiting: AtomicUsize::new(threads),
            wanted: AtomicUsize::new(1),
            begun: AtomicU64::new(0),
            rest: Mutex::default(),
            called: Condvar::new(),
            foreman_sleeps: AtomicBool::new(false),
            foreman: Mutex::default(),
        }
    }

    /// This thread begins a request.
    pub(crate) fn request(&self) -> RequestGuard<'_> {
        self.begin();
        RequestGuard { crew: self, rests: true }
    }

    /// The same for one of several items of one request of the kernel: the thread continues with the next.
    pub(crate) fn one_of_several_requests(&self) -> RequestGuard<'_> {
        self.begin();
        RequestGuard { crew: self, rests: false }
    }

    fn begin(&self) {
        self.waiting.fetch_sub(1, SeqCst);
        self.begun.fetch_add(1, SeqCst);
        if self.foreman_sleeps.load(SeqCst) {
            self.wake_foreman();
        }
    }

    /// Recalls all threads to wait for requests: they then see that the session has ended.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.called.notify_all();
        self.wake_foreman();
    }

    /// Ends if the kernel has ended the connection.
    pub(crate) fn end_with_connection(&self) {
        if self.asked().contains(PollFlags::ERR) {
            self.end();
        }
    }

    /// The foreman's loop, until the end.
    pub(crate) fn run_foreman(&self) {
        *self.foreman.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
        let (mut begun, mut idle, mut calm) = (self.begun.load(SeqCst), 0, 0);
        while !self.lock().ended {
            std::thread::park_timeout(TICK);
            let now = self.begun.load(SeqCst);
            let none_began = std::mem::replace(&mut begun, now) == now;
            let held_up = self.waiting.load(SeqCst) == 0;
            idle = if none_began && !held_up { idle + 1 } else { 0 };
            calm = if none_began && held_up { 0 } else { calm + 1 };
            if none_began && held_up {
                let wanted = self.wanted.load(SeqCst);
                self.wanted.store(wanted + self.call(wanted), SeqCst);
            } else if held_up && self.asked().contains(PollFlags::IN) {
                self.call(1);
            }
            if calm == CALM {
                calm = 0;
                self.wanted.store(self.wanted.load(SeqCst).div_ceil(2), SeqCst);
            }
            if idle >= IDLE {
                self.sleep_until_asked(now);
                idle = 0;
            }
        }
    }

    /// Recalls this many resting threads, or all if they are fewer. Returns their number.
    fn call(&self, wanted: usize) -> usize {
        let mut rest = self.lock();
        let called = wanted.min(rest.resting - rest.calls);
        rest.calls += called;
        (0..called).for_each(|_| self.called.notify_one());
        called
    }

    fn sleep_until_asked(&self, begun: u64) {
        self.foreman_sleeps.store(true, SeqCst);
        while self.begun.load(SeqCst) == begun && !self.lock().ended {
            std::thread::park();
        }
        self.foreman_sleeps.store(false, SeqCst);
    }

    fn wake_foreman(&self) {
        let foreman = self.foreman.lock().unwrap_or_else(PoisonError::into_inner);
        foreman.iter().for_each(Thread::unpark);
    }

    /// The state of the connection: whether a request is pending.
    fn asked(&self) -> PollFlags {
        let mut asked = [PollFd::new(&self.device, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut asked, Some(&at_once)).map_or(PollFlags::empty(), |_| asked[0].revents())
    }

    /// Whether this thread should wait; then it is counted as waiting.
    fn waits(&self) -> bool {
        let wanted = self.wanted.load(SeqCst);
        self.waiting.fetch_update(SeqCst, SeqCst, |waiting| (waiting < wanted).then(|| waiting + 1)).is_ok()
    }

    fn rest(&self) {
        let mut rest = self.lock();
        // Under the lock, so that one of several threads that arrive at once waits.
        if self.waits() {
            return;
        }
        rest.resting += 1;
        while rest.calls == 0 && !rest.ended {
            rest = self.called.wait(rest).unwrap_or_else(PoisonError::into_inner);
        }
        rest.resting -= 1;
        rest.calls = rest.calls.saturating_sub(1);
        self.waiting.fetch_add(1, SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if !self.rests {
            self.crew.waiting.fetch_add(1, SeqCst);
        } else if !self.crew.waits() {
            self.crew.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(30);
    const REQUESTS: u64 = 50;

    fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
        let end = Instant::now() + LIMIT;
        while !done() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Threads that receive requests from a queue, as those of a session do, and a foreman.
    struct Session {
        crew: Arc<Crew>,
        ask: Sender<Request>,
        threads: Vec<std::thread::JoinHandle<()>>,
        /// The other end of the connection, which sends nothing.
        _kernel: UnixStream,
    }

    /// A request ends when the other end of the channel is dropped.
    type Request = Receiver<()>;

    fn session(threads: usize) -> Session {
        let (near, far) = UnixStream::pair().expect("sockets");
        let crew = Arc::new(Crew::new(near.into(), threads));
        let (ask, queue) = channel::<Request>();
        let queue = Arc::new(Mutex::new(queue));
        let foreman = Arc::clone(&crew);
        let mut all = vec![std::thread::spawn(move || foreman.run_foreman())];
        all.extend((0..threads).map(|_| {
            let (crew, queue) = (Arc::clone(&crew), Arc::clone(&queue));
            std::thread::spawn(move || {
                loop {
                    let Ok(request) = queue.lock().expect("whole").recv() else { return };
                    let _guard = crew.request();
                    let _ = request.recv();
                }
            })
        }));
        Session { crew, ask, threads: all, _kernel: far }
    }

    impl Session {
        fn resting(&self) -> usize {
            self.crew.lock().resting
        }

        fn ask(&self) -> Sender<()> {
            let (done, request) = channel();
            self.ask.send(request).expect("threads");
            done
        }

        fn end(self) {
            drop(self.ask);
            self.crew.end();
            self.threads.into_iter().for_each(|thread| thread.join().expect("ended"));
        }
    }

    /// A session that has carried out some requests, one at a time, until all threads but one rest.
    fn rested(threads: usize) -> Session {
        let session = session(threads);
        for _ in 0..REQUESTS {
            drop(session.ask());
        }
        wait_for("the others rest", || session.resting() == threads - 1);
        session
    }

    #[test]
    fn one_thread_waits_where_one_is_enough() {
        rested(8).end();
    }

    #[test]
    fn threads_are_recalled_while_others_are_blocked() {
        let session = rested(8);
        let held: Vec<_> = (0..7).map(|_| session.ask()).collect();
        let last = session.ask();
        // All eight have begun.
        wait_for("the last begins", || session.crew.begun.load(SeqCst) == REQUESTS + 8);
        drop((held, last));
        session.end();
    }

    #[test]
    fn resting_threads_end() {
        rested(4).end();
    }
}
