//! The options of the benchmark.

use crate::cell::Cell;
use crate::policy::Policy;
use crate::{Error, Result};
use foreseek_device::{Build, Profile};
use foreseek_simulate::workload::Parameters;
use foreseek_storage::read_text;
use foreseek_units::Bytes;
use std::path::PathBuf;

/// The disk of TR-840.
pub const PROFILE: &str = "ibm-36g-51";

/// The default data set: 1024 files of 4 MiB, eight times the memory, so that at most about one read in eight
/// finds what another request has left. The papers' 6000 files (47 times memory) can be chosen; they take 25 GB
/// of this machine's disk.
pub const DATA_SIZE: Bytes = Bytes::gib(4);

/// All of the memory: that of TR-840's machine.
const MEMORY: Bytes = Bytes::mib(512);

/// The buffer of a reader: a block of the microbenchmarks.
const BUFFER: Bytes = Bytes::kib(64);

/// The part of it that a server gets: half.
const SERVER_MEMORY: Bytes = Bytes::mib(256);

/// The default factor on the disk's time. The processors' time does not scale: where that would be the limit,
/// the factor must grow.
pub const TIME_SCALE: f64 = 0.25;

/// Measured seconds of one run of one reader, in elapsed time; more readers take up to twice that
/// ([`Cell::weight`]). With this the core is measured in less than an hour.
pub const SECONDS: f64 = 1.25;

/// The warm-up before a run's measured time, as a share of it.
const WARM_UP: f64 = 0.5;

/// The default number of pairs: the least for an interval.
pub const PAIRS: u32 = 5;

/// Further time of a run: mounting, servers, looking all files up, ending. Measured: 0.4 to 1.3 s.
const BESIDE: f64 = 1.0;

/// How fast the data set is made. Measured: 150 to 400 MB/s.
const MAKING: f64 = 150e6;

/// Time of the oracle for a second of modelled time, both of its models together (measured: 0.025 s), and then
/// of each mount (0.02 s).
const MODELLING: f64 = 0.03;

/// The shortest run: in a shorter one the disk serves less than a dozen requests.
const SECONDS_LEAST: f64 = 0.5;

/// The disk's size over that of the data, as in TR-840 (36.4 GB for 24). Its full stroke is stretched over it,
/// so that a small data set seeks as far as theirs.
const DISK_OVER_DATA: f64 = 1.5;

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is compared.
    pub policies: Vec<Policy>,
    /// Where.
    pub cells: Vec<Cell>,
    /// How often.
    pub pairs: u32,
    /// Measured seconds of one run of one reader.
    pub seconds: f64,
    /// The first pair's seed; the others' follow.
    pub seed: u64,
    /// The factor on the disk's time and on think times.
    pub time_scale: f64,
    /// A built-in profile or a file.
    pub profile: String,
    /// Length of all files together.
    pub data: Bytes,
    /// All of the memory.
    pub memory: Bytes,
    /// The part of it that a server gets.
    pub server_memory: Bytes,
    /// What each reader holds and touches beside its buffer, within `memory`.
    pub reader_private: Bytes,
    /// Where the emulated disk's data lie; `/var/tmp` where not given.
    pub disk_space: Option<PathBuf>,
    /// Where raw runs and the report go; existing runs are kept and continued.
    pub out: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policies: Policy::compared(),
            cells: Cell::core(),
            pairs: PAIRS,
            seconds: SECONDS,
            seed: 1,
            time_scale: TIME_SCALE,
            profile: PROFILE.to_owned(),
            data: DATA_SIZE,
            memory: MEMORY,
            server_memory: SERVER_MEMORY,
            reader_private: Bytes::ZERO,
            disk_space: None,
            out: PathBuf::from("bench-mount"),
        }
    }
}

