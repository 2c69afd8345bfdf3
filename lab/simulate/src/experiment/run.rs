//! Runs an experiment: one machine for each point of the sweep and seed, on all processors.

use super::{Experiment, ExperimentError, FETCH_LIMIT, Point, Policy, Results, SWEEP_LIMIT, SeedRun};
use crate::array::{self, Member, Seen, StripDevice};
use crate::block::{self, BlockLayer, scheduler};
use crate::directed::WithLibprefetch;
use crate::machine::{CONCURRENCY_LIMIT, Machine, Parts, Report, reclaim};
use crate::program::{Drive, FileNumber, Workload};
use crate::truth::truth;
use crate::watch::{Tree, Watch};
use crate::workload::walk::listing_place;
use crate::workload::{self, Layout, LayoutSettings, Metadata, Parameters};
use foreseek_device::{Build, Device, Kind, Profile};
use foreseek_kernels as kernels;
use foreseek_readahead::stream::{self, Prefetcher};
use foreseek_readahead::{ServingEngine, serving};
use foreseek_seam::Extent;
use foreseek_strips::{self as strips, Following, Geometry, Lru, StripEngine};
use foreseek_units::{Bytes, DeviceCosts, Instant, Lba};
use foreseek_walks::Walks;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The most threads: each holds a machine, some tens of MiB.
pub const WORKERS_LIMIT: usize = 64;

/// The read-ahead of the kernel in front of a mount: that of a kernel with FUSE.
const IN_FRONT: &str = "on-demand";

/// The progress of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Completed runs.
    pub over: usize,
    /// Runs in all.
    pub runs: usize,
    /// The share of all virtual time that has passed; for jobs, whose end is not known, the share of completed
    /// runs.
    pub share: f64,
}

/// One run to be made.
#[derive(Clone, Copy, Debug)]
struct PlannedRun<'a> {
    /// The index of the experiment's variant, and its value of the fifth axis.
    variant: usize,
    value: Option<&'a str>,
    experiment: &'a Experiment,
    device: usize,
    policy: &'a Policy,
    concurrency: u32,
    seed: u64,
}

/// The extents of the workload's files, and of their metadata if they are read, on one device.
struct Placed {
    extents: Vec<Vec<Extent>>,
    metadata: Option<Metadata>,
}

/// What is made once for all runs of a variant.
struct Prepared {
    /// The extents on each device, for each seed; only for the first one if all seeds have one file system.
    placed: Vec<Vec<Placed>>,
    /// The lengths of the workload's streams, if a policy knows them.
    truth: Option<String>,
}

impl Prepared {
    fn of(experiment: &Experiment) -> Result<Self, ExperimentError> {
        let seeds = if experiment.layout.by_seed { &*experiment.seeds } else { &[0] };
        let on = |device| seeds.iter().map(|seed| lay_out(experiment, device, *seed)).collect();
        let placed = experiment.devices.iter().map(on).collect::<Result<_, _>>()?;
        let announced = experiment.policies.iter().any(|policy| policy.prefetcher == stream::KNOWN_LENGTHS);
        let truth =
            announced.then(|| Ok::<_, ExperimentError>(truth(&mut *experiment.workload()?))).transpose()?;
        Ok(Self { placed, truth })
    }

    /// The extents of a run.
    fn placed(&self, place: PlannedRun<'_>) -> &Placed {
        let of_seeds = &self.placed[place.device];
        let seed = place.experiment.seeds.iter().position(|seed| *seed == place.seed);
        &of_seeds[seed.unwrap_or(0).min(of_seeds.len() - 1)]
    }
}

