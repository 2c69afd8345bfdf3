//! An arbitrary database file: the scan of every index of its schema, both ways, and a planner that
//! is shown all of its pages. Nothing panics, runs for ever or allocates without bound.
#![no_main]

use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::{Page, PageNo};
use foreseek_sqlite::planner::{Cost, Lookahead, Planner};
use foreseek_sqlite::schema::Schema;
use foreseek_sqlite::sequence::Scan;
use foreseek_sqlite::source::{Image, ReadPage};
use foreseek_sqlite::walk::Direction;
use foreseek_units::{Bytes, Nanos};
use libfuzzer_sys::fuzz_target;

/// Steps of one scan that are looked at: a damaged tree may lead round in circles, which its bounds
/// must end, but a fuzzer's time is better spent on other inputs.
const STEPS: usize = 10_000;
/// Distinct pages in a plan.
const BUFFER: usize = 64;
/// What runs: its bounds are compared with what the pages hold.
const STATEMENT: &str = "SELECT * FROM t WHERE a BETWEEN 5 AND x AND b < 7";

fuzz_target!(|file: &[u8]| {
    let Ok(header) = Header::parse(file) else { return };
    let pages = header.pages_in(Bytes(file.len() as u64));
    let mut image = Image::new(file, header.page_size().get() as usize);

    if let Ok(schema) = Schema::read(&mut image, &header) {
        for index in &schema.indexes {
            for direction in [Direction::Forward, Direction::Backward] {
                let Ok(scan) = Scan::new(image, &index.name, direction, pages) else { continue };
                scan.take(STEPS).for_each(drop);
            }
        }
    }

    let mut planner = Planner::new(header.clone(), pages);
    let mut bytes = Vec::new();
    for number in 1..=pages.min(64) {
        let page = PageNo(number);
        if image.read(page, &mut bytes).is_err() {
            break;
        }
        if let Ok(parsed) = Page::parse(page, &bytes, header.usable()) {
            for cell in 0..parsed.cells() {
                let _ = parsed.cell(cell);
            }
        }
        if let Some(scan) = planner.expects(1, page) {
            planner.plan(&mut image, scan, Lookahead::pages(BUFFER));
        }
        let cost = Cost { time: Nanos::from_millis(5), missed: true };
        planner.observe(&mut image, 1, page, &bytes, cost, &mut || vec![STATEMENT.to_owned()]);
    }
});
