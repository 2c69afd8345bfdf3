//! The parameters of the block layer.

use foreseek_device::Queue;
use foreseek_units::{Nanos, Sectors};

/// Requests that the adapter's driver keeps in a SCSI disk with tags, in all set-ups of the papers and in each
/// member of an array. TR-840's 320 sectors are 40 pages, the default number of pieces that the driver of LSI's
/// Fusion MPT adapters gathers (`CONFIG_FUSION_MAX_SGE`, 40, in 2.6.3 and 2.6.10; other drivers of the time have
/// other numbers). That driver gives a disk with tags and an Ultra160 bus 31 commands
/// (`MPT_SCSI_CMD_PER_DEV_HIGH` in `drivers/message/fusion/mptscsih.h` up to 2.6.5). Others of the time are of
/// the same order: `aic7xxx` and `aic79xx`, which drives the Adaptec Ultra320 adapters of ATC'08, have 32 by
/// default, `aacraid`, which drives the array of EuroSys'07, 128.
pub const TAGS: usize = 31;

/// The settings of the block layer and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests of each direction, waiting or in the device; a submitter that finds none sleeps.
    pub requests: usize,
    /// More requests of a direction than this congest the queue.
    pub congested_above: usize,
    /// With fewer requests than this a congested queue is no longer congested.
    pub uncongested_below: usize,
    /// The longest request; a longer submission is split, at page boundaries of itself.
    pub largest: Sectors,
    /// The longest gap between two reads that is read with them and discarded: none in any kernel but that of
    /// ATC'09 (section 4.7).
    pub infill: Sectors,
    /// This many waiting requests unplug the queue.
    pub unplug_at: usize,
    /// The longest time that a queue stays plugged.
    pub unplug_after: Nanos,
    /// How many requests a submitter that finds one free may take at once, up to half a pool beyond the limit:
    /// 32 in the kernels (`BLK_BATCH_REQ`). With 1 each is given out separately.
    pub batch: usize,
    /// Whether a reader sleeps until all of its read-ahead has requests, as in `get_request_wait`. Otherwise it
    /// goes on until it needs a page.
    pub submitter_sleeps: bool,
    /// How many requests the driver keeps in the device: 1 for IDE, a few for SCSI with tags.
    pub in_device: usize,
    /// The order in which the device serves them: the shortest access first, seek and rotation together, as
    /// drives with tags do, or in order of arrival.
    pub device_order: Queue,
}

impl Settings {
    /// Linux 2.6.3 (TR-840). It queues 128 requests. It is congested above 7/8 of them plus one (TR-840 section 6
    /// footnote 4), and no longer below 7/8 less one. A request has at most 255 sectors, since the drivers of that
    /// time counted in a byte; TR-840 section 6 mentions 320 for another driver. Four requests or 3 ms unplug it.
    pub const LINUX_2_6_3: Self = Self {
        requests: 128,
        congested_above: 113,
        uncongested_below: 111,
        largest: Sectors(255),
        infill: Sectors::ZERO,
        unplug_at: 4,
        unplug_after: Nanos::from_millis(3),
        batch: 1,
        submitter_sleeps: false,
        in_device: 1,
        device_order: Queue::Sptf,
    };

    /// Linux 2.6.10 (EuroSys'07): congestion ends another sixteenth lower, so that the queue does not oscillate
    /// about its threshold.
    pub const LINUX_2_6_10: Self = Self { uncongested_below: 103, ..Self::LINUX_2_6_3 };

    /// Linux 2.6.18 (ATC'08; used for 2.6.16 and 2.6.20 too): requests of at most 1024 sectors.
    pub const LINUX_2_6_18: Self = Self { largest: Sectors(1024), ..Self::LINUX_2_6_10 };

    /// The same above a driver that takes the file system's requests directly, without a queue
    /// (`make_request_fn`, as md's): nothing is plugged, merged or counted as congestion, and all goes to the
    /// driver at once.
    pub const LINUX_2_6_18_BIO: Self = Self {
        requests: 4096,
        congested_above: 4097,
        uncongested_below: 4096,
        unplug_at: 1,
        in_device: 4096,
        ..Self::LINUX_2_6_18
    };

    /// Today's stock kernel above a loop device: 128 requests of at most 1280 KiB, all of them in the device,
    /// as far as its queue takes them.
    pub const LINUX_6_LOOP: Self = Self {
        requests: 128,
        congested_above: 113,
        uncongested_below: 103,
        largest: Sectors(2560),
        in_device: 128,
        ..Self::LINUX_2_6_18
    };

    /// Today's stock kernel above an emulated disk: requests of at most 1280 KiB, 4 of them in the device and
    /// 256 above it.
    pub const LINUX_6_EMULATED: Self = Self {
        requests: 256,
        congested_above: 225,
        uncongested_below: 208,
        largest: Sectors(2560),
        in_device: 4,
        ..Self::LINUX_2_6_18
    };
}

/// When the anticipatory scheduler's timer starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnticipationTimer {
    /// When the first piece of a split submission is complete: the stock kernel, which therefore often stops
    /// waiting before the process can run (TR-840 section 6).
    FirstPiece,
    /// When all pieces of the submission are complete: TR-840's correction, with which all of its results were
    /// measured.
    #[default]
    AllPieces,
}
