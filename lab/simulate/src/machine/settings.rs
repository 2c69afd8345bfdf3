//! The parameters of a machine: memory, processors, costs of operations, write-back.
//!
//! Every number has its source or its reason beside it. The papers' machines are those of
//! [`SetUp`](crate::experiment::SetUp); they differ only where the papers say so.

use foreseek_units::{Bytes, Nanos, Pages, Sectors};

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Its memory.
    pub memory: Memory,
    /// The number of processors.
    pub processors: u32,
    /// How long a process may run while others wait for a processor.
    pub time_slice: Nanos,
    /// The costs of the kernel's work.
    pub costs: Costs,
    /// When dirty pages are written.
    pub write_back: WriteBack,
    /// From the end of a request to the arrival of the client's next one.
    pub client_delay: Nanos,
    /// Whether jobs that exceed the time limit are ended, with that as their time. Otherwise it is an error.
    pub ends_jobs: bool,
}

/// The memory and its uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// All of it.
    pub total: Bytes,
    /// The part that is neither page cache nor a process's: see [`Memory::of`].
    pub system: Bytes,
    /// The share of all memory that processes' private memory may take before its cold part is
    /// swapped out instead of page cache being reclaimed.
    pub private_share: f64,
    /// Whether private memory is pages on the lists that are swapped out and in on the device, as in the
    /// papers' machines, or a share.
    pub paged: bool,
    /// Where it is pages: whether what a process reads goes into all of its private memory in turn, or the
    /// process touches that only when it begins.
    pub reused: bool,
    /// Whether only a read of a page's beginning marks it as accessed (Linux 2.6.3 to 2.6.10), or each read of
    /// a part of it.
    pub marks_beginning: bool,
    /// Whether advice to fetch moves a page in memory to the young end of its list, as in ATC'09 (section 4.5).
    /// A stock kernel leaves it where it is.
    pub advice_moves: bool,
    /// Reclaim begins when only this many pages are free.
    pub low: Pages,
    /// Reclaim ends when this many pages are free.
    pub high: Pages,
}

impl Memory {
    /// A machine of the papers' time with this much memory.
    ///
    /// The system's part is 24 MiB (kernel image and static data about 6 MiB, a server
    /// distribution's daemons about 18 MiB resident) and 4 % of memory: page descriptors 1 % (40
    /// bytes a page), inodes, dentries, buffer heads and radix trees of the cached pages the rest.
    ///
    /// `private_share`: `refill_inactive_zone` of 2.6 leaves mapped pages alone until half of the
    /// mapped percentage plus `swappiness` (60) reaches 100, so until 80 % of memory is mapped.
    ///
    /// The marks are those of `setup_per_zone_pages_min`: `min` is the square root of 16 times the
    /// memory in KiB, in KiB; `low` is twice and `high` three times that.
    #[must_use]
    pub fn of(total: Bytes) -> Self {
        let min = Bytes::kib((total.get() as f64 / 1024.0 * 16.0).sqrt() as u64).pages_floor();
        Self {
            total,
            system: Bytes::mib(24) + total.scale(0.04),
            private_share: 0.8,
            paged: false,
            marks_beginning: false,
            reused: true,
            advice_moves: false,
            low: min * 2,
            high: min * 3,
        }
    }
}

impl Memory {
    /// The same rules with another amount of memory. A control group has no marks and no part of the system.
    #[must_use]
    pub fn resized(self, total: Bytes) -> Self {
        if self.low.is_zero() {
            return Self { total, ..self };
        }
        let Self { paged, marks_beginning, reused, advice_moves, .. } = self;
        Self { paged, marks_beginning, reused, advice_moves, ..Self::of(total) }
    }

    /// The swap space at the end of a device of this capacity, in whole groups of eight pages: twice the 2 GB
    /// of the papers' machines (the rule of the time), but at most 64 times the memory in use and a quarter of
    /// the device. None where private memory is not pages.
    #[must_use]
    pub fn swap(&self, capacity: Sectors) -> Pages {
        let most = Bytes::gib(4).min(self.total * 64).min(capacity.bytes() / 4);
        if self.paged { Pages(most.pages_floor().get() / 8 * 8) } else { Pages::ZERO }
    }
}

/// Processor time of the kernel's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Entering and leaving a system call.
    pub system_call: Nanos,
    /// Finding a page of the cache and marking it as used.
    pub look_up: Nanos,
    /// Copying a page between the cache and a process.
    pub copy: Nanos,
    /// A fault on a mapped page that is in memory.
    pub fault: Nanos,
    /// Taking a free page and putting it into the cache.
    pub allocate: Nanos,
    /// Looking at a page to reclaim it.
    pub reclaim: Nanos,
    /// Handing one contiguous range to the block layer.
    pub submit: Nanos,
    /// The interrupt at the end of one, and waking the waiting processes.
    pub interrupt: Nanos,
    /// Putting another process on a processor.
    pub switch: Nanos,
    /// Making and ending a process or thread.
    pub create: Nanos,
}

