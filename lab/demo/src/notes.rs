//! What a reader of the figures should know.

/// Of a comparison on an emulated disk whose delays are scaled so.
#[must_use]
pub fn measured(time_scale: f64) -> Vec<String> {
    let disk = if time_scale == 1.0 {
        "The disk is emulated: a block device whose requests take as long as those of the modelled disk."
            .to_owned()
    } else {
        format!(
            "The disk is emulated: a block device whose requests take {:.0} % of the modelled disk's time. Without that \
             scale, the waits for the disk would be {} times as long, and the processor's part would be the same.",
            time_scale * 100.0,
            (10.0 / time_scale).round() / 10.0
        )
    };
    let rest = [
        "Memory is the limit of a control group. It covers the query's process and all that it reads into the page \
         cache. Each query starts cold: the file system has just been mounted.",
        "Stock is the unmodified sqlite3 shell. With Foreseek the same shell loads an extension (.load) and runs the \
         same statement. Both results are compared by their BLAKE3 digest.",
        "The plots show where on the disk each request began. Both have the same addresses; the shaded time of the \
         upper plot is all of the lower one.",
        "The best schedule is modelled. It knows the future and fills all of the memory in each round. A round is one \
         pass in disk order, gaps are read where that is faster, and the processor takes no time. In its pipelined \
         mode, Foreseek needs no rounds and can take less.",
        "The table is customer of TPC-C. Its c_zip has nine random digits (TPC-C has 10,000 distinct values), and its \
         c_data is 90 characters longer, so that a row has about 650 bytes.",
    ];
    std::iter::once(disk).chain(rest.map(str::to_owned)).collect()
}

/// Of a comparison in virtual time.
#[must_use]
pub fn simulated() -> Vec<String> {
    [
        "Simulated: no disk, no kernel and no SQLite took part. The planner, the prefetching engine, its driver and the \
         model of the disk are those of a real run. The page cache and SQLite's own cache are models.",
        "Virtual time needs no scaling: --time-scale has no effect, and seconds are those of the unscaled disk.",
        "No rows are produced: the digest is that of the sequence of pages read, and the file lies in one piece.",
    ]
    .map(str::to_owned)
    .to_vec()
}
