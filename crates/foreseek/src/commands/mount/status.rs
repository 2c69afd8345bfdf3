//! How a mount is doing, as tables.

use super::super::report::new_table;
use foreseek_mount::{BenefitStatus, Learnt, MountStatus, PassthroughStatus, ReadStatus, WalkStatus};
use foreseek_readahead::learn::Explained;
use foreseek_units::{Bytes, Pages};

/// Of the depths of a class as many are shown: by then the row is full.
const DEPTHS_SHOWN: usize = 5;

/// All of it, for people.
pub(super) fn table(status: &MountStatus) -> String {
    let mut text = mount_table(status);
    if !status.reads.classes.is_empty() {
        let (shown, known) = (status.reads.classes.len(), status.reads.classes_known);
        let more = if known > shown as u64 {
            format!(", the {shown} most read of {known} classes")
        } else {
            String::new()
        };
        text.push_str(&format!("\n\nLengths of sequential streams, by what is read{more}:\n"));
        text.push_str(&classes_table(&status.reads.classes));
    }
    text
}

fn classes_table(classes: &[Explained]) -> String {
    let mut table = new_table();
    table.set_header(["what is read", "streams", "median", "90th percentile", "next fetches", "gain"]);
    for class in classes {
        let changed = match class.changes {
            0 => String::new(),
            changes => format!(", changed {changes} times"),
        };
        let depths: Vec<String> = class
            .depths_pages
            .iter()
            .take(DEPTHS_SHOWN)
            .map(|depth| Pages(*depth).bytes().to_string())
            .collect();
        let more = if class.depths_pages.len() > DEPTHS_SHOWN { ", ..." } else { "" };
        table.add_row([
            class.class.clone(),
            format!("{}{changed}", class.streams),
            Pages(class.median_pages).bytes().to_string(),
            Pages(class.nine_in_ten_pages).bytes().to_string(),
            format!("{}{more}", depths.join(", ")),
            format!("{:+.0} %", (class.gain - 1.0) * 100.0),
        ]);
    }
    table.to_string()
}

fn device(learnt: Option<Learnt>) -> String {
    let Some(Learnt { positioning_ms, rate_mb_per_s, samples }) = learnt else {
        return "nothing yet".to_owned();
    };
    let from = match samples {
        0 => "as an earlier mount has learnt".to_owned(),
        samples => format!("{samples} reads"),
    };
    format!("positioning takes {positioning_ms:.2} ms, then data come at {rate_mb_per_s:.1} MB/s ({from})")
}

