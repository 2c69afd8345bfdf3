//! What a reader may be told.

use crate::LearntState;
use foreseek_device::{Kind, Profile};
use foreseek_readahead::{serving, stream};
use foreseek_seam::record::Recorder;
use foreseek_storage::available;
use foreseek_units::{Bytes, DeviceCosts, PAGE_SIZE, Pages};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

/// The built-in profile that stands for a device of which nothing is known: a disk of 7200 turns a minute,
/// which most are. What is learnt from the first reads outweighs it.
pub const DEFAULT_PROFILE: &str = "barracuda-500g";

/// What is kept about each page in memory, beside the page: the engine's tables and lists.
const ABOUT_A_PAGE: u64 = 128;

/// What a reader may be told.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The prefetcher of streams, by its name in the registry.
    pub policy: String,
    /// The bound that the policy `learnt` keeps, within [`RHO_RANGE`](stream::RHO_RANGE).
    pub rho: f64,
    /// Memory for prefetched data and what is kept about them.
    pub memory: Bytes,
    /// The device that the source lies on; without one a [`DEFAULT_PROFILE`] is made.
    pub profile: Option<Profile>,
    /// What was learnt by a reader before, to begin with. Of the device only where there is no profile.
    pub learnt: Option<LearntState>,
    /// Where what the engine is told and says is recorded, if anywhere.
    pub record: Option<PathBuf>,
    /// Whether files are opened without prefetching while that does not pay. By itself only with the policies for use: the
    /// others stay what those are measured against.
    pub steps_aside: bool,
}

impl ReaderOptions {
    /// So much memory for this policy; nothing is known of the device.
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
        }
    }

    /// The engine's settings on this machine.
    #[must_use]
    pub fn engine_settings(&self) -> serving::Settings {
        let memory = Pages(self.memory.get() / (PAGE_SIZE + ABOUT_A_PAGE));
        // The page cache in front may fill what is free; it and the frames are one memory.
        let machine = available().bytes.pages_floor();
        let overlapping = self.profile.as_ref().is_some_and(|profile| profile.kind() != Kind::Disk);
        let mut settings = serving::Settings::of_mount(&self.policy, memory, machine, overlapping);
        settings.stream.rho = self.rho;
        settings
    }

    /// What the engine takes for the device's costs at first.
    #[must_use]
    pub fn costs(&self) -> Arc<dyn DeviceCosts> {
        let guess = || {
            Profile::builtin(DEFAULT_PROFILE)
                .unwrap_or_else(|| unreachable!("a test reads each built-in profile"))
        };
        Arc::new(self.profile.clone().unwrap_or_else(guess))
    }

    /// The recorder, if there is to be one.
    pub(super) fn recorder(&self) -> std::io::Result<Option<Recorder>> {
        let Some(path) = &self.record else { return Ok(None) };
        let file = File::create(path).map_err(|error| {
            std::io::Error::new(error.kind(), format!("record to {}: {error}", path.display()))
        })?;
        Ok(Some(Recorder::new(Box::new(BufWriter::new(file)))))
    }
}
