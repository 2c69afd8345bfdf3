//! A disk from which others read as well: requests ahead go to it in bursts ([`Bursts`] says how long).
//!
//! There is one for each observed disk of this process. The requests of all threads are the same burst: while one waits
//! for its end, the others do.
//!
//! Others are either likely to read, by a guess at the end of a burst, or [proven](Proof) to read. [`HoldBack`] says which
//! of both makes requests hold back.
//!
//! Limits: the disk is the whole one below the file system. Where there are several (RAID, LVM over disks), none, or
//! one that does not count its reads, nothing is known of others, and requests go out as they come. Reads of others
//! from the disk below a loop device are not seen. If this process reads from several disks at a time, what it
//! reads from one may hide a reader of another.

use crate::costs::costs_of;
use crate::counts::{Counter, Sources, own_reads};
use foreseek_storage::{
    BackingDevice, DeviceNumber, DiskLoad, HostFd, Means, OtherDisks, disks_below, machine_reads,
    process_reads, waiting_threads, will_need,
};
use foreseek_units::{ByteSpan, Bytes, DeviceCosts, Instant, Lba, Nanos};
use foreseek_walks::{Bursts, Counted, Proof, QUIET};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant as Clock};

/// How often it is checked whether a burst was served: a twentieth of one beside others.
const LOOK: Duration = Duration::from_micros(500);
/// How long that is waited for: a queue of 128 requests takes as long. Others may have reads in flight at any time.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long an idle moment of the disk is waited for once it has served what was requested: two reads of a helped program.
const MOMENT: Duration = Duration::from_millis(16);
/// How often it is looked for: such a moment is as short as a program's work between two reads.
const POLL: Duration = Duration::from_micros(100);
/// After so long without a request the disk may be idle.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest call beside others, half a burst of them.
const CALL: Bytes = Bytes::kib(256);
/// The most threads of a program that are looked at: each costs 10 us.
const THREADS: usize = 8;

/// When requests hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldBack {
    /// When others are likely to read: helped programs are known as they start, and half of it is read ahead before
    /// they begin.
    Likely,
    /// When others read for certain: helped programs are found by their opens.
    Proven,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct SharedDisk {
    observed: Option<Observed>,
    origin: Clock,
    /// The last time at which others were known to read, in nanoseconds since `origin`; 0 is never.
    others: AtomicU64,
    /// In nanoseconds.
    held_back: AtomicU64,
}

#[derive(Debug)]
struct Observed {
    sources: Arc<Sources>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bursts: Bursts,
    /// Requests hold back only on it, if there is one.
    proof: Option<Proof>,
    other_disks: OtherDisks,
    counter: Counter,
    /// The time of the last request.
    last: Option<Clock>,
}

/// The disks of this process.
static DISKS: Mutex<Vec<(DeviceNumber, Weak<SharedDisk>)>> = Mutex::new(Vec::new());

impl SharedDisk {
    /// The disk below a file system. The first call for a disk says when requests to it hold back.
    #[must_use]
    pub fn below(backing: &BackingDevice, when: HoldBack) -> Arc<Self> {
        let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        disks.retain(|(_, disk)| disk.strong_count() > 0);
        let known = disks.iter().find(|(number, _)| *number == backing.disk);
        if let Some(disk) = known.and_then(|(_, disk)| disk.upgrade()) {
            return disk;
        }
        let loads = match disks_below(backing.disk)[..] {
            [disk] => DiskLoad::of(disk).map(|load| (load, OtherDisks::than(disk))),
            _ => None,
        };
        // Without an account of its own reads this process would take them for those of others.
        let loads = loads.filter(|_| own_reads().is_some());
        let costs = costs_of(None, backing.length).ok();
        let observed = loads.zip(costs).and_then(|((load, others), costs)| {
            Observed::new(Sources::new(load, machine_reads, process_reads), others, costs, when)
        });
        let disk = Arc::new(Self::over(observed));
        disks.push((backing.disk, Arc::downgrade(&disk)));
        disk
    }

    /// A disk of which nothing is known: requests go out as they come.
    pub(crate) fn unobserved() -> Self {
        Self::over(None)
    }

    fn over(observed: Option<Observed>) -> Self {
        Self { observed, origin: Clock::now(), others: AtomicU64::new(0), held_back: AtomicU64::new(0) }
    }