impl Options {
    /// Checks all of it before anything is changed, and loads the profile.
    pub(crate) fn check(&self) -> Result<Profile> {
        let refuse = |what: String| Err(Error::Option { what });
        if self.cells.is_empty() || self.policies.is_empty() {
            return refuse("nothing to measure: name at least one cell and one policy".to_owned());
        }
        if let Some(policy) = self.policies.iter().find(|policy| policy.is_modelled()) {
            return refuse(format!("{policy} is modelled in any case: leave it out"));
        }
        if let Some(double) = double(&self.policies).or_else(|| double(&self.cells)) {
            return refuse(format!("{double} is named twice"));
        }
        if !(1..=PAIRS_LIMIT).contains(&self.pairs) {
            return refuse(format!("--pairs {}: from 1 to {PAIRS_LIMIT} is possible", self.pairs));
        }
        let (least, most) = (SECONDS_LEAST, 3600.0);
        if !(least..=most).contains(&self.seconds) {
            return refuse(format!("{} s a run: from {least} to {most} is possible", self.seconds));
        }
        let (least, most) = TIME_SCALES;
        if !(least..=most).contains(&self.time_scale) {
            return refuse(format!("--time-scale {}: from {least} to {most} is possible", self.time_scale));
        }
        let held = self.held();
        if self.server_memory < LEAST_MEMORY || self.memory < self.server_memory + LEAST_MEMORY + held {
            return refuse(format!(
                "--memory {} with --server-memory {}: server and readers need {LEAST_MEMORY} each, and the most \
                 readers hold {held} more (--reader-private {})",
                self.memory, self.server_memory, self.reader_private
            ));
        }
        let profile = Profile::load(&self.profile, read_text)?;
        let (least, most) = (LEAST_DATA, profile.capacity().scale(0.95));
        if self.data < least || self.data > most {
            return refuse(format!(
                "--data-size {}: from {least} to {most} of {} is possible",
                self.data,
                profile.name()
            ));
        }
        profile.build(&self.build(&profile))?;
        Ok(profile)
    }

    /// The device as the emulator and the oracle make it.
    pub(crate) fn build(&self, profile: &Profile) -> Build {
        let mib = (self.data.get() as f64 * DISK_OVER_DATA / Bytes::mib(1).get() as f64).ceil() as u64;
        let size =
            Bytes::mib(mib).min(Bytes(profile.capacity().get() / Bytes::mib(1).get() * Bytes::mib(1).get()));
        Build { size: Some(size), fit: true, ..Build::default() }
    }

    /// The private memory of the most readers at a time, buffers not counted.
    fn held(&self) -> Bytes {
        let readers = |cell: &Cell| cell.point().map_or(1, |point| u64::from(point.concurrency));
        self.reader_private * self.cells.iter().map(readers).max().unwrap_or_default()
    }

    /// What a reader holds: its buffer, and its other private memory.
    pub(crate) fn reader_holds(&self) -> Bytes {
        BUFFER + self.reader_private
    }

    /// The workload's parameters: those of the data set, and the private memory of a handler.
    pub(crate) fn parameters(&self) -> Parameters {
        Parameters {
            data_size: Some(self.data),
            handler_memory: Some(self.reader_holds()),
            ..Parameters::default()
        }
    }

    /// How many runs there are.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.places().count() * self.pairs as usize
    }

    /// Every cell with each policy that is measured in it.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Cell, &Policy)> {
        let of = |cell: Cell| self.policies.iter().filter(move |policy| policy.is_in(cell));
        self.cells.iter().flat_map(move |cell| of(*cell).map(move |policy| (*cell, policy)))
    }

    /// How long the runs of one policy in a cell take.
    pub(crate) fn time_of(&self, cell: Cell) -> f64 {
        self.measured(cell) + self.warm_up(cell) + BESIDE
    }

    /// Measured seconds of a run.
    pub(crate) fn measured(&self, cell: Cell) -> f64 {
        self.seconds * cell.weight()
    }

    /// Seconds before them.
    pub(crate) fn warm_up(&self, cell: Cell) -> f64 {
        self.measured(cell) * WARM_UP
    }

    /// How long measuring these cells, modelling those, and making the data set take, in seconds.
    pub(crate) fn time(
        &self,
        measured: impl Iterator<Item = Cell>,
        modelled: impl Iterator<Item = Cell>,
    ) -> f64 {
        let measuring: f64 = measured.map(|cell| self.time_of(cell)).sum();
        let seconds: f64 = modelled.map(|cell| self.measured(cell) + self.warm_up(cell)).sum();
        let all = measuring + seconds / self.time_scale * MODELLING;
        if all > 0.0 { all + self.data.get() as f64 / MAKING } else { 0.0 }
    }

    /// How long all of it takes from nothing, in seconds.
    fn estimate(&self) -> f64 {
        let pairs = |cells: Vec<Cell>| cells.repeat(self.pairs as usize).into_iter();
        let points = self.cells.iter().filter(|cell| cell.point().is_some()).copied().collect();
        self.time(pairs(self.places().map(|(cell, _)| cell).collect()), pairs(points))
    }

    /// Chooses the longest runs with which all of them end within this many minutes.
    ///
    /// # Errors
    /// Where they would be too short to be useful.
    pub fn within(&mut self, minutes: f64) -> Result<()> {
        // The time is linear in the length of a run.
        let with = |seconds: f64| Self { seconds, ..self.clone() }.estimate();
        let (short, long) = (with(SECONDS_LEAST), with(SECONDS_LEAST + 1.0));
        let seconds = SECONDS_LEAST + (minutes * 60.0 - short) / (long - short);
        if seconds >= SECONDS_LEAST {
            self.seconds = (seconds * 100.0).floor() / 100.0;
            return Ok(());
        }
        let least = short / 60.0;
        Err(Error::Option {
            what: format!(
                "--minutes {minutes}: {} runs take {least:.1} minutes at least; name fewer --cells, --policies or --pairs",
                self.runs()
            ),
        })
    }
}

