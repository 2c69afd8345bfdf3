//! The planner against scans as SQLite makes them. A cache in front serves some of the pages.

mod common;
#[path = "common/reader.rs"]
mod reader;

use common::{SCHEMAS, Shape};
use foreseek_hints::allowance::FIRST_STEP_MISSES_END_KNOWN;
use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::{Page, PageNo};
use foreseek_sqlite::planner::Why;
use foreseek_sqlite::record::{Value, columns};
use foreseek_sqlite::sequence::{PageAccess, Scan};
use foreseek_sqlite::source::{Image, ReadPage};
use foreseek_sqlite::walk::Direction;
use foreseek_units::Bytes;
use reader::Reader;

/// Reads that a scan makes before the planner looks for it; the descent is among them.
const FIRST: usize = FIRST_STEP_MISSES_END_KNOWN as usize + 8;

fn sequence(file: &[u8], shape: &Shape, direction: Direction) -> Vec<PageAccess> {
    let header = Header::parse(file).expect("a database");
    let image = Image::new(file, header.page_size().get() as usize);
    let pages = header.pages_in(Bytes(file.len() as u64));
    Scan::new(image, shape.schema().index_name, direction, pages).expect("can be followed").collect()
}

#[test]
fn full_scans_are_found_after_their_first_seeks_and_predicted_to_their_end() {
    let directory = tempfile::tempdir().expect("a directory");
    for schema in 0..SCHEMAS.len() {
        let shape = Shape {
            schema,
            page_size: 1024,
            rows: 3000,
            longest_key: 20,
            longest_row: 200,
            deleted: false,
            ..Shape::random(schema as u64)
        };
        let path = shape.build(directory.path(), &format!("db{schema}"));
        let file = std::fs::read(path).expect("is readable");
        for direction in [Direction::Forward, Direction::Backward] {
            for cache in [10, 100] {
                let mut reader = Reader::new(&file, cache);
                reader.read_interior(&file);
                let before = reader.reads;
                for access in sequence(&file, &shape, direction) {
                    reader.read(1, access.page);
                }
                let counters = reader.counters();
                let case = format!("{} {direction:?} cache {cache}: {counters:?}", shape.schema().name);
                assert_eq!((counters.scans, counters.ends_known), (1, 1), "{case}");
                let reads = reader.reads - before;
                // Interior pages that hold rows of a table WITHOUT ROWID count only at their position in the
                // scan.
                let missed = if shape.schema().u_at.is_some() { reads / 20 } else { 8 } + FIRST;
                assert!(counters.predicted as usize + missed >= reads, "{reads} reads, {case}");
                assert!(reader.hits * 10 >= reads * 9, "{} of {reads} hinted in time, {case}", reader.hits);
                assert_eq!(counters.failed, 0, "{case}");
            }
        }
    }
}

#[test]
fn a_scan_in_the_order_of_its_rows_is_left_to_the_kernel() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let connection = rusqlite::Connection::open(&path).expect("a database");
    let rows = "WITH RECURSIVE s(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM s WHERE x<30000)
                INSERT INTO t SELECT x, x*7, hex(zeroblob(100)) FROM s";
    connection
        .execute_batch("PRAGMA page_size=4096; CREATE TABLE t(u INTEGER PRIMARY KEY, k INT, note TEXT)")
        .expect("a table");
    connection.execute_batch(rows).expect("rows");
    connection.execute_batch("CREATE INDEX i ON t(k)").expect("an index");
    drop(connection);
    let file = std::fs::read(path).expect("is readable");
    let header = Header::parse(&file).expect("a database");
    let pages = header.pages_in(Bytes(file.len() as u64));
    let all = Scan::new(Image::new(&file, 4096), "i", Direction::Forward, pages).expect("can be followed");
    let mut reader = Reader::new(&file, 4);
    reader.buffer = usize::MAX;
    reader.read_interior(&file);
    for access in all {
        reader.read(1, access.page);
    }
    let counters = reader.counters();
    assert!(reader.reads > 1500, "{}", reader.reads);
    assert!(reader.all_hinted.len() < 128, "{:?}, {counters:?}", reader.plans);
    assert!(reader.source.read.len() < 300, "{} reads of our own", reader.source.read.len());
    assert_eq!(counters.scans, 1, "it stays known");
    assert_eq!(reader.planner.state(1).1, Why::InOrder);
}

fn one_database(rows: u64) -> (Shape, Vec<u8>) {
    let directory = tempfile::tempdir().expect("a directory");
    let shape = Shape {
        schema: 0,
        page_size: 1024,
        rows,
        longest_key: 20,
        longest_row: 200,
        deleted: false,
        journal: "delete",
        encoding: "UTF-8",
        seed: 8,
        vacuumed: false,
        auto_vacuum: 0,
    };
    let path = shape.build(directory.path(), "db");
    (shape, std::fs::read(path).expect("is readable"))
}

