//! The kinds of servers.

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An emulated disk.
    Disk,
    /// An array.
    Array,
    /// A mount.
    Mount,
    /// The watcher.
    Watch,
}

impl Kind {
    /// The folder of its servers in the run directory.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Disk => "disks",
            Self::Array => "arrays",
            Self::Mount => "mounts",
            Self::Watch => "watch",
        }
    }

    /// The name of its processes in `ps` and `top`, of which the kernel keeps 15 bytes.
    /// `foreseek warm` knows a watcher by it.
    pub(crate) fn process_name(self) -> &'static str {
        match self {
            Self::Disk => "foreseek-disk",
            Self::Array => "foreseek-array",
            Self::Mount => "foreseek-mount",
            Self::Watch => "foreseek-watch",
        }
    }
}
