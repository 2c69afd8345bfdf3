//! Advice and questions have the same effect in the modelled machine as in a stock kernel.

mod common;

use common::{Answers, HANDLE, List, Setup, extents, page, random_pages, reads};
use foreseek_simulate::machine::{MachineError, Report};
use foreseek_simulate::program::{Question, Step};
use foreseek_units::{ByteOffset, Bytes, Instant, Nanos, PageIndex, PageSpan, Pages, SectorSpan, Span};

const FILE_SIZE: Bytes = Bytes::mib(64);
const PLENTY: Pages = Pages(10_000);

fn pages(start: u64, end: u64) -> PageSpan {
    Span::new(PageIndex(start), PageIndex(end))
}

fn advise(start: u64, end: u64) -> Step {
    Step::Advise { handle: HANDLE, pages: pages(start, end) }
}

fn resident(start: u64, end: u64) -> Step {
    Step::Ask { handle: HANDLE, question: Question::Resident(pages(start, end)) }
}

fn read(at: u64) -> Step {
    Step::Read { handle: HANDLE, range: page(PageIndex(at)) }
}

/// The machine's report and its answers, each with its time.
fn run_in(setup: &Setup, steps: Vec<Step>) -> (Result<Report, MachineError>, Vec<(Instant, String)>) {
    let list = List::new(steps);
    let answers: Answers = list.answers();
    let report = setup.run(list);
    let answers = answers.lock().expect("one thread").clone();
    (report, answers)
}

fn run(memory: Pages, steps: Vec<Step>) -> (Report, Vec<(Instant, String)>) {
    let (report, answers) = run_in(&Setup::new(FILE_SIZE, memory), steps);
    (report.expect("readable"), answers)
}

#[test]
fn advice_makes_one_request_for_each_missing_run_and_does_not_wait() {
    // The last lies around the first two, of which pages 10, 11 and 14 are in flight.
    let steps = vec![advise(10, 12), advise(14, 15), advise(9, 16), resident(0, 20)];
    let (report, answers) = run(PLENTY, steps);
    assert_eq!(report.counters.prefetched, Pages(7));
    assert_eq!(report.block.submissions, 5);
    let said: Vec<&str> = answers.iter().map(|(_, said)| said.as_str()).collect();
    assert_eq!(said[..3], ["Advised(Pages(2))", "Advised(Pages(1))", "Advised(Pages(7))"]);
    assert_eq!(said[3], format!("Resident({:?})", [pages(9, 16)]));
    assert!(answers[3].0 < Instant::ZERO + Nanos::from_millis(1), "{answers:?}");
}

#[test]
fn long_advice_is_cut_where_the_file_is_and_where_a_request_ends() {
    // Extents of 2048 pages, requests of 320.
    let (report, _) = run(PLENTY, vec![advise(2048 - 10, 2048 + 330)]);
    assert_eq!(report.block.submissions, 3);
}

#[test]
fn advice_moves_pages_in_memory_where_the_kernel_is_the_papers() {
    let pause = Step::Sleep(Nanos::from_millis(100));
    // Of a hundred pages of memory, the oldest ten are advised again; then twenty others come.
    let steps = vec![advise(0, 100), pause, advise(0, 10), advise(2000, 2020), pause, resident(0, 100)];
    for (advice_moves, left) in [(false, pages(20, 100)), (true, pages(0, 10))] {
        let setup = Setup { advice_moves, ..Setup::new(FILE_SIZE, Pages(100)) };
        let (_, answers) = run_in(&setup, steps.clone());
        let (_, said) = answers.last().expect("an answer");
        assert!(said.starts_with(&format!("Resident([{left:?}")), "{said}");
    }
}

#[test]
fn direct_reads_pass_the_page_cache_by() {
    let direct = |start, end| Step::Direct { handle: HANDLE, pages: pages(start, end) };
    // The last crosses the end of an extent: two requests.
    let (report, answers) =
        run(PLENTY, vec![direct(500, 501), direct(500, 501), direct(2040, 2056), resident(0, 3000)]);
    assert_eq!((report.device.requests, report.counters.demanded), (4, Pages::ZERO));
    assert_eq!(report.counters.read, Pages(18).bytes());
    assert_eq!(answers[0].1, "Resident([])");
    // Two reads, one after the other: none is answered at once.
    assert!(answers[0].0 > Instant::ZERO + Nanos::from_millis(3), "{answers:?}");
}

#[test]
fn a_caller_waits_once_the_queue_is_full() {
    let steps: Vec<Step> =
        random_pages(1, 148, FILE_SIZE).iter().map(|at| advise(at.get(), at.get() + 1)).collect();
    let (_, answers) = run(PLENTY, steps);
    assert!(answers[127].0 < Instant::ZERO + Nanos::from_millis(5), "{:?}", answers[127]);
    assert!(answers[147].0 > Instant::ZERO + Nanos::from_millis(20), "{:?}", answers[147]);
}

