//! A policy of an experiment and its name.

use foreseek_device::Profile;
use foreseek_hints::Settings;
use foreseek_units::{Bytes, Pages};
use std::fmt;

/// Read-ahead and page replacement together, as the papers compare them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The name of the prefetcher (`foreseek_kernels::by_name`). After `mount:` it is that of a mount
    /// (`foreseek_readahead::serving`) through which a kernel with stock read-ahead reads; after `watch:` that
    /// of a kernel beside the daemon of [`crate::watch`]; after one of [`CLIENTS`] that of a kernel whose
    /// processes use libprefetch.
    pub prefetcher: String,
    /// The largest window of its read-ahead, if it is not the experiment's (`prefetch.window_pages`).
    pub window: Option<Bytes>,
    /// The name of the page replacement (`foreseek_simulate::machine::reclaim::by_name`).
    pub reclaim: String,
    /// The policy of the array's driver (`foreseek_strips::registry`). By default it is that of the experiment
    /// (`array_cache.policy`); if that has none either, there is no such driver.
    pub array: Option<String>,
}

impl Policy {
    /// A prefetcher over the lists of Linux 2.6.
    #[must_use]
    pub fn new(prefetcher: &str) -> Self {
        Self {
            prefetcher: prefetcher.to_owned(),
            window: None,
            reclaim: DEFAULT_RECLAIM.to_owned(),
            array: None,
        }
    }

    /// The kernel's prefetcher where a daemon reads ahead of tree walks (`watch:on-demand`).
    #[must_use]
    pub fn watched(&self) -> Option<&str> {
        self.prefetcher.strip_prefix("watch:")
    }

    /// The kernel's prefetcher where processes use libprefetch (`libprefetch:linux-2.6.18`), and the settings
    /// of their clients.
    #[must_use]
    pub fn directed(&self) -> Option<(MakeSettings, &str)> {
        let (client, kernel) = self.prefetcher.split_once(':')?;
        CLIENTS.iter().find(|(name, _)| *name == client).map(|(_, settings)| (*settings, kernel))
    }

    /// The prefetcher of the mount, if there is one.
    #[must_use]
    pub fn mounted(&self) -> Option<&str> {
        self.prefetcher.strip_prefix("mount:")
    }
}

/// The settings of clients on a device.
pub(crate) type MakeSettings = fn(&Profile) -> Settings;

/// The ways in which processes use libprefetch: as in ATC'09, and with the defaults.
pub const CLIENTS: &[(&str, MakeSettings)] = &[
    ("libprefetch", |_| Settings::paper()),
    // "Infill amounts up to 32KB can help" (section 3.3). Here the library reads gaps, and
    // they take memory; `block.infill` is the paper's kernel.
    ("libprefetch-infill", |_| Settings { infill: INFILL, ..Settings::paper() }),
    ("libprefetch-uncontrolled", |_| Settings { controlled: false, ..Settings::paper() }),
    ("libprefetch-shipped", |device| Settings {
        infill: device.infill().pages_floor(),
        ..Settings::default()
    }),
];

/// The longest gap that the paper reads.
const INFILL: Pages = Bytes::kib(32).pages_floor();

/// The default page replacement.
const DEFAULT_RECLAIM: &str = "linux-2.6";

impl From<&str> for Policy {
    /// `prefetcher[@window][+reclaim][/array]`, as in `linux-2.6.18@32K+cpem` and `linux-2.6.18@32K/asp+msp`.
    /// Text after the `@` that is no size stays a part of the prefetcher's name, which then is unknown.
    fn from(text: &str) -> Self {
        let (host, array) = text.rsplit_once('/').map_or((text, None), |(host, array)| (host, Some(array)));
        let (ahead, reclaim) = host.split_once('+').unwrap_or((host, DEFAULT_RECLAIM));
        let sized = ahead.rsplit_once('@').and_then(|(name, size)| Some((name, size.parse().ok()?)));
        let (prefetcher, window) = sized.map_or((ahead, None), |(name, size)| (name, Some(size)));
        let array = array.map(str::to_owned);
        Self { prefetcher: prefetcher.to_owned(), window, reclaim: reclaim.to_owned(), array }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.prefetcher.clone();
        if let Some(window) = self.window {
            text += &format!("@{}K", window.get() / 1024);
        }
        if self.reclaim != DEFAULT_RECLAIM {
            text += &format!("+{}", self.reclaim);
        }
        if let Some(array) = &self.array {
            text += &format!("/{array}");
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_carries_window_and_replacement_and_reads_back() {
        for (text, prefetcher, window, reclaim) in [
            ("linux-2.6.18", "linux-2.6.18", None, "linux-2.6"),
            ("linux-2.6.18@32K", "linux-2.6.18", Some(Bytes::kib(32)), "linux-2.6"),
            ("linux-2.6.18@512K+cpem", "linux-2.6.18", Some(Bytes::kib(512)), "cpem"),
            ("mount:competitive+cpem", "mount:competitive", None, "cpem"),
        ] {
            let policy = Policy::from(text);
            assert_eq!((&*policy.prefetcher, policy.window, &*policy.reclaim), (prefetcher, window, reclaim));
            assert_eq!(policy.to_string(), text);
        }
        for (text, array) in [("none/asp", "asp"), ("linux-2.6.18@128K/asp+msp", "asp+msp")] {
            let policy = Policy::from(text);
            assert_eq!((policy.array.as_deref(), &*policy.reclaim), (Some(array), "linux-2.6"));
            assert_eq!(policy.to_string(), text);
        }
        let directed = Policy::from("libprefetch-uncontrolled:linux-2.6.18");
        let (_, kernel) = directed.directed().expect("a client");
        assert_eq!(
            (kernel, directed.to_string().as_str()),
            ("linux-2.6.18", "libprefetch-uncontrolled:linux-2.6.18")
        );
        assert!(Policy::from("mount:competitive").directed().is_none());
        assert_eq!(Policy::from("linux-2.6.18@much").prefetcher, "linux-2.6.18@much");
    }
}
