//! The device profile: the costs of a device, as a TOML file with units in the key names.
//!
//! A profile is checked as a whole when it is read. Every key is checked by type and range, then the model is
//! built. A profile that was read can therefore be built. Errors name the file, the key and the reason. The
//! text may have any source: nothing in it causes a panic or an allocation beyond proportion to its length
//! and the [limits](crate::spec::limits) of its numbers.
//!
//! The figures of the papers follow from it: `positioning_time` (average seek and half a rotation),
//! `sequential_rate`, and their product, the competitive depth (TR-840 section 3).

use crate::spec::{
    ArraySpec, BUILTIN, DiskModel, DiskSpec, Figures, Keys, ProfileError, RemoteSpec, Writer, builtin,
    table_of,
};
use foreseek_units::{Bytes, Nanos, PAGE_SIZE, Rate, Stripes};
use std::io;
use std::path::{Path, PathBuf};

/// Longest name of a profile.
const NAME_LIMIT: usize = 64;

/// The kind of a device.
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

/// A device as described by its profile.
#[derive(Clone, Debug)]
pub struct Profile {
    name: String,
    description: String,
    source: String,
    spec: Spec,
    figures: Figures,
}

/// The description by kind, with the model built from it.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Disk(Box<DiskSpec>, Box<DiskModel>),
    Array(Box<ArraySpec>),
    Remote(RemoteSpec),
}

impl Profile {
    /// Reads a profile. `file` names the text in errors.
    ///
    /// # Errors
    /// Text that is not TOML, a key that is missing, unknown, of the wrong type or out of range, or numbers
    /// that do not fit together.
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