/// What a row is called, and what it says.
type Row = (&'static str, String);

fn mount_table(status: &MountStatus) -> String {
    let mut table = new_table();
    let mut rows = server_rows(status);
    rows.extend(status.walks.as_ref().map(walks_row));
    rows.extend(status.passthrough.as_ref().map(passthrough_row));
    rows.push(calls_row(status));
    rows.extend((status.short_windows > 0).then(|| short_windows_row(status.short_windows)));
    rows.extend(reads_rows(&status.reads));
    rows.extend(benefit_row(&status.reads.benefit));
    rows.extend(memory_rows(&status.reads));
    rows.extend(learnt_rows(status));
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    table.to_string()
}

fn server_rows(status: &MountStatus) -> Vec<Row> {
    let reads = &status.reads;
    let bound =
        reads.rho.map(|rho| format!(", at most {rho} times as costly as knowing where each read ends"));
    vec![
        ("mount", format!("{} shows {}", status.mount_point.display(), status.source.display())),
        ("server", format!("process {}, for {:.0} s", status.pid, status.seconds)),
        ("files", format!("{} open, {} known to the kernel", status.files_open, status.files_known)),
        ("changed by others", format!("{} times", status.external_changes)),
        ("policy", format!("{}{}", reads.policy, bound.unwrap_or_default())),
        ("streams", format!("{} open, {} active of late", reads.streams_open, reads.streams_active)),
    ]
}

fn walks_row(walks: &WalkStatus) -> Row {
    let WalkStatus { metadata_bytes, content_bytes, used_bytes, reads } = *walks;
    let said = format!(
        "{} of contents and {} of inodes and directories read ahead of programs that walk trees, {} of the contents used; {reads} \
         reads answered from memory",
        Bytes(content_bytes),
        Bytes(metadata_bytes),
        Bytes(used_bytes)
    );
    ("walks", said)
}

fn calls_row(status: &MountStatus) -> Row {
    let (calls, opens) = (status.reads.calls, status.long_windows);
    let said = format!(
        "{calls} longer than what the kernel asks for at a time, fetched whole; {opens} opens by programs that make such calls, which it \
         asks for whole"
    );
    ("calls", said)
}

fn short_windows_row(opens: u64) -> Row {
    let said = format!(
        "{opens} opens with a short read-ahead window: many files shared the memory of a control group"
    );
    ("windows", said)
}

fn passthrough_row(passthrough: &PassthroughStatus) -> Row {
    let said = match &passthrough.unavailable {
        Some(why) => format!("off: {why}"),
        None => format!("{} opens of files in memory, which the kernel reads by itself", passthrough.opens),
    };
    ("passthrough", said)
}

fn reads_rows(reads: &ReadStatus) -> Vec<Row> {
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 };
    let hits = format!(
        "{:.1} % of reads found all they asked for, {:.1} % waited for what was under way",
        share(reads.hits, reads.reads),
        share(reads.joined, reads.reads)
    );
    let fetched = format!(
        "{}, {} of it ahead; {:.1} % of that evicted before use; {} cancelled before they were fetched",
        Bytes(reads.fetched_bytes),
        Bytes(reads.prefetched_bytes),
        share(reads.wasted_bytes, reads.prefetched_bytes),
        Bytes(reads.cancelled_bytes)
    );
    let thrashing = format!(
        "{:.1} pages a second fetched again that were evicted before use ({} in all)",
        reads.thrashing_pages_per_s, reads.prefetch_misses
    );
    let checks = match reads.internal_errors {
        0 => "no internal errors".to_owned(),
        times => format!(
            "{times} internal errors; the reads concerned bypassed the prefetcher and are right: please report this"
        ),
    };
    let (count, bytes, failed) = (reads.reads, Bytes(reads.read_bytes), reads.failed);
    vec![
        (
            "reads",
            format!("{count}, {bytes} ({failed} failed), of pages that were not in the kernel's cache"),
        ),
        ("prefetch hits", hits),
        ("fetched", fetched),
        ("thrashing", thrashing),
        ("checks", checks),
        ("read again", format!("{} pages that the kernel's cache had evicted", reads.lru_misses)),
    ]
}

/// Nothing before it was judged.
fn benefit_row(benefit: &BenefitStatus) -> Option<Row> {
    let BenefitStatus { aside, trying, opens_aside, sample_bytes, sample_used_bytes, .. } = *benefit;
    if sample_bytes == 0 {
        return None;
    }
    let judged = format!(
        "of the last {} fetched ahead {} were read, which saved {:.1} s of waiting; the rest took {:.1} s of the device",
        Bytes(sample_bytes),
        Bytes(sample_used_bytes),
        benefit.sample_saved_ms / 1000.0,
        benefit.sample_spent_ms / 1000.0
    );
    let said = match (aside, trying) {
        (true, _) => format!("off for files that are opened now, since it does not pay: {judged}"),
        (_, true) => format!("tried again, since it did not pay: {judged}"),
        _ => format!("pays: {judged}"),
    };
    let opens = if opens_aside > 0 { format!(" ({opens_aside} opens without it)") } else { String::new() };
    Some(("prefetching", format!("{said}{opens}")))
}

fn memory_rows(reads: &ReadStatus) -> Vec<Row> {
    let depth = format!(
        "{} by the cost of this device; memory allows {} ahead of each stream",
        Bytes(reads.prefetch_size_bytes),
        Bytes(reads.bound_bytes)
    );
    let cache = format!(
        "{}; at most {}; memory in use {}",
        Bytes(reads.cached_bytes),
        Bytes(reads.ceiling_bytes),
        Bytes(reads.memory_bytes)
    );
    vec![("prefetch size", depth), ("prefetch cache", cache)]
}

fn learnt_rows(status: &MountStatus) -> Vec<Row> {
    let mut rows = vec![("learnt of the device", device(status.reads.learnt))];
    let problem = status.kept.as_ref().and_then(|kept| kept.problem.as_ref());
    if let Some(kept) = &status.kept {
        let began = match kept.loaded_classes {
            0 => "began with nothing learnt".to_owned(),
            classes => format!("began with {classes} classes learnt before"),
        };
        let saved = match kept.saved_seconds_ago {
            Some(seconds) => format!("saved {seconds:.0} s ago"),
            None => "nothing saved yet".to_owned(),
        };
        rows.push(("learnt of streams", format!("{began}; {saved}, in {}", kept.path.display())));
    }
    rows.extend(status.reads.warnings.iter().chain(problem).map(|warning| ("warning", warning.clone())));
    rows
}
