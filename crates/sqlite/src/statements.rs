//! The gain of each statement, and the reason why there is no more.
//!
//! SQLite does not report when a statement begins or ends (except by the one trace call that belongs to its
//! host). Therefore the connection is queried for the running statement at every [`LOOK`]th read that waited
//! for storage: the reads in between count for the last statement. A statement with fewer waits gets no
//! prefetching anyway, and is only counted. Statements of one text are one entry; the text is that of the
//! program, without the values of parameters.

use foreseek_units::Nanos;
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Reads with a wait between two queries. A query costs a microsecond, so many such reads of a disk 50
/// milliseconds.
const LOOK: u64 = 8;
/// Texts that are kept of a file: a longer list is not read. The one with the least time is dropped.
const KEPT: usize = 64;
/// The most streams of one file: those of the planner.
const STREAMS_LIMIT: usize = 64;

/// One run of a statement. SQLite gives the memory of an ended statement to the next one, therefore it is known by
/// its text and by how far it has got as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    identity: u64,
    /// Grows from row to row.
    steps: u32,
}

impl Run {
    pub(crate) fn new(identity: impl Hash, steps: u32) -> Self {
        Self { identity: FxBuildHasher.hash_one(identity), steps }
    }

    /// Whether it is the same run, at a later time.
    fn continues(self, before: Self) -> bool {
        self.identity == before.identity && self.steps >= before.steps
    }
}

/// A running statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) run: Run,
    /// Its text.
    pub(crate) sql: String,
}

/// The time of reads with and without prefetching, as in the allowance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTimes {
    /// Without prefetching, estimated.
    pub stock: Nanos,
    /// With it, measured.
    pub actual: Nanos,
}

/// Why a statement gained no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// Too few of its reads waited.
    #[default]
    FewMisses,
    /// Its reads follow no recognised pattern.
    Unrecognised,
    /// Little was left when its scan was recognised.
    ShortScan,
    /// Its end is not visible.
    EndUnknown,
    /// Steps cost more than single reads.
    Unprofitable,
    /// Its scan reads in the order of the file.
    InOrder,
    /// Nothing limited it.
    Unlimited,
}

impl Why {
    /// One line for the status.
    #[must_use]
    pub fn line(self) -> &'static str {
        match self {
            Self::FewMisses => "few of its reads waited: it is left alone",
            Self::Unrecognised => {
                "its reads follow no index or scattered tree: look-ups by key, the outer side of a join, or rows in \
                 the order of the file"
            }
            Self::ShortScan => "little was left to read when its scan was recognised",
            Self::EndUnknown => "its end is not visible: what is fetched grows with what was read",
            Self::Unprofitable => {
                "its pages cost as much in a sorted batch as alone (overflow pages, a device that does not seek)"
            }
            Self::InOrder => "its rows lie in the order of the file, which the kernel reads ahead",
            Self::Unlimited => "",
        }
    }
}

/// The reads of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) runs: u64,
    pub(crate) reads: u64,
    /// Those of them that waited for storage.
    pub(crate) waited: u64,
    /// Those of them that were fetched for it.
    pub(crate) prefetched: u64,
    pub(crate) sums: ReadTimes,
    pub(crate) why: Why,
}

/// The transaction of a stream, and its statement in progress.
#[derive(Debug, Default)]
struct Open {
    run: Option<Run>,
    statement: Statement,
    /// The stream's sums when they were last added.
    base: ReadTimes,
    /// All statements that its connection ran at its last miss. They show where one transaction ends and another
    /// begins, as far as no BEGIN holds them together: in WAL mode and with exclusive locks nothing else does.
    running: Vec<Run>,
}

/// The statements of one file.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    open: HashMap<u64, Open>,
    done: Vec<Statement>,
    /// Transactions that ended with fewer waits than a query takes.
    pub(crate) short: u64,
}

impl Ledger {
    /// A stream has read a page. `state` returns the stream's sums and the reason why it gains no more,
    /// `running` the running statement. Returns whether another one has begun.
    pub(crate) fn read(
        &mut self,
        stream: u64,
        (waited, prefetched): (bool, bool),
        state: impl Fn() -> (ReadTimes, Why),
        running: impl FnOnce() -> Option<Running>,
    ) -> bool {
        let open = self.open(stream);
        open.statement.reads += 1;
        open.statement.waited += u64::from(waited);
        open.statement.prefetched += u64::from(prefetched);
        let is_look = waited && open.statement.waited.is_multiple_of(LOOK)
            || prefetched && open.run.is_none() && open.statement.prefetched == 1;
        if !is_look {
            return false;
        }
        let Some(Running { run, sql }) = running() else { return false };
        let is_other = open.run.is_some_and(|before| !run.continues(before));
        if is_other {
            self.end_statement(stream, state());
        }
        let open = self.open(stream);
        if open.run.replace(run).is_none() {
            open.statement.sql = sql;
        }
        if is_other {
            open.base = state().0;
        }
        is_other
    }

