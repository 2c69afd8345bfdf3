//! The device profile: what a device costs, as a TOML file with units in the key names.
//!
//! A profile is checked as a whole when it is read: every key by type and range, then the model is
//! made of it, so that a profile that was read can be built. Complaints name the file, the key and
//! the reason. The text may come from anywhere: nothing in it makes reading panic or allocate more
//! than in proportion to its length and the limits of this module.
//!
//! The figures that the papers reckon with follow from it: `switch_time` (average seek and half a
//! turn), `sequential_rate`, and their product, the competitive depth (TR-840 section 3).

mod array;
mod builtin;
mod controller;
mod costs;
mod disk;
mod error;
mod keys;
mod layout;
mod remote;
mod seek;
mod tracks;
mod write;

pub(crate) use array::ArraySpec;
pub(crate) use controller::{ControllerSpec, OverheadSpec};
pub(crate) use disk::{DiskModel, DiskSpec};
pub use error::ProfileError;
pub(crate) use layout::LayoutSpec;
pub(crate) use remote::RemoteSpec;
pub(crate) use seek::SeekSpec;

/// The limits of a profile's numbers, for those who make profiles of other descriptions.
pub(crate) mod limits {
    pub(crate) use super::controller::BUFFER_SECTORS_LIMIT;
    pub(crate) use super::disk::{HEADS_LIMIT, LONGEST_MS, ROTATION_RPM, SEGMENTS_LIMIT};
    pub(crate) use super::layout::{CYLINDERS_LIMIT, DEFECTS_LIMIT, SECTORS_PER_TRACK_LIMIT, ZONES_LIMIT};
    pub(crate) use super::tracks::{RUNS_LIMIT, SECTIONS_LIMIT, SLIPS_LIMIT};
}

use foreseek_units::{Bytes, Nanos, PAGE_SIZE, Rate};
pub(crate) use keys::{Keys, limits as limits_of};
use write::Writer;

/// Longest text of a profile: that of a drive every track of which is described has 2 MB.
const TEXT_LIMIT: usize = 8 << 20;
/// Longest name of a profile.
const NAME_LIMIT: usize = 64;

/// What sort of device a profile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One disk.
    Disk,
    /// Several disks behind one address space.
    Array,
    /// A network volume or object store: latency and rate, no head.
    Remote,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Disk => "disk",
            Self::Array => "array",
            Self::Remote => "remote",
        })
    }
}

/// A device as its profile describes it.
#[derive(Clone, Debug)]
pub struct Profile {
    name: String,
    description: String,
    source: String,
    spec: Spec,
    figures: Figures,
}

/// The description by kind, with the model that was made of it.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Disk(Box<DiskSpec>, Box<DiskModel>),
    Array(Box<ArraySpec>),
    Remote(RemoteSpec),
}

/// What the papers reckon with.
#[derive(Clone, Copy, Debug)]
struct Figures {
    capacity: Bytes,
    rotation_rpm: Option<f64>,
    average_seek: Option<Nanos>,
    modelled_seek: Option<Nanos>,
    switch_time: Nanos,
    sequential_rate: Rate,
    command_overhead: Nanos,
    infill: Bytes,
}

/// What the TOML parser says, without the names of Rust's types.
fn plain(message: &str) -> String {
    // How it says so depends on how far the number is beyond 2^63.
    if message.contains("integer `") || message.contains("value was too large") {
        return format!("the whole number is too large, the largest is {}", i64::MAX);
    }
    message.to_owned()
}

/// The table that a text holds; `file` names it in complaints.
pub(crate) fn table_of(file: &str, text: &str) -> Result<toml::Table, ProfileError> {
    if text.len() > TEXT_LIMIT {
        let (length, limit) = (Bytes(text.len() as u64), Bytes(TEXT_LIMIT as u64));
        return Err(ProfileError::TooLong { file: file.to_owned(), length, limit });
    }
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        ProfileError::Syntax { file: file.to_owned(), line, reason: plain(error.message()) }
    })
}

