//! The planner against joins as SQLite makes them: for each row of one table, look-ups in another.

mod common;
#[path = "common/reader.rs"]
mod reader;

use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::{Page, PageNo};
use foreseek_sqlite::record::{Collation, Order};
use foreseek_sqlite::schema::{Schema, Table, TableKind};
use foreseek_sqlite::source::Image;
use foreseek_sqlite::tree::{Interior, Owned, RowKey};
use foreseek_units::Bytes;
use reader::Reader;
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};

/// Customers and their orders; the orders of a customer are scattered.
struct Database {
    file: Vec<u8>,
    connection: Connection,
    schema: Schema,
    interior: Interior,
}

impl Database {
    fn new(customers: u64, orders: u64) -> Self {
        Self::with(customers, orders, "")
    }

    /// As `new`, followed by a change in SQL.
    fn with(customers: u64, orders: u64, change: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("db");
        let mut connection = Connection::open(&path).expect("a database");
        let mut random = common::Random::new(9);
        connection
            .execute_batch(
                "PRAGMA page_size=1024; PRAGMA synchronous=off;
                 CREATE TABLE cust(id INTEGER PRIMARY KEY, pick INT, other INT);
                 CREATE TABLE o(id INTEGER PRIMARY KEY, customer INT, note TEXT);",
            )
            .expect("tables");
        let transaction = connection.transaction().expect("begins");
        for id in 1..=customers {
            let row = (id, random.below(10), 1 + random.below(customers));
            transaction.execute("INSERT INTO cust VALUES(?,?,?)", row).expect("a row");
        }
        for id in 1..=orders {
            let row = (id, 1 + random.below(customers), random.text(900));
            transaction.execute("INSERT INTO o VALUES(?,?,?)", row).expect("a row");
        }
        transaction.execute_batch("CREATE INDEX o_customer ON o(customer)").expect("an index");
        transaction.execute_batch(change).expect("a change");
        transaction.commit().expect("commits");
        let file = std::fs::read(&path).expect("is readable");
        let header = Header::parse(&file).expect("a database");
        let schema = Schema::read(&mut Image::new(&file, 1024), &header).expect("a schema");
        Self { file, connection, schema, interior: Interior::new(header) }
    }

    fn table(&self, name: &str) -> Table {
        self.schema.tables.iter().find(|table| table.name == name).expect("is there").clone()
    }

    /// The page of a tree that holds this row or entry.
    fn page(&mut self, tree: &Table, key: RowKey) -> PageNo {
        let mut source = Image::new(&self.file, 1024);
        self.interior.locate(&mut source, tree, &[key]).expect("a way")[0].expect("is there")
    }

    /// The reads of a nested loop: the rows of `cust` by rowid, and for each row that `outer` selects, the
    /// first `upto` orders of the customer in column `key`.
    fn nested_loop(&mut self, outer: &str, key: &str, upto: usize) -> Vec<PageNo> {
        self.nested_loop_by("id", outer, key, upto)
    }

    /// As `nested_loop`, with the rows of `cust` in another order.
    fn nested_loop_by(&mut self, order: &str, outer: &str, key: &str, upto: usize) -> Vec<PageNo> {
        let rows = |connection: &Connection, sql: &str| {
            let mut statement = connection.prepare(sql).expect("is sound");
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("runs");
            rows.collect::<Result<Vec<(i64, i64)>, _>>().expect("integers")
        };
        let (cust, o) = (self.table("cust"), self.table("o"));
        let plain = Order { collation: Collation::Binary, descending: false };
        let root = self.schema.index("o_customer").expect("is there").root;
        let kind = TableKind::Key(vec![plain; 2]);
        let index = Table { name: String::new(), root, kind, key: Vec::new(), columns: Vec::new() };
        let selected: HashSet<i64> = rows(&self.connection, outer).into_iter().map(|(id, _)| id).collect();
        let (mut reads, mut held) = (Vec::new(), None);
        for (id, customer) in rows(&self.connection, &format!("SELECT id, {key} FROM cust ORDER BY {order}"))
        {
            // A cursor keeps its page.
            let page = self.page(&cust, RowKey::Rowid(id));
            reads.extend(held.replace(page).is_none_or(|before| before != page).then_some(page));
            if !selected.contains(&id) {
                continue;
            }
            let orders = format!("SELECT id, customer FROM o WHERE customer={customer} ORDER BY id");
            for (order, _) in rows(&self.connection, &orders).into_iter().take(upto) {
                let entry = [customer, order].map(Owned::Integer).to_vec();
                reads.push(self.page(&index, RowKey::Columns(entry)));
                reads.push(self.page(&o, RowKey::Rowid(order)));
            }
        }
        reads.dedup();
        reads
    }
}

