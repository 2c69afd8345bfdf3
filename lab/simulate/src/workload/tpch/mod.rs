//! TPC-H-like queries (EuroSys'07 sections 6.1, 6.2 and 6.5, figure 5).
//!
//! What the paper says: TPC-H on MySQL 5.0.17 with a database of 2 GB; each query reads several files with
//! mixed random and sequential accesses. `2TPC-H` runs the series Q2 to Q11 and Q12 to Q22 at once. Names here:
//! `tpch-q1` to `tpch-q22` are one query, `tpch` is the series Q2 to Q22, `2tpch` the two halves at once. A
//! query ends with `Finished`.
//!
//! The assumptions: the files of [`tables`], the joins of [`queries`]. A scan reads 128 KiB at a time (MyISAM's
//! read buffer). A look-up reads a block of 1 KiB of an index (the upper levels are in MySQL's key cache) and
//! the row; one on the same page as the one before it costs no call. A join makes at most 200,000 look-ups:
//! with more, a table is in memory, and they are only computed. A row of a scan costs 1.2 us of processor time,
//! a look-up 7 us: MySQL of that time joined some 150,000 cached rows a second on such a processor. The server
//! has 32 MiB of its own. An oracle knows nothing of the streams.

mod queries;
mod tables;

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileSpec, Handle, Program, Workload};
use foreseek_units::{ByteOffset, Bytes, Nanos, PageIndex};
use queries::{FIRST, Join, QUERIES, Query};
use rand::RngExt;
use rand_core::Rng;
use tables::Table;

/// `read_buffer_size`, MySQL 5.0's default.
const BUFFER: Bytes = Bytes::kib(128);
/// A block of an index (`myisam_block_size`).
const INDEX_BLOCK: Bytes = Bytes::kib(1);
/// The assumptions; each is explained above.
const LOOK_UPS_LIMIT: f64 = 200_000.0;
const ROW_COST: Nanos = Nanos(1200);
const LOOK_UP_COST: Nanos = Nanos::from_micros(7);
const MEMORY: Bytes = Bytes::mib(32);

pub(super) fn tpch(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    // The names come from the registry: there are no others.
    let series = match parameters.workload() {
        "2tpch" => vec![&QUERIES[..10], &QUERIES[10..]],
        "tpch" => vec![&QUERIES[..]],
        one => {
            let number: u32 = one.trim_start_matches("tpch-q").parse().unwrap_or(2);
            if number == 1 {
                vec![&FIRST[..]]
            } else {
                let at = number.clamp(2, 22) as usize - 2;
                vec![&QUERIES[at..=at]]
            }
        }
    };
    let (row, look_up) = parameters.row_and_look_up_costs(ROW_COST, LOOK_UP_COST);
    Ok(Box::new(Tpch { series, costs: Costs { row, look_up } }))
}

/// Processor time.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// For a row of a scan.
    row: Nanos,
    /// For a look-up.
    look_up: Nanos,
}

#[derive(Debug)]
struct Tpch {
    /// The queries of each job.
    series: Vec<&'static [Query]>,
    costs: Costs,
}

impl Workload for Tpch {
    fn files(&self) -> Vec<FileSpec> {
        tables::files()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.series.len() as u32)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let series = self.series[number as usize % self.series.len()];
        Script::boxed(Series { left: series, query: None, costs: self.costs })
    }
}

/// One connection: queries one after the other.
struct Series {
    left: &'static [Query],
    query: Option<RunningQuery>,
    costs: Costs,
}

impl Source for Series {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        let run = match &mut self.query {
            Some(run) => run,
            None => {
                let Some((next, left)) = self.left.split_first() else { return };
                self.left = left;
                self.query.insert(RunningQuery::begin(next, steps))
            }
        };
        if run.scan(self.costs, random, steps) {
            run.end(steps);
            self.query = None;
        }
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}

/// A running query.
struct RunningQuery {
    outer: Table,
    at: Bytes,
    joins: Vec<Inner>,
}

/// An inner table of a running query.
struct Inner {
    join: Join,
    data: Handle,
    index: Handle,
    /// The share of look-ups that are made; the others are only computed.
    made: f64,
    last_data: Option<PageIndex>,
    last_index: Option<PageIndex>,
}

const OUTER: Handle = Handle(0);

impl RunningQuery {
    fn begin(query: &Query, steps: &mut Steps) -> Self {
        steps.open(OUTER, query.outer.data(), None);
        let inner = |(n, join): (u32, &Join)| {
            let look_ups = query.outer.rows() as f64 * join.share * f64::from(join.rows);
            Inner {
                join: *join,
                data: Handle(2 * n + 1),
                index: Handle(2 * n + 2),
                made: if join.along { 1.0 } else { (LOOK_UPS_LIMIT / look_ups).min(1.0) },
                last_data: None,
                last_index: None,
            }
        };
        let joins: Vec<Inner> = (0..).zip(query.joins).map(inner).collect();
        for inner in &joins {
            steps.open(inner.index, inner.join.table.index(), None);
            steps.open(inner.data, inner.join.table.data(), None);
        }
        Self { outer: query.outer, at: Bytes::ZERO, joins }
    }