/// The leaves of the index alone, as `count(*)` reads them.
fn leaves(file: &[u8], shape: &Shape, direction: Direction) -> Vec<PageNo> {
    sequence(file, shape, direction).iter().filter(|access| access.mark).map(|access| access.page).collect()
}

#[test]
fn a_scan_that_needs_no_rows_is_predicted_and_no_leaf_is_read_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    for schema in [0, 6, 10] {
        let shape = Shape {
            schema,
            page_size: 1024,
            rows: 20_000,
            longest_key: 60,
            longest_row: 20,
            deleted: false,
            vacuumed: false,
            ..Shape::random(schema as u64)
        };
        let path = shape.build(directory.path(), &format!("db{schema}"));
        let file = std::fs::read(path).expect("is readable");
        for direction in [Direction::Forward, Direction::Backward] {
            let mut reader = Reader::new(&file, 10);
            reader.statement = "SELECT count(*) FROM t";
            reader.read_interior(&file);
            let before = reader.reads;
            let all = leaves(&file, &shape, direction);
            reader.source.read.clear();
            for &page in &all {
                reader.read(1, page);
            }
            let case = format!("{} {direction:?}: {:?}", shape.schema().name, reader.counters());
            assert_eq!((reader.counters().scans, reader.counters().ends_known), (1, 1), "{case}");
            let reads = reader.reads - before;
            assert!(reader.hits + FIRST + 8 >= reads, "{} of {reads} hinted in time, {case}", reader.hits);
            let own: Vec<_> = reader.source.read.iter().filter(|page| all.contains(page)).collect();
            assert!(own.is_empty(), "{own:?}, {case}");
        }
    }
}

#[test]
fn leaves_up_to_a_bound_are_planned_and_none_beyond_it() {
    let (shape, file) = one_database(20_000);
    let all = leaves(&file, &shape, Direction::Forward);
    let header = Header::parse(&file).expect("a database");
    let image = Image::new(&file, header.page_size().get() as usize);
    // The first key of a leaf in the middle.
    let at = all.len() / 2;
    let mut bytes = Vec::new();
    { image }.read(all[at], &mut bytes).expect("is there");
    let page = Page::parse(all[at], &bytes, header.usable()).expect("sound");
    let payload = page.cell(0).expect("a cell").payload.expect("an entry");
    let Some(Value::Text(key)) = columns(payload.local).and_then(|mut columns| columns.next()) else {
        panic!("a text")
    };
    let key = std::str::from_utf8(key).expect("letters");
    let mut reader = Reader::new(&file, 10);
    reader.statement = format!("SELECT count(*) FROM t WHERE k <= '{key}'").leak();
    reader.read_interior(&file);
    for &page in &all[..100] {
        reader.read(1, page);
    }
    assert_eq!(reader.counters().ends_known, 1, "{:?}", reader.counters());
    assert!(reader.hinted.contains(&all[at]) || reader.hinted.len() == reader.buffer);
    assert!(all[at + 2..].iter().all(|page| !reader.hinted.contains(page)));
}

#[test]
fn a_scan_that_cannot_begin_does_not_query_the_statement_at_each_leaf() {
    let (shape, file) = one_database(20_000);
    let all = leaves(&file, &shape, Direction::Forward);
    assert!(all.len() > 400, "{}", all.len());
    // At every leaf but the last ones, a value near it may be the scan's end.
    let letter = |at: u32| char::from(b'a' + at as u8);
    let values: Vec<String> = (0..26 * 26_u32)
        .map(|at| format!("'{}'", [at / 26, at % 26].map(letter).iter().collect::<String>()))
        .collect();
    let mut reader = Reader::new(&file, 10);
    reader.statement = format!("SELECT count(*) FROM t WHERE k IN ({}) OR 1", values.join(",")).leak();
    reader.read_interior(&file);
    for &page in &all {
        reader.read(1, page);
    }
    assert!(reader.counters().predicted < 100, "{:?}", reader.counters());
    assert!((1..16).contains(&reader.asked), "{}", reader.asked);
}