/// The reads of a nested loop whose outer rows an index of `cust(other)` gives: for each row, the orders of the
/// customer in `pick`, or the order with that number.
fn nested_loop_by_index(database: &mut Database, outer: &str, by_number: bool) -> Vec<PageNo> {
    let rows = |connection: &Connection, sql: &str| {
        let mut statement = connection.prepare(sql).expect("is sound");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("runs");
        rows.collect::<Result<Vec<(i64, i64, i64)>, _>>().expect("integers")
    };
    let (cust, o) = (database.table("cust"), database.table("o"));
    let plain = Order { collation: Collation::Binary, descending: false };
    let index = |name: &str| {
        let root = database.schema.index(name).expect("is there").root;
        Table {
            name: String::new(),
            root,
            kind: TableKind::Key(vec![plain; 2]),
            key: Vec::new(),
            columns: Vec::new(),
        }
    };
    let (by_other, by_customer) = (index("cust_other"), index("o_customer"));
    // A cursor keeps its page.
    let mut held = [None; 4];
    let mut reads = Vec::new();
    let mut read = |cursor: usize, page: PageNo| {
        if held[cursor].replace(page) != Some(page) {
            reads.push(page);
        }
    };
    for (id, other, pick) in rows(&database.connection, outer) {
        read(0, database.page(&by_other, RowKey::Columns([other, id].map(Owned::Integer).to_vec())));
        read(1, database.page(&cust, RowKey::Rowid(id)));
        if by_number {
            read(3, database.page(&o, RowKey::Rowid(pick)));
            continue;
        }
        let orders = format!("SELECT id, customer, 0 FROM o WHERE customer={pick} ORDER BY id");
        for (order, customer, _) in rows(&database.connection, &orders) {
            read(
                2,
                database.page(&by_customer, RowKey::Columns([customer, order].map(Owned::Integer).to_vec())),
            );
            read(3, database.page(&o, RowKey::Rowid(order)));
        }
    }
    reads
}

/// Makes these reads. Returns the number that the program's cache did not hold, and the number of those that a
/// plan held in time.
fn read(reader: &mut Reader<'_>, file: &[u8], reads: &[PageNo]) -> (usize, usize) {
    reader.read_interior(file);
    let before = reader.reads;
    for &page in reads {
        reader.read(1, page);
    }
    (reader.reads - before, reader.hits)
}

#[test]
fn the_orders_of_the_next_customers_are_planned_in_time() {
    let mut database = Database::new(2000, 16_000);
    let file = database.file.clone();
    for (key, statement) in [
        (
            "id",
            "SELECT c.id, sum(length(note)) FROM cust c JOIN o ON o.customer=c.id WHERE c.pick<3 GROUP BY 1",
        ),
        (
            "other",
            "SELECT c.id, (SELECT max(note) FROM o WHERE o.customer=c.other) FROM cust c WHERE c.pick<3",
        ),
    ] {
        let reads = database.nested_loop("SELECT id, pick FROM cust WHERE pick<3", key, usize::MAX);
        let mut reader = Reader::new(&file, 20);
        reader.statement = statement;
        let (made, hinted) = read(&mut reader, &file, &reads);
        assert!(hinted * 10 > made * 8, "{hinted} of {made}, {:?}", reader.counters());
        assert_eq!(reader.counters().failed, 0);
        // The text shows which customers are skipped: nearly nothing is fetched for them.
        let wanted: HashSet<PageNo> = reads.iter().copied().collect();
        let wasted = reader.all_hinted.difference(&wanted).count();
        assert!(wasted * 50 < reader.all_hinted.len(), "{wasted} of {}", reader.all_hinted.len());
    }
}

#[test]
fn outer_rows_are_known_as_such_as_long_as_a_join_is_followed() {
    let mut database = Database::new(2000, 16_000);
    let file = database.file.clone();
    let reads = database.nested_loop("SELECT id, pick FROM cust", "id", usize::MAX);
    let mut reader = Reader::new(&file, 20);
    reader.statement = "SELECT * FROM cust c JOIN o ON o.customer=c.id";
    let (first, rest) = reads.split_at(reads.len() / 2);
    read(&mut reader, &file, first);
    let is_of_outer = |reader: &Reader<'_>, page: &PageNo| reader.planner.is_of_outer(1, *page);
    let cust = database.table("cust").root;
    let of_cust = |reader: &Reader<'_>, page: &PageNo| reader.planner.tree_of(*page) == Some(cust);
    assert!(first.iter().any(|page| of_cust(&reader, page)));
    assert!(first.iter().all(|page| is_of_outer(&reader, page) == of_cust(&reader, page)));
    assert!(!reader.planner.is_of_outer(2, first[0]), "another stream");
    read(&mut reader, &file, rest);
    reader.planner.begin_transaction(1);
    assert!(!reads.iter().any(|page| is_of_outer(&reader, page)));
}

