//! The parameters of the anticipatory scheduler, by kernel.

use crate::block::AnticipationTimer;
use foreseek_units::Sectors;

/// Which requests of others are near enough to end an anticipation, and how a process that has ended counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Near: within 64 sectors ahead (half of it behind) in the first millisecond, doubling with each further
    /// one. There is no wait for a process that has ended.
    Linux2_6_3,
    /// Near: within 8192 sectors ahead (half of it behind), doubling with each millisecond. There is a wait for
    /// an ended process as long as others are known to read near ended ones.
    Linux2_6_18,
}

/// The settings of the anticipatory scheduler. Times are in ticks of a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnticipatorySettings {
    /// The rules that are not numbers.
    pub rules: Rules,
    /// How long a synchronous and an asynchronous request may wait; the oldest is checked no more often than
    /// this.
    pub expire: [u64; 2],
    /// How long a batch of synchronous and of asynchronous requests continues while others wait.
    pub batch: [u64; 2],
    /// How long to wait for the process's next request; 0 for a scheduler that never waits.
    pub wait: u64,
    /// When that time begins.
    pub timer: AnticipationTimer,
    /// The longest way back, at twice the cost.
    pub back: Sectors,
    /// Blind to processes: all requests have one process, as when they come from a virtual machine (EuroSys'07
    /// section 6.3).
    pub blind: bool,
}

impl AnticipatorySettings {
    /// Linux 2.6.3 and 2.6.10, with TR-840's correction of the timer.
    pub const LINUX_2_6_3: Self = Self {
        rules: Rules::Linux2_6_3,
        expire: [125, 250],
        batch: [250, 62],
        wait: 6,
        timer: AnticipationTimer::AllPieces,
        back: Sectors(1024 * 1024),
        blind: false,
    };

    /// Linux 2.6.18: longer batches, larger near distances.
    pub const LINUX_2_6_18: Self = Self { rules: Rules::Linux2_6_18, batch: [500, 125], ..Self::LINUX_2_6_3 };

    /// The same without anticipation: the "elevator similar to cyclic SCAN" (TR-840 section 2.2).
    #[must_use]
    pub const fn without_waiting(self) -> Self {
        Self { wait: 0, ..self }
    }

    /// The same for requests of unknown processes.
    #[must_use]
    pub const fn blind(self) -> Self {
        Self { blind: true, ..self }
    }

    /// The same with the timer of the stock kernel.
    #[must_use]
    pub const fn stock_timer(self) -> Self {
        Self { timer: AnticipationTimer::FirstPiece, ..self }
    }
}