    /// Whether reads of others can be seen.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.observed.is_some()
    }

    /// Whether others read from it at present, as far as known. It does not wait.
    #[must_use]
    pub fn others_read(&self) -> bool {
        let last = self.others.load(Relaxed);
        last > 0 && self.now() - Instant(last) <= QUIET
    }

    /// How long requests were held back because others read.
    #[must_use]
    pub fn held_back(&self) -> Duration {
        Duration::from_nanos(self.held_back.load(Relaxed))
    }

    /// This process reads ahead for another one, whose reads are not those of others. It does not wait.
    pub fn helps(&self, process: u32) {
        if let Some(observed) = &self.observed {
            observed.sources.helped().name(process, Clock::now());
        }
    }

    /// This process reads ahead for a program that has ended before it was known. It does not wait.
    pub fn missed_a_program(&self) {
        if let Some(observed) = &self.observed {
            observed.sources.helped().misses();
        }
    }

    /// Looks who else reads, while nothing is to be requested. It waits for counts alone.
    pub fn look(&self) {
        // If it is held, another thread looks.
        if let Some(observed) = &self.observed
            && let Ok(mut state) = observed.state.try_lock()
        {
            self.look_at(observed, &mut state);
        }
    }

    /// Requests a range of a file as [`will_need`] does, which begins at an address of the disk if that is known. At the
    /// end of a burst this waits.
    ///
    /// # Errors
    /// The error of the first call.
    pub fn will_need(
        &self,
        fd: HostFd,
        range: ByteSpan,
        call: Bytes,
        place: Option<Lba>,
    ) -> Result<Bytes, Errno> {
        let mut asked = Bytes::ZERO;
        let mut rest = range;
        self.begin();
        while !rest.is_empty() {
            let call = if self.others_read() { call.min(CALL) } else { call };
            let (piece, after) = rest.split(rest.start + call);
            match request(fd, piece, call) {
                Err(error) if asked.is_zero() => return Err(error),
                Err(_) => break,
                Ok(bytes) => asked += bytes,
            }
            self.requested(
                place.map(|place| place + (piece.start - range.start).sectors_ceil()),
                piece.len(),
            );
            rest = after;
        }
        Ok(asked)
    }

    /// Requests so much from an address on, in one call. At the end of a burst this waits.
    pub(crate) fn in_one_call<T>(&self, start: Lba, length: Bytes, call: impl FnOnce() -> T) -> T {
        self.begin();
        let result = call();
        self.requested(Some(start), length);
        result
    }

    /// Something is about to be requested.
    fn begin(&self) {
        let Some(observed) = &self.observed else { return };
        let mut state = observed.state();
        let pause = state.last.map_or(Duration::MAX, |last| last.elapsed());
        if pause > Duration::from(QUIET)
            && let Some(counted) = observed.counted(&mut state)
        {
            self.programs_change(observed, &mut state);
            state.bursts.begin(self.now(), counted);
            state.last = Some(Clock::now());
        }
        if pause >= PAUSE {
            self.look_at(observed, &mut state);
        }
    }

    /// This much was requested of it, at an address if it is known.
    fn requested(&self, place: Option<Lba>, length: Bytes) {
        let Some(observed) = &self.observed else { return };
        let mut state = observed.state();
        state.bursts.requested(place, length);
        if state.bursts.is_full() {
            self.end(observed, &mut state);
        }
        state.last = Some(Clock::now());
    }

    /// The end of a burst: looks who has read, and waits if others have.
    fn end(&self, observed: &Observed, state: &mut State) {
        let held_back = state.bursts.others_read();
        let Some(counted) = observed.counted(state) else { return };
        if state.proof.is_some() {
            self.look_at_requests(observed, state, counted);
        }
        if let Some(proof) = &mut state.proof
            && !held_back
        {
            state.bursts.restart();
            if proof.checks(self.now()) {
                self.check(observed, state);
            }
            return;
        }
        if !state.bursts.end(self.now(), counted) {
            return;
        }
        let waited = observed.wait();
        if held_back {
            self.held_back.fetch_add(Nanos::from(waited).get(), Relaxed);
        }
        let Some(counted) = observed.counted(state) else { return };
        self.programs_change(observed, state);
        state.bursts.served(self.now(), counted);
        if state.bursts.others_read() {
            self.others.store(self.now().get().max(1), Relaxed);
        }
        self.look_at(observed, state);
    }

    /// Waits for an idle moment of the disk, and looks.
    fn check(&self, observed: &Observed, state: &mut State) {
        observed.wait();
        let served = Clock::now();
        while !self.look_at(observed, state) && served.elapsed() < MOMENT {
            std::thread::sleep(POLL);
        }
    }

    /// Looks at what was requested until then, whether others are proven to read.
    fn look_at_requests(&self, observed: &Observed, state: &mut State, counted: Counted) {
        self.programs_change(observed, state);
        let now = self.now();
        if let Some(proof) = &mut state.proof {
            proof.look_at_requests(now, counted, || state.other_disks.read());
        }
        self.hold_back_if_proven(state, now);
    }

    /// Looks whether others are proven to read; returns whether the disk was idle.
    fn look_at(&self, observed: &Observed, state: &mut State) -> bool {
        // A look at a busy disk costs little.
        if state.proof.is_none() || observed.sources.load.reads_in_flight() != Some(0) {
            return false;
        }
        // The machine's count takes the longest, and the moment is short.
        let Some(counted) = state.counter.count(&observed.sources, false) else { return false };
        self.programs_change(observed, state);
        let now = self.now();
        let Some(proof) = &mut state.proof else { return false };
        let idle = proof.look(now, counted);
        self.hold_back_if_proven(state, now);
        idle
    }

    /// Requests hold back from now on if others are proven to read.
    fn hold_back_if_proven(&self, state: &mut State, now: Instant) {
        if let Some(at) = state.proof.as_ref().and_then(|proof| proof.others_read(now)) {
            state.bursts.others_have_read(at);
            self.others.fetch_max(at.get(), Relaxed);
        }
    }

    /// Some reads of helped programs do not count as theirs if one came or went.
    fn programs_change(&self, observed: &Observed, state: &mut State) {
        if observed.sources.helped().changes() {
            state.bursts.programs_change(self.now());
            state.proof.iter_mut().for_each(Proof::programs_change);
        }
    }

    fn now(&self) -> Instant {
        Instant(Nanos::from(self.origin.elapsed()).get())
    }
}