    /// The built-in profile of this name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        // A test reads each of them.
        Self::builtin_text(name).and_then(|text| Self::parse(name, text).ok())
    }

    /// The built-in profile of this name, or otherwise the one in this TOML file. `read` returns the file's
    /// text, or the beginning of a long one.
    ///
    /// # Errors
    /// Neither a built-in name nor a readable file (the message lists the names), or a file that is no valid
    /// profile (the message names file, key and reason).
    pub fn load(
        name_or_path: &str,
        read: impl FnOnce(&Path) -> io::Result<String>,
    ) -> Result<Self, ProfileError> {
        if let Some(text) = Self::builtin_text(name_or_path) {
            return Self::parse(name_or_path, text);
        }
        let text = read(Path::new(name_or_path)).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => ProfileError::Unknown {
                given: name_or_path.to_owned(),
                known: Self::builtin_names().collect::<Vec<_>>().join(", "),
            },
            _ => ProfileError::Unreadable { file: name_or_path.to_owned(), reason: cause.to_string() },
        })?;
        Self::parse(name_or_path, &text)
    }

    /// A name of the same profile in any working directory: a built-in profile's name unchanged; for a file
    /// the path from `resolve`. Any other name is unchanged: [`Profile::load`] refuses it.
    ///
    /// # Errors
    /// The file cannot be examined, or its path is not text.
    pub fn in_any_directory(
        name_or_path: &str,
        resolve: impl FnOnce(&Path) -> io::Result<PathBuf>,
    ) -> Result<String, ProfileError> {
        if Self::builtin_text(name_or_path).is_some() {
            return Ok(name_or_path.to_owned());
        }
        let unreadable = |reason| ProfileError::Unreadable { file: name_or_path.to_owned(), reason };
        match resolve(Path::new(name_or_path)) {
            Ok(path) => {
                path.into_os_string().into_string().map_err(|_| unreadable("its path is not text".to_owned()))
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(name_or_path.to_owned()),
            Err(cause) => Err(unreadable(cause.to_string())),
        }
    }

    /// The text of a built-in profile, with the source of each number in a comment.
    #[must_use]
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        builtin(name)
    }

    /// The names of the built-in profiles.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The profile of a disk from another description.
    ///
    /// # Errors
    /// As [`Profile::parse`].
    pub fn of_disk(
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
        // The text is parsed again, so that one check covers all profiles.
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

    /// The layout of an array; `None` for other devices.
    #[must_use]
    pub fn stripes(&self) -> Option<Stripes> {
        match &self.spec {
            Spec::Array(array) => Some(array.stripes()),
            _ => None,
        }
    }

    /// Whether its disks read ahead of a request, so that an adjacent request needs no positioning.
    #[must_use]
    pub fn looks_ahead(&self) -> bool {
        let disk = match &self.spec {
            Spec::Disk(disk, _) => disk,
            Spec::Array(array) => &array.disk,
            Spec::Remote(_) => return false,
        };
        disk.segments > 0 && !disk.segment().is_zero()
    }

    /// The profile of one member of an array; `None` for other devices. It gives the cost of a strip on its
    /// member: [`Profile::rate_at`] of an array is that of all members together.
    #[must_use]
    pub fn member(&self) -> Option<Self> {
        let Spec::Array(array) = &self.spec else { return None };
        Some(Self {
            name: self.name.clone(),
            description: format!("a member of {}", self.name),
            source: self.source.clone(),
            figures: array.disk.figures(&array.model),
            spec: Spec::Disk(Box::new(array.disk.clone()), Box::new(array.model.clone())),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line for users.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The sources of its numbers.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The kind of its device.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.spec {
            Spec::Disk(..) => Kind::Disk,
            Spec::Array(_) => Kind::Array,
            Spec::Remote(_) => Kind::Remote,
        }
    }

    /// The capacity of the whole device.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        self.figures.capacity
    }

    /// Revolutions per minute; for an array those of its members, `None` without rotation.
    #[must_use]
    pub fn rotation_rpm(&self) -> Option<f64> {
        self.figures.rotation_rpm
    }

    /// The average seek as stated by the device's source; for an array that of its members, `None` without an
    /// arm.
    #[must_use]
    pub fn average_seek(&self) -> Option<Nanos> {
        self.figures.average_seek
    }

    /// The mean seek between random sectors in the model, which for the calibrated seek curve is the stated
    /// average; `None` without an arm.
    #[must_use]
    pub fn modelled_seek(&self) -> Option<Nanos> {
        self.figures.modelled_seek
    }

    /// The cost of each command for a single reader beside the access itself; it is hidden behind the access
    /// before if requests are queued.
    #[must_use]
    pub fn command_overhead(&self) -> Nanos {
        self.figures.command_overhead
    }

    /// The positioning cost: the average seek and half a revolution; for an array those of one member
    /// (EuroSys'07 section 5), for a remote volume the mean latency.
    #[must_use]
    pub fn positioning_time(&self) -> Nanos {
        self.figures.positioning_time
    }

    /// The rate of sequential reading, averaged over the device.
    #[must_use]
    pub fn sequential_rate(&self) -> Rate {
        self.figures.sequential_rate
    }

    /// The bytes transferred in a positioning time (TR-840 section 3).
    #[must_use]
    pub fn competitive_depth(&self) -> Bytes {
        self.sequential_rate().in_time(self.positioning_time())
    }

    /// The largest gap between two wanted ranges that is cheaper to read than to skip (ATC'09 section 3.3),
    /// in whole pages. If the profile does not state it, it is computed.
    ///
    /// - For a disk: the bytes that pass at the outer edge in the time of another command.
    /// - For an array: the infill of a member.
    /// - For a remote volume: the bytes that pass while one more request is served.
    #[must_use]
    pub fn infill(&self) -> Bytes {
        Bytes(self.figures.infill.get() / PAGE_SIZE * PAGE_SIZE)
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::{Lba, Sectors};

    fn profile(name: &str) -> Profile {
        let text = Profile::builtin_text(name).expect("a built-in name");
        Profile::parse(name, text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn each_file_of_the_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles");
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            assert!(Profile::builtin(name).is_some(), "{}: name it in spec/builtin.rs", path.display());
        }
    }

    #[test]
    fn each_is_read_and_has_its_name() {
        for name in Profile::builtin_names() {
            let profile = profile(name);
            assert_eq!(profile.name(), name);
            assert!(!profile.description().is_empty() && !profile.source().is_empty(), "{name}");
        }
        assert!(Profile::builtin("none-such").is_none());
    }

    #[test]
    fn a_member_of_an_array_is_the_disk_of_its_profile() {
        let array = profile("raid5-5x-15k");
        let member = array.member().expect("an array has members");
        assert_eq!((member.kind(), member.stripes()), (Kind::Disk, None));
        assert_eq!(member.capacity(), Bytes(73_407_820_800));
        // One member gives its own rate, four of them the array's.
        assert!((member.rate_at(Lba(0)).as_mb_per_second() - 96.0).abs() < 1.0);
        assert!((array.rate_at(Lba(0)).as_mb_per_second() - 4.0 * 96.0).abs() < 4.0);
        let stripes = array.stripes().expect("an array has a layout");
        assert_eq!((stripes.members, stripes.strip), (5, Sectors(256)));
        assert!(member.member().is_none());
        // Its TOML is that of a disk.
        assert_eq!(Profile::parse("member", &member.to_toml()).expect("valid").capacity(), member.capacity());
    }

    /// TR-840 section 3: 540 KB; EuroSys'07 section 5: 393, 446 and 646 KB. A KB has 1000 bytes.
    #[test]
    fn the_papers_competitive_depths() {
        for (name, kilobytes) in [
            ("ibm-36g-51", 540.0),
            ("ibm-36g-37", 393.0),
            ("seagate-146g", 446.0),
            ("raid0-2x-seagate", 646.0),
        ] {
            let depth = profile(name).competitive_depth().get() as f64 / 1000.0;
            assert!((depth - kilobytes).abs() <= 1.0, "{name}: {depth} KB");
        }
    }

    #[test]
    fn the_modelled_seek_is_the_stated_average() {
        for name in Profile::builtin_names() {
            let profile = profile(name);
            let (Some(modelled), Some(stated)) = (profile.modelled_seek(), profile.average_seek()) else {
                continue;
            };
            let ratio = modelled.as_millis_f64() / stated.as_millis_f64();
            assert!((ratio - 1.0).abs() < 0.01, "{name}: {modelled} instead of {stated}");
        }
    }

    #[test]
    fn each_number_has_its_source_in_a_comment() {
        for (name, text) in BUILTIN {
            for line in text.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
                let named = ["name", "kind", "description", "source"];
                let key = line.split(" =").next().unwrap_or_default();
                assert!(
                    named.contains(&key) || line.contains(" # "),
                    "crates/device/profiles/{name}.toml: '{line}' names no source; end it with ' # sheet', ' # chosen: why' \
                     or another of docs/internals/device-model.md, \"Adding a built-in profile\""
                );
            }
        }
    }

    #[test]
    fn a_written_profile_reads_back_the_same() {
        for name in Profile::builtin_names() {
            let text = profile(name).to_toml();
            let again = Profile::parse("written", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(again.to_toml(), text);
            assert_eq!(again.competitive_depth(), profile(name).competitive_depth());
            assert_eq!(again.capacity(), profile(name).capacity());
        }
    }

    #[test]
    fn a_name_and_a_file_of_the_same_text_give_the_same_profile() {
        let name = Profile::builtin_names().next().expect("a profile");
        let built_in = Profile::load(name, |_| panic!("needs no file")).expect("built in");
        let from_file = Profile::load("disk.toml", |_| Ok(built_in.to_toml())).expect("a profile");
        assert_eq!(from_file.to_toml(), built_in.to_toml());
    }

    #[test]
    fn a_profile_is_the_same_in_any_directory() {
        let in_home = |file: &Path| Ok(Path::new("/home").join(file));
        let resolved = Profile::in_any_directory("sdb.toml", in_home).expect("a file");
        assert_eq!(resolved, "/home/sdb.toml");
        // A file of a built-in profile's name does not hide it.
        let name = Profile::builtin_names().next().expect("a profile");
        assert_eq!(Profile::in_any_directory(name, in_home).expect("built in"), name);
        let gone = |_: &Path| Err(io::ErrorKind::NotFound.into());
        assert_eq!(Profile::in_any_directory("typo", gone).expect("for load to refuse"), "typo");
        let denied = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        let error = Profile::in_any_directory("x.toml", denied).expect_err("unreadable").to_string();
        assert!(error.contains("x.toml"), "{error}");
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let gone = |_: &Path| Err(io::ErrorKind::NotFound.into());
        let error = Profile::load("barracuda-5000g", gone).expect_err("neither").to_string();
        assert!(error.contains("'barracuda-5000g'"), "{error}");
        for name in Profile::builtin_names() {
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_profile_is_named() {
        let nonsense = |_: &Path| Ok("name = \"x\"\nnonsense = 1\n".to_owned());
        assert!(Profile::load("d.toml", nonsense).expect_err("nonsense").to_string().contains("d.toml"));
        let folder = |_: &Path| Err(io::ErrorKind::IsADirectory.into());
        let error = Profile::load("/etc", folder).expect_err("a folder").to_string();
        assert_eq!(error, "cannot read the device profile /etc: is a directory");
    }

    #[test]
    fn infill_pays_up_to_32_kib_on_the_old_firmware_and_hardly_on_the_new() {
        assert_eq!(profile("barracuda-500g-oldfw").infill().get(), 32 << 10);
        assert_eq!(profile("barracuda-500g").infill().get(), 8 << 10);
    }
}
