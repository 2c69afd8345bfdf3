//! A client: one access list, the regions whose reads it watches, and the driver that fetches.

use crate::claims::{self, REGIONS_LIMIT, Refused};
use crate::shared::Shared;
use crate::state::{Next, State};
use crate::thread::{self, ReentryGuard};
use crate::{CallbackRequest, Entry, Error, HintMode, Region, Settings, Stats, report};
use foreseek_storage::HostFd;
use foreseek_units::ByteSpan;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the application is asked about one read. After an answer without that read it is asked again;
/// after a few questions the read passes without prefetching.
const QUESTIONS_PER_READ: u32 = 4;

/// One access list and its regions. `Send` and `Sync`. Any number of threads may read through it. While one of
/// them fetches the next buffer, those that read regions of the same client wait.
///
/// Files are identified by device and inode number, so that every descriptor of a file counts as the file.
/// Descriptors are borrowed: the client never opens, duplicates or closes one of a file.
///
/// After a fork the client does nothing in the child; a child that wants to prefetch creates its own.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

impl Client {
    /// A client with an empty access list and no regions.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let _inside = ReentryGuard::enter();
        let shared = Arc::new(Shared::new(settings));
        if shared.is_reported() {
            report::register(&shared);
        }
        Self { shared }
    }

    /// Watches the reads of a range of a file through any of its descriptors (figure 6: `register_region`). A
    /// part beyond the end of the file counts once the file has grown to it.
    ///
    /// # Errors
    /// A descriptor that is no readable file or block device, or was opened with `O_DIRECT`; an empty
    /// range; a range that another client of this process watches; too many regions.
    pub fn watch(&self, fd: RawFd, range: ByteSpan) -> Result<Region, Error> {
        let _inside = ReentryGuard::enter();
        let shared = &*self.shared;
        let region = shared.next_region.fetch_add(1, Ordering::Relaxed);
        if !shared.is_on() {
            return Ok(Region(region));
        }
        let refuse = |reason: &str| Error::Descriptor { operation: "watch", fd, reason: reason.to_owned() };
        let host = HostFd::new(fd).ok_or_else(|| refuse("it is not open"))?;
        if range.is_empty() {
            return Err(refuse("the range is empty: its end must lie after its start"));
        }
        if let Some(reason) = host.obstacle() {
            return Err(refuse(reason));
        }
        let (identity, length) = host.identify().ok_or_else(|| refuse("it was closed meanwhile"))?;
        match claims::claim(shared.id, region, identity, range) {
            None => return Ok(Region(region)),
            Some(Ok(())) => {}
            Some(Err(Refused::Overlap)) => return Err(Error::Overlap { fd, range }),
            Some(Err(Refused::TooMany)) => {
                return Err(Error::TooMany { operation: "watch", what: "regions", limit: REGIONS_LIMIT });
            }
        }
        shared.descriptors.record_use(fd);
        shared.with_state(|state| {
            state
                .get_or_insert_with(|| State::new(&shared.settings, &identity, shared.recording.clone()))
                .watch(host, identity, length, range);
        });
        shared.add_region(region, identity, range);
        Ok(Region(region))
    }

    /// Ends the watch of a region (figure 6: `unregister_region`).
    ///
    /// # Errors
    /// A region that is not this client's.
    pub fn unwatch(&self, region: Region) -> Result<(), Error> {
        let _inside = ReentryGuard::enter();
        let shared = &*self.shared;
        if !shared.is_on() {
            return Ok(());
        }
        let (identity, range) = shared.remove_region(region.0).ok_or(Error::NoSuchRegion)?;
        claims::release(shared.id, Some(region.0));
        shared.with_state(|state| {
            if let Some(state) = state {
                state.unwatch(&identity, range);
            }
        });
        Ok(())
    }

    /// Announces coming reads, in order (figure 6: `request_prefetching`). Returns how many of the entries were
    /// accepted: fewer than given once the list is full. `done`: there are no more for now. Entries beyond the
    /// end of their file count as accepted and are left out.
    ///
    /// # Errors
    /// An entry of a file that this client does not watch; then none is accepted.
    pub fn hint(&self, mode: HintMode, accesses: &[Entry], done: bool) -> Result<usize, Error> {
        let _inside = ReentryGuard::enter();
        let shared = &*self.shared;
        if !shared.is_on() {
            return Ok(accesses.len());
        }
        let answer = shared.with_state(|state| match state {
            Some(state) => state.hint(mode, accesses, done),
            None => match accesses.first() {
                Some(entry) => Err(Error::NotWatched { index: 0, fd: entry.fd }),
                None => Ok(0),
            },
        });
        if let Some(Ok(_)) = answer {
            accesses.iter().for_each(|entry| shared.descriptors.record_use(entry.fd));
        }
        answer.unwrap_or(Ok(accesses.len()))
    }

    /// From now on this thread's reads are not counted as progress through the list, until
    /// [`Client::unignore`]; the two nest.
    pub fn ignore(&self) {
        let _inside = ReentryGuard::enter();
        self.shared.ignore();
    }

    /// Ends [`Client::ignore`]. Returns whether there was one to end.
    pub fn unignore(&self) -> bool {
        let _inside = ReentryGuard::enter();
        self.shared.unignore()
    }

    /// Call it before each read. It checks whether the pages are in memory, and fetches the next buffer if they
    /// are not. If the list has ended, or the read is not on it, it asks the application through `ask`. `ask`
    /// may call any function of the client; its own reads on this thread pass unseen.
    ///
    /// A descriptor or range that is not watched costs almost nothing.
    pub fn before_read(&self, fd: RawFd, range: ByteSpan, ask: &mut dyn FnMut(&Client, CallbackRequest)) {
        let shared = &*self.shared;
        if !shared.has_regions() || thread::is_inside() || !shared.is_on() {
            return;
        }
        let _inside = ReentryGuard::enter();
        let Some(host) = HostFd::new(fd) else { return };
        let mut next = self.read(host, range);
        if let Some(Next::Other) = next {
            shared.descriptors.end_passes(fd);
            next = self.read(host, range);
        }
        for _ in 0..QUESTIONS_PER_READ {
            let Some(Next::Ask(request, want)) = next else { return };
            {
                let _asking = Asking::begin(&shared.asking);
                ask(self, want);
            }
            next = self.with_read(|state| state.answered(request, host, range));
        }
    }

    /// A read is about to be made. `None` if nothing need be done for it.
    fn read(&self, fd: HostFd, range: ByteSpan) -> Option<Next> {
        let shared = &*self.shared;
        let reading = shared.reading(fd, range)?;
        if shared.is_ignored_here() {
            shared.ignored.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if shared.asking.load(Ordering::Acquire) {
            shared.unseen.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        shared.descriptors.record_use(fd.raw());
        self.with_read(|state| state.read(fd, &reading, range))
    }

    fn with_read(&self, work: impl FnOnce(&mut State) -> Next) -> Option<Next> {
        self.shared.with_state(|state| state.as_mut().map(work)).flatten()
    }

    /// Call it before a descriptor is closed, so that the client stops using it. Never waits. Without it some reads
    /// of the next file of that number may count as reads of this one.
    pub fn closed(&self, fd: RawFd) {
        let shared = &*self.shared;
        if shared.has_regions() && !thread::is_inside() && shared.is_on() {
            let _inside = ReentryGuard::enter();
            shared.descriptors.close(fd);
        }
    }

    /// The same before a range of descriptors is closed (`close_range`).
    pub fn closed_range(&self, first: RawFd, last: RawFd) {
        let shared = &*self.shared;
        if shared.has_regions() && !thread::is_inside() && shared.is_on() {
            let _inside = ReentryGuard::enter();
            shared.descriptors.close_range(first, last);
        }
    }

    /// Whether any region is watched; without one, every read passes at once.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        self.shared.has_regions() && self.shared.is_on()
    }

    /// Whether all hints have been fetched, and memory has room for all of them. Then reads need not pass
    /// through the client.
    #[must_use]
    pub fn has_fetched_all(&self) -> bool {
        let _inside = ReentryGuard::enter();
        let has = |state: &mut Option<State>| state.as_ref().is_some_and(State::has_fetched_all);
        self.shared.is_own_process() && self.shared.with_state(has).unwrap_or(false)
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let _inside = ReentryGuard::enter();
        if !self.shared.is_own_process() {
            return Stats::default();
        }
        self.shared.stats()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _inside = ReentryGuard::enter();
        if self.shared.is_own_process() {
            claims::release(self.shared.id, None);
            self.shared.retire();
        }
    }
}

