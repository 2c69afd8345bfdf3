//! The options of the demo.

use crate::progress::Show;
use crate::{Error, Result, database};
use foreseek_device::{Build, Profile};
use foreseek_hints::Mode;
use foreseek_storage::read_text;
use foreseek_units::{Bytes, PAGE_SIZE};
use std::path::PathBuf;

/// The default size of the database: stock SQLite takes eight minutes for that on an unscaled disk where memory
/// holds half of it.
pub const DATABASE_SIZE: Bytes = Bytes::mib(100);

/// The default factor on the disk's time: the largest with which the whole demo ends within five minutes. The
/// times of the processor and of the path through the kernel do not scale. So the smaller the factor, the less
/// of the measured time comes from the disk.
pub const TIME_SCALE: f64 = 0.4;

/// The disk of the paper (ATC'09 section 5.1).
pub const PROFILE: &str = "barracuda-500g";

/// The disk's size. The database takes a hundredth of it.
pub const DISK_SIZE: Bytes = Bytes::gib(8);

/// The least memory with which the shell itself runs.
const LEAST_MEMORY: Bytes = Bytes::mib(4);

/// The factor on time: below a thousandth the machine's own time is all there is to see, above one
/// the demo takes an hour.
const TIME_SCALES: (f64, f64) = (0.001, 10.0);

/// Space beside the database that the file system and the loading take.
pub(crate) const SPACE_BESIDE: Bytes = Bytes::mib(512);

/// Options of the demo.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the database, at least.
    pub database_size: Bytes,
    /// Memory of the main run; half the database where not given.
    pub memory: Option<Bytes>,
    /// The factor on the disk's time.
    pub time_scale: f64,
    /// A built-in profile or a file.
    pub profile: String,
    /// Where random numbers start.
    pub seed: u64,
    /// The loadable extension; beside this program where not given.
    pub extension: Option<PathBuf>,
    /// Whether Foreseek fetches while the query reads.
    pub mode: Mode,
    /// Leave the disk attached and the file system mounted.
    pub keep: bool,
    /// Virtual time even where real time could be had.
    pub simulate: bool,
    /// Where progress is shown.
    pub show: Show,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            database_size: DATABASE_SIZE,
            memory: None,
            time_scale: TIME_SCALE,
            profile: PROFILE.to_owned(),
            seed: 1,
            extension: None,
            mode: Mode::Pipelined,
            keep: false,
            simulate: false,
            show: Show::Quiet,
        }
    }
}

impl Options {
    /// Checks them before anything is changed, and loads the profile.
    pub(crate) fn check(&self) -> Result<Profile> {
        let refuse = |what: String| Err(Error::Option { what });
        if self.database_size < database::SMALLEST || self.database_size * 2 > DISK_SIZE {
            return refuse(format!(
                "--database-size {}: from {} to {} is possible",
                self.database_size,
                database::SMALLEST,
                DISK_SIZE / 2
            ));
        }
        if let Some(memory) = self.memory
            && memory < LEAST_MEMORY
        {
            return refuse(format!("--memory {memory}: sqlite3 itself needs {LEAST_MEMORY}; give more"));
        }
        let (least, most) = TIME_SCALES;
        if !(least..=most).contains(&self.time_scale) {
            return refuse(format!("--time-scale {}: from {least} to {most} is possible", self.time_scale));
        }
        let profile = Profile::load(&self.profile, read_text)?;
        profile.build(&build())?;
        Ok(profile)
    }

    /// The memory of the main run: as asked, or half of the database.
    pub(crate) fn main_memory(&self, database: Bytes) -> Bytes {
        let half = Bytes(database.get() / 2 / PAGE_SIZE * PAGE_SIZE);
        self.memory.unwrap_or(half).max(LEAST_MEMORY)
    }

    /// The two runs: name, title, memory.
    pub(crate) fn runs(&self, database: Bytes) -> [(&'static str, String, Bytes); 2] {
        let main = self.main_memory(database);
        let ratio = database.get() as f64 / main.get() as f64;
        let title = match ratio {
            ratio if (1.95..2.05).contains(&ratio) => "data twice as large as memory".to_owned(),
            ratio => format!("data {ratio:.1} times as large as memory"),
        };
        let fits = Bytes(database.get() * 2 / PAGE_SIZE * PAGE_SIZE).max(LEAST_MEMORY * 4);
        [("main", title, main), ("fits", "data that fits into memory".to_owned(), fits)]
    }
}

/// The device as the emulator makes it: with its own size and queue.
pub(crate) fn build() -> Build {
    Build { size: Some(DISK_SIZE), ..Build::default() }
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
            (&(|o: &mut Options| o.database_size = Bytes(1)) as &dyn Fn(&mut Options), "1 MiB"),
            (&|o| o.database_size = Bytes::gib(5), "4 GiB"),
            (&|o| o.memory = Some(Bytes::kib(64)), "--memory 64 KiB"),
            (&|o| o.time_scale = 0.0, "--time-scale 0"),
            (&|o| o.time_scale = f64::NAN, "--time-scale NaN"),
            (&|o| o.time_scale = f64::INFINITY, "--time-scale inf"),
            (&|o| o.profile = "floppy".to_owned(), "floppy"),
        ] {
            let error = with(change).expect_err(word);
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn memory_is_half_the_database_and_then_twice_it() {
        let [main, fits] = Options::default().runs(Bytes::mib(101));
        assert_eq!((main.1.as_str(), main.2), ("data twice as large as memory", Bytes(101 << 19)));
        assert_eq!(fits.2, Bytes::mib(202));
        let less = Options { memory: Some(Bytes::mib(25)), ..Options::default() };
        assert_eq!(less.runs(Bytes::mib(100))[0].1, "data 4.0 times as large as memory");
    }
}
