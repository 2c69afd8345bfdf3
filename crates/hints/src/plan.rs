//! Plans one round: from the list to runs in fetch order.

use crate::access_list::AccessList;
use crate::entry::ListIndex;
use crate::infill::{self, Pass};
use crate::objects::{Objects, PageKey, Slot};
use crate::order::{DiskAddress, Stop, c_look};
use crate::settings::{FETCH_LIMIT, Order};
use foreseek_units::{PageSpan, Pages, Span};
use rustc_hash::FxHashSet;

/// Pages of one object that are fetched by one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FetchRun {
    pub(crate) slot: Slot,
    pub(crate) span: PageSpan,
    /// How many of them are wanted; the others are infill.
    pub(crate) wanted: Pages,
    /// The position of the head afterwards.
    pub(crate) end: DiskAddress,
}

impl FetchRun {
    pub(crate) fn keys(&self) -> impl Iterator<Item = PageKey> {
        let slot = self.slot;
        self.span.iter().filter_map(move |page| PageKey::new(slot, page))
    }
}

/// The pages that a round could want, in order of first use.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Each page with the position of its first entry.
    pub(crate) pages: Vec<(PageKey, ListIndex)>,
    /// The first entry that none of them answers.
    pub(crate) end: ListIndex,
    /// The list ended before there were enough pages.
    pub(crate) ended: bool,
}

/// Rounds are fetched if sorting joins on average so many separate runs of the list into one, of at least so
/// many pages. Random reads reach that only if fifteen of sixteen pages are in a round.
const JOINED: usize = 4;
const LONG: usize = 16;

impl Walk {
    /// Whether the sorted pages form far fewer runs than the list does, as for an image that is read down its
    /// columns. A round fetches them in a few long runs. A sweep gets its room with each read, and would fetch
    /// parts of these runs.
    pub(crate) fn joins(&self) -> bool {
        let follows =
            |two: &[PageKey]| two[0].slot() == two[1].slot() && two[0].page().next() == two[1].page();
        let places = |pages: &[PageKey]| 1 + pages.windows(2).filter(|two| !follows(two)).count();
        let mut pages: Vec<PageKey> = self.pages.iter().map(|(page, _)| *page).collect();
        let listed = places(&pages);
        pages.sort_unstable();
        let sorted = places(&pages);
        sorted * JOINED <= listed && sorted * LONG <= pages.len()
    }
}

/// Walks the list from a position until it has seen `target` unique pages that can be fetched.
pub(crate) fn walk(list: &AccessList, objects: &Objects, from: ListIndex, target: Pages) -> Walk {
    let mut walk = Walk { pages: Vec::new(), end: list.end(), ended: true };
    let mut seen = FxHashSet::default();
    for (position, page) in list.from(from) {
        if seen.contains(&page) || !objects.get(page.slot()).can_fetch(page.page()) {
            continue;
        }
        if walk.pages.len() as u64 >= target.get() {
            walk.end = position;
            walk.ended = false;
            break;
        }
        seen.insert(page);
        walk.pages.push((page, position));
    }
    // If the last entry fills the buffer, the list did not end early.
    walk.ended &= (walk.pages.len() as u64) < target.get();
    walk
}

/// A round: the pages to fetch and how much of the list it answers.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) runs: Vec<FetchRun>,
    /// Wanted pages that are held already.
    pub(crate) kept: Vec<PageKey>,
    /// How many pages of the walk, in its order, are wanted.
    pub(crate) wanted: usize,
    /// The first entry that it does not answer.
    pub(crate) end: ListIndex,
}

/// The parameters of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) order: Order,
    /// The largest gap that is cheaper to read than to skip.
    pub(crate) widest_gap: Pages,
    pub(crate) head: Option<DiskAddress>,
    pub(crate) buffer: Pages,
}

/// Orders a walk's pages, reads gaps where that is cheaper, and cuts the round to the buffer.
pub(crate) fn plan(objects: &Objects, manner: Manner, walk: &Walk, held: impl Fn(PageKey) -> bool) -> Plan {
    let pages = walk.pages.iter().map(|(page, _)| *page);
    let stops = c_look(objects, manner.order, manner.head, pages, held);
    let end = |wanted: usize| walk.pages.get(wanted).map_or(walk.end, |(_, position)| *position);
    let start = walk.pages.first().map_or(walk.end, |(_, position)| *position);
    let answered = |wanted: usize| end(wanted).since(start);
    let pass = infill::choose(&stops, manner.widest_gap, manner.buffer, answered);
    let wanted = || stops.iter().filter(|stop| (stop.rank as usize) < pass.wanted);
    let kept = wanted().filter(|stop| stop.held).map(|stop| stop.page).collect();
    let runs = runs(wanted().filter(|stop| !stop.held), pass);
    Plan { runs, kept, wanted: pass.wanted, end: end(pass.wanted) }
}

/// Joins the stops of a pass into runs.
fn runs<'a>(stops: impl Iterator<Item = &'a Stop>, pass: Pass) -> Vec<FetchRun> {
    let mut runs: Vec<FetchRun> = Vec::new();
    let mut last: Option<Stop> = None;
    for stop in stops {
        let bridged = last.and_then(|last| infill::gap(last, *stop)).filter(|gap| *gap <= pass.gap);
        let page = Span::at(stop.page.page(), Pages(1));
        match runs.last_mut() {
            Some(run) if bridged.is_some() && page.end - run.span.start <= FETCH_LIMIT => {
                run.span.end = page.end;
                run.wanted += Pages(1);
                run.end = stop.address.after(Pages(1));
            }
            _ => runs.push(FetchRun {
                slot: stop.page.slot(),
                span: page,
                wanted: Pages(1),
                end: stop.address.after(Pages(1)),
            }),
        }
        last = Some(*stop);
    }
    runs
}