#[test]
fn a_join_whose_end_is_visible_is_planned_to_its_end_and_no_further() {
    let mut database = Database::new(4000, 16_000);
    let outer = "SELECT id, pick FROM cust WHERE id<2000 AND pick<3";
    let reads = database.nested_loop(outer, "other", usize::MAX);
    let file = database.file.clone();
    // SQLite reads no customer beyond the bound.
    let last = database.page(&database.table("cust"), RowKey::Rowid(2000));
    let end = reads.iter().rposition(|&page| page == last).expect("is read");
    let mut reader = Reader::new(&file, 20);
    reader.buffer = usize::MAX;
    reader.statement = "SELECT c.id, sum(length(note)) FROM cust c JOIN o ON o.customer=c.other WHERE c.id<2000 AND c.pick<3 GROUP BY 1";
    let (made, hinted) = read(&mut reader, &file, &reads[..=end]);
    assert!(reader.plans.len() <= 2, "{:?}", reader.plans);
    assert!(hinted * 100 > made * 90, "{hinted} of {made}, {:?}", reader.plans);
    // Of the customers beyond the bound, at most those on the last one's page are read.
    let customers: HashSet<PageNo> =
        (2001..4000).map(|id| database.page(&database.table("cust"), RowKey::Rowid(id))).collect();
    let beyond = reader.source.read.iter().filter(|page| **page != last && customers.contains(page)).count();
    assert!(beyond <= 1, "{beyond} pages of customers beyond the bound");
}

#[test]
fn look_ups_of_rows_that_an_index_gives_are_planned_in_time() {
    let mut database = Database::with(
        12_000,
        12_000,
        "CREATE INDEX cust_other ON cust(other); UPDATE cust SET pick=1+id*7919%12000",
    );
    let reads = nested_loop_by_index(
        &mut database,
        "SELECT id, other, pick FROM cust WHERE other<4000 ORDER BY other, id",
        false,
    );
    let file = database.file.clone();
    for (statement, least, part) in [
        ("SELECT c.id, length(note) FROM cust c JOIN o ON o.customer=c.pick WHERE c.other<4000", 85, 20),
        ("SELECT * FROM a_view", 70, 10),
    ] {
        let mut reader = Reader::new(&file, 20);
        reader.statement = statement;
        let (made, hinted) = read(&mut reader, &file, &reads);
        assert!(
            hinted * 100 > made * least,
            "{hinted} of {made}, {:?} {:?}",
            reader.counters(),
            reader.plans
        );
        let wanted: HashSet<PageNo> = reads.iter().copied().collect();
        let wasted = reader.all_hinted.difference(&wanted).count();
        assert!(wasted * part < reader.all_hinted.len(), "{wasted} of {}", reader.all_hinted.len());
    }
}

#[test]
fn outer_rows_are_read_as_far_as_a_step_to_the_end_needs_them() {
    // One customer in ten is looked up: more leaves of customers are needed than are read at a time where the
    // end may be near.
    let mut database = Database::new(40_000, 16_000);
    let reads = database.nested_loop("SELECT id, pick FROM cust WHERE pick<1", "other", usize::MAX);
    let file = database.file.clone();
    let mut reader = Reader::new(&file, 20);
    reader.buffer = usize::MAX;
    reader.statement = "SELECT c.id, note FROM cust c JOIN o ON o.customer=c.other WHERE c.pick<1";
    let (made, hinted) = read(&mut reader, &file, &reads);
    assert!(hinted * 100 > made * 80, "{hinted} of {made}, {:?}", reader.plans);
    assert!(reader.plans.len() <= 3, "{:?}", reader.plans);
}

#[test]
fn look_ups_that_stop_early_are_not_planned_further_than_they_read() {
    let mut database = Database::new(4000, 16_000);
    let reads = database.nested_loop("SELECT id, pick FROM cust", "other", 1);
    let file = database.file.clone();
    let mut reader = Reader::new(&file, 20);
    reader.buffer = usize::MAX;
    reader.statement = "SELECT c.id FROM cust c WHERE EXISTS (SELECT 1 FROM o WHERE o.customer=c.other)";
    let (made, hinted) = read(&mut reader, &file, &reads);
    assert!(hinted * 100 > made * 80, "{hinted} of {made}, {:?}", reader.plans);
    assert!(reader.plans.len() <= 7, "{:?}", reader.plans);
    let wanted: HashSet<PageNo> = reads.iter().copied().collect();
    let wasted = reader.all_hinted.difference(&wanted).count();
    assert!(
        wasted * 8 < reader.all_hinted.len(),
        "{wasted} of {}, {:?}",
        reader.all_hinted.len(),
        reader.plans
    );
}

