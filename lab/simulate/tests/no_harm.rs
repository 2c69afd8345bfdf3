//! Which access patterns and lists could make prefetching slower than stock? Each runs both ways on a modelled
//! disk, in virtual time. Where a list is right prefetching must gain; where it is wrong, late or useless it
//! must cost little.

mod common;

use common::{Setup, access, page, random_pages, reads, tells};
use foreseek_hints::{CallbackRequest, Settings, Share};
use foreseek_seam::HintMode;
use foreseek_simulate::directed::{Application, Hint};
use foreseek_simulate::program::Step;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PageIndex, Pages, Span};

const FILE_SIZE: Bytes = Bytes::mib(64);
const MEMORY: Pages = Bytes::mib(16).pages_floor();

/// Prefetched time over stock time of the same steps.
#[allow(clippy::print_stderr)] // on demand only
fn cost_of(
    settings: Settings,
    setup: &Setup,
    steps: &[Step],
    application: impl Application + 'static,
) -> f64 {
    let without = setup.stock(steps.to_vec());
    let (with, stats) = setup.prefetched(settings, None, steps.to_vec(), application);
    let cost = with.as_secs_f64() / without.as_secs_f64();
    if std::env::var_os("FORESEEK_TEST_FIGURES").is_some() {
        eprintln!("{cost:.3}: {without} -> {with}; {stats:?}");
    }
    cost
}

/// The same for reads.
fn cost(
    settings: Settings,
    memory: Pages,
    ranges: &[ByteSpan],
    application: impl Application + 'static,
) -> f64 {
    cost_of(settings, &Setup::new(FILE_SIZE, memory), &reads(ranges), application)
}

fn ranges(pages: &[PageIndex]) -> Vec<ByteSpan> {
    pages.iter().map(|at| page(*at)).collect()
}

#[test]
fn a_wrong_list() {
    let reads = random_pages(1, 20_000, FILE_SIZE);
    let wrong = random_pages(2, 20_000, FILE_SIZE);
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), tells(&wrong)) < 1.05);
}

#[test]
fn a_wrong_list_that_is_told_anew_at_each_question() {
    let reads = random_pages(1, 20_000, FILE_SIZE);
    let mut seed = 100;
    let answer = move |hint: &mut Hint<'_>, _: usize, want: CallbackRequest| {
        let at = want.requested.1;
        seed += 1;
        let mut list = vec![access(at)];
        list.extend(random_pages(seed, 5000, FILE_SIZE).iter().map(|at| access(*at)));
        hint(HintMode::Set, &list, true);
    };
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), answer) < 1.1);
}

#[test]
fn a_short_wrong_list_told_anew_at_each_question() {
    let reads = random_pages(1, 20_000, FILE_SIZE);
    let mut seed = 100;
    let answer = move |hint: &mut Hint<'_>, _: usize, want: CallbackRequest| {
        let at = want.requested.1;
        seed += 1;
        let mut list = vec![access(at)];
        list.extend(random_pages(seed, 7, FILE_SIZE).iter().map(|at| access(*at)));
        hint(HintMode::Set, &list, false);
    };
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), answer) < 1.1);
}

#[test]
fn a_list_of_which_half_is_wrong() {
    let reads = random_pages(1, 20_000, FILE_SIZE);
    let other = random_pages(2, 20_000, FILE_SIZE);
    let list: Vec<PageIndex> = reads.iter().zip(&other).flat_map(|(right, wrong)| [*right, *wrong]).collect();
    let answer = move |hint: &mut Hint<'_>, nth: usize, _: CallbackRequest| {
        let list: Vec<_> = list[2 * nth..].iter().map(|at| access(*at)).collect();
        hint(HintMode::Set, &list, true);
    };
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), answer) < 0.4);
}

#[test]
fn a_list_that_lacks_every_second_read() {
    let reads = random_pages(1, 20_000, FILE_SIZE);
    let list: Vec<PageIndex> = reads.iter().step_by(2).copied().collect();
    let answer = move |hint: &mut Hint<'_>, nth: usize, _: CallbackRequest| {
        let list: Vec<_> = list[nth.div_ceil(2)..].iter().map(|at| access(*at)).collect();
        hint(HintMode::Set, &list, true);
    };
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), answer) < 0.9);
}

