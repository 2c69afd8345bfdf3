//! The numbers of the anticipatory scheduler, by kernel.

use crate::block::AnticipationTimer;
use foreseek_units::Sectors;

/// Which requests of others are near enough to end an anticipation, and what is made of a process
/// that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Near: within 64 sectors ahead (half of it behind) in the first millisecond, doubling with each
    /// further one. Nobody waits for a process that has ended.
    Linux2_6_3,
    /// Near: within 8192 sectors ahead (half of it behind), doubling with each millisecond. An ended
    /// process is waited for as long as others are known to read near such ones.
    Linux2_6_18,
}

/// How the anticipatory scheduler is set. Times are in ticks of a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnticipatorySettings {
    /// The rules that are no numbers.
    pub rules: Rules,
    /// After so long a synchronous and an asynchronous request have waited too long; the oldest is
    /// looked at no more often than this.
    pub expire: [u64; 2],
    /// So long a batch of synchronous and of asynchronous requests goes on while others wait.
    pub batch: [u64; 2],
    /// So long the process's next request is waited for; 0 for a scheduler that never waits.
    pub wait: u64,
    /// When that time begins.
    pub timer: AnticipationTimer,
    /// Going back so far is allowed, at twice the cost.
    pub back: Sectors,
    /// Blind to processes: all requests bear one name, as when they come out of a virtual machine
    /// (EuroSys'07 section 6.3).
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

    /// Linux 2.6.18: longer batches, wider nearness.
    pub const LINUX_2_6_18: Self = Self { rules: Rules::Linux2_6_18, batch: [500, 125], ..Self::LINUX_2_6_3 };

    /// The same without anticipation: the "elevator similar to cyclic SCAN" beneath it (TR-840
    /// section 2.2).
    #[must_use]
    pub const fn without_waiting(self) -> Self {
        Self { wait: 0, ..self }
    }

    /// The same for requests whose processes are unknown.
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