impl Costs {
    /// Two 2 GHz Xeons of 2002 (TR-840 section 5, EuroSys'07 section 6). No paper measured these. They are
    /// typical results of lmbench for such a machine under 2.6, to a factor of about 1.5:
    ///
    /// | | |
    /// |---|---|
    /// | a null call | 0.5 to 1 us |
    /// | a page copied, at 0.8 to 1.2 GB/s | 4 us |
    /// | a minor fault | 1 to 2 us |
    /// | a context switch | 2 to 8 us |
    /// | a thread made and joined | 20 to 50 us |
    /// | an I/O request, with SCSI drivers of the time | 10 us in, 15 us out |
    ///
    /// They are small beside a disk's 10 ms, and the claims on processor use are compared, not fitted.
    pub const XEON_2_GHZ: Self = Self {
        system_call: Nanos(800),
        look_up: Nanos(300),
        copy: Nanos(4_000),
        fault: Nanos(1_500),
        allocate: Nanos(700),
        reclaim: Nanos(700),
        submit: Nanos(10_000),
        interrupt: Nanos(15_000),
        switch: Nanos(5_000),
        create: Nanos(40_000),
    };

    /// Two 3 GHz Xeons of 2005 (ATC'08 section 3.1): the same work in two thirds of the time, in proportion to
    /// the clock rate.
    pub const XEON_3_GHZ: Self = Self {
        system_call: Nanos(530),
        look_up: Nanos(200),
        copy: Nanos(2_700),
        fault: Nanos(1_000),
        allocate: Nanos(470),
        reclaim: Nanos(470),
        submit: Nanos(6_700),
        interrupt: Nanos(10_000),
        switch: Nanos(3_300),
        create: Nanos(27_000),
    };

    /// A Pentium 4 of 3.2 GHz (ATC'09 section 5.1): as [`XEON_2_GHZ`](Self::XEON_2_GHZ), which is of the same
    /// kind, in proportion to the clock rate.
    pub const PENTIUM_3_2_GHZ: Self = Self {
        system_call: Nanos(500),
        look_up: Nanos(190),
        copy: Nanos(2_500),
        fault: Nanos(940),
        allocate: Nanos(440),
        reclaim: Nanos(440),
        submit: Nanos(6_250),
        interrupt: Nanos(9_400),
        switch: Nanos(3_100),
        create: Nanos(25_000),
    };

    /// A core of today under Linux 6. Measured: 0.6 us a call of `cachestat`, 4 GB/s for reading resident data.
    /// The others are assumed to be a third of [`XEON_2_GHZ`](Self::XEON_2_GHZ)'s or less, to a factor of about
    /// 2; they are small beside a disk's milliseconds.
    pub const STOCK: Self = Self {
        system_call: Nanos(500),
        look_up: Nanos(100),
        copy: Nanos(900),
        fault: Nanos(500),
        allocate: Nanos(200),
        reclaim: Nanos(200),
        submit: Nanos(1_500),
        interrupt: Nanos(2_000),
        switch: Nanos(1_500),
        create: Nanos(20_000),
    };
}

/// When dirty pages go to the device: the defaults of 2.6 (`/proc/sys/vm`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteBack {
    /// The share of the page cache's memory that may be dirty before write-back starts
    /// (`dirty_background_ratio`).
    pub background: f64,
    /// The share above which writers wait (`dirty_ratio`).
    pub limit: f64,
    /// The age at which a dirty page is written in any case (`dirty_expire_centisecs`).
    pub expire: Nanos,
    /// The period of write-back (`dirty_writeback_centisecs`).
    pub period: Nanos,
}

impl Default for WriteBack {
    fn default() -> Self {
        Self { background: 0.1, limit: 0.4, expire: Nanos::from_secs(30), period: Nanos::from_secs(5) }
    }
}

impl Settings {
    /// A process alone in a control group with this much memory on a machine of today with a stock kernel: its
    /// cached pages are reclaimed one by one when the group is full, as the group's limit does.
    #[must_use]
    pub fn stock(memory: Bytes) -> Self {
        let group = Memory {
            total: memory,
            system: Bytes::ZERO,
            private_share: 0.8,
            paged: false,
            marks_beginning: false,
            reused: true,
            advice_moves: false,
            low: Pages::ZERO,
            high: Pages(1),
        };
        Self { memory: group, costs: Costs::STOCK, client_delay: Nanos::ZERO, ..Self::xeons(memory) }
    }

    /// Two processors of 2 GHz and this much memory.
    ///
    /// The slice is `MIN_TIMESLICE` of the 2.6 scheduler, which gives it to processes that often sleep, as
    /// readers do. The client's delay is a round trip through TCP over the papers' Gigabit Myrinet and one
    /// cycle of the load generator, assumed as about 0.1 ms.
    #[must_use]
    pub fn xeons(memory: Bytes) -> Self {
        Self {
            memory: Memory::of(memory),
            processors: 2,
            time_slice: Nanos::from_millis(10),
            costs: Costs::XEON_2_GHZ,
            write_back: WriteBack::default(),
            client_delay: Nanos::from_micros(100),
            ends_jobs: false,
        }
    }

    /// The same for readers in a control group with this much memory, on the machine itself: its limit counts
    /// its processes' memory and pages, and not the kernel's.
    #[must_use]
    pub fn in_group(memory: Bytes) -> Self {
        let memory_of_group = Memory { system: Bytes::ZERO, ..Memory::of(memory) };
        Self { memory: memory_of_group, client_delay: Nanos::ZERO, ..Self::xeons(memory) }
    }
}
