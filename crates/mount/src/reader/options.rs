//! The options of a reader.

use crate::LearntState;
use foreseek_device::{Kind, Profile};
use foreseek_readahead::{serving, stream};
use foreseek_seam::record::Recorder;
use foreseek_storage::{available, create_private};
use foreseek_units::{Bytes, DeviceCosts, PAGE_SIZE, Pages};
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

/// The built-in profile for an unknown device: a disk of 7200 rotations per minute, as most are. Costs learnt
/// from the first reads outweigh it.
pub const DEFAULT_PROFILE: &str = "barracuda-500g";

/// The bytes of state for each page in memory, beside the page: the engine's tables and lists.
const ABOUT_A_PAGE: u64 = 128;

/// The options of a reader.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The prefetcher of streams, by its name in the registry.
    pub policy: String,
    /// The bound of the policy `adaptive`, within [`RHO_RANGE`](stream::RHO_RANGE).
    pub rho: f64,
    /// Memory for prefetched data and their state.
    pub memory: Bytes,
    /// The device of the source; without one [`DEFAULT_PROFILE`] is used.
    pub profile: Option<Profile>,
    /// The state that an earlier reader has learnt. The costs of the device are used only without a profile.
    pub learnt: Option<LearntState>,
    /// The file into which the engine's events and commands are recorded, if any.
    pub record: Option<PathBuf>,
    /// Whether files are opened without prefetching while that does not pay. By default only with the
    /// policies for use: the others stay as they are for comparisons.
    pub steps_aside: bool,
    /// Whether what is prefetched is bounded beyond `memory` ([`serving::Settings::is_bounded`]).
    pub is_bounded: bool,
}

impl ReaderOptions {
    /// This much memory for this policy; the device is unknown.
    #[must_use]
    pub fn new(policy: &str, memory: Bytes) -> Self {
        Self {
            policy: policy.to_owned(),
            rho: stream::RHO,
            memory,
            profile: None,
            learnt: None,
            record: None,
            steps_aside: matches!(policy, "adaptive" | "competitive"),
            is_bounded: true,
        }
    }

    /// The engine's settings on this machine.
    #[must_use]
    pub fn engine_settings(&self) -> serving::Settings {
        let memory = Pages(self.memory.get() / (PAGE_SIZE + ABOUT_A_PAGE));
        // The page cache in front may fill all free memory; it and the frames share one memory.
        let machine = available().bytes.pages_floor();
        let overlapping = self.profile.as_ref().is_some_and(|profile| profile.kind() != Kind::Disk);
        let mut settings = serving::Settings::of_mount(&self.policy, memory, machine, overlapping);
        settings.stream.rho = self.rho;
        settings.is_bounded = self.is_bounded;
        settings
    }

    /// The engine's initial costs of the device.
    #[must_use]
    pub fn costs(&self) -> Arc<dyn DeviceCosts> {
        let guess = || {
            Profile::builtin(DEFAULT_PROFILE)
                .unwrap_or_else(|| unreachable!("a test reads each built-in profile"))
        };
        Arc::new(self.profile.clone().unwrap_or_else(guess))
    }

    /// The recorder, if one is wanted.
    pub(super) fn recorder(&self) -> std::io::Result<Option<Recorder>> {
        let Some(path) = &self.record else { return Ok(None) };
        let file = create_private(path).map_err(|error| {
            std::io::Error::new(error.kind(), format!("record to {}: {error}", path.display()))
        })?;
        Ok(Some(Recorder::new(Box::new(BufWriter::new(file)))))
    }
}
