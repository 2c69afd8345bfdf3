//! The reads predicted for a scan, against the pages on which SQLite stored the rows.

mod common;

use common::{SCHEMAS, Shape, rows_in_order};
use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::{Kind, Page, PageNo};
use foreseek_sqlite::record::{Value, columns};
use foreseek_sqlite::schema::Schema;
use foreseek_sqlite::sequence::Scan;
use foreseek_sqlite::source::{Image, ReadPage};
use foreseek_sqlite::walk::Direction;
use std::collections::{BTreeSet, HashMap};

/// The page of each row, by a walk through the table's whole tree: a simple reference.
fn pages_of_rows(file: &[u8], header: &Header, root: PageNo, u_at: Option<usize>) -> HashMap<i64, PageNo> {
    let mut image = Image::new(file, header.page_size().get() as usize);
    let mut rows = HashMap::new();
    let mut waiting = vec![root];
    let mut bytes = Vec::new();
    while let Some(number) = waiting.pop() {
        image.read(number, &mut bytes).expect("is there");
        let page = Page::parse(number, &bytes, header.usable()).expect("is sound");
        if page.kind().is_interior() {
            waiting.extend((0..=page.cells()).map(|child| page.child(child).expect("has children")));
        }
        if page.kind() != Kind::TableInterior {
            for cell in 0..page.cells() {
                let cell = page.cell(cell).expect("is sound");
                let u = match u_at {
                    None => cell.rowid.expect("a table's cell"),
                    Some(at) => {
                        let mut columns = columns(cell.payload.expect("has one").local).expect("a record");
                        let Some(Value::Integer(u)) = columns.nth(at) else { panic!("u is an integer") };
                        u
                    }
                };
                rows.insert(u, number);
            }
        }
    }
    rows
}

fn check(shape: Shape) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = shape.build(directory.path(), "db");
    let file = std::fs::read(&path).expect("is readable");
    let header = Header::parse(&file).expect("is a database");
    let page_size = header.page_size().get() as usize;
    let schema = Schema::read(&mut Image::new(&file, page_size), &header).expect("has a schema");
    let wanted = shape.schema();
    let index = schema.index(wanted.index_name).expect("has the index");
    let truth = pages_of_rows(&file, &header, schema.table_of(index).root, wanted.u_at);
    for (direction, tail) in [(Direction::Forward, wanted.scan), (Direction::Backward, wanted.scan_desc)] {
        let scan = Scan::new(
            Image::new(&file, page_size),
            wanted.index_name,
            direction,
            header.pages_in(foreseek_units::Bytes(file.len() as u64)),
        )
        .expect("can be followed");
        let reads: Vec<_> = scan.collect();
        let table: BTreeSet<PageNo> = truth.values().copied().collect();
        let mut predicted =
            reads.iter().filter(|read| table.contains(&read.page)).map(|read| read.page).peekable();
        let mut at = None;
        for u in rows_in_order(&path, tail) {
            let page = truth[&u];
            if predicted.peek() == Some(&page) {
                at = predicted.next();
            }
            // A mark between two rows on one page may make the page appear twice.
            assert_eq!(at, Some(page), "row {u}, {direction:?}, {} {shape:?}", wanted.name);
        }
        assert_eq!(predicted.next(), None, "{shape:?}");
        let marks: Vec<PageNo> = reads.iter().filter(|read| read.mark).map(|read| read.page).collect();
        let distinct: BTreeSet<PageNo> = marks.iter().copied().collect();
        assert_eq!(marks.len(), distinct.len(), "a leaf is read once: {shape:?}");
    }
}

#[test]
fn every_schema_at_every_page_size_is_predicted_row_by_row() {
    for schema in 0..SCHEMAS.len() {
        for shift in 0..8 {
            let shape = Shape {
                page_size: 512 << shift,
                schema,
                rows: 700,
                ..Shape::random((schema * 8 + shift) as u64)
            };
            check(shape);
        }
    }
}

#[test]
fn random_databases_are_predicted_row_by_row() {
    for seed in 1000..1040 {
        check(Shape::random(seed));
    }
}

#[test]
fn a_damaged_database_ends_the_prediction_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut random = common::Random::new(77);
    for seed in 0..SCHEMAS.len() as u64 {
        let shape = Shape { schema: seed as usize, page_size: 1024, rows: 400, ..Shape::random(seed) };
        let path = shape.build(directory.path(), &format!("db{seed}"));
        let sound = std::fs::read(&path).expect("is readable");
        for _ in 0..60 {
            let mut file = sound.clone();
            for _ in 0..=random.below(40) {
                let at = 100 + random.below(file.len() as u64 - 100) as usize;
                file[at] = random.next() as u8;
            }
            for _ in 0..3 {
                // Damaged pointers of interior pages make cycles and extreme depths.
                let page = random.below(file.len() as u64 / 1024) as usize * 1024;
                file[page + random.below(16) as usize] = random.next() as u8;
            }
            let pages = (file.len() / 1024) as u32;
            for direction in [Direction::Forward, Direction::Backward] {
                if let Ok(scan) =
                    Scan::new(Image::new(&file, 1024), shape.schema().index_name, direction, pages)
                {
                    // The bound: every leaf with as many cells as a page can hold.
                    assert!(scan.count() <= file.len() / 2 * 17, "bounded");
                }
            }
        }
    }
}
