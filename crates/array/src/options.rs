//! The options of an attached array, and the engine that follows from them.

use crate::Error;
use crate::below::Below;
use crate::found::Found;
use foreseek_device::Profile;
use foreseek_export::NbdAddress;
use foreseek_storage::read_text;
use foreseek_strips::{Following, Geometry, Lru, StripEngine, registry};
use foreseek_units::{Bytes, Level, PAGE_SIZE, Pages, Stripes};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// The default profile of a member. The cost test compares costs, and most disks' seeks cost about as much
/// relative to their transfers.
pub const DEFAULT_MEMBER: &str = "barracuda-500g";
/// Memory for data in transfer, once for reads and once for changes: 24 of the largest requests.
pub(crate) const DATA_MEMORY: Bytes = Bytes::mib(32);
/// Frames for the holes of fetches: 128 fetches of strips of 128 KiB.
const SPARE: Pages = Pages(4096);
/// The most bytes of state for a page beside its contents. They are its frame's state, its entry in two
/// tables that have just grown, and a strip of a page in strip tables that have just grown.
const BOOKS: u64 = 96 + 2 * foreseek_strips::BYTES_PER_STRIP as u64;

/// The layout of an array's strips.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// The layout of an array's profile: a built-in name or a file.
    Profile(String),
    /// As the kernel reports it.
    Found {
        /// `raid0`, `raid5` or `raid6`, where the kernel does not report that.
        level: Option<String>,
        /// The profile of a member.
        member: String,
    },
    /// As given by the user.
    #[serde(alias = "Told")]
    Given {
        /// Bytes of a strip (md's "chunk").
        strip_bytes: u64,
        /// Disks, including those of parity.
        members: u64,
        /// `raid0`, `raid5` or `raid6`.
        level: String,
        /// The profile of a member.
        member: String,
    },
}

/// How to attach an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachOptions {
    /// The array: a block device or a file.
    pub device: PathBuf,
    /// The layout of its strips.
    pub shape: Shape,
    /// All memory of the server for data and their state.
    pub memory_bytes: u64,
    /// The policy: a name of [`foreseek_strips::registry`].
    pub policy: String,
    /// The array's name; by default the first free `arrayN`.
    pub name: Option<String>,
    /// Whether to make a `/dev/loopN`.
    pub loop_device: bool,
    /// The address of its NBD export.
    pub nbd: Option<NbdAddress>,
}

/// The parts of an array.
pub(crate) struct Parts {
    pub(crate) engine: StripEngine,
    pub(crate) geometry: Geometry,
    pub(crate) stripes: Stripes,
    /// Frames of the cache, and spare ones.
    pub(crate) frames: Pages,
    /// The strips as the kernel reports them, if that was needed.
    pub(crate) found: Option<Found>,
}

impl AttachOptions {
    /// The engine for this device.
    pub(crate) fn parts(&self, below: &Below) -> Result<Parts, Error> {
        let refused = |error: foreseek_strips::StripsError| Error::Refused(error.to_string());
        let policy = registry::by_name(&self.policy).map_err(refused)?;
        if policy.host_window.is_some() {
            let reason =
                "the host's own read-ahead is that of its block device: set it by 'blockdev --setra'";
            return Err(invalid("--policy", &self.policy, reason));
        }
        let (stripes, member, found) = self.shape.resolve(below)?;
        let following = if member.looks_ahead() { Following::Streams } else { Following::MissesRotation };
        let geometry =
            Geometry::new(stripes, below.origin(), below.length().pages_floor()).map_err(refused)?;
        let (cache, frames) = self.share()?;
        let settings = foreseek_strips::Settings { cache, following };
        let engine = StripEngine::new(geometry, settings, policy.rules, Arc::new(member), Box::new(Lru));
        Ok(Parts { engine: engine.map_err(refused)?, geometry, stripes, frames, found })
    }

    /// Refuses more memory than is available: all of it is taken at the start, by a server that the OOM killer
    /// spares.
    pub(crate) fn check_memory(&self, available: Bytes) -> Result<(), Error> {
        let given = Bytes(self.memory_bytes);
        if given > available {
            let reason = format!("all of it is taken at the start, and {available} are available");
            return Err(invalid("--memory", &given.to_string(), &reason));
        }
        Ok(())
    }

    /// The share of the memory for the cache, and the number of frames.
    fn share(&self) -> Result<(Pages, Pages), Error> {
        let fixed = DATA_MEMORY * 2 + (SPARE * 2).bytes();
        let given = Bytes(self.memory_bytes);
        if given < fixed {
            let reason = format!("give at least {fixed}, 64 MiB of which are for data on their way");
            return Err(invalid("--memory", &given.to_string(), &reason));
        }
        let frames = Pages((given - DATA_MEMORY * 2).get() / (PAGE_SIZE + BOOKS)).min(Pages(u32::MAX.into()));
        Ok((frames - SPARE, frames))
    }
}

impl Shape {
    fn resolve(&self, below: &Below) -> Result<(Stripes, Profile, Option<Found>), Error> {
        let load =
            |name: &str| Profile::load(name, read_text).map_err(|error| Error::Refused(error.to_string()));
        // For an array's profile, the profile of one member.
        let load_member = |name: &str| load(name).map(|profile| profile.member().unwrap_or(profile));
        match self {
            Self::Profile(name) => {
                let profile = load(name)?;
                let shape = profile.stripes().zip(profile.member());
                let (stripes, member) = shape.ok_or_else(|| {
                    invalid("--profile", name, "it is no array's: give --strip, --members and --level")
                })?;
                Ok((stripes, member, None))
            }
            Self::Found { level, member } => {
                let given = level.as_deref().map(level_of).transpose()?;
                let found = below.geometry(given)?;
                let strip = found.strip.sectors_floor();
                let stripes = Stripes { level: found.level, members: found.members, strip };
                Ok((stripes, load_member(member)?, Some(found)))
            }
            Self::Given { strip_bytes, members, level, member } => {
                let level = level_of(level)?;
                if !strip_bytes.is_multiple_of(PAGE_SIZE) {
                    return Err(invalid(
                        "--strip",
                        &Bytes(*strip_bytes).to_string(),
                        "give a multiple of 4 KiB",
                    ));
                }
                let strip = Bytes(*strip_bytes).sectors_floor();
                Ok((Stripes { level, members: *members, strip }, load_member(member)?, None))
            }
        }
    }
}

fn level_of(name: &str) -> Result<Level, Error> {
    let refused = || {
        invalid(
            "--level",
            name,
            "raid0, raid5 and raid6 (left-symmetric) are served; of a raid10 in pairs give raid0 and half of its disks",
        )
    };
    Level::named(name).ok_or_else(refused)
}

fn invalid(option: &'static str, value: &str, reason: &str) -> Error {
    Error::Invalid { option, value: value.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_is_available_is_refused() {
        let options = AttachOptions {
            device: "/dev/md0".into(),
            shape: Shape::Profile("raid5-5x-15k".to_owned()),
            memory_bytes: Bytes::mib(500).get(),
            policy: "adaptive".to_owned(),
            name: None,
            loop_device: true,
            nbd: None,
        };
        assert!(options.check_memory(Bytes::mib(500)).is_ok());
        let refused = options.check_memory(Bytes::mib(499)).expect_err("too much").to_string();
        assert!(refused.contains("--memory") && refused.contains("499 MiB are available"), "{refused}");
    }
}
