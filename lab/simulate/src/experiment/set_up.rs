//! The papers' set-ups, and one of today: a set of parameters for each, everything else in common.

use super::policy::Policy;
use crate::block;
use crate::machine::{Costs, Settings};
use foreseek_kernels as kernels;
use foreseek_units::{Bytes, Sectors};

/// The longest request of the papers' machine: "e.g., 320 disk sectors" (TR-840 section 6), under Linux 2.6.3,
/// and assumed for 2.6.10, for which EuroSys'07 gives none. It is the limit of the host adapter's driver and so
/// belongs to the kernel: under 2.6.16 the same drive was no longer delayed by software (EuroSys'07 section 5),
/// and the guest of its section 6.3 has its own kernel's limit. It matters much: a window of 128 KiB goes to
/// the disk in one piece, so that its reader wakes when the disk is already idle or elsewhere, while a longer
/// fetch arrives in several pieces.
const LARGEST_REQUEST: Sectors = Sectors(320);

/// A submitter that takes the last free request, or sleeps for one, may take this many (`BLK_BATCH_REQ` of
/// `ll_rw_blk.c`, 2.6.3 to 2.6.11). The sleeping of submitters (`get_request_wait`) belongs to it.
const BATCH: usize = 32;

/// The default longest request of a SATA disk in today's kernels, `max_sectors_kb` of 1280.
const LARGEST_REQUEST_TODAY: Sectors = Sectors(2560);

/// Commands that a SATA disk queues (NCQ).
const NCQ: usize = 32;

/// The memory for processes and their pages on ATC'09's machine of 512 MB: "500MB of memory available after
/// bootup" (section 5.6).
const LEFT_AFTER_BOOT: Bytes = Bytes::mib(500);

/// The memory of a control group in which programs with libprefetch are measured.
const GROUP: Bytes = Bytes::mib(16);

/// A paper's machine, kernel and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetUp {
    /// TR-840 section 5: two 2 GHz Xeons, 512 MB, Linux 2.6.3 as corrected in its section 6, the IBM
    /// drive at 51.3 MB/s, anticipatory scheduling.
    Tr840,
    /// EuroSys'07 section 6: the same processors, 2 GB, Linux 2.6.10, the IBM drive at 37.3 MB/s.
    EuroSys,
    /// EuroSys'07 section 6.3: the same machine under Xen 3.0.2 with Linux 2.6.16 (the rules of 2.6.18), whose
    /// scheduler sees one process, and the drive at the rate that it has there. The guest's memory is not
    /// stated; the machine's is assumed.
    EuroSysXen,
    /// ATC'08 section 3.1: two 3 GHz Xeons, 512 MiB for the host (section 3.3), Linux 2.6.18, RAID-5 of five
    /// disks of 15,000 rpm. There is no scheduler above its driver; the members have one each (`array_cache`).
    Atc08,
    /// ATC'09 section 5.1: a 3.2 GHz Pentium 4, 512 MB of which 500 MB are left after boot (section 5.6), Linux 2.6.20 (the rules of
    /// 2.6.18) with CFQ (section 4.7) and advice that moves pages (section 4.5), a SATA disk of 7,200 rpm.
    Atc09,
    /// No paper's: 2 GB and a SATA disk with NCQ below a kernel of today, where private memory is not in the
    /// page cache's lists and there is no scheduler. Processors are the papers', so that times can be compared.
    Today,
    /// No paper's: a control group of 16 MiB on a machine of today, above an emulated disk with files one behind
    /// the other: what programs with libprefetch are measured on (`scripts/bench-libprefetch pairs`).
    Emulated,
}

/// Their names in experiment files.
pub const SET_UPS: [(&str, SetUp); 7] = [
    ("tr840", SetUp::Tr840),
    ("eurosys", SetUp::EuroSys),
    ("eurosys-xen", SetUp::EuroSysXen),
    ("atc08", SetUp::Atc08),
    ("atc09", SetUp::Atc09),
    ("today", SetUp::Today),
    ("emulated", SetUp::Emulated),
];

impl SetUp {
    /// The machine.
    #[must_use]
    pub fn machine(self) -> Settings {
        if self == Self::Emulated {
            return Settings::stock(GROUP);
        }
        let mut machine = Settings::xeons(match self {
            Self::Tr840 | Self::Atc08 | Self::Atc09 => Bytes::mib(512),
            Self::EuroSys | Self::EuroSysXen | Self::Today | Self::Emulated => Bytes::gib(2),
        });
        // The rules of memory are those of 2.6.3 to 2.6.10.
        machine.memory.paged = !matches!(self, Self::Atc08 | Self::Atc09 | Self::Today);
        machine.memory.marks_beginning = machine.memory.paged;
        if self == Self::Atc08 {
            machine.costs = Costs::XEON_3_GHZ;
        }
        if self == Self::Atc09 {
            machine.costs = Costs::PENTIUM_3_2_GHZ;
            machine.processors = 1;
            machine.memory.system = machine.memory.total - LEFT_AFTER_BOOT;
            machine.memory.advice_moves = true;
        }
        machine
    }