impl Observed {
    fn new(
        sources: Sources,
        other_disks: OtherDisks,
        costs: Arc<dyn DeviceCosts>,
        when: HoldBack,
    ) -> Option<Self> {
        let bursts = Bursts::new(costs, sources.count(&[], true)?);
        let (bursts, proof) = match when {
            HoldBack::Likely => (bursts, None),
            HoldBack::Proven => (bursts.beside_helped_programs(), Some(Proof::default())),
        };
        let state = State { bursts, proof, other_disks, counter: Counter::default(), last: None };
        Some(Self { sources: Arc::new(sources), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was read until now. The state is held meanwhile: it waits for a bounded time.
    fn counted(&self, state: &mut State) -> Option<Counted> {
        state.counter.count(&self.sources, true)
    }

    /// Waits until the disk has no read in flight but those of the programs that are helped, [`PATIENCE`] at most.
    /// Returns for how long.
    fn wait(&self) -> Duration {
        let begun = Clock::now();
        while begun.elapsed() < PATIENCE {
            match self.sources.load.reads_in_flight() {
                None | Some(0) => break,
                Some(reads) if reads <= self.helped_that_wait() => break,
                Some(_) => std::thread::sleep(LOOK),
            }
        }
        begun.elapsed()
    }

    /// How many threads of the programs that are helped wait for a disk: each has a read in flight, or waits for one
    /// of this process.
    fn helped_that_wait(&self) -> u64 {
        // Whoever names a process does not wait for this look.
        let processes = self.sources.helped().processes();
        processes.into_iter().map(|process| waiting_threads(process, THREADS) as u64).sum()
    }
}

fn request(fd: HostFd, range: ByteSpan, call: Bytes) -> Result<Bytes, Errno> {
    match will_need(fd, range, call, Means::Fadvise) {
        Err(Errno::NOSYS) => will_need(fd, range, call, Means::Readahead),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::ByteOffset;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    /// More than a burst holds: each request is a positioning.
    const MANY: usize = 20;

    fn write(folder: &Path, read: Bytes, in_flight: u64) {
        let sectors = read.get() / 512;
        fs::write(folder.join("stat"), format!("1 0 {sectors} 0 0 0 0 0 0 0 0\n")).unwrap();
        fs::write(folder.join("inflight"), format!("{in_flight} 0\n")).unwrap();
    }

    /// A disk of a machine that does not count its reads.
    fn disk(folder: &Path, when: HoldBack) -> SharedDisk {
        disk_of_machine(folder, when, || None)
    }

    /// The only disk of a machine.
    fn disk_of_machine(folder: &Path, when: HoldBack, machine: fn() -> Option<Bytes>) -> SharedDisk {
        disk_with(folder, when, machine, process_reads)
    }

    fn disk_with(
        folder: &Path,
        when: HoldBack,
        machine: fn() -> Option<Bytes>,
        account: fn(u32) -> Option<Bytes>,
    ) -> SharedDisk {
        fs::create_dir(folder.join("block")).unwrap();
        fs::create_dir(folder.join("queue")).unwrap();
        fs::write(folder.join("queue/iostats"), "1\n").unwrap();
        write(folder, Bytes::ZERO, 0);
        let load = DiskLoad::at(folder).unwrap();
        let others = OtherDisks::within(folder, DeviceNumber::default());
        let sources = Sources::new(load, machine, account);
        SharedDisk::over(Observed::new(sources, others, costs_of(None, None).unwrap(), when))
    }

    fn request(disk: &SharedDisk, number: usize) {
        (0..number).for_each(|_| disk.requested(None, Bytes::kib(4)));
    }

    #[test]
    fn it_holds_back_while_others_read_and_for_a_while_after() {
        let place = tempfile::tempdir().unwrap();
        let disk = disk(place.path(), HoldBack::Likely);
        request(&disk, MANY);
        assert!(disk.is_observed() && !disk.others_read() && disk.held_back().is_zero());
        let begun = Clock::now();
        let mut read = Bytes::ZERO;
        // What is read in the first tenth of a second does not count.
        let in_time = || assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        while !disk.others_read() {
            in_time();
            read += Bytes::gib(1);
            write(place.path(), read, 0);
            request(&disk, 1);
        }
        read += Bytes::gib(1);
        write(place.path(), read, 1);
        request(&disk, 2);
        assert!(disk.others_read() && disk.held_back() >= PATIENCE);
        write(place.path(), read, 0);
        while disk.others_read() {
            in_time();
            request(&disk, 1);
        }
        in_time();
    }

    #[test]
    fn on_proof_alone_it_waits_only_for_a_look_and_beside_others_it_holds_back() {
        let place = tempfile::tempdir().unwrap();
        let disk = disk(place.path(), HoldBack::Proven);
        write(place.path(), Bytes::ZERO, 1);
        disk.look();
        write(place.path(), Bytes::gib(1), 0);
        (0..MANY).for_each(|_| disk.look());
        assert!(!disk.others_read(), "what was read before the first look does not count");
        let (begun, mut read) = (Clock::now(), Bytes::gib(1));
        let in_time = || assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        while !disk.others_read() {
            in_time();
            read += Bytes::gib(1);
            write(place.path(), read, 0);
            disk.look();
        }
        assert!(disk.held_back().is_zero());
        write(place.path(), read, 1);
        request(&disk, MANY);
        assert!(disk.held_back() >= PATIENCE, "{:?}", disk.held_back());
        write(place.path(), read, 0);
        while disk.others_read() {
            in_time();
            request(&disk, 1);
        }
        let held_back = disk.held_back();
        request(&disk, MANY);
        assert_eq!(disk.held_back(), held_back);
    }

    #[test]
    fn reads_of_others_are_proven_while_the_disk_is_never_idle() {
        static OTHERS: AtomicU64 = AtomicU64::new(1 << 30);
        let machine = || own_reads().map(|own| own + Bytes(OTHERS.load(Relaxed)));
        let place = tempfile::tempdir().unwrap();
        let disk = disk_of_machine(place.path(), HoldBack::Proven, machine);
        write(place.path(), Bytes::ZERO, 7);
        request(&disk, MANY);
        let begun = Clock::now();
        while disk.held_back().is_zero() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
            OTHERS.fetch_add(1 << 30, Relaxed);
            request(&disk, MANY);
        }
    }

    #[test]
    fn a_burst_ends_even_if_the_disk_is_never_idle() {
        let place = tempfile::tempdir().unwrap();
        let disk = disk(place.path(), HoldBack::Likely);
        write(place.path(), Bytes::ZERO, 7);
        let begun = Clock::now();
        request(&disk, MANY);
        assert!(begun.elapsed() >= PATIENCE);
    }

    /// A program begins another one, and a file server of its user does not answer to the end of a file.
    #[test]
    fn an_account_that_cannot_be_read_makes_nobody_wait() {
        static BLOCKED: Mutex<()> = Mutex::new(());
        let account = |_| {
            drop(BLOCKED.lock().unwrap());
            Some(Bytes::ZERO)
        };
        let place = tempfile::tempdir().unwrap();
        let disk = Arc::new(disk_with(place.path(), HoldBack::Proven, || None, account));
        let blocked = BLOCKED.lock().unwrap();
        let (to, from) = std::sync::mpsc::channel();
        // Each waits for what the last one left.
        let each: [fn(&SharedDisk); 6] = [
            |disk: &SharedDisk| disk.helps(1),
            |disk: &SharedDisk| disk.look(),
            |disk: &SharedDisk| disk.helps(2),
            |disk: &SharedDisk| disk.missed_a_program(),
            |disk: &SharedDisk| request(disk, MANY),
            |disk: &SharedDisk| (0..1000).for_each(|_| disk.look()),
        ];
        for (number, does) in each.into_iter().enumerate() {
            let (to, disk, begun) = (to.clone(), disk.clone(), Clock::now());
            std::thread::spawn(move || {
                does(&disk);
                let _ = to.send(begun.elapsed());
            });
            let took = from.recv_timeout(Duration::from_secs(10));
            assert!(took.is_ok_and(|took| took < Duration::from_secs(10)), "{number} waits");
        }
        assert!(!disk.others_read());
        // Then counts are taken again.
        drop(blocked);
        let (begun, mut read) = (Clock::now(), Bytes::ZERO);
        while !disk.others_read() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
            read += Bytes::gib(1);
            write(place.path(), read, 0);
            disk.look();
        }
    }

    /// An answer that comes just in time holds up whoever asks as well.
    #[test]
    fn accounts_that_take_long_are_rarely_read() {
        const EACH: Duration = Duration::from_millis(10);
        let account = |_| {
            std::thread::sleep(EACH);
            Some(Bytes::ZERO)
        };
        let place = tempfile::tempdir().unwrap();
        let disk = disk_with(place.path(), HoldBack::Proven, || None, account);
        disk.helps(1);
        let observed = disk.observed.as_ref().unwrap();
        let is_counted = || observed.counted(&mut observed.state()).is_some();
        let begun = Clock::now();
        let counted = (0..1000).filter(|_| is_counted()).count();
        // The account is read twice, and then nobody waits for nine times as long.
        let most = 1 + begun.elapsed().as_millis() / (EACH * 18).as_millis();
        assert!(counted as u128 <= most, "{counted} in {:?}", begun.elapsed());
        while !is_counted() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no counts are taken again");
            std::thread::sleep(EACH);
        }
    }

    #[test]
    fn requests_to_a_disk_that_is_not_observed_go_out_as_they_come() {
        let disk = SharedDisk::unobserved();
        request(&disk, MANY);
        disk.helps(std::process::id());
        assert!(!disk.is_observed() && !disk.others_read() && disk.held_back().is_zero());
    }

    #[test]
    fn a_range_is_requested_whole_in_calls() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, vec![7; 100_000]).unwrap();
        let file = fs::File::open(&path).unwrap();
        let fd = HostFd::new(file.as_raw_fd()).unwrap();
        let range = ByteSpan::at(ByteOffset(4096), Bytes(90_000));
        for call in [Bytes::kib(4), Bytes::mib(1)] {
            assert_eq!(
                disk(tempfile::tempdir().unwrap().path(), HoldBack::Likely).will_need(fd, range, call, None),
                Ok(Bytes(90_000))
            );
        }
    }

    #[test]
    fn file_systems_of_one_disk_share_it() {
        let backing = BackingDevice::of(DeviceNumber::default());
        let below = || SharedDisk::below(&backing, HoldBack::Likely);
        let (one, other) = (below(), below());
        assert!(Arc::ptr_eq(&one, &other));
    }
}