    fn open(&mut self, stream: u64) -> &mut Open {
        if self.open.len() >= STREAMS_LIMIT && !self.open.contains_key(&stream) {
            self.open.clear();
        }
        self.open.entry(stream).or_default()
    }

    /// Whether a stream's transaction is another one than at its last miss, if its connection runs these statements:
    /// none of those that ran then runs on. `None` where a transaction goes on whichever of them run.
    pub(crate) fn is_another_transaction(&self, stream: u64, running: Option<&[Run]>) -> bool {
        let (Some(open), Some(running)) = (self.open.get(&stream), running) else { return false };
        let goes_on = |before: &Run| running.iter().any(|run| run.continues(*before));
        !running.is_empty() && !open.running.is_empty() && !open.running.iter().any(goes_on)
    }

    /// A stream's read has missed while its connection ran these statements.
    pub(crate) fn missed(&mut self, stream: u64, running: Option<Vec<Run>>) {
        if let Some(running) = running.filter(|running| !running.is_empty()) {
            self.open(stream).running = running;
        }
    }

    /// The transaction of a stream is over.
    pub(crate) fn end(&mut self, stream: u64, state: (ReadTimes, Why)) {
        self.end_statement(stream, state);
        self.open.remove(&stream);
    }

    /// The statement of a stream is over, and its transaction goes on.
    fn end_statement(&mut self, stream: u64, (sums, why): (ReadTimes, Why)) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        let mut ended = std::mem::take(open);
        open.running = std::mem::take(&mut ended.running);
        ended.add(sums);
        ended.statement.why = why;
        if ended.statement.waited < LOOK && ended.statement.prefetched == 0 {
            self.short += 1;
        } else {
            keep(&mut self.done, ended.statement);
        }
    }

    /// The sums of a stream restart.
    pub(crate) fn settle(&mut self, stream: u64, sums: ReadTimes) {
        if let Some(open) = self.open.get_mut(&stream) {
            open.add(sums);
            open.base = ReadTimes::default();
        }
    }

    /// The statements, including those in progress: `state` returns a stream's sums.
    pub(crate) fn report(&self, state: impl Fn(u64) -> (ReadTimes, Why)) -> Vec<Statement> {
        let mut all = self.done.clone();
        for (stream, open) in &self.open {
            if open.run.is_none() {
                continue;
            }
            let (sums, why) = state(*stream);
            let statement = open.statement.clone();
            let mut open = Open { statement, base: open.base, ..Open::default() };
            open.add(sums);
            open.statement.why = why;
            keep(&mut all, open.statement);
        }
        all.sort_by(|a, b| b.sums.actual.cmp(&a.sums.actual).then_with(|| a.sql.cmp(&b.sql)));
        all
    }
}

impl Open {
    fn add(&mut self, sums: ReadTimes) {
        // If the stream was dropped, its sums have restarted.
        let is_same = sums.stock >= self.base.stock && sums.actual >= self.base.actual;
        let base = if is_same { self.base } else { ReadTimes::default() };
        self.statement.sums.stock += Nanos(sums.stock.get() - base.stock.get());
        self.statement.sums.actual += Nanos(sums.actual.get() - base.actual.get());
        self.base = sums;
    }
}

