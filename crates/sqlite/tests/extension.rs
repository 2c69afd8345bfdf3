//! The extension in the stock shell: the rows are the same as without it, and SQLite's reads are those that it
//! predicted.

mod common;

use common::shell::{FOLLOW, counter, drop_cache, fetched, has_shell, stock, with_extension};
use common::{SCHEMAS, Shape, large, table};
use std::path::Path;

/// Checks that a query's rows with the extension are those without it; returns the status.
fn same_rows(database: &Path, before: &str, sql: &str) -> serde_json::Value {
    let plain = stock(database, sql);
    drop_cache(database);
    let (ours, status) = with_extension(database, before, sql);
    assert!(plain.status.success() && plain.err.is_empty(), "{sql}: {}", plain.err);
    assert_eq!((ours.status, ours.err.as_str()), (plain.status, ""), "{sql}");
    assert!(ours.out == plain.out, "{sql}: other rows: {} and {} bytes", ours.out.len(), plain.out.len());
    assert_eq!(status["active"], true, "{status}");
    status
}

/// With a cache of 10 pages nearly every row needs a read, as in a table larger than the cache.
fn scan(tail: &str) -> String {
    format!("PRAGMA cache_size=10; SELECT * FROM t {tail};")
}

#[test]
fn every_schema_gives_the_same_rows_and_its_reads_are_predicted() {
    if !has_shell("every_schema_gives_the_same_rows_and_its_reads_are_predicted") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for schema in 0..SCHEMAS.len() {
        for shift in 0..8 {
            let seed = (schema * 8 + shift) as u64;
            let shape = Shape {
                schema,
                page_size: 512 << shift,
                rows: 3000,
                longest_key: 30,
                longest_row: if shift < 2 { 40 } else { 200 },
                deleted: false,
                ..Shape::random(seed)
            };
            let path = shape.build(directory.path(), &format!("db{seed}"));
            for tail in [shape.schema().scan, shape.schema().scan_desc] {
                let status = same_rows(&path, FOLLOW, &scan(tail));
                let (pages, predicted) =
                    (counter(&status, "leaves_read"), counter(&status, "predicted_reads"));
                let case = format!("{} {tail} {shape:?}\n{status}", shape.schema().name);
                // In a table of few pages, reads at many positions fit a scan.
                let file_pages = path.metadata().expect("is there").len() / u64::from(shape.page_size);
                if file_pages > 100 {
                    assert_eq!(counter(&status, "scans"), 1, "{case}");
                    assert_eq!(counter(&status, "ends_known"), 1, "{case}");
                    assert_eq!(counter(&status, "failed"), 0, "{case}");
                    // The other reads are of the schema and the first seeks.
                    assert!(predicted + 44 >= pages, "{predicted} of {pages}: {case}");
                }
            }
            std::fs::remove_file(path).expect("removed");
        }
    }
}

#[test]
fn the_end_of_a_scan_in_an_attached_database_is_visible() {
    if !has_shell("the_end_of_a_scan_in_an_attached_database_is_visible") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let shape = Shape {
        schema: 0,
        page_size: 1024,
        rows: 3000,
        longest_key: 30,
        longest_row: 200,
        deleted: false,
        ..Shape::random(1)
    };
    let attached = shape.build(directory.path(), "attached");
    let main = Shape { rows: 10, ..shape }.build(directory.path(), "main");
    let sql = format!(
        "ATTACH '{}' AS x; PRAGMA x.cache_size=10; SELECT * FROM x.t {};",
        attached.display(),
        shape.schema().scan
    );
    let status = same_rows(&main, FOLLOW, &sql);
    let files = status["files"].as_array().expect("files");
    let sum = |name: &str| files.iter().filter_map(|file| file[name].as_u64()).sum::<u64>();
    assert_eq!((sum("scans"), sum("ends_known")), (1, 1), "{status}");
}

#[test]
fn random_databases_give_the_same_rows() {
    if !has_shell("random_databases_give_the_same_rows") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for seed in 2000..2030 {
        let shape = Shape::random(seed);
        let path = shape.build(directory.path(), &format!("db{seed}"));
        for tail in [shape.schema().scan, shape.schema().scan_desc] {
            same_rows(&path, FOLLOW, &scan(tail));
            same_rows(&path, FOLLOW, &format!("SELECT count(*), sum(u), max(k) FROM t {tail};"));
        }
    }
}