/// These reads of leaves, each with the interior pages above it.
fn with_ways(file: &[u8], leaves: &[PageNo]) -> Vec<PageNo> {
    let mut parents = HashMap::new();
    for (at, bytes) in file.chunks_exact(1024).enumerate().skip(1) {
        let number = PageNo(at as u32 + 1);
        let Ok(page) = Page::parse(number, bytes, 1024) else { continue };
        if page.kind().is_interior() {
            parents.extend((0..=page.cells()).map(|child| (page.child(child).expect("a child"), number)));
        }
    }
    let way = |leaf: &PageNo| {
        let mut way: Vec<PageNo> =
            std::iter::successors(Some(*leaf), |page| parents.get(page).copied()).collect();
        way.reverse();
        way
    };
    leaves.iter().flat_map(way).collect()
}

#[test]
fn little_is_read_to_foresee_look_ups_that_stop_at_their_first_row() {
    // A customer's 20 orders are on 20 pages, below nearly as many interior pages.
    let mut database = Database::new(800, 16_000);
    let leaves = database.nested_loop("SELECT id, pick FROM cust WHERE pick<1", "other", 1);
    let file = database.file.clone();
    let reads = with_ways(&file, &leaves);
    for (statement, is_seen) in [
        ("SELECT id FROM cust c WHERE pick<1 AND EXISTS (SELECT 1 FROM o WHERE o.customer=c.other)", true),
        (
            "SELECT id FROM cust c WHERE pick<1 AND EXISTS (SELECT 1 FROM o WHERE o.customer=c.other) LIMIT 80",
            true,
        ),
        ("SELECT * FROM a_view", false),
    ] {
        let mut reader = Reader::new(&file, 20);
        reader.statement = statement;
        let (mut made, mut unused) = (HashSet::new(), 0);
        for &page in &reads {
            reader.read(1, page);
            made.insert(page);
            // Until a step is made, nothing has paid for them if the statement ends here.
            if reader.plans.is_empty() {
                let own: HashSet<PageNo> = reader.source.read.iter().copied().collect();
                unused = unused.max(own.difference(&made).count());
            }
        }
        let counters = reader.counters();
        assert!(counters.scans == 1 && unused <= 4, "{unused} unused: {statement}, {counters:?}");
        // A view's filter of the outer rows is not known.
        assert!(!is_seen || counters.predicted > 70, "{statement}, {counters:?}");
    }
}

#[test]
fn a_join_of_tables_in_the_same_order_is_left_to_the_kernel() {
    // The orders are sorted by customer.
    let change =
        "DROP INDEX o_customer; UPDATE o SET customer=1+(id-1)/4; CREATE INDEX o_customer ON o(customer)";
    let mut database = Database::with(4000, 16_000, change);
    let reads = database.nested_loop("SELECT id, pick FROM cust WHERE pick<3", "id", usize::MAX);
    let file = database.file.clone();
    let mut reader = Reader::new(&file, 20);
    reader.buffer = usize::MAX;
    reader.statement =
        "SELECT c.id, sum(length(note)) FROM cust c JOIN o ON o.customer=c.id WHERE c.pick<3 GROUP BY 1";
    let (made, _) = read(&mut reader, &file, &reads);
    assert!(made > 3000, "{made}");
    assert!(reader.all_hinted.len() < 256, "{} of {made}, {:?}", reader.all_hinted.len(), reader.plans);
    assert!(reader.source.read.len() * 10 < made, "{} reads of our own", reader.source.read.len());
}

#[test]
fn a_tree_that_fits_into_memory_is_not_planned_if_the_file_does_not_fit() {
    let mut database = Database::with(
        12_000,
        12_000,
        "CREATE INDEX cust_other ON cust(other); UPDATE cust SET pick=1+id*7919%12000",
    );
    let outer = "SELECT id, other, pick FROM cust WHERE other<4000 ORDER BY other, id";
    let reads = nested_loop_by_index(&mut database, outer, true);
    let orders = database.table("o");
    let orders: HashSet<PageNo> = (1..=12_000).map(|id| database.page(&orders, RowKey::Rowid(id))).collect();
    let file = database.file.clone();
    let size = file.len() as u64;
    // In the first case more orders exist than fit in memory. In the second all orders fit, but not the file.
    // In the third the file fits.
    for (memory, joined) in [(size / 2, true), (size - 1024, false), (size, true)] {
        let mut reader = Reader::new(&file, 20);
        reader.planner.set_memory(Bytes(memory));
        reader.statement = "SELECT c.id, length(note) FROM cust c JOIN o ON o.id=c.pick WHERE c.other<4000";
        let (made, _) = read(&mut reader, &file, &reads);
        let hinted = reader.all_hinted.intersection(&orders).count();
        assert_eq!(hinted * 4 > made, joined, "{hinted} orders, {made} reads, {memory} bytes of {size}");
    }
}