/// Runs an experiment on `workers` threads (1 to [`WORKERS_LIMIT`]; others are clamped). `progress` is
/// called from any of them.
///
/// # Errors
/// The experiment cannot be run, or a run failed: of several failures the first in the order of the sweep among
/// those that were made before the rest was cancelled.
pub fn run(
    experiment: &Experiment,
    workers: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Results, ExperimentError> {
    experiment.check()?;
    let made = experiment.variants().into_iter().map(|(_, variant)| Prepared::of(variant));
    let made = made.collect::<Result<Vec<Prepared>, _>>()?;
    let places = experiment.places();
    let reports = run_all(&made, &places, workers.clamp(1, WORKERS_LIMIT), progress)?;
    Ok(experiment.results(reports))
}

/// Makes every run; the reports are in the order of the points.
fn run_all(
    made: &[Prepared],
    places: &[PlannedRun<'_>],
    workers: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Report>, ExperimentError> {
    let clock = Clock::new(places, progress);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done: Vec<Mutex<Option<Result<Report, ExperimentError>>>> =
        places.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = places.get(at) else { return };
            let result = run_one(&made[place.variant], *place, &clock);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let Ok(mut slot) = done[at].lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers.min(places.len()) {
            scope.spawn(work);
        }
        work();
    });
    let done = done.into_iter().filter_map(|slot| slot.into_inner().ok().flatten());
    done.collect()
}

/// Counts virtual time over all runs.
struct Clock<'a> {
    progress: &'a (dyn Fn(Progress) + Sync),
    over: AtomicUsize,
    runs: usize,
    /// Virtual milliseconds that have passed, of all.
    passed: AtomicU64,
    all: u64,
}

impl<'a> Clock<'a> {
    fn new(places: &[PlannedRun<'_>], progress: &'a (dyn Fn(Progress) + Sync)) -> Self {
        let each =
            |place: &PlannedRun<'_>| place.experiment.period(place.concurrency).whole().get() / 1_000_000;
        let closed = places.iter().all(|place| place.experiment.is_closed());
        let all = if closed { places.iter().map(each).sum() } else { 0 };
        let runs = places.len();
        Self { progress, over: AtomicUsize::new(0), runs, passed: AtomicU64::new(0), all }
    }

    fn report(&self, over: usize) {
        let passed = self.passed.load(Ordering::Relaxed);
        let share =
            if self.all == 0 { over as f64 / self.runs as f64 } else { passed as f64 / self.all as f64 };
        (self.progress)(Progress { over, runs: self.runs, share: share.min(1.0) });
    }

    /// A run's clock has advanced.
    fn pass(&self, from: Instant, to: Instant) {
        let ms = |at: Instant| at.get() / 1_000_000;
        self.passed.fetch_add(ms(to) - ms(from), Ordering::Relaxed);
        self.report(self.over.load(Ordering::Relaxed));
    }

    fn run_is_over(&self) {
        let over = self.over.fetch_add(1, Ordering::Relaxed) + 1;
        self.report(over);
    }
}

fn run_one(made: &Prepared, place: PlannedRun<'_>, clock: &Clock<'_>) -> Result<Report, ExperimentError> {
    let experiment = place.experiment;
    let (machine, seen) = experiment.machine_for(made, place)?;
    let period = experiment.period(place.concurrency);
    let mut passed = Instant::ZERO;
    let report = machine.run(period, &mut |now| {
        clock.pass(passed, now);
        passed = now;
    });
    if experiment.is_closed() {
        clock.pass(passed, Instant::ZERO + period.whole());
    }
    clock.run_is_over();
    let report = report.map_err(|cause| experiment.failed(place, cause))?;
    Ok(Report { array: seen.map(|seen| seen.stats()), ..report })
}

/// Lays the workload's files out on a device, for runs of this seed.
fn lay_out(experiment: &Experiment, profile: &Profile, seed: u64) -> Result<Placed, ExperimentError> {
    if let Some(extents) = experiment.made.as_ref().and_then(|made| made.extents.as_ref()) {
        return Ok(Placed { extents: extents.to_vec(), metadata: None });
    }
    let workload = experiment.workload()?;
    let files = workload.files();
    let capacity = profile.capacity().sectors_floor();
    let for_files = capacity - experiment.machine.memory.swap(capacity).sectors();
    let settings = LayoutSettings { seed: experiment.layout.seed.wrapping_add(seed), ..experiment.layout };
    let layout = Layout::place(&files, for_files, &settings)
        .map_err(|cause| ExperimentError::Workload { experiment: experiment.name.clone(), cause })?;
    let extents = (0..files.len()).map(|file| layout.extents(FileNumber(file as u32)).to_vec()).collect();
    Ok(Placed { extents, metadata: layout.metadata().cloned() })
}

impl Experiment {
    fn wrong(&self, key: &str, reason: String) -> ExperimentError {
        ExperimentError::Key { file: format!("experiment {}", self.name), key: key.to_owned(), reason }
    }

