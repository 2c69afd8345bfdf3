//! What can be varied in a workload.

use super::WorkloadError;
use foreseek_units::Bytes;

/// What to vary; `None` keeps what the papers have. A workload refuses a parameter that it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Length of a file (microbenchmarks: 4 MiB; sequence search: a volume).
    pub file_size: Option<Bytes>,
    /// Length of all files together (microbenchmarks: 6000 files; servers: see each).
    pub data_size: Option<Bytes>,
    /// Private memory of a request handler.
    pub handler_memory: Option<Bytes>,
    /// Whether the main data are mapped into memory rather than read (index search, sequence search).
    pub mapped: Option<bool>,
}

/// Parameters on their way into a workload: each is to be taken, or it is refused.
pub(super) struct Checked<'a> {
    workload: &'a str,
    left: Parameters,
}

impl<'a> Checked<'a> {
    pub(super) fn new(workload: &'a str, parameters: &Parameters) -> Self {
        Self { workload, left: parameters.clone() }
    }

    /// The name under which the workload was asked for.
    pub(super) fn workload(&self) -> &'a str {
        self.workload
    }

    /// Length of a file, from `least` on.
    pub(super) fn file_size(&mut self, default: Bytes, least: Bytes) -> Result<Bytes, WorkloadError> {
        let given = self.left.file_size.take();
        self.within("file size", given, default, least)
    }

    /// Length of all files, from `least` on.
    pub(super) fn data_size(&mut self, default: Bytes, least: Bytes) -> Result<Bytes, WorkloadError> {
        let given = self.left.data_size.take();
        self.within("data size", given, default, least)
    }

    /// Private memory of a handler.
    pub(super) fn handler_memory(&mut self, default: Bytes) -> Bytes {
        self.left.handler_memory.take().unwrap_or(default)
    }

    /// Whether data are mapped.
    pub(super) fn mapped(&mut self, default: bool) -> bool {
        self.left.mapped.take().unwrap_or(default)
    }

    /// Refuses what nobody took.
    pub(super) fn all_taken(self) -> Result<(), WorkloadError> {
        let Parameters { file_size, data_size, handler_memory, mapped } = self.left;
        let left = [
            ("file size", file_size.is_some()),
            ("data size", data_size.is_some()),
            ("handler memory", handler_memory.is_some()),
            ("choice of mapping", mapped.is_some()),
        ];
        match left.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((parameter, _)) => {
                Err(WorkloadError::Parameter { workload: self.workload.to_owned(), parameter })
            }
        }
    }

    fn within(
        &self,
        parameter: &'static str,
        given: Option<Bytes>,
        default: Bytes,
        least: Bytes,
    ) -> Result<Bytes, WorkloadError> {
        match given {
            Some(size) if size < least => Err(WorkloadError::Range {
                workload: self.workload.to_owned(),
                parameter,
                given: size.to_string(),
                reason: format!("it must be at least {least}"),
            }),
            Some(size) => Ok(size),
            None => Ok(default),
        }
    }
}
