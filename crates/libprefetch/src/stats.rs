//! Counters of a client.

use std::fmt::Write;

/// Counters of one client since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The engine's own counters.
    pub engine: foreseek_hints::Stats,
    /// Reads of watched regions that passed unseen because a question to the application was open.
    pub unseen: u64,
    /// Reads of watched regions that were ignored by [`Client::ignore`](crate::Client::ignore).
    pub ignored: u64,
    /// Reads of watched regions through a descriptor with `O_DIRECT`, which bypass the page cache.
    pub direct: u64,
    /// Entries of hints beyond the end of their file, which were left out.
    pub beyond_end: u64,
    /// Files with a region, past or present.
    pub files: u64,
}

impl Stats {
    /// Every counter with its name, for reports.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, u64)> {
        let mut entries = self.engine.entries().to_vec();
        entries.extend([
            ("unseen", self.unseen),
            ("ignored", self.ignored),
            ("direct", self.direct),
            ("beyond_end", self.beyond_end),
            ("files", self.files),
        ]);
        entries
    }

    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (index, (name, value)) in self.entries().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to a string does not fail; names are plain words.
            let _ = write!(json, "{comma}\"{name}\":{value}");
        }
        json.push('}');
        json
    }
}