#[test]
fn a_whole_scan_is_fetched_once_and_found_in_the_cache() {
    if !has_shell("a_whole_scan_is_fetched_once_and_found_in_the_cache") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = large(directory.path());
    let is_out = drop_cache(&path);
    // On the storage of this machine seeks may cost nothing: they are counted as those of a disk.
    let status = same_rows(&path, FOLLOW, "SELECT * FROM t INDEXED BY i ORDER BY k;");
    if !is_out {
        return;
    }
    let reads = counter(&status, "predicted_reads");
    assert!(reads > 50_000, "{status}");
    assert!(fetched(&status, "hits") * 100 >= reads * 99, "{status}");
    assert!(fetched(&status, "fetched_pages") > 2000, "{status}");
    // Each step is a round; the last one holds all the rest.
    assert!((1..=3).contains(&fetched(&status, "rounds")), "{status}");
}

#[test]
fn reads_from_memory_are_bypassed() {
    if !has_shell("reads_from_memory_are_bypassed") {
        return;
    }
    let (_directory, path) = table(5000);
    let twice = format!("{0}\n{0}", scan("INDEXED BY i ORDER BY k"));
    let status = same_rows(&path, "", &twice);
    assert!(counter(&status, "bypassed_reads") > 4000, "{status}");
    assert_eq!(fetched(&status, "wasted_rounds"), 0, "{status}");
}

#[test]
fn point_queries_and_small_ranges_fetch_nothing() {
    if !has_shell("point_queries_and_small_ranges_fetch_nothing") {
        return;
    }
    let (_directory, path) = table(20_000);
    let mut sql = String::from("PRAGMA cache_size=10;\n");
    for key in 0..200 {
        let letters = [key / 26, key % 26].map(|letter| char::from(b'a' + letter as u8));
        let key = String::from_iter(letters);
        sql += &format!("SELECT * FROM t INDEXED BY i WHERE k >= '{key}' ORDER BY k LIMIT 3;\n");
        sql += &format!("SELECT * FROM t WHERE u = {};\n", key.len());
    }
    let status = same_rows(&path, FOLLOW, &sql);
    assert_eq!(counter(&status, "scans"), 0, "{status}");
    assert_eq!(fetched(&status, "fetched_pages"), 0, "{status}");
}

#[test]
fn a_scan_with_a_limit_fetches_little_more_than_it_reads() {
    if !has_shell("a_scan_with_a_limit_fetches_little_more_than_it_reads") {
        return;
    }
    let (_directory, path) = table(20_000);
    for limit in [10, 100, 1000] {
        let status = same_rows(&path, FOLLOW, &scan(&format!("INDEXED BY i ORDER BY k LIMIT {limit}")));
        let pages = fetched(&status, "fetched_pages") - fetched(&status, "infill_pages");
        assert!(pages < limit * 4, "limit {limit}: {status}");
    }
}

#[test]
fn a_nested_loop_by_index_is_not_prefetched_beyond_its_rows() {
    if !has_shell("a_nested_loop_by_index_is_not_prefetched_beyond_its_rows") {
        return;
    }
    let (_directory, path) = table(20_000);
    // For each selected row, the other index gives ten or twenty rows at another position.
    let sql = "PRAGMA cache_size=10; CREATE INDEX IF NOT EXISTS j ON t(n);\n\
        SELECT a.u, b.u, b.k FROM t a CROSS JOIN t b INDEXED BY j WHERE a.u % 97 = 1 AND b.n = (a.u * 7) % 600;";
    let status = same_rows(&path, FOLLOW, sql);
    let reads = counter(&status, "pages_read");
    let wasted = fetched(&status, "fetched_pages") - fetched(&status, "used_pages");
    assert!(wasted * 4 < reads, "{wasted} wasted, {reads} read: {status}");
}

/// An IN list of these values.
fn list(values: impl Iterator<Item = u64>, of: impl Fn(u64) -> String) -> String {
    values.map(of).collect::<Vec<_>>().join(",")
}