    /// Checks that it can be run, as far as possible beforehand.
    ///
    /// # Errors
    /// A list is empty or too long, or a name is unknown.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let values = self.axis.as_ref().map_or(1, |axis| axis.variants.len());
        if !(1..=SWEEP_LIMIT).contains(&values) {
            return Err(self.wrong("sweep", format!("has {values} values: give 1 to {SWEEP_LIMIT}")));
        }
        self.variants().into_iter().try_for_each(|(_, variant)| variant.check_one())
    }

    fn check_one(&self) -> Result<(), ExperimentError> {
        let lists = [
            ("devices", self.devices.len()),
            ("policies", self.policies.len()),
            ("concurrency", self.concurrency.len()),
            ("seeds", self.seeds.len()),
        ];
        for (key, length) in lists {
            if !(1..=SWEEP_LIMIT).contains(&length) {
                let reason = format!("has {length} entries: give 1 to {SWEEP_LIMIT}");
                return Err(self.wrong(key, reason));
            }
        }
        let levels = 1..=CONCURRENCY_LIMIT;
        if let Some(level) = self.concurrency.iter().find(|level| !levels.contains(*level)) {
            let reason = format!("concurrency {level}: give 1 to {CONCURRENCY_LIMIT}");
            return Err(self.wrong("concurrency", reason));
        }
        if self.duration.is_zero() {
            return Err(self.wrong("duration_s", "must be more than 0".into()));
        }
        self.check_sizes()?;
        let workload = self.workload()?;
        if workload.drive() != Drive::Closed && self.concurrency.as_slice() != [1] {
            let reason = format!("workload {} is a batch of jobs: leave it out", self.workload);
            return Err(self.wrong("concurrency", reason));
        }
        for policy in &self.policies {
            for device in &self.devices {
                self.prefetcher(policy, device)?;
                self.strips(policy, device)?;
            }
            self.reclaim(policy)?;
            if policy.watched().is_some() && (workload.tree().is_none() || self.layout.metadata.is_none()) {
                return Err(self.nothing_to_watch());
            }
        }
        self.scheduler()?;
        self.members_scheduler()
    }

    /// Checks that the given sizes fit onto the devices: an error in a unit would make files by the billion
    /// before the layout fails.
    fn check_sizes(&self) -> Result<(), ExperimentError> {
        let Parameters { file_size, data_size, .. } = &self.parameters;
        for device in &self.devices {
            for (key, size) in [("workload.file_size", file_size), ("workload.data_size", data_size)] {
                if let Some(size) = size.filter(|size| *size > device.capacity()) {
                    let (name, capacity) = (device.name(), device.capacity());
                    return Err(
                        self.wrong(key, format!("{size} do not fit onto {name}, which has {capacity}"))
                    );
                }
            }
        }
        Ok(())
    }

    pub(super) fn workload(&self) -> Result<Box<dyn Workload>, ExperimentError> {
        if let Some(made) = &self.made {
            return Ok((made.workload)());
        }
        workload::by_name(&self.workload, &self.parameters)
            .map_err(|cause| ExperimentError::Workload { experiment: self.name.clone(), cause })
    }

    /// The workload; its programs use libprefetch if the policy says so.
    fn workload_of(&self, policy: &Policy, profile: &Profile) -> Result<Box<dyn Workload>, ExperimentError> {
        let workload = self.workload()?;
        Ok(match policy.directed() {
            Some((settings, _)) => Box::new(WithLibprefetch::new(workload, settings(profile))),
            None => workload,
        })
    }