#[test]
fn a_read_joins_a_page_on_its_way_and_finds_it_the_next_time() {
    let (report, _) = run(PLENTY, vec![advise(500, 501), read(500), read(500)]);
    assert_eq!((report.counters.late, report.counters.hits), (Pages(1), Pages(1)));
    assert_eq!(report.device.requests, 1);
}

#[test]
fn sequential_reads_are_read_ahead() {
    let (report, _) = run(PLENTY, (0..1000).map(read).collect());
    // One miss; 1000 pages in windows of 32 after the ramp.
    assert_eq!(report.counters.misses, Pages(1));
    assert!(report.device.requests < 40, "{:?}", report.device);
}

#[test]
fn random_reads_read_themselves_alone() {
    let ranges: Vec<_> = random_pages(1, 500, FILE_SIZE).iter().map(|at| page(*at)).collect();
    let (report, _) = run(PLENTY, reads(&ranges));
    assert_eq!(report.counters.hits + report.counters.misses, Pages(500));
    assert_eq!(report.device.requests, report.counters.misses.get());
    let mean = report.time.as_millis_f64() / report.device.requests as f64;
    assert!((3.0..12.0).contains(&mean), "{mean} ms a random read of a small part of a 7,200 rpm disk");
}

#[test]
fn what_is_given_back_is_gone_but_not_what_is_on_its_way() {
    let forget = Step::Forget { handle: HANDLE, pages: pages(0, 2000) };
    let steps =
        vec![advise(1000, 1002), read(7), forget, resident(0, 2000), read(1001), forget, resident(0, 2000)];
    let (_, answers) = run(PLENTY, steps);
    let said: Vec<&str> = answers.iter().map(|(_, said)| said.as_str()).collect();
    // The read of page 7 came after that of the advice: nothing is in flight any more.
    assert_eq!(said[1..], ["Forgotten", "Resident([])", "Forgotten", "Resident([])"]);
    let (_, answers) = run(PLENTY, vec![advise(1000, 1002), forget, resident(0, 2000)]);
    assert_eq!(answers[2].1, format!("Resident({:?})", [pages(1000, 1002)]));
}

#[test]
fn memory_that_a_process_holds_is_not_there_for_pages() {
    let budget = Step::Ask { handle: HANDLE, question: Question::Budget };
    let whole = Step::Read { handle: HANDLE, range: Span::at(ByteOffset::ZERO, Pages(200).bytes()) };
    let setup = Setup { private_share: 0.95, ..Setup::new(FILE_SIZE, Pages(100)) };
    // The read-ahead arrives meanwhile.
    let pause = Step::Sleep(Nanos::from_millis(100));
    let steps = vec![whole, budget, pause, Step::Hold(Pages(90).bytes()), budget];
    let (report, answers) = run_in(&setup, steps);
    let counters = report.expect("more than memory at once").counters;
    assert_eq!(counters.read, Pages(200).bytes());
    assert!(counters.demanded + counters.prefetched - counters.reclaimed <= Pages(10), "{counters:?}");
    assert_eq!(answers[0].1, "Budget(Pages(100))");
    assert_eq!(answers[1].1, "Budget(Pages(10))");
}

#[test]
fn a_prefetch_that_fails_costs_nothing_and_a_read_that_fails_ends_the_run() {
    let bad = extents(FILE_SIZE)[0].lba + Pages(40).sectors();
    let setup =
        Setup { unreadable: vec![SectorSpan::at(bad, Pages(1).sectors())], ..Setup::new(FILE_SIZE, PLENTY) };
    let steps = vec![advise(40, 41), Step::Sleep(Nanos::from_millis(100)), resident(0, 100), read(41)];
    let (report, answers) = run_in(&setup, steps.clone());
    assert_eq!(report.expect("page 41 can be read").device.failed, 1);
    assert_eq!(answers[1].1, "Resident([])");
    let (report, _) = run_in(&setup, [steps, vec![read(40)]].concat());
    assert_eq!(report.expect_err("page 40 cannot"), MachineError::Device { file: 0, first: 40, end: 41 });
}

#[test]
fn advice_past_the_end_of_a_file_is_taken_and_does_nothing() {
    let end = FILE_SIZE.pages_floor().get();
    let (report, answers) = run(PLENTY, vec![advise(end, end + 5)]);
    assert_eq!(answers[0].1, "Advised(Pages(5))");
    assert_eq!(report.block.submissions, 0);
}