impl Profile {
    /// Reads a profile. `file` names the text in complaints.
    ///
    /// # Errors
    /// Text that is not TOML, a key that is missing, unknown, of the wrong type or out of range, or
    /// numbers that make no device together.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let table = table_of(file, text)?;
        let mut keys = Keys::new(file, &table);
        let name = keys.text("name")?.to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_LIMIT || !name.chars().all(plain) {
            let reason = format!("must be 1 to {NAME_LIMIT} letters, digits, '-', '_' or '.'");
            return Err(keys.wrong("name", reason));
        }
        let description = keys.text_or("description", "")?.to_owned();
        let source = keys.text_or("source", "")?.to_owned();
        let spec = match keys.text("kind")? {
            "disk" => {
                let disk = DiskSpec::read(&mut keys)?;
                let model = disk.model(&keys)?;
                Spec::Disk(Box::new(disk), Box::new(model))
            }
            "array" => Spec::Array(Box::new(ArraySpec::read(&mut keys)?)),
            "remote" => Spec::Remote(RemoteSpec::read(&mut keys)?),
            other => {
                let reason = format!("is '{other}', must be 'disk', 'array' or 'remote'");
                return Err(keys.wrong("kind", reason));
            }
        };
        keys.finish()?;
        let figures = match &spec {
            Spec::Disk(disk, model) => disk.figures(model),
            Spec::Array(array) => array.figures(),
            Spec::Remote(remote) => remote.figures(),
        };
        Ok(Self { name, description, source, spec, figures })
    }

    /// The profile of a disk that was described elsewhere.
    ///
    /// # Errors
    /// As of [`Profile::parse`].
    pub(crate) fn of_disk(
        name: &str,
        description: &str,
        source: &str,
        disk: DiskSpec,
    ) -> Result<Self, ProfileError> {
        let mut to = Writer::default();
        to.text("name", name);
        to.text("kind", &Kind::Disk.to_string());
        to.text("description", description);
        to.text("source", source);
        disk.write(&mut to);
        // What was written is read back, so that one check holds for all profiles.
        Self::parse(source, &to.finish())
    }

    /// The profile as TOML: reads back as the same profile. Comments of the text that it was read
    /// from are not kept; see [`Profile::builtin_text`].
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut to = Writer::default();
        to.text("name", &self.name);
        to.text("kind", &self.kind().to_string());
        to.text("description", &self.description);
        to.text("source", &self.source);
        match &self.spec {
            Spec::Disk(disk, _) => disk.write(&mut to),
            Spec::Array(array) => array.write(&mut to),
            Spec::Remote(remote) => remote.write(&mut to),
        }
        to.finish()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Where its numbers come from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What sort of device it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.spec {
            Spec::Disk(..) => Kind::Disk,
            Spec::Array(_) => Kind::Array,
            Spec::Remote(_) => Kind::Remote,
        }
    }

    /// What the whole device holds.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        self.figures.capacity
    }

    /// Revolutions a minute; of an array those of its members, `None` where nothing turns.
    #[must_use]
    pub fn rotation_rpm(&self) -> Option<f64> {
        self.figures.rotation_rpm
    }

    /// The average seek as the device's source states it; of an array that of its members, `None`
    /// where no arm moves.
    #[must_use]
    pub fn average_seek(&self) -> Option<Nanos> {
        self.figures.average_seek
    }

    /// The mean seek between random sectors in the model, which for the calibrated seek curve is the
    /// stated average; `None` where no arm moves.
    #[must_use]
    pub fn modelled_seek(&self) -> Option<Nanos> {
        self.figures.modelled_seek
    }

    /// What each command costs a lone reader beside the access itself; hidden behind the access
    /// before where requests are queued.
    #[must_use]
    pub fn command_overhead(&self) -> Nanos {
        self.figures.command_overhead
    }

    /// What it costs to go elsewhere: the average seek and half a turn; of an array those of one
    /// member (EuroSys'07 section 5), of a remote volume the mean latency.
    #[must_use]
    pub fn switch_time(&self) -> Nanos {
        self.figures.switch_time
    }

    /// The rate of sequential reading, averaged over the device.
    #[must_use]
    pub fn sequential_rate(&self) -> Rate {
        self.figures.sequential_rate
    }

    /// What could have been transferred in the time of a switch (TR-840 section 3).
    #[must_use]
    pub fn competitive_depth(&self) -> Bytes {
        self.sequential_rate().in_time(self.switch_time())
    }

    /// The largest gap between two wanted ranges that is cheaper read than skipped (ATC'09 section
    /// 3.3), in whole pages. Of a disk: what passes at the outer edge in the time that a command of
    /// its own would cost, unless the profile states it; of an array: that of a member; of a remote
    /// volume: what passes while one more request would be worked on.
    #[must_use]
    pub fn infill(&self) -> Bytes {
        Bytes(self.figures.infill.get() / PAGE_SIZE * PAGE_SIZE)
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }
}
