//! One run, as it is written to the file.

use super::program::NamedProgram;
use super::tree::Tree;
use super::way::Way;
use crate::pairs::Row;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A program on a tree, as a row has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct On {
    /// The tree.
    pub(crate) tree: Tree,
    /// The program.
    pub(crate) program: NamedProgram,
}

/// What reading ahead costs besides the disk's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SideCosts {
    /// What the kernel evicted meanwhile, at most as much as was read ahead: others lost that much at most.
    pub(crate) reclaimed_bytes: u64,
    /// What `warm` had to fetch once more, since it was evicted before use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fetched_again_bytes: Option<u64>,
    /// Processor time of Foreseek, without that of the program.
    pub(crate) processor_seconds: f64,
    /// How often a file system was asked where a file lies.
    pub(crate) fiemap_calls: u64,
}

impl SideCosts {
    /// Those of a status of `watch` or a report of `warm`; `None` where it has none.
    pub(crate) fn of(told: &Value) -> Option<Self> {
        let reclaimed = told.get("counted").unwrap_or(told).get("reclaimed_bytes")?;
        Some(Self {
            reclaimed_bytes: reclaimed.as_u64()?,
            fetched_again_bytes: told.get("fetched_again_bytes").and_then(Value::as_u64),
            processor_seconds: told.get("processor_seconds")?.as_f64()?,
            fiemap_calls: told.get("fiemap_calls")?.as_u64()?,
        })
    }

    /// Those since an earlier time.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            reclaimed_bytes: self.reclaimed_bytes.saturating_sub(earlier.reclaimed_bytes),
            fetched_again_bytes: self.fetched_again_bytes,
            processor_seconds: (self.processor_seconds - earlier.processor_seconds).max(0.0),
            fiemap_calls: self.fiemap_calls.saturating_sub(earlier.fiemap_calls),
        }
    }

    /// Their means.
    pub(crate) fn mean(all: &[Self]) -> Option<Self> {
        let count = all.len() as u64;
        (count > 0).then(|| Self {
            reclaimed_bytes: all.iter().map(|costs| costs.reclaimed_bytes).sum::<u64>() / count,
            fetched_again_bytes: all
                .iter()
                .map(|costs| costs.fetched_again_bytes)
                .sum::<Option<u64>>()
                .map(|sum| sum / count),
            processor_seconds: all.iter().map(|costs| costs.processor_seconds).sum::<f64>() / count as f64,
            fiemap_calls: all.iter().map(|costs| costs.fiemap_calls).sum::<u64>() / count,
        })
    }
}

/// A run in a way; without one the ascending pass over what the program needs.
pub(crate) type WalkRun = Row<On, Option<Way>, Measured>;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The time from cold, in seconds; of two programs, until the first has ended.
    pub(crate) seconds: f64,
    /// The time right after that, with as much in memory as fits, without the disk's delays; of two programs, of the first.
    pub(crate) again_seconds: f64,
    /// Of the load beside it: when a second program had ended, or the mean time of a read, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beside_seconds: Option<f64>,
    /// What reading ahead cost besides in the cold run: of `warm` and `watch`, which count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) side_costs: Option<SideCosts>,
    /// Requests that the disk served in the cold run.
    pub(crate) reads: u64,
    /// Seeks for them.
    pub(crate) seeks: u64,
    /// Bytes of them.
    pub(crate) read_bytes: u64,
    /// The machine's load average before it.
    pub(crate) load: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn side_costs_are_found_where_watch_and_warm_tell_them() {
        let warm = json!({"reclaimed_bytes": 4096, "processor_seconds": 0.5, "fiemap_calls": 7, "fetched_again_bytes": 9});
        let watch =
            json!({"counted": {"reclaimed_bytes": 8192}, "processor_seconds": 0.75, "fiemap_calls": 10});
        let [warm, watch] = [warm, watch].map(|told| SideCosts::of(&told).expect("told"));
        let costs = |reclaimed_bytes, fetched_again_bytes, processor_seconds, fiemap_calls| SideCosts {
            reclaimed_bytes,
            fetched_again_bytes,
            processor_seconds,
            fiemap_calls,
        };
        assert_eq!(warm, costs(4096, Some(9), 0.5, 7));
        assert_eq!(watch.since(warm), costs(4096, None, 0.25, 3));
        assert_eq!(SideCosts::mean(&[warm, watch]), Some(costs(6144, None, 0.625, 8)));
        assert_eq!((SideCosts::mean(&[]), SideCosts::of(&json!({"files": 3}))), (None, None));
    }
}
