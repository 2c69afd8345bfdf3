//! The kernels by name, as window machines that take a depth rule.

use crate::Congestion;
use crate::linux_2_6_3::Linux2_6_3;
use crate::linux_2_6_10::Linux2_6_10;
use crate::linux_2_6_18::Linux2_6_18;
use crate::two_windows::TwoWindows;
use foreseek_readahead::depth::Depth;
use foreseek_readahead::stream::machine::Streams;
use foreseek_readahead::stream::{Generation, Prefetcher, Ramp, Windows};
use foreseek_units::Pages;

/// A kernel of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Linux 2.6.3: current and ahead window (TR-840).
    Linux2_6_3,
    /// Linux 2.6.10: an ahead window only for streams that were followed for long (EuroSys'07).
    Linux2_6_10,
    /// Linux 2.6.18, and 2.6.16 of EuroSys'07 section 6.3.
    Linux2_6_18,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Linux2_6_3, Self::Linux2_6_10, Self::Linux2_6_18];

    /// Its name, as settings have it; that of its own read-ahead as a policy, too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux2_6_3 => "linux-2.6.3",
            Self::Linux2_6_10 => "linux-2.6.10",
            Self::Linux2_6_18 => "linux-2.6.18",
        }
    }

    /// One line about its read-ahead.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Linux2_6_3 => "Linux 2.6.3: two windows, up to 128 KiB",
            Self::Linux2_6_10 => "Linux 2.6.10: two windows and an average of hits",
            Self::Linux2_6_18 => "Linux 2.6.18: two windows, once a call",
        }
    }

    /// The kernel of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// Its window machine under this rule of congestion.
    #[must_use]
    pub fn under(self, congestion: Congestion) -> Generation {
        let of_kernel = match self {
            Self::Linux2_6_3 => &LINUX_2_6_3,
            Self::Linux2_6_10 => &LINUX_2_6_10,
            Self::Linux2_6_18 => &LINUX_2_6_18,
        };
        let at = Congestion::ALL.iter().position(|rule| *rule == congestion).unwrap_or_default();
        Generation::of(&of_kernel[at])
    }
}

/// The window machine of this name, of a kernel or of the product; kernels have the default rule of congestion.
#[must_use]
pub fn generation(name: &str) -> Option<Generation> {
    let kernel = Kernel::named(name).map(|kernel| kernel.under(Congestion::default()));
    kernel.or_else(|| Generation::ALL.into_iter().find(|generation| generation.name() == name))
}

/// A kernel under a rule.
struct Ruled {
    kernel: Kernel,
    congestion: Congestion,
}

static LINUX_2_6_3: [Ruled; 4] = Ruled::all(Kernel::Linux2_6_3);
static LINUX_2_6_10: [Ruled; 4] = Ruled::all(Kernel::Linux2_6_10);
static LINUX_2_6_18: [Ruled; 4] = Ruled::all(Kernel::Linux2_6_18);

impl Ruled {
    const fn all(kernel: Kernel) -> [Self; 4] {
        let [a, b, c, d] = Congestion::ALL;
        [
            Self { kernel, congestion: a },
            Self { kernel, congestion: b },
            Self { kernel, congestion: c },
            Self { kernel, congestion: d },
        ]
    }
}

impl Windows for Ruled {
    fn name(&self) -> &'static str {
        self.kernel.name()
    }

    fn with(&self, depth: Box<dyn Depth>, ramp: Ramp, around: Pages) -> Box<dyn Prefetcher> {
        let congestion = self.congestion;
        match self.kernel {
            Kernel::Linux2_6_3 => {
                Box::new(Streams::new(TwoWindows { rules: Linux2_6_3, depth, ramp, around, congestion }))
            }
            Kernel::Linux2_6_10 => {
                Box::new(Streams::new(TwoWindows { rules: Linux2_6_10, depth, ramp, around, congestion }))
            }
            Kernel::Linux2_6_18 => Box::new(Streams::new(Linux2_6_18 { depth, ramp, around })),
        }
    }
}
