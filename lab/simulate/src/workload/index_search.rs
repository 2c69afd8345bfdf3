//! The index searching server of TR-840 section 5.1 and EuroSys'07 section 6.1.
//!
//! What the papers say: the index of a Web search engine for 12.6 million pages. A mapping file of 522 MB gives
//! the place and length of a keyword's list of pages by its MD5 hash; the lists, 18.5 GB of them, are divided
//! into 8 partitions. Each keyword of a query costs a binary search in the mapping file; then its list is read
//! sequentially. The lists of a query of several keywords are intersected, which reads them in turn. A request
//! stops when it has found "a certain number of matches" (TR-840 section 2.1), so that lists are rarely read to
//! their end. Streams are "typically not very long" (EuroSys'07 section 6.4). Queries come from a log of the
//! engine.
//!
//! What they do not say, and the assumptions:
//!
//! - *Mapping file*: records of 32 bytes (16 of MD5, place, length), 16.3 million keywords. It is mapped, as
//!   suits a binary search; a probe touches the page of its record. MD5 distributes keys evenly.
//! - *Lists*: 8 bytes a page (its number and a weight), and at most all pages. The keyword of rank r is in as
//!   many pages as Zipf's law says, so that its list has min(cap, A/r) bytes; A follows from the total of 18.5
//!   GB.
//! - *Keywords of queries*: ranks are log-uniform from 100 (the first hundred are stop words, which engines of
//!   the time left out) to 1,000,000, so that lists have from 1.2 KB to 12 MB. How often a word is queried does
//!   not depend on how many pages contain it (assumption; measured correlations are weak). Words are queried by
//!   Zipf's law with exponent 0.8 over a million: then the 63 most frequent make 9 % of all, as in the Excite
//!   log (Jansen, Spink and Saracevic 2000: about 10 %).
//! - *Words of a query*: 1, 2, 3 or 4 with 32.5, 32.7, 18.9 and 15.9 %: Silverstein et al. 1999 (AltaVista:
//!   25.8, 26.0, 15.0, 12.6 %, more than 3 taken as 4), without the empty queries.
//! - *Matches*: 10,000 candidates, which are then ranked (assumption). Words are independent of each other, so
//!   that a query reads the share min(1, wanted / (pages x product of the words' shares)) of each of its lists,
//!   and all lists reach the same share together. The result is streams of 1.2 MB on average, of very different
//!   lengths.
//! - *Reading*: 64 KiB at a time from the list that is behind, as the microbenchmark that "emulates
//!   applications that simultaneously access multiple sequential data streams". `turn` sets another size.
//!   `mapped` maps the lists instead and touches their pages. All lists are open from the look-up to the end of
//!   the query; with `opens_late` each from its first read to its last.
//! - *Processor*: 30 ns a byte (parsing, intersecting and scoring a page's entry in 240 ns). It follows from
//!   one number of the paper: 19 % of two processors at concurrency 2 (TR-840 section 5.4), at about 13 MB/s.
//!   The other three numbers of processor use there are predictions.
//! - *Memory*: 512 KiB a handler (table 1: "unknown"). The paper's own numbers at 512 handlers bound it from
//!   both sides. CPEM makes fetches of 64 pages (section 5.4) by a share P_mem / N_stream, and each handler has
//!   at least one file open. So its prefetch cache has at least 128 MB, and these fit, since hardly a page is
//!   evicted before use. Beside them and some 44 MB of the system, 680 KiB are left for each handler. Under
//!   Linux pages are evicted before use: the two windows of 32 pages of each of a query's 2.2 lists, 279 MB, do
//!   not fit into what handlers leave, so that they have at least 380 KiB. 512 KiB is the round value between.
//!   Both numbers are thereby used: they are no predictions here (docs/lab/prefetch-memory.md).
//! - *Places*: a list begins at a hashed place of a hashed partition; two may overlap.

use super::WorkloadError;
use super::draw::{hash, hashed_share};
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos, PageIndex};
use rand::RngExt;
use rand_core::Rng;
use rand_distr::{Distribution, Zipf};

/// TR-840 section 5.1; MB and GB are decimal, as disk vendors use them (with the mapping file the data have
/// 19.0 GB, as its table 1 says).
const PAGES: f64 = 12.6e6;
const MAPPING: Bytes = Bytes(522_000_000);
const LISTS: Bytes = Bytes(18_500_000_000);
const PARTITIONS: u32 = 8;