/// Adds a run to its text's entry.
fn keep(all: &mut Vec<Statement>, run: Statement) {
    if let Some(entry) = all.iter_mut().find(|entry| entry.sql == run.sql) {
        entry.runs += 1;
        entry.reads += run.reads;
        entry.waited += run.waited;
        entry.prefetched += run.prefetched;
        entry.sums.stock += run.sums.stock;
        entry.sums.actual += run.sums.actual;
        entry.why = run.why;
        return;
    }
    if all.len() >= KEPT
        && let Some(least) = (0..all.len()).min_by_key(|at| all[*at].sums.actual)
    {
        all.swap_remove(least);
    }
    all.push(Statement { runs: 1, ..run });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(stock: u64, actual: u64) -> ReadTimes {
        ReadTimes { stock: Nanos(stock), actual: Nanos(actual) }
    }

    fn running(run: u64) -> Option<Running> {
        Some(Running { run: Run::new(run, 0), sql: format!("statement {}", run / 10) })
    }

    fn reads(ledger: &mut Ledger, count: u64, waited: bool, run: u64, so_far: ReadTimes) {
        for _ in 0..count {
            ledger.read(1, (waited, !waited), || (so_far, Why::EndUnknown), || running(run));
        }
    }

    #[test]
    fn runs_of_one_text_are_one_entry() {
        let mut ledger = Ledger::default();
        reads(&mut ledger, 20, true, 10, sums(0, 0));
        reads(&mut ledger, 100, false, 10, sums(0, 0));
        ledger.end(1, (sums(500, 100), Why::Unlimited));
        reads(&mut ledger, 16, true, 11, sums(0, 0));
        ledger.end(1, (sums(7, 5), Why::FewMisses));
        let reported = ledger.report(|_| Default::default());
        assert_eq!(reported.len(), 1);
        let expected = Statement {
            sql: "statement 1".to_owned(),
            runs: 2,
            reads: 136,
            waited: 36,
            prefetched: 100,
            sums: sums(507, 105),
            why: Why::FewMisses,
        };
        assert_eq!(reported[0], expected);
    }

    #[test]
    fn another_run_without_a_transaction_between_is_another_statement() {
        let mut ledger = Ledger::default();
        reads(&mut ledger, 16, true, 10, sums(40, 40));
        reads(&mut ledger, 16, true, 20, sums(60, 50));
        ledger.end(1, (sums(100, 70), Why::Unlimited));
        let reported = ledger.report(|_| Default::default());
        let reported: Vec<_> =
            reported.iter().map(|reported| (reported.sql.as_str(), reported.sums, reported.why)).collect();
        assert_eq!(
            reported,
            [("statement 1", sums(60, 50), Why::EndUnknown), ("statement 2", sums(40, 20), Why::Unlimited)]
        );
    }

    #[test]
    fn a_transaction_ends_when_none_of_its_statements_runs_on() {
        let mut ledger = Ledger::default();
        let state = || (ReadTimes::default(), Why::FewMisses);
        let missed = |ledger: &mut Ledger, running: Option<Vec<Run>>| {
            let is_another = ledger.is_another_transaction(1, running.as_deref());
            if is_another {
                ledger.end(1, state());
            }
            ledger.missed(1, running);
            is_another
        };
        let runs = |runs: &[(u64, u32)]| runs.iter().map(|&(run, steps)| Run::new(run, steps)).collect();
        let mut at = |now: &[(u64, u32)]| missed(&mut ledger, Some(runs(now)));
        assert!(!at(&[]), "a schema is read");
        assert!(!at(&[(10, 5)]), "the first one");
        assert!(!at(&[(20, 0), (10, 5)]), "one within it");
        assert!(!at(&[(30, 0), (10, 8)]), "another within it");
        assert!(!at(&[(10, 9)]), "the outer one alone");
        assert!(at(&[(11, 9)]), "it is run again");
        assert!(at(&[(11, 3)]), "its text and place have another one");
        assert!(!missed(&mut ledger, None), "after BEGIN");
        ledger.end(1, state());
        assert!(!missed(&mut ledger, Some(runs(&[(12, 0)]))), "its beginning was seen");
    }

    #[test]
    fn fast_statements_are_only_counted_and_running_ones_are_reported() {
        let mut ledger = Ledger::default();
        reads(&mut ledger, 7, true, 10, sums(0, 0));
        ledger.end(1, (sums(9, 9), Why::FewMisses));
        assert_eq!((ledger.short, ledger.report(|_| Default::default()).len()), (1, 0));
        reads(&mut ledger, 9, true, 20, sums(0, 0));
        ledger.settle(1, sums(5, 5));
        let reported = ledger.report(|_| (sums(2, 1), Why::EndUnknown));
        assert_eq!((reported[0].sums, reported[0].waited, reported[0].why), (sums(7, 6), 9, Why::EndUnknown));
    }

    #[test]
    fn no_more_texts_are_kept_than_there_is_room_for() {
        let mut ledger = Ledger::default();
        for run in 0..1000 {
            reads(&mut ledger, 8, true, run * 10, sums(0, 0));
            ledger.end(1, (sums(run, run), Why::FewMisses));
        }
        let reported = ledger.report(|_| Default::default());
        assert_eq!((reported.len(), reported[0].sums.actual), (KEPT, Nanos(999)));
    }
}