#[test]
fn steps_grow_from_a_few_reads_where_the_end_is_not_visible() {
    let (shape, file) = one_database(4000);
    let all = sequence(&file, &shape, Direction::Forward);
    let from = all.iter().rposition(|access| access.mark).expect("has leaves") / 2;
    let from = from + all[from..].iter().position(|access| access.mark).expect("has leaves");
    let mut reader = Reader::new(&file, 10);
    reader.read_interior(&file);
    reader.source.read.clear();
    reader.planner.begin_transaction(1);
    reader.statement = "SELECT * FROM t, u WHERE t.k > u.k";
    let mut hinted = Vec::new();
    for access in &all[from..] {
        reader.read(1, access.page);
        if hinted.last() != Some(&reader.hinted.len()) {
            hinted.push(reader.hinted.len());
        }
    }
    assert_eq!(hinted[..2], [0, 4], "{hinted:?}");
    // The last step is an exception: it holds the rest.
    let full = &hinted[..hinted.len() - 1];
    assert!(full.windows(2).all(|pair| pair[0] * 2 < pair[1] || pair[1] > reader.buffer / 2), "{hinted:?}");
    assert_eq!(reader.counters().ends_known, 0);
}

#[test]
fn point_queries_cost_no_own_read_and_begin_nothing() {
    let (shape, file) = one_database(4000);
    let all = sequence(&file, &shape, Direction::Forward);
    let mut random = common::Random::new(5);
    let mut reader = Reader::new(&file, 10);
    reader.read_interior(&file);
    reader.source.read.clear();
    let marks: Vec<usize> = (0..all.len()).filter(|&at| all[at].mark).collect();
    for _ in 0..2000 {
        reader.planner.begin_transaction(1);
        let mark = marks[random.below(marks.len() as u64 - 1) as usize];
        reader.read(1, all[mark].page);
        // Up to three rows of one leaf: less than the evidence that a scan needs.
        let row = mark + 1 + random.below(10) as usize;
        for access in all[row..].iter().take(random.below(4) as usize) {
            reader.read(1, access.page);
        }
    }
    assert_eq!(reader.counters().scans, 0);
    let schema: Vec<PageNo> = reader.source.read.iter().copied().filter(|page| page.get() != 1).collect();
    assert_eq!(schema, [], "only the schema was read");
}

#[test]
fn after_an_abandoned_scan_the_next_one_needs_more_evidence() {
    let (shape, file) = one_database(4000);
    let all = sequence(&file, &shape, Direction::Forward);
    let mut reader = Reader::new(&file, 10);
    reader.read_interior(&file);
    let mut largest = [0; 2];
    for largest in &mut largest {
        reader.planner.begin_transaction(1);
        reader.hinted.clear();
        for access in &all[..120] {
            reader.read(1, access.page);
            *largest = reader.hinted.len().max(*largest);
        }
    }
    let counters = reader.counters();
    assert_eq!((counters.scans, counters.ends_known), (2, 1), "{counters:?}");
    assert!(largest[1] * 4 < largest[0], "{largest:?}");
}

#[test]
fn a_scan_ends_with_its_transaction() {
    let (shape, file) = one_database(3000);
    let all = sequence(&file, &shape, Direction::Forward);
    let mut reader = Reader::new(&file, 10);
    reader.read_interior(&file);
    for access in &all[..100] {
        reader.read(1, access.page);
    }
    assert_eq!(reader.planner.scans().count(), 1);
    reader.planner.begin_transaction(2);
    assert_eq!(reader.planner.scans().count(), 1, "another connection's");
    reader.planner.begin_transaction(1);
    assert_eq!(reader.planner.scans().count(), 0);
    assert_eq!(reader.planner.expects(1, all[105].page), None);
}

#[test]
fn two_connections_scan_the_same_index_independently() {
    let (shape, file) = one_database(3000);
    let all = sequence(&file, &shape, Direction::Forward);
    let mut reader = Reader::new(&file, 10);
    reader.read_interior(&file);
    for (first, second) in all.iter().zip(all.iter().rev()) {
        reader.read(1, first.page);
        reader.read(2, second.page);
    }
    assert!(reader.counters().predicted as usize * 10 > reader.reads * 8, "{:?}", reader.counters());
}

#[test]
fn any_image_is_observed_without_failure() {
    let mut random = common::Random::new(3);
    let (_, sound) = one_database(600);
    for _ in 0..200 {
        let mut file = sound.clone();
        for _ in 0..random.below(400) {
            let at = 100 + random.below(file.len() as u64 - 100) as usize;
            file[at] = random.next() as u8;
        }
        for page in 0..file.len() / 1024 {
            if random.below(4) == 0 {
                file[page * 1024 + if page == 0 { 100 } else { 0 }] =
                    [2, 5, 10, 13][random.below(4) as usize];
            }
        }
        let mut reader = Reader::new(&file, 10);
        for _ in 0..300 {
            reader.read(1, PageNo(1 + random.below(file.len() as u64 / 1024) as u32));
        }
    }
}