/// The assumptions; each is explained above.
const RECORD: u64 = 32;
const ENTRY: f64 = 8.0;
const RANK_LEAST: f64 = 100.0;
const RANK_MOST: f64 = 1e6;
const WORDS: f64 = 1e6;
const WORDS_EXPONENT: f64 = 0.8;
const WORDS_A_QUERY: [f64; 4] = [0.325, 0.327, 0.189, 0.159];
const WANTED: f64 = 10_000.0;
const BUFFER: Bytes = Bytes::kib(64);
const COST_A_BYTE: f64 = 30.0;
/// Parsing a query and answering it.
const COST_A_QUERY: Nanos = Nanos::from_micros(200);
/// Private memory of a handler.
const MEMORY: Bytes = Bytes::kib(512);
/// The smallest size of the lists with which a partition can hold the longest list that is queried.
const LISTS_LEAST: Bytes = Bytes::gib(1);

const MAPPING_FILE: FileNumber = FileNumber(0);
/// The handle of the mapping file; lists have theirs from 0 on.
const MAPPING_HANDLE: Handle = Handle(u32::MAX);

/// The place of a keyword's list.
#[derive(Clone, Copy, Debug, PartialEq)]
struct List {
    word: u64,
    file: FileNumber,
    range: ByteSpan,
}

pub(super) fn index_search(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let lists = parameters.data_size(LISTS, LISTS_LEAST)?;
    let memory = parameters.handler_memory(MEMORY);
    let mapped = parameters.mapped(false);
    let (turn, opens_late) = (parameters.turn(BUFFER)?, parameters.opens_late());
    Ok(Box::new(IndexSearch { turn, opens_late, ..IndexSearch::new(lists, memory, mapped) }))
}

struct IndexSearch {
    partition: Bytes,
    /// The length of the list of rank 1 without the cap: the `A` above.
    longest: f64,
    words: Option<Zipf<f64>>,
    memory: Bytes,
    mapped: bool,
    /// How much of a list is read before the next one's turn.
    turn: Bytes,
    /// Whether lists are opened when they are first read and closed when they end.
    opens_late: bool,
}

impl IndexSearch {
    fn new(lists: Bytes, memory: Bytes, mapped: bool) -> Self {
        let words = Zipf::new(WORDS, WORDS_EXPONENT).ok();
        let partition = lists / u64::from(PARTITIONS);
        Self {
            partition,
            longest: longest(lists.get() as f64),
            words,
            memory,
            mapped,
            turn: BUFFER,
            opens_late: false,
        }
    }

    fn list(&self, word: u64) -> List {
        let rank = RANK_LEAST * (RANK_MOST / RANK_LEAST).powf(hashed_share(word));
        let length = Bytes((self.longest / rank) as u64);
        let place = hash(word ^ 0x9e37_79b9) % (self.partition - length).get().max(1);
        let file = FileNumber(1 + (hash(word ^ 0x5851_f42d) % u64::from(PARTITIONS)) as u32);
        List { word, file, range: ByteSpan::at(ByteOffset(place / 8 * 8), length) }
    }

    fn query(&self, random: &mut dyn Rng) -> Vec<List> {
        let share: f64 = random.random();
        let mut up_to = 0.0;
        let wanted = WORDS_A_QUERY.iter().position(|words| {
            up_to += words;
            share < up_to
        });
        let wanted = wanted.map_or(WORDS_A_QUERY.len(), |at| at + 1);
        let mut lists: Vec<List> = Vec::new();
        while lists.len() < wanted {
            let word = self.words.map_or(1.0, |words| words.sample(random)) as u64;
            if lists.iter().all(|list| list.word != word) {
                lists.push(self.list(word));
            }
        }
        lists
    }
}

/// The share of its lists that a query reads.
fn share_read(lists: &[List]) -> f64 {
    let in_all = lists.iter().map(|list| list.range.len().get() as f64 / ENTRY / PAGES).product::<f64>();
    (WANTED / (PAGES * in_all)).min(1.0)
}

/// Solves: the sum over the ranks of min(cap, A/rank) is `total`.
fn longest(total: f64) -> f64 {
    let (keywords, cap) = ((MAPPING.get() / RECORD) as f64, PAGES * ENTRY);
    // Up to rank A/cap lists have the cap; beyond, the sum of 1/rank is a difference of logarithms.
    (0..60).fold(total / 16.0, |a, _| total / (1.0 + (keywords * cap / a).ln()))
}

impl Workload for IndexSearch {
    fn files(&self) -> Vec<FileSpec> {
        let mapping = FileSpec { length: MAPPING, directory: 0 };
        let partition = FileSpec { length: self.partition, directory: 0 };
        std::iter::once(mapping).chain((0..PARTITIONS).map(|_| partition)).collect()
    }

    fn drive(&self) -> Drive {
        Drive::Closed
    }