    fn scheduler(&self) -> Result<Box<dyn block::Scheduler>, ExperimentError> {
        let known = || scheduler::NAMES.iter().map(|(name, _)| *name);
        scheduler::by_name(&self.scheduler)
            .ok_or_else(|| self.wrong("scheduler", unknown(&self.scheduler, known())))
    }

    fn prefetcher(&self, policy: &Policy, device: &Profile) -> Result<Box<dyn Prefetcher>, ExperimentError> {
        let costs: Arc<dyn DeviceCosts> = Arc::new(device.clone());
        self.mount(policy, device)?;
        let directed = policy.directed().map(|(_, kernel)| kernel);
        let own = directed.or_else(|| policy.watched()).unwrap_or(&policy.prefetcher);
        let name = if policy.mounted().is_some() { IN_FRONT } else { own };
        let mut prefetch = self.prefetch.clone();
        if let Some(window) = policy.window {
            let pages = window.pages_floor();
            if policy.mounted().is_some() || !(1..=FETCH_LIMIT).contains(&pages.get()) {
                let reason = format!("{policy}: a window is of a kernel's read-ahead, of 4 KiB to 1 GiB");
                return Err(self.wrong("policies", reason));
            }
            prefetch.stream.window = pages;
        }
        kernels::by_name(name, &prefetch, &costs).map_err(|error| self.wrong("policies", error.to_string()))
    }

    /// The engine of a policy that reads through a mount, with the mount's default settings except for the
    /// experiment's bound. Its frames take a quarter of the memory.
    fn mount(&self, policy: &Policy, device: &Profile) -> Result<Option<ServingEngine>, ExperimentError> {
        let Some(name) = policy.mounted() else { return Ok(None) };
        let costs: Arc<dyn DeviceCosts> = Arc::new(device.clone());
        let (memory, machine) = (self.mounts_memory(), self.machine.memory.total);
        let overlapping = device.kind() != Kind::Disk;
        let mut settings =
            serving::Settings::of_mount(name, memory.pages_floor(), machine.pages_floor(), overlapping);
        settings.stream.rho = self.prefetch.stream.rho;
        let engine = ServingEngine::new(settings, &costs);
        engine.map(Some).map_err(|error| self.wrong("policies", error.to_string()))
    }

    fn nothing_to_watch(&self) -> ExperimentError {
        let reason = "a daemon that watches needs the workload 'walk' and layout.metadata: set it to ext4";
        self.wrong("policies", reason.to_owned())
    }

    /// The daemon of a policy that watches: what it has read ahead and was not used yet takes at most half of
    /// the memory.
    fn watch(&self, profile: &Profile, placed: &Placed) -> Result<Watch, ExperimentError> {
        let workload = self.workload()?;
        let (Some(listings), Some(metadata)) = (workload.tree(), placed.metadata.clone()) else {
            return Err(self.nothing_to_watch());
        };
        let settings =
            foreseek_walks::Settings { budget: self.machine.memory.total.scale(0.5), ..Default::default() };
        let mut directories: Vec<u32> = metadata.all_directories().keys().copied().collect();
        directories.sort_by_key(|directory| listing_place(*directory));
        let files = workload.files();
        let tree = Tree { listings, directories, files, extents: placed.extents.clone(), metadata };
        Ok(Watch::new(Walks::new(settings, Arc::new(profile.clone())), tree))
    }

    /// The memory of a mount's frames.
    fn mounts_memory(&self) -> Bytes {
        self.machine.memory.total.scale(0.25)
    }

    fn reclaim(&self, policy: &Policy) -> Result<Box<dyn reclaim::Reclaim>, ExperimentError> {
        let known = || reclaim::NAMES.iter().map(|(name, _)| *name);
        reclaim::by_name(&policy.reclaim, &self.machine.memory)
            .ok_or_else(|| self.wrong("policies", unknown(&policy.reclaim, known())))
    }