    /// The block layer.
    #[must_use]
    pub fn block(self) -> block::Settings {
        let (largest, in_device) = (LARGEST_REQUEST, block::TAGS);
        let sleeping =
            |of: block::Settings| block::Settings { batch: BATCH, submitter_sleeps: true, in_device, ..of };
        match self {
            Self::Tr840 => block::Settings { largest, ..sleeping(block::Settings::LINUX_2_6_3) },
            Self::EuroSys => block::Settings { largest, ..sleeping(block::Settings::LINUX_2_6_10) },
            Self::EuroSysXen => sleeping(block::Settings::LINUX_2_6_18),
            Self::Atc08 => block::Settings::LINUX_2_6_18_BIO,
            // Its controller's driver (`sata_sil24`) queues 31 commands in a drive as well (`SIL24_MAX_CMDS`).
            Self::Atc09 => block::Settings { in_device, ..block::Settings::LINUX_2_6_18 },
            Self::Emulated => block::Settings::LINUX_6_LOOP,
            Self::Today => block::Settings {
                largest: LARGEST_REQUEST_TODAY,
                in_device: NCQ,
                submitter_sleeps: true,
                ..block::Settings::LINUX_2_6_3
            },
        }
    }

    /// The I/O scheduler's name.
    #[must_use]
    pub fn scheduler(self) -> &'static str {
        match self {
            Self::Tr840 => "anticipatory",
            // Its "Linux" is "the original Linux 2.6.10 kernel" (section 6.2), and it mentions no correction of
            // the scheduler or of what congestion cancels.
            Self::EuroSys => "anticipatory-stock",
            Self::EuroSysXen => "anticipatory-blind-2.6.18",
            Self::Atc08 | Self::Today | Self::Emulated => "noop",
            Self::Atc09 => "cfq",
        }
    }

    /// Whether there is no file system: files lie one behind the other from the beginning of the device on.
    #[must_use]
    pub fn raw(self) -> bool {
        self == Self::Emulated
    }

    /// Whether each seed has a file system of its own. Otherwise all have one, and seeds differ in the
    /// requests.
    #[must_use]
    pub fn places_by_seed(self) -> bool {
        matches!(self, Self::Tr840 | Self::EuroSys | Self::EuroSysXen)
    }

    /// The built-in device profile's name.
    #[must_use]
    pub fn device(self) -> &'static str {
        match self {
            Self::Tr840 | Self::EuroSysXen => "ibm-36g-51",
            Self::EuroSys => "ibm-36g-37",
            Self::Atc08 => "raid5-5x-15k",
            Self::Atc09 | Self::Today | Self::Emulated => "barracuda-500g",
        }
    }

    /// The kernel's read-ahead: the window machine, the average of switch costs, the size of aggressive
    /// prefetching.
    #[must_use]
    pub fn prefetch(self) -> kernels::Settings {
        match self {
            // Its policies name their kernels.
            Self::Tr840 | Self::Today | Self::Emulated => kernels::Settings::tr840(),
            Self::EuroSys => kernels::Settings::eurosys(),
            Self::EuroSysXen => kernels::Settings::eurosys_guest(),
            Self::Atc08 | Self::Atc09 => kernels::Settings::of(kernels::Kernel::Linux2_6_18),
        }
    }

    /// Its Linux, competitive and aggressive read-ahead.
    #[must_use]
    pub fn policies(self) -> Vec<Policy> {
        let names: &[&str] = match self {
            Self::Tr840 => &["linux-2.6.3", "competitive", "aggressive"],
            Self::EuroSys => &["linux-2.6.10", "competitive", "aggressive"],
            Self::EuroSysXen => &["linux-2.6.18", "competitive", "aggressive"],
            Self::Atc08 => &["linux-2.6.18@128K/none", "none/asp", "none/asp+msp"],
            Self::Atc09 => &["linux-2.6.18"],
            Self::Today => &["on-demand"],
            Self::Emulated => &["on-demand+linux-6"],
        };
        names.iter().map(|name| Policy::from(*name)).collect()
    }
}