    fn program(&mut self, _number: u64, random: &mut dyn Rng) -> Box<dyn Program> {
        let lists = self.query(random);
        let share = share_read(&lists);
        let stream = |(n, list): (usize, &List)| {
            let wanted = ((list.range.len().get() as f64 * share) as u64).max(ENTRY as u64);
            let range = ByteSpan::at(list.range.start, Bytes(wanted).min(list.range.len()));
            ListReader { handle: Handle(n as u32), file: list.file, range, at: range.start }
        };
        Script::boxed(Query {
            streams: lists.iter().enumerate().map(stream).collect(),
            words: lists.iter().map(|list| list.word).collect(),
            looked_up: 0,
            state: State::Begin,
            memory: self.memory,
            mapped: self.mapped,
            turn: self.turn,
            opens_late: self.opens_late,
        })
    }
}

/// A list during a query.
#[derive(Clone, Copy, Debug)]
struct ListReader {
    handle: Handle,
    file: FileNumber,
    range: ByteSpan,
    at: ByteOffset,
}

impl ListReader {
    /// How far it has been read, as a share of what the query reads of it.
    fn share(&self) -> f64 {
        (self.at - self.range.start).get() as f64 / self.range.len().get() as f64
    }

    fn ended(&self) -> bool {
        self.at >= self.range.end
    }

    /// Reads (or touches) the next buffer.
    fn advance(&mut self, turn: Bytes, mapped: bool, steps: &mut Steps) {
        let next = ByteSpan::new(self.at, (self.at + turn).min(self.range.end));
        let cost = Nanos((next.len().get() as f64 * COST_A_BYTE) as u64);
        if mapped {
            // The processor works a page at a time between the faults.
            let pages = next.pages();
            for page in pages.iter() {
                steps.touch(self.handle, page);
                steps.compute(cost / pages.len().get());
            }
        } else {
            steps.read(self.handle, next.start, next.len());
            steps.compute(cost);
        }
        self.at = next.end;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    LookUp,
    Intersect,
    Ended,
}

struct Query {
    streams: Vec<ListReader>,
    words: Vec<u64>,
    looked_up: usize,
    state: State,
    memory: Bytes,
    mapped: bool,
    turn: Bytes,
    opens_late: bool,
}

impl Query {
    /// The binary search for a keyword: the pages that its probes touch, without immediate repetitions.
    fn look_up(word: u64, steps: &mut Steps) {
        let records = MAPPING.get() / RECORD;
        let target = ((u128::from(hash(word)) * u128::from(records)) >> 64) as u64;
        let (mut low, mut high, mut last) = (0, records, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let page = PageIndex(middle * RECORD / foreseek_units::PAGE_SIZE);
            if last != Some(page) {
                steps.touch(MAPPING_HANDLE, page);
                last = Some(page);
            }
            match middle.cmp(&target) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => break,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
    }
}

impl Source for Query {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        match self.state {
            State::Begin => {
                steps.compute(COST_A_QUERY);
                steps.open(MAPPING_HANDLE, MAPPING_FILE, None);
                self.state = State::LookUp;
            }
            State::LookUp => {
                let stream = self.streams[self.looked_up];
                Self::look_up(self.words[self.looked_up], steps);
                if !self.opens_late {
                    steps.open(stream.handle, stream.file, None);
                }
                self.looked_up += 1;
                if self.looked_up == self.streams.len() {
                    steps.close(MAPPING_HANDLE);
                    self.state = State::Intersect;
                }
            }
            State::Intersect => {
                let behind = self
                    .streams
                    .iter_mut()
                    .filter(|stream| !stream.ended())
                    .min_by(|a, b| a.share().total_cmp(&b.share()));
                match behind {
                    Some(stream) => {
                        if self.opens_late && stream.at == stream.range.start {
                            steps.open(stream.handle, stream.file, None);
                        }
                        stream.advance(self.turn, self.mapped, steps);
                        if self.opens_late && stream.ended() {
                            steps.close(stream.handle);
                        }
                    }
                    None => {
                        if !self.opens_late {
                            self.streams.iter().for_each(|stream| steps.close(stream.handle));
                        }
                        steps.finished();
                        self.state = State::Ended;
                    }
                }
            }
            State::Ended => {}
        }
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::trail;
    use super::super::{Parameters, by_name};
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    fn search() -> IndexSearch {
        IndexSearch::new(LISTS, MEMORY, false)
    }

    #[test]
    fn the_files_are_the_papers() {
        let files = search().files();
        assert_eq!(files.len(), 9);
        assert_eq!(files.iter().map(|file| file.length).sum::<Bytes>(), Bytes(19_022_000_000));
    }