#[test]
fn a_join_that_no_text_shows_is_found_by_its_data() {
    let mut database = Database::new(2000, 16_000);
    let reads = database.nested_loop("SELECT id, pick FROM cust", "other", usize::MAX);
    let file = database.file.clone();
    let mut reader = Reader::new(&file, 20);
    reader.statement = "SELECT * FROM a_view";
    let (made, hinted) = read(&mut reader, &file, &reads);
    assert!(hinted * 10 > made * 7, "{hinted} of {made}, {:?}", reader.counters());
}

#[test]
fn a_loop_that_stops_at_its_first_row_costs_little() {
    let mut database = Database::new(2000, 16_000);
    let reads = database.nested_loop("SELECT id, pick FROM cust WHERE pick<3", "other", 1);
    let file = database.file.clone();
    let mut reader = Reader::new(&file, 20);
    reader.statement =
        "SELECT 1 FROM cust c WHERE pick<3 AND EXISTS (SELECT 1 FROM o WHERE o.customer=c.other)";
    let (made, _) = read(&mut reader, &file, &reads);
    let wanted: HashSet<PageNo> = reads.iter().copied().collect();
    let wasted = reader.all_hinted.difference(&wanted).count();
    // Of a customer's 8 orders one is read: the reads in time pay for the fetches of the others.
    assert!(wasted < made, "{wasted} of {} wasted, {made} reads", reader.all_hinted.len());
}

#[test]
fn look_ups_of_random_keys_begin_nothing() {
    let mut database = Database::new(2000, 16_000);
    let file = database.file.clone();
    let (cust, o) = (database.table("cust"), database.table("o"));
    let mut random = common::Random::new(11);
    let mut reads = Vec::new();
    for id in 1..=2000 {
        reads.push(database.page(&cust, RowKey::Rowid(id)));
        reads.push(database.page(&o, RowKey::Rowid(1 + random.below(16_000) as i64)));
    }
    let mut reader = Reader::new(&file, 20);
    reader.statement = "SELECT * FROM a_view";
    read(&mut reader, &file, &reads);
    assert_eq!(reader.counters().scans, 0, "{:?}", reader.counters());
}

#[test]
fn outer_rows_without_look_ups_are_not_read_in_one_pass() {
    let change =
        "UPDATE cust SET pick=77 WHERE id<300 OR id>59700; UPDATE o SET customer=1+customer%300 WHERE id%4";
    let mut database = Database::with(60_000, 16_000, change);
    let reads = database.nested_loop("SELECT id, pick FROM cust WHERE pick=77", "id", usize::MAX);
    let file = database.file.clone();
    let mut reader = Reader::new(&file, 20);
    reader.statement =
        "SELECT c.id, sum(length(note)) FROM cust c JOIN o ON o.customer=c.id WHERE c.pick=77 GROUP BY 1";
    let (_, hinted) = read(&mut reader, &file, &reads);
    let leaves = reads.iter().filter(|page| file[(page.get() as usize - 1) * 1024] == 13).count();
    assert!(leaves > 600 && reader.most_own < 400 && hinted > 20, "{leaves} {} {hinted}", reader.most_own);
}

#[test]
fn outer_rows_in_no_order_of_their_table_are_not_taken_for_a_scan_of_it() {
    let mut database = Database::new(20_000, 16_000);
    let reads = database.nested_loop_by("other", "SELECT id, pick FROM cust", "id", usize::MAX);
    let file = database.file.clone();
    let mut reader = Reader::new(&file, 20);
    reader.statement = "SELECT c.id, o.note FROM cust c JOIN o ON o.customer=c.id ORDER BY c.other";
    read(&mut reader, &file, &reads[..8000]);
    let wanted: HashSet<PageNo> = reads[..8000].iter().copied().collect();
    let wasted = reader.all_hinted.difference(&wanted).count();
    assert!(
        wasted * 20 < reader.reads,
        "{wasted} hints wasted, {} reads, {:?}",
        reader.reads,
        reader.counters()
    );
}
