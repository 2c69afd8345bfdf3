//! What the demo shows at its end: a table, a plot of each run, a page that holds them, and JSON.

pub mod blocks;
mod figures;
mod html;
mod json;
mod table;

use crate::outcome::Outcome;
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Makes the folder of a report if it is missing, and checks that it can be written to: before minutes are
/// spent on a result that could not be stored.
///
/// # Errors
/// Where it cannot be made or written.
pub fn prepare(folder: &Path) -> Result<()> {
    if folder.is_file() {
        let error = std::io::Error::new(std::io::ErrorKind::NotADirectory, "it is a file; give a folder");
        return Err(Error::io("cannot write the report to", folder.display(), error));
    }
    fs::create_dir_all(folder)
        .and_then(|()| tempfile::tempfile_in(folder).map(drop))
        .map_err(|error| Error::io("cannot write the report to", folder.display(), error))
}

/// Writes the page, the plots and the JSON into a folder, which is made where it is missing.
/// Returns the page's path.
///
/// # Errors
/// Where the folder cannot be made or a file not be written.
pub fn write(outcome: &Outcome, folder: &Path) -> Result<PathBuf> {
    let cannot = |path: &Path, error| Error::io("cannot write", path.display(), error);
    fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| cannot(&path, error))?;
        Ok(path)
    };
    for run in &outcome.runs {
        put(&format!("blocks-{}.svg", run.name), run.to_svg(outcome))?;
    }
    put("demo.json", format!("{:#}\n", outcome.to_json()))?;
    put("index.html", outcome.to_html())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{DiskUse, Measured, QueryRun};
    use crate::report::blocks::Mark;
    use foreseek_simulate::limit::Limit;
    use foreseek_units::{Bytes, Lba, Nanos, Pages};

    fn measured(seconds: u64) -> Measured {
        let disk = DiskUse {
            requests: 84_000,
            seeks: 83_000,
            mean_seek_distance: Bytes::mib(35),
            read: Bytes::mib(330),
            busy: Nanos::from_secs(seconds),
        };
        Measured {
            time: Nanos::from_secs(seconds),
            rows: 146_449,
            result: Bytes::mib(95),
            fingerprint: "0123456789abcdef0123".to_owned(),
            disk,
            memory_peak: Bytes::mib(50),
            processor: Nanos::from_secs(1),
            path_share: 0.02,
            prefetcher: [("rounds".to_owned(), 11)].into(),
            marks: (0..5000)
                .map(|i| Mark {
                    at: Nanos::from_secs(seconds) * i / 5000,
                    lba: Lba((1 << 21) + i * 6029 % 5000 * 40),
                })
                .collect(),
        }
    }

    fn limit(seconds: u64, passes: usize) -> Limit {
        Limit {
            time: Nanos::from_secs(seconds),
            passes,
            read: Pages(67_000),
            requests: 46_000,
            gap: Bytes::ZERO,
        }
    }

    /// An outcome with round figures: 120 s and 5 s at a time scale of a quarter, a limit of 16 s.
    fn outcome() -> Outcome {
        let run = |name, title: &str, memory| QueryRun {
            name,
            title: title.to_owned(),
            memory,
            stock: measured(120),
            foreseek: measured(5),
            limit: limit(16, 9),
            at_buffer: Some((Bytes::mib(40), limit(20, 11))),
        };
        Outcome {
            simulated: false,
            why_simulated: None,
            database: Bytes::mib(100),
            rows: 146_449,
            seed: 1,
            profile: "barracuda-500g".to_owned(),
            disk: Bytes::gib(8),
            time_scale: 0.25,
            runs: vec![
                run("main", "data twice as large as memory", Bytes::mib(50)),
                run("fits", "data that fits into memory", Bytes::mib(200)),
            ],
            elapsed: Nanos::from_secs(250),
            versions: vec![("sqlite3".to_owned(), "3.40.1 <stock>".to_owned())],
            notes: vec!["Time is scaled & so on.".to_owned()],
        }
    }

    #[test]
    fn json_has_the_main_run_at_the_top_and_all_runs_below() {
        let json = outcome().to_json();
        assert_eq!(json["database_bytes"], 100u64 << 20);
        assert_eq!(json["memory_bytes"], 50u64 << 20);
        assert_eq!(
            (json["stock_seconds"].as_f64(), json["foreseek_seconds"].as_f64()),
            (Some(120.0), Some(5.0))
        );
        assert_eq!(json["speed_up"], 24.0);
        assert_eq!(
            (json["limit_ratio"].as_f64(), json["limit_ratio_at_buffer"].as_f64()),
            (Some(1.25), Some(1.0))
        );
        assert_eq!(json["simulated"], false);
        assert_eq!(json["identical"], true);
        assert_eq!(json["runs"].as_array().map(Vec::len), Some(2));
        assert_eq!(json["runs"][1]["name"], "fits");
        assert_eq!(json["runs"][0]["foreseek"]["seeks"], 83_000);
        assert_eq!(json["runs"][0]["foreseek"]["prefetcher"]["rounds"], 11);
    }

    #[test]
    fn the_table_shows_what_was_asked_for() {
        let table = outcome().to_table();
        for text in
            ["24.0x", "120.0", "5.00", "83,000", "35 MiB", "1.25", "146,449 rows", "delays scaled to 25 %"]
        {
            assert!(table.contains(text), "{text} in\n{table}");
        }
        assert!(!table.contains("SIMULATED"));
        let why = Some("this is missing: root".to_owned());
        let simulated = Outcome { simulated: true, why_simulated: why, ..outcome() }.to_table();
        assert!(simulated.starts_with("SIMULATED (this is missing: root)"), "{simulated}");
    }

    #[test]
    fn a_report_that_cannot_be_written_is_refused_beforehand() {
        let folder = tempfile::tempdir().expect("a folder");
        prepare(&folder.path().join("new/one")).expect("it is made");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        let error = prepare(&file).expect_err("a file is no folder").to_string();
        assert!(error.contains(file.to_str().expect("plain")), "{error}");
    }

    #[test]
    fn the_page_stands_by_itself() {
        let page = outcome().to_html();
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        for reference in ["http", "url(", "href=", "src=", "<script", "@import"] {
            assert!(!outside.contains(reference), "{reference}");
        }
        assert!(page.contains("3.40.1 &lt;stock&gt;") && page.contains("scaled &amp; so on"));
        // Each of the two runs has a chart for wide screens, and one for phones and print.
        for (class, width) in [("wide", "640"), ("narrow", "360")] {
            let figure = format!(
                "<div class=\"{class}\"><svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} "
            );
            assert_eq!(page.matches(&figure).count(), 2, "{class}");
        }
        assert_eq!(page.matches("<svg").count(), 4);
    }

    #[test]
    fn a_simulated_outcome_says_so_everywhere() {
        let outcome =
            Outcome { simulated: true, why_simulated: Some("/dev/fuse is missing".to_owned()), ..outcome() };
        assert!(outcome.to_html().contains("/dev/fuse is missing"));
        assert!(outcome.runs[0].to_svg(&outcome).contains("SIMULATED"));
        assert_eq!(outcome.to_json()["simulated"], true);
    }

    #[test]
    fn differing_results_are_not_called_identical() {
        let mut outcome = outcome();
        outcome.runs[1].foreseek.rows += 1;
        assert_eq!(outcome.to_json()["identical"], false);
        assert!(outcome.to_html().contains("THE RESULTS DIFFER"));
    }

    #[test]
    fn files_are_written_where_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = write(&outcome(), &folder.path().join("a/b")).expect("it is written");
        for name in ["index.html", "demo.json", "blocks-main.svg", "blocks-fits.svg"] {
            assert!(page.with_file_name(name).exists(), "{name}");
        }
        let error = write(&outcome(), Path::new("/proc/nowhere")).expect_err("it can't be");
        assert!(error.to_string().contains("/proc/nowhere"), "{error}");
        if let Some(copy) = std::env::var_os("DEMO_SAMPLE") {
            write(&outcome(), Path::new(&copy)).expect("it is written");
        }
    }
}