    #[test]
    fn the_lists_of_all_keywords_make_the_index() {
        let a = longest(LISTS.get() as f64);
        let total: f64 = (1..=MAPPING.get() / RECORD).map(|rank| (a / rank as f64).min(PAGES * ENTRY)).sum();
        assert!((total / LISTS.get() as f64 - 1.0).abs() < 0.01, "{total}");
        assert!((1.1e9..1.3e9).contains(&a), "{a}");
    }

    #[test]
    fn queries_have_as_many_words_as_in_the_log() {
        let (search, mut random) = (search(), Pcg64Mcg::seed_from_u64(1));
        let mut counts = [0.0; 4];
        (0..20_000).for_each(|_| counts[search.query(&mut random).len() - 1] += 1.0);
        let chi: f64 = counts
            .iter()
            .zip(WORDS_A_QUERY)
            .map(|(seen, share)| (seen - 20_000.0 * share).powi(2) / (20_000.0 * share))
            .sum();
        // Three degrees of freedom at 1 %.
        assert!(chi < 11.3, "{counts:?}");
    }

    #[test]
    fn the_63_most_frequent_words_make_a_tenth() {
        let (search, mut random) = (search(), Pcg64Mcg::seed_from_u64(2));
        let words = search.words.expect("a distribution");
        let few = (0..50_000).filter(|_| words.sample(&mut random) <= 63.0).count() as f64 / 50_000.0;
        assert!((0.085..0.105).contains(&few), "{few}");
    }

    #[test]
    fn the_lengths_of_lists_are_log_uniform() {
        let search = search();
        let mut decades = [0u32; 4];
        for word in 1..=8000 {
            let length = search.list(word).range.len().get() as f64;
            decades[((search.longest / length / RANK_LEAST).log10() as usize).min(3)] += 1;
        }
        let chi: f64 = decades.iter().map(|n| (f64::from(*n) - 2000.0).powi(2) / 2000.0).sum();
        assert!(chi < 11.3, "{decades:?}");
    }

    #[test]
    fn a_query_reads_its_lists_in_turn_and_in_step() {
        let mut search = search();
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let (mut streams, mut probes) = (Vec::new(), 0);
        for number in 0..400 {
            let trail = trail(&mut search, number, &mut random);
            let words = trail.opens.len() - 1;
            // A binary search over 16 million records: 24 probes, the last 7 in one page or two.
            assert!(trail.touches.len() <= 24 * words);
            probes += trail.touches.len();
            for n in 0..words {
                let read = trail.reads.iter().filter(|(handle, _)| *handle == Handle(n as u32));
                let mut at = None;
                let mut total = Bytes::ZERO;
                for (_, range) in read {
                    assert!(at.is_none_or(|at| at == range.start), "sequential");
                    at = Some(range.end);
                    total += range.len();
                }
                streams.push(total);
            }
        }
        assert!((16..20).contains(&(probes / streams.len())), "{probes}");
        let mean = streams.iter().copied().sum::<Bytes>().get() as f64 / streams.len() as f64;
        // The result of the assumptions, as in the module's documentation.

        assert!((1.0e6..1.4e6).contains(&mean), "{mean}");
    }

    #[test]
    fn lists_that_are_opened_late_are_read_as_far_and_one_at_a_time_in_long_turns() {
        let trail_of = |parameters: &Parameters| {
            let mut search = by_name("index-search", parameters).expect("known");
            let mut random = Pcg64Mcg::seed_from_u64(5);
            (0..50).map(|number| trail(&mut *search, number, &mut random)).collect::<Vec<_>>()
        };
        let usual = trail_of(&Parameters::default());
        let late = Parameters { turn: Some(Bytes::mib(64)), opens_late: Some(true), ..Parameters::default() };
        for (usual, late) in usual.iter().zip(trail_of(&late)) {
            let total = |trail: &super::super::tests::Trail| -> Bytes {
                trail.reads.iter().map(|(_, range)| range.len()).sum()
            };
            assert_eq!(total(usual), total(&late));
            assert_eq!(late.reads.len() + 1, late.opens.len());
        }
    }

    #[test]
    fn mapped_lists_are_touched_and_not_read() {
        let mapped = Parameters { mapped: Some(true), ..Parameters::default() };
        let mut search = by_name("index-search", &mapped).expect("known");
        let trail = trail(&mut *search, 0, &mut Pcg64Mcg::seed_from_u64(4));
        assert!(trail.reads.is_empty() && trail.touches.iter().any(|(handle, _)| *handle == Handle(0)));
    }
}
