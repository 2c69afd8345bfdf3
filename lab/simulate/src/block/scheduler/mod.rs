//! Which request the device gets next.

mod anticipatory;
mod bfq;
mod cfq;
mod cscan;
mod deadline;
mod habits;
mod noop;
mod queue;

pub use anticipatory::{Anticipatory, AnticipatorySettings, Rules as AnticipatoryRules};
pub use bfq::Bfq;
pub use cfq::Cfq;
pub use cscan::Cscan;
pub use deadline::{Deadline, Rules as DeadlineRules};
pub use noop::Noop;

use super::{Anticipations, Request, RequestId};
use foreseek_seam::Who;
use foreseek_units::{Instant, SectorSpan};

/// An I/O scheduler: a queue that may hold requests back although the device is idle.
///
/// The rules of each implementation are in its own file. All of them are deterministic. The block
/// layer finds what can be merged and tells the scheduler about it.
pub trait Scheduler: Send {
    /// A request arrives.
    fn add(&mut self, now: Instant, request: Request);
    /// Whether the waiting request `id` may grow by `with`, its neighbour of the same kind. Where
    /// both wait, both are asked about each other.
    fn may_merge(&self, _id: RequestId, _with: &Request) -> bool {
        true
    }
    /// The waiting request `id` covers this range from now on.
    fn grown(&mut self, now: Instant, id: RequestId, range: SectorSpan);
    /// The waiting request `gone` has become part of `kept`, which covers this range from now on.
    fn absorbed(&mut self, now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan);
    /// The next request for the device, if it is to get one now.
    fn dispatch(&mut self, now: Instant) -> Option<Request>;
    /// A request that was dispatched is over; `whole` tells whether the submissions that it was part
    /// of are, with all of their pieces.
    fn completed(&mut self, now: Instant, request: &Request, whole: bool);
    /// A process has ended.
    fn exited(&mut self, _now: Instant, _who: Who) {}
    /// When `dispatch` may give what it refuses now (the end of an anticipation, of an idle slice).
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// How many requests wait.
    fn waiting(&self) -> usize;
    /// Whether it holds the device for this process's next request: such a request is let in even
    /// where the pool is empty.
    fn awaits(&self, _who: Who) -> bool {
        false
    }
    /// How its anticipations have ended so far, if it makes any.
    fn anticipations(&self) -> Anticipations {
        Anticipations::default()
    }
}

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

/// The scheduler of a name, with the parameters of the kernel that it comes from.
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