#[test]
fn an_application_that_stops_early_or_turns_to_something_else() {
    // A list of everything, of which the first twentieth is read; then unlisted reads.
    let list = random_pages(1, 20_000, FILE_SIZE);
    let mut reads = list[..1000].to_vec();
    reads.extend(random_pages(2, 10_000, FILE_SIZE));
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), tells(&list)) < 1.0);
}

#[test]
fn many_short_plans_of_which_little_is_read() {
    // Each plan hints 2,000 reads, of which the first 40 are made (a query with a limit).
    let plans: Vec<Vec<PageIndex>> = (0..100).map(|seed| random_pages(seed + 1, 2000, FILE_SIZE)).collect();
    let reads: Vec<PageIndex> = plans.iter().flat_map(|plan| plan[..40].to_vec()).collect();
    let answer = move |hint: &mut Hint<'_>, nth: usize, _: CallbackRequest| {
        let list: Vec<_> = plans[nth / 40][nth % 40..].iter().map(|at| access(*at)).collect();
        hint(HintMode::Set, &list, true);
    };
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), answer.clone()) < 0.95);
    let ramp = Settings { first_round: Some(Pages(64)), ..Settings::default() };
    assert!(cost(ramp, MEMORY, &ranges(&reads), answer) < 1.0);
}

#[test]
fn an_application_that_never_says_anything() {
    let reads = random_pages(1, 10_000, FILE_SIZE);
    let silent = |_: &mut Hint<'_>, _: usize, _: CallbackRequest| {};
    let cost = cost(Settings::default(), MEMORY, &ranges(&reads), silent);
    assert!(cost < 1.001);
}

#[test]
fn tiny_memory() {
    let reads = random_pages(1, 4000, FILE_SIZE);
    // A machine has room for a page that is read and one that is on its way.
    for pages in [2, 8, 64, 200] {
        assert!(cost(Settings::default(), Pages(pages), &ranges(&reads), tells(&reads)) < 1.02, "{pages}");
    }
}

#[test]
fn a_list_longer_than_its_bound() {
    let reads = random_pages(1, 20_000, FILE_SIZE);
    let list: Vec<_> = reads.iter().map(|at| access(*at)).collect();
    let bounded = Settings { list_limit: 1024, ..Settings::default() };
    let mut announced = 0;
    // The paper's figure 7: it stops when the list is full, and reports that it is done in either case.
    let answer = move |hint: &mut Hint<'_>, nth: usize, _: CallbackRequest| {
        announced = announced.max(nth);
        for batch in list[announced..].chunks(100) {
            let accepted = hint(HintMode::Append, batch, false);
            announced += accepted;
            if accepted < batch.len() {
                break;
            }
        }
        hint(HintMode::Append, &[], true);
    };
    let cost = cost(bounded, MEMORY, &ranges(&reads), answer);
    assert!(cost < 0.5);
}

#[test]
fn one_huge_read() {
    let reads = [Span::at(ByteOffset::ZERO, FILE_SIZE)];
    let list: Vec<PageIndex> = all_pages().collect();
    let answer = move |hint: &mut Hint<'_>, _: usize, _: CallbackRequest| {
        let list: Vec<_> = list.iter().map(|at| access(*at)).collect();
        hint(HintMode::Set, &list, true);
    };
    assert!(cost(Settings::default(), MEMORY, &reads, answer) < 1.1);
}

fn all_pages() -> impl DoubleEndedIterator<Item = PageIndex> {
    (0..FILE_SIZE.pages_floor().get()).map(PageIndex)
}

#[test]
fn a_repeated_page() {
    let reads: Vec<PageIndex> = random_pages(1, 500, FILE_SIZE).iter().flat_map(|at| [*at; 40]).collect();
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), tells(&reads)) < 0.5);
    let once: Vec<PageIndex> = reads.iter().step_by(40).copied().collect();
    let answer = move |hint: &mut Hint<'_>, nth: usize, _: CallbackRequest| {
        let list: Vec<_> = once[nth / 40..].iter().map(|at| access(*at)).collect();
        hint(HintMode::Set, &list, true);
    };
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), answer) < 0.5);
}

#[test]
fn forwards_in_sequence() {
    let reads: Vec<PageIndex> = all_pages().collect();
    // The kernel's own read-ahead is good at this; the paper measured 0.87 to 1.66.
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), tells(&reads)) < 1.15);
}