#[test]
fn the_rows_of_an_in_list_are_predicted_and_no_others_fetched() {
    if !has_shell("the_rows_of_an_in_list_are_predicted_and_no_others_fetched") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = large(directory.path());
    let is_out = drop_cache(&path);
    let db = rusqlite::Connection::open(&path).expect("opens");
    db.execute_batch(
        "CREATE INDEX j ON t(n); CREATE INDEX nk ON t(n DESC, k);
         CREATE TABLE w(k TEXT PRIMARY KEY, n INT, filler TEXT) WITHOUT ROWID; INSERT INTO w SELECT k,n,filler FROM t",
    )
    .expect("indexes and a table");
    drop(db);
    // Every second value exists. Each value of `n` has 100 rows.
    let key = |row: u64| format!("'{:09}'", row / 2 * 2 * 199 % 60_000 * 7_919_017 % 999_999_937 + row % 2);
    let keys = list(0..1200, key);
    let numbers = list(0..60, |at| (at * 37 % 700).to_string());
    let ids = list(0..900, |at| (at * 1237 % 70_000).to_string());
    for (query, least) in [
        (format!("t WHERE u IN ({ids})"), 700),
        (format!("t WHERE rowid IN ({ids}) ORDER BY u DESC"), 700),
        (format!("w WHERE k IN ({keys})"), 500),
        (format!("t INDEXED BY i WHERE k IN ({keys})"), 700),
        (format!("t INDEXED BY i WHERE k IN ({keys}) ORDER BY k DESC"), 700),
        (format!("t INDEXED BY j WHERE n IN ({numbers})"), 5000),
        (format!("t INDEXED BY nk WHERE n IN ({numbers}) ORDER BY n"), 5000),
    ] {
        let status = same_rows(&path, FOLLOW, &format!("PRAGMA cache_size=10; SELECT * FROM {query};"));
        let (leaves, predicted) = (counter(&status, "leaves_read"), counter(&status, "predicted_reads"));
        let case = format!("{predicted} of {leaves}: {query:.40} {status}");
        assert!(leaves > least, "{case}");
        assert_eq!((counter(&status, "scans"), counter(&status, "failed")), (1, 0), "{case}");
        assert_eq!(counter(&status, "ends_known"), 1, "{case}");
        // Not predicted: the first seeks. In a table WITHOUT ROWID the interior pages hold rows as well.
        let is_own_key = query.starts_with('w');
        assert!(predicted + if is_own_key { leaves / 8 } else { 60 } >= leaves, "{case}");
        let known = fetched(&status, "used_pages") + fetched(&status, "infill_pages");
        let unused = fetched(&status, "fetched_pages").saturating_sub(known);
        assert!(!is_out || unused * if is_own_key { 8 } else { 20 } < leaves, "{unused} wasted, {case}");
    }
}

#[test]
fn the_status_names_a_remedy_for_memory_mapping_and_for_prefetch_off() {
    if !has_shell("the_status_names_a_remedy_for_memory_mapping_and_for_prefetch_off") {
        return;
    }
    let (_directory, path) = table(500);
    let (_, status) = with_extension(&path, "", "PRAGMA mmap_size=1000000;");
    assert_eq!(status["active"], false);
    assert!(status["remedy"].as_str().expect("text").contains("PRAGMA mmap_size=0"), "{status}");
    let (_, status) = with_extension(&path, "", "SELECT foreseek_set('prefetch', 'off');");
    assert!(status["remedy"].as_str().expect("text").contains("foreseek_set"), "{status}");
    let (outcome, _) =
        with_extension(&path, "", "SELECT foreseek_set('memory', '2 MiB'), foreseek_set('prefetch', 'on');");
    assert_eq!(outcome.out, "2 MiB|on\n");
    for (name, value) in [("memory", "much"), ("memory", "1"), ("prefetch", "perhaps"), ("colour", "blue")] {
        let (outcome, _) = with_extension(&path, "", &format!("SELECT foreseek_set('{name}', '{value}');"));
        assert!(outcome.err.contains("foreseek_set") && outcome.err.contains(name), "{}", outcome.err);
    }
}
