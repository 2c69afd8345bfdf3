//! Traces as programs of an experiment: all of a folder that can be replayed through the page cache.

use super::Source;
use anyhow::Context;
use foreseek_reproduce::Trace;
use foreseek_simulate::experiment::Made;
use foreseek_simulate::trace::replay::Accesses;
use foreseek_simulate::trace::{Record, Summary};
use indicatif::ProgressBar;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requests of a trace that are taken: minutes of replay, hours of most traces.
const REQUESTS: u64 = 200_000;
/// Files of a folder that are looked at.
const FILES_LIMIT: usize = 64;

/// The traces of a folder and of those in it, by name; files that are no traces are reported on standard error.
pub(in super::super) fn programs(folder: &Path) -> anyhow::Result<Vec<Trace>> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, &mut files)?;
        }
    }
    files.sort();
    files.truncate(FILES_LIMIT);
    let mut traces = Vec::new();
    for file in files {
        match program(&file) {
            Ok(trace) => traces.push(trace),
            Err(error) => {
                crate::commands::complain(&error.context(format!("{} is left out", file.display())))
            }
        }
    }
    Ok(traces)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // What lies beside traces of drives describes the drives.
        if path.is_file() && ![".model", ".seek", ".diskspecs", ".md"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    Ok(())
}

fn program(file: &Path) -> anyhow::Result<Trace> {
    let source = Source { file: file.to_owned(), kind: None, limit: Some(REQUESTS) };
    let summary = source.summary(true)?;
    let mut reader = source.open(&ProgressBar::hidden())?;
    let mut records: Vec<Record> = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    let made = move || accesses(&records, &summary);
    made()?;
    let workload = Arc::new(move || match made() {
        Ok(accesses) => Box::new(accesses) as Box<dyn foreseek_simulate::program::Workload>,
        Err(error) => unreachable!("the same records made programs before: {error}"),
    });
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    Ok(Trace { name, made: Made { workload, extents: None } })
}

fn accesses(records: &[Record], summary: &Summary) -> anyhow::Result<Accesses> {
    Ok(Accesses::new(records.iter().map(|record| Ok(*record)), summary)?)
}
