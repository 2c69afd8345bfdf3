//! Everything that `foreseek mount` is told, and the read path that it asks for.

use crate::daemon::state_saver::StateDir;
use crate::{Error, LearntState, MountOptions, Plain, Policy, ReadPath, Reader, ReaderOptions};
use foreseek_device::Profile;
use foreseek_server::Context;
use foreseek_storage::read_text;
use foreseek_units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// The file into which the server records what the engine is told and says, for a replay.
const RECORD: &str = "FORESEEK_RECORD";

/// Memory for prefetched data unless told otherwise. A drive of the depth of 4 MiB and 64 streams
/// then have room for twice what is fetched at a time.
pub const DEFAULT_MEMORY: Bytes = Bytes::mib(512);

/// A mount and what answers its reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is mounted where.
    pub mount: MountOptions,
    /// Who decides what is prefetched.
    pub policy: Policy,
    /// The bound that [`Policy::ADAPTIVE`] keeps: how many times what knowing its length would cost a
    /// stream costs at most, within [`RHO_RANGE`](foreseek_readahead::stream::RHO_RANGE). The others
    /// have none.
    pub rho: f64,
    /// Memory for prefetched data, in bytes.
    pub memory_bytes: u64,
    /// The device that the source lies on: a built-in profile's name or a file. `None` to learn it.
    pub profile: Option<String>,
    /// The directory below which what is learnt is kept over a restart, and found at the next. `None`
    /// to keep nothing.
    pub state: Option<PathBuf>,
    /// Whether what was learnt before is left aside, to be replaced by what is learnt now.
    pub forget: bool,
}

impl Settings {
    /// Where what is learnt is kept, for a policy that learns; the error is a sentence for people.
    pub(crate) fn state_dir(&self) -> Option<Result<StateDir, String>> {
        let state = self.state.as_deref().filter(|_| self.policy == Policy::ADAPTIVE)?;
        Some(StateDir::open(state, &self.mount.source))
    }

    /// What answers the reads, beginning with what was learnt before.
    ///
    /// # Errors
    /// The profile cannot be read, or there is no memory or thread for the reader.
    pub(crate) fn read_path(&self, learnt: Option<LearntState>) -> Result<Arc<dyn ReadPath>, Error> {
        let Some(prefetcher) = self.policy.prefetcher() else { return Ok(Arc::new(Plain::default())) };
        let mut options = ReaderOptions::new(prefetcher, Bytes(self.memory_bytes));
        options.rho = self.rho;
        options.profile = self.profile.as_deref().map(|given| Profile::load(given, read_text)).transpose()?;
        options.learnt = learnt;
        options.record = std::env::var_os(RECORD).filter(|path| !path.is_empty()).map(Into::into);
        let reader = Reader::start(&options).context("start", "the reader of the source")?;
        Ok(Arc::new(reader))
    }
}