/// While it lives, a question to the application is open.
struct Asking<'a>(&'a AtomicBool);

impl<'a> Asking<'a> {
    fn begin(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::Release);
        Self(flag)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aside::is_aside;
    use std::process::Command;

    /// Stepping aside is for the rest of the process: the test runs itself in a process of its own.
    #[test]
    fn an_internal_failure_steps_aside_for_good() {
        let run = |quiet: &str| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "client::tests::fails_inside", "--ignored", "--nocapture"])
                .env("FORESEEK_QUIET", quiet)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            let text = String::from_utf8(output.stderr).unwrap();
            text.lines().filter(|line| line.starts_with("libprefetch:")).count()
        };
        assert_eq!(run(""), 1);
        assert_eq!(run("1"), 0);
    }

    #[test]
    #[ignore = "run by an_internal_failure_steps_aside_for_good"]
    fn fails_inside() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
        let range = ByteSpan::new(foreseek_units::ByteOffset(0), foreseek_units::ByteOffset(1 << 20));
        let (client, other) = (Client::new(Settings::default()), Client::new(Settings::default()));
        let region = client.watch(fd, range).unwrap();
        let failed: Option<()> = client.shared.with_state(|_| panic!("a bug"));
        assert_eq!(failed, None);
        assert!(is_aside());
        for client in [&client, &other] {
            client.before_read(fd, range, &mut |_, _| panic!("asked after stepping aside"));
            assert!(client.watch(fd, range).is_ok());
            let entry = Entry { fd, offset: range.start, mark: false };
            assert_eq!(client.hint(HintMode::Set, &[entry], true).unwrap(), 1);
            client.closed(fd);
            let _ = client.stats();
        }
        client.unwatch(region).unwrap();
    }
}