/// The most pairs: more would be a typing error.
const PAIRS_LIMIT: u32 = 100;

/// The factor on time: below a hundredth only the machine's own time would be measured.
const TIME_SCALES: (f64, f64) = (0.01, 10.0);

/// The least memory for a server or for the readers: 256 buffers, their stacks, and room for pages.
const LEAST_MEMORY: Bytes = Bytes::mib(64);

/// The least data set: some files for each of the benchmarks' requests, to try whether it works.
const LEAST_DATA: Bytes = Bytes::mib(64);

fn double<T: PartialEq + ToString>(all: &[T]) -> Option<String> {
    all.iter().enumerate().find(|(at, one)| all[..*at].contains(one)).map(|(_, one)| one.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_with_what_is_possible() {
        let with = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(with(&|_| ()), Ok(()));
        for (change, word) in [
            (&(|o: &mut Options| o.cells.clear()) as &dyn Fn(&mut Options), "at least one"),
            (&|o| o.policies.push(Policy::Plain), "plain is named twice"),
            (&|o| o.cells.push(Cell::Hot), "hot is named twice"),
            (&|o| o.pairs = 0, "--pairs 0"),
            (&|o| o.policies.push(Policy::Oracle), "oracle is modelled"),
            (&|o| o.seconds = 0.1, "0.1 s a run"),
            (&|o| o.time_scale = f64::NAN, "--time-scale NaN"),
            (&|o| o.server_memory = Bytes::mib(500), "--server-memory 500 MiB"),
            (&|o| o.reader_private = Bytes::mib(1), "256 MiB more (--reader-private 1 MiB)"),
            (&|o| o.data = Bytes::gib(40), "--data-size 40 GiB"),
            (&|o| o.profile = "floppy".to_owned(), "floppy"),
        ] {
            let error = with(change).expect_err(word);
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_time_is_kept_or_refused() {
        let mut options = Options::default();
        // 24 cells with seven policies and two with four.
        assert_eq!(options.runs(), (24 * 7 + 2 * 4) * 5);
        options.within(60.0).expect("an hour is enough");
        // Down to hundredths of a second, so that the same length can be given again.
        assert!((3540.0..=3600.0).contains(&options.estimate()), "{}", options.estimate());
        assert!(((options.seconds * 100.0).fract() - 0.5).abs() > 0.49, "{}", options.seconds);
        let error = options.within(5.0).expect_err("too short").to_string();
        assert!(error.contains("--minutes 5") && error.contains("at least"), "{error}");
    }

    #[test]
    fn the_disk_seeks_over_its_full_stroke() {
        let profile = Profile::builtin(PROFILE).expect("built in");
        let build = Options::default().build(&profile);
        assert_eq!((build.size, build.fit), (Some(Bytes::gib(6)), true));
        let all = Options { data: Bytes::mib(24_000), ..Options::default() }.build(&profile);
        assert!(all.size.expect("a size") <= profile.capacity());
    }
}
