//! The settings of `foreseek mount`, and the read path that follows from them.

use crate::daemon::state_saver::StateDir;
use crate::{Error, LearntState, MountOptions, Plain, Policy, ReadPath, Reader, ReaderOptions};
use foreseek_device::Profile;
use foreseek_server::Context;
use foreseek_storage::read_text;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Default memory for prefetched data. A device with a prefetch size of 4 MiB and 64 streams then has room
/// for two fetches of each.
pub const DEFAULT_MEMORY: Bytes = Bytes::mib(512);

/// A mount and its read path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The source, the mount point and their options.
    pub mount: MountOptions,
    /// The policy that decides what is prefetched.
    pub policy: Policy,
    /// The bound of [`Policy::ADAPTIVE`], within [`RHO_RANGE`](foreseek_readahead::stream::RHO_RANGE): the
    /// most that a stream may cost, as a multiple of the cost with a known length. The others have no bound.
    pub rho: f64,
    /// Memory for prefetched data, in bytes.
    pub memory_bytes: u64,
    /// Whether what is prefetched is bounded by its ceiling and by the share of each stream. False only to
    /// measure what that gains.
    pub is_bounded: bool,
    /// The device of the source: a built-in profile's name or a file. `None` to learn it.
    pub profile: Option<String>,
    /// The directory in which the learnt state is kept over a restart. `None` to keep nothing.
    pub state: Option<PathBuf>,
    /// Whether to ignore the saved state, and replace it.
    pub forget: bool,
    /// The file into which the engine's events and commands are recorded, for a replay. Those of walks are recorded in
    /// another one, of this name and that of the source's disk.
    #[serde(default)]
    pub record: Option<PathBuf>,
}

impl Settings {
    /// Where the state is kept, for a policy that learns; the error is a sentence for users.
    pub(crate) fn state_dir(&self) -> Option<Result<StateDir, String>> {
        let state = self.state.as_deref().filter(|_| self.policy == Policy::ADAPTIVE)?;
        Some(StateDir::open(state, &self.mount.source))
    }

    /// The options of the mount, with a recording of walks if one is wanted.
    pub(crate) fn mount_options(&self) -> MountOptions {
        let mut options = self.mount.clone();
        options.walks.iter_mut().for_each(|walks| walks.record.clone_from(&self.record));
        options
    }

    /// The read path, which begins with the saved state.
    ///
    /// # Errors
    /// The profile cannot be read, or no memory or thread is available for the reader.
    pub(crate) fn read_path(&self, learnt: Option<LearntState>) -> Result<Arc<dyn ReadPath>, Error> {
        let Some(prefetcher) = self.policy.prefetcher() else { return Ok(Arc::new(Plain::default())) };
        let mut options = ReaderOptions::new(prefetcher, Bytes(self.memory_bytes));
        options.rho = self.rho;
        options.is_bounded = self.is_bounded;
        options.profile = self.profile.as_deref().map(|given| Profile::load(given, read_text)).transpose()?;
        options.learnt = learnt;
        options.record.clone_from(&self.record);
        let reader = Reader::start(&options).context("start", "the reader of the source")?;
        Ok(Arc::new(reader))
    }
}
