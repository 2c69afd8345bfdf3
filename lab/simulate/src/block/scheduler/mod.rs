//! The I/O schedulers: which request the device gets next.

mod anticipatory;
mod bfq;
mod cfq;
mod contract;
mod cscan;
mod deadline;
mod habits;
mod noop;
mod queue;

pub use anticipatory::{Anticipatory, AnticipatorySettings, Rules as AnticipatoryRules};
pub use bfq::Bfq;
pub use cfq::Cfq;
pub use contract::Scheduler;
pub use cscan::Cscan;
pub use deadline::{Deadline, Rules as DeadlineRules};
pub use noop::Noop;

/// The names that [`by_name`] knows, with what they mean.
pub const NAMES: &[(&str, &str)] = &[
    ("noop", "in order of arrival"),
    ("c-scan", "ascending, then back to the lowest"),
    ("c-look", "the same: what the arm does beyond the last request is not a kernel's to say"),
    ("deadline", "Linux 2.6: ascending runs, reads before writes, nobody waits for ever"),
    ("mq-deadline", "today's: batches of 16"),
    ("elevator", "the anticipatory scheduler of Linux 2.6.3 without anticipation"),
    ("anticipatory", "Linux 2.6.3 and 2.6.10, its timer corrected (TR-840 section 6)"),
    ("anticipatory-stock", "Linux 2.6.3 and 2.6.10 with the stock timer"),
    ("anticipatory-2.6.18", "Linux 2.6.18"),
    ("anticipatory-blind", "Linux 2.6.3, seeing one process only"),
    ("anticipatory-blind-2.6.18", "Linux 2.6.18, seeing one process only (a virtual machine's)"),
    ("cfq", "Linux 2.6.20: time slices by process"),
    ("bfq", "today's: budgets of sectors by process, all of equal weight"),
];

/// The scheduler of this name, with the parameters of its kernel.
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Scheduler>> {
    const OLD: AnticipatorySettings = AnticipatorySettings::LINUX_2_6_3;
    const NEW: AnticipatorySettings = AnticipatorySettings::LINUX_2_6_18;
    Some(match name {
        "noop" => Box::new(Noop::default()),
        "c-scan" | "c-look" => Box::new(Cscan::default()),
        "deadline" => Box::new(Deadline::new(DeadlineRules::Linux2_6)),
        "mq-deadline" => Box::new(Deadline::new(DeadlineRules::MultiQueue)),
        "elevator" => Box::new(Anticipatory::new(OLD.without_waiting())),
        "anticipatory" => Box::new(Anticipatory::new(OLD)),
        "anticipatory-stock" => Box::new(Anticipatory::new(OLD.stock_timer())),
        "anticipatory-2.6.18" => Box::new(Anticipatory::new(NEW)),
        "anticipatory-blind" => Box::new(Anticipatory::new(OLD.blind())),
        "anticipatory-blind-2.6.18" => Box::new(Anticipatory::new(NEW.blind())),
        "cfq" => Box::new(Cfq::default()),
        "bfq" => Box::new(Bfq::default()),
        _ => return None,
    })
}