    /// Reads a buffer of the outer table and makes its rows' look-ups; returns whether it was the last.
    fn scan(&mut self, costs: Costs, random: &mut dyn Rng, steps: &mut Steps) -> bool {
        let (length, row) = (self.outer.data_length(), self.outer.row());
        let buffer = BUFFER.min(length - self.at);
        steps.read(OUTER, ByteOffset(self.at.get()), buffer);
        let rows = self.at / row..(self.at + buffer) / row;
        steps.compute(costs.row * (rows.end - rows.start));
        for inner in &mut self.joins {
            inner.look_up(rows.clone(), self.outer.rows(), costs.look_up, random, steps);
        }
        self.at += buffer;
        self.at >= length
    }

    fn end(&self, steps: &mut Steps) {
        steps.close(OUTER);
        for inner in &self.joins {
            steps.close(inner.index);
            steps.close(inner.data);
        }
        steps.finished();
    }
}

impl Inner {
    /// The look-ups for these rows of an outer table of this length.
    fn look_up(
        &mut self,
        rows: std::ops::Range<u64>,
        outer_rows: u64,
        cost: Nanos,
        random: &mut dyn Rng,
        steps: &mut Steps,
    ) {
        let table = self.join.table;
        for row in rows {
            if self.join.share < 1.0 && !random.random_bool(self.join.share) {
                continue;
            }
            for n in 0..self.join.rows {
                steps.compute(cost);
                if self.made < 1.0 && !random.random_bool(self.made) {
                    continue;
                }
                let place = match self.join.along {
                    true => (row as f64 / outer_rows as f64, u64::from(n)),
                    false => (random.random::<f64>(), 0),
                };
                let target = ((place.0 * table.rows() as f64) as u64 + place.1).min(table.rows() - 1);
                self.fetch(target, steps);
            }
        }
    }

    /// Reads an index block and a row, each unless it is on the same page as the one before.
    fn fetch(&mut self, row: u64, steps: &mut Steps) {
        let table = self.join.table;
        let blocks = table.index_length() / INDEX_BLOCK;
        let block = ((row as f64 / table.rows() as f64) * blocks as f64) as u64;
        let at = ByteOffset(block.min(blocks - 1) * INDEX_BLOCK.get());
        if self.last_index != Some(at.page()) {
            self.last_index = Some(at.page());
            steps.read(self.index, at, INDEX_BLOCK);
        }
        let at = ByteOffset(row * table.row().get());
        let length = table.row().min(table.data_length() - Bytes(at.get()));
        if self.last_data != Some(at.page()) {
            self.last_data = Some(at.page());
            steps.read(self.data, at, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Trail, trail};
    use super::super::{Parameters, by_name};
    use super::*;
    use crate::program::FileNumber;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    fn run(name: &str) -> Trail {
        let mut workload = by_name(name, &Parameters::default()).expect(name);
        trail(&mut *workload, 0, &mut Pcg64Mcg::seed_from_u64(1))
    }

    /// The share of reads of a file that begin on the page where the one before ended, or on the next.
    fn sequential_share(trail: &Trail, file: FileNumber) -> f64 {
        let handle = trail.opens.iter().position(|(of, _)| *of == file).map(|at| {
            // Opens come in the order outer, index, data, index, data.
            Handle(match at {
                0 => 0,
                odd if odd % 2 == 1 => odd as u32 + 1,
                even => even as u32 - 1,
            })
        });
        let reads: Vec<_> = trail
            .reads
            .iter()
            .filter(|(of, _)| Some(*of) == handle)
            .map(|(_, range)| range.pages())
            .collect();
        assert!(reads.len() > 10, "{file:?} is read {} times", reads.len());
        let near = reads.windows(2).filter(|pair| pair[1].start.get().wrapping_sub(pair[0].end.get()) <= 1);
        near.count() as f64 / (reads.len() - 1) as f64
    }

    #[test]
    fn q2_alternates_between_sequential_files() {
        let trail = run("tpch-q2");
        assert!(sequential_share(&trail, Table::PartSupp.data()) > 0.99);
        assert!(sequential_share(&trail, Table::Part.data()) > 0.95);
        let switches = trail.reads.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
        assert!(switches > 1000, "{switches}");
    }

    #[test]
    fn q16_is_mixed_with_much_random_access() {
        let trail = run("tpch-q16");
        assert!(sequential_share(&trail, Table::Part.data()) > 0.99);
        assert!(sequential_share(&trail, Table::PartSupp.data()) < 0.05);
        assert!(trail.reads.len() > 100_000);
    }

    #[test]
    fn the_series_has_21_queries_in_two_halves() {
        let mut both = by_name("2tpch", &Parameters::default()).expect("known");
        assert_eq!(both.drive(), Drive::Jobs(2));
        let numbers: Vec<u32> = QUERIES.iter().map(|query| query.number).collect();
        assert!(numbers.into_iter().eq(2..=22));
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let [first, second] = [0, 1].map(|number| trail(&mut *both, number, &mut random).finished);
        assert_eq!((first, second), (10, 11));
    }
}