    /// Every run, in the order of results.
    fn places(&self) -> Vec<PlannedRun<'_>> {
        let mut places = Vec::new();
        for (variant, (value, experiment)) in self.variants().into_iter().enumerate() {
            for device in 0..experiment.devices.len() {
                for policy in &experiment.policies {
                    for &concurrency in &experiment.concurrency {
                        for &seed in &experiment.seeds {
                            let place =
                                PlannedRun { variant, value, experiment, device, policy, concurrency, seed };
                            places.push(place);
                        }
                    }
                }
            }
        }
        places
    }

    fn machine_for(
        &self,
        made: &Prepared,
        place: PlannedRun<'_>,
    ) -> Result<(Machine, Option<Seen>), ExperimentError> {
        let profile = &self.devices[place.device];
        let (device, seen) = self.device(place.policy, profile, place.seed)?;
        let mount = self.mount(place.policy, profile)?;
        let mut settings = self.machine.clone();
        if mount.is_some() {
            settings.memory.total -= self.mounts_memory();
        }
        let mut prefetcher = self.prefetcher(place.policy, profile)?;
        if let (stream::KNOWN_LENGTHS, Some(truth)) = (&*place.policy.prefetcher, &made.truth)
            && let Some(learning) = prefetcher.learning()
        {
            learning.load(truth).map_err(|error| self.wrong("policies", error.to_string()))?;
        }
        let machine = Machine::new(Parts {
            settings,
            block: BlockLayer::new(self.block, self.scheduler()?, device),
            prefetcher,
            reclaim: self.reclaim(place.policy)?,
            workload: self.workload_of(place.policy, profile)?,
            extents: made.placed(place).extents.clone(),
            concurrency: place.concurrency,
            seed: place.seed,
        });
        let mut machine = machine.map_err(|cause| self.failed(place, cause))?;
        let placed = made.placed(place);
        if let Some(metadata) = placed.metadata.clone() {
            machine = machine.with_metadata(metadata);
        }
        if place.policy.watched().is_some() {
            machine = machine.watched(self.watch(profile, placed)?);
        }
        let machine = match mount {
            Some(engine) => machine.behind(engine),
            None => machine,
        };
        Ok((machine, seen))
    }

    /// The device, behind the driver of an array if the policy has one.
    fn device(
        &self,
        policy: &Policy,
        profile: &Profile,
        seed: u64,
    ) -> Result<(Box<dyn Device>, Option<Seen>), ExperimentError> {
        let failed_member = self.array.failed_member;
        let build = Build { seed, queue: self.block.device_order, failed_member, ..Build::default() };
        let failed = |cause| ExperimentError::Device { experiment: self.name.clone(), cause };
        let Some((engine, geometry)) = self.strips(policy, profile)? else {
            return Ok((profile.build(&build).map_err(failed)?, None));
        };
        self.members_scheduler()?;
        let mut slow_first = array::slow_first(self.array.slow);
        let mut member = |disk: Box<dyn Device>| -> Box<dyn Device> {
            let disk = slow_first(disk);
            match scheduler::by_name(&self.array.scheduler) {
                Some(scheduler) => Box::new(Member::new(self.array.members, scheduler, disk)),
                None => disk,
            }
        };
        let below = profile.build_over(&build, &mut member).map_err(failed)?;
        let mut driver = StripDevice::new(engine, below, (self.array.request, self.array.copy));
        if let Some(blocks) = self.array.written() {
            driver = driver.with_write_cache(geometry, blocks);
        }
        let seen = driver.seen();
        Ok((Box::new(driver), Some(seen)))
    }

    /// The engine of an array's driver, if the policy has one.
    fn strips(
        &self,
        policy: &Policy,
        profile: &Profile,
    ) -> Result<Option<(StripEngine, Geometry)>, ExperimentError> {
        let Some(name) = policy.array.as_ref().or(self.array.policy.as_ref()) else { return Ok(None) };
        let wrong = |reason: String| self.wrong("policies", format!("{policy}: {reason}"));
        let (Some(stripes), Some(member)) = (profile.stripes(), profile.member()) else {
            return Err(wrong(format!("{} is not an array", profile.name())));
        };
        let member = match &self.array.assumed {
            None => member,
            Some(name) => {
                let known = || Profile::builtin_names().collect::<Vec<_>>().join(", ");
                let profile = Profile::builtin(name).ok_or_else(|| {
                    self.wrong(
                        "array_cache.assumed",
                        format!("there is no profile '{name}'; known are {}", known()),
                    )
                })?;
                profile.member().unwrap_or(profile)
            }
        };
        let announced = |error: strips::StripsError| wrong(error.to_string());
        let rules = strips::registry::by_name(name).map_err(announced)?;
        if rules.host_window.is_some() {
            return Err(wrong(
                "name the host's window before the '/', as in linux-2.6.18@128K/asp".to_owned(),
            ));
        }
        let geometry =
            Geometry::new(stripes, Lba::ZERO, profile.capacity().pages_floor()).map_err(announced)?;
        let as_members =
            || if profile.looks_ahead() { Following::Streams } else { Following::MissesRotation };
        let following = self.array.following.unwrap_or_else(as_members);
        let cache = self.array.size.pages_floor() - self.array.written().unwrap_or_default();
        let settings = strips::Settings { cache, following };
        let engine = StripEngine::new(geometry, settings, rules.rules, Arc::new(member), Box::new(Lru));
        engine.map(|engine| Some((engine, geometry))).map_err(announced)
    }

    fn members_scheduler(&self) -> Result<(), ExperimentError> {
        let known = || scheduler::NAMES.iter().map(|(name, _)| *name);
        let name = &self.array.scheduler;
        if known().any(|one| one == name) {
            return Ok(());
        }
        Err(self.wrong("array_cache.scheduler", unknown(name, known())))
    }

    fn failed(&self, place: PlannedRun<'_>, cause: crate::machine::MachineError) -> ExperimentError {
        let PlannedRun { value, device, policy, concurrency, seed, .. } = place;
        let device = self.devices[device].name();
        let value = value.map(|value| format!("{value}, ")).unwrap_or_default();
        let run = format!("{value}{device}, {policy}, concurrency {concurrency}, seed {seed}");
        ExperimentError::Machine { experiment: self.name.clone(), run, cause: Box::new(cause) }
    }

    /// Assigns the reports, which are in the order of the points, to their points.
    fn results(&self, reports: Vec<Report>) -> Results {
        let mut reports = reports.into_iter();
        let mut points: Vec<Point> = Vec::new();
        for place in self.places() {
            let device = place.experiment.devices[place.device].name();
            let same = points.last().is_some_and(|last| {
                last.value.as_deref() == place.value
                    && last.device == device
                    && last.policy == *place.policy
                    && last.concurrency == place.concurrency
                    && last.runs.len() < place.experiment.seeds.len()
            });
            if !same {
                points.push(Point {
                    value: place.value.map(str::to_owned),
                    device: device.to_owned(),
                    policy: place.policy.clone(),
                    concurrency: place.concurrency,
                    runs: Vec::new(),
                });
            }
            if let (Some(point), Some(report)) = (points.last_mut(), reports.next()) {
                point.runs.push(SeedRun { seed: place.seed, report });
            }
        }
        Results {
            experiment: self.name.clone(),
            description: self.description.clone(),
            workload: self.workload.clone(),
            scheduler: self.scheduler.clone(),
            key: self.axis.as_ref().map(|axis| axis.key.clone()),
            points,
        }
    }
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!("there is no '{name}'; known are {}", known.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::SetUp;

    #[test]
    fn seeds_have_file_systems_of_their_own_where_the_set_up_says_so() {
        for (set_up, workload) in [(SetUp::EuroSys, "cp5"), (SetUp::Atc08, "tiobench")] {
            let experiment = Experiment::new("placed", set_up, workload);
            let made = Prepared::of(&experiment).expect("room");
            let placed = |seed| {
                let (policy, value) = (&experiment.policies[0], None);
                let place = PlannedRun {
                    variant: 0,
                    value,
                    experiment: &experiment,
                    device: 0,
                    policy,
                    concurrency: 1,
                    seed,
                };
                &made.placed(place).extents
            };
            assert_eq!(placed(1) == placed(2), !set_up.places_by_seed(), "{workload}");
            assert_eq!(placed(3).len(), placed(1).len());
        }
    }
}