#[test]
fn backwards() {
    let reads: Vec<PageIndex> = all_pages().rev().collect();
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), tells(&reads)) < 0.2);
}

#[test]
fn everything_is_in_memory_already() {
    let setup = Setup::new(FILE_SIZE, FILE_SIZE.pages_floor() * 2);
    let whole = reads(&[Span::at(ByteOffset::ZERO, FILE_SIZE)]);
    let random = reads(&ranges(&random_pages(1, 20_000, FILE_SIZE)));
    let both = [whole.clone(), random].concat();
    let before = setup.stock(whole);
    let stock = setup.stock(both.clone()) - before;
    let mut asked_for_the_first = false;
    let application = move |_: &mut Hint<'_>, reads: usize, _: CallbackRequest| {
        assert!(reads == 0 && !std::mem::replace(&mut asked_for_the_first, true), "nothing else missed");
    };
    let (all, stats) = setup.prefetched(Settings::default(), None, both, application);
    assert_eq!((stats.misses, stats.fetches), (1, 0));
    // It only costs a question about residency for each read.
    assert!((all - before).as_secs_f64() < 1.5 * stock.as_secs_f64());
}

/// Other processes sometimes take memory away; the list is right.
#[test]
fn memory_pressure() {
    let pages = random_pages(1, 20_000, FILE_SIZE);
    let pressures = [(50, 400), (500, 2000), (3000, 4000)];
    let shares = [Share::Stock, Share::Probing, Share::Paper];
    let setup = Setup { private_share: 0.99, ..Setup::new(FILE_SIZE, MEMORY) };
    for ((every, taken), share) in pressures.iter().flat_map(|one| shares.map(|share| (*one, share))) {
        let mut steps = Vec::new();
        for (nth, step) in reads(&ranges(&pages)).into_iter().enumerate() {
            if nth % every == every - 1 {
                steps.extend([Step::Hold(Pages(taken).bytes()), Step::Hold(Bytes::ZERO)]);
            }
            steps.push(step);
        }
        let cost = cost_of(Settings { share, ..Settings::default() }, &setup, &steps, tells(&pages));
        assert!(cost < 0.9, "{share:?}, every {every} reads {taken} pages: {cost}");
    }
}

/// The list has every access; a cache of the application's own answers most of them.
#[test]
fn an_application_with_a_cache_of_its_own() {
    let accesses = random_pages(1, 60_000, FILE_SIZE);
    for cached in [1000, 4000, 12_000] {
        let mut recent: Vec<PageIndex> = Vec::new();
        let mut reads: Vec<(usize, PageIndex)> = Vec::new();
        for (nth, at) in accesses.iter().enumerate() {
            if !recent.contains(at) {
                reads.push((nth, *at));
                if recent.len() == cached {
                    recent[nth % cached] = *at;
                } else {
                    recent.push(*at);
                }
            }
        }
        let announced: Vec<usize> = reads.iter().map(|(nth, _)| *nth).collect();
        let accesses = accesses.clone();
        let pages: Vec<PageIndex> = reads.iter().map(|(_, at)| *at).collect();
        let answer = move |hint: &mut Hint<'_>, nth: usize, _: CallbackRequest| {
            let list: Vec<_> = accesses[announced[nth]..].iter().map(|at| access(*at)).collect();
            hint(HintMode::Set, &list, true);
        };
        let cost = cost(Settings::default(), MEMORY, &ranges(&pages), answer);
        assert!(cost < 0.5, "{cached}: {cost}");
    }
}

/// Two streams read two lists that were hinted as one after the other.
#[test]
fn two_scans_at_once_that_were_told_one_after_the_other() {
    let first = random_pages(1, 5000, FILE_SIZE);
    let second = random_pages(2, 5000, FILE_SIZE);
    let reads: Vec<PageIndex> = first.iter().zip(&second).flat_map(|(a, b)| [*a, *b]).collect();
    let list: Vec<PageIndex> = first.iter().chain(&second).copied().collect();
    let mut announced = false;
    let answer = move |hint: &mut Hint<'_>, _: usize, _: CallbackRequest| {
        if !std::mem::replace(&mut announced, true) {
            let list: Vec<_> = list.iter().map(|at| access(*at)).collect();
            hint(HintMode::Set, &list, true);
        }
    };
    assert!(cost(Settings::default(), MEMORY, &ranges(&reads), answer) < 1.0);
}
