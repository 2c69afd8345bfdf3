//! Noop, C-SCAN, C-LOOK and the deadline schedulers: a test for each rule.

use crate::stage::Stage;

#[test]
fn noop_keeps_the_order_of_arrival() {
    let mut stage = Stage::new("noop");
    for start in [500, 100, 900, 300] {
        stage.read(0, start, 1);
    }
    assert_eq!(stage.order(0), [500, 100, 900, 300]);
}

#[test]
fn c_scan_and_c_look_ascend_and_return_to_the_lowest() {
    for name in ["c-scan", "c-look"] {
        let mut stage = Stage::new(name);
        for start in [500, 100, 900, 300] {
            stage.read(0, start, 1);
        }
        assert_eq!(stage.dispatch(0), Some(100));
        // Behind the head: it waits for the next sweep. Ahead of it: it is served in this one.
        stage.read(0, 50, 1);
        stage.read(0, 600, 1);
        // Where the head is: served at once.
        stage.read(0, 108, 1);
        assert_eq!(stage.order(0), [108, 300, 500, 600, 900, 50]);
    }
}

#[test]
fn requests_of_one_sector_are_all_served_the_first_first() {
    let mut stage = Stage::new("c-scan");
    let first = stage.read(0, 100, 1);
    let second = stage.read(0, 100, 2);
    let ids: Vec<_> =
        [0, 1].map(|_| stage.scheduler.dispatch(crate::rig::at(0)).expect("two wait").id).to_vec();
    assert_eq!(ids, [first, second]);
}

#[test]
fn deadline_serves_reads_before_writes_but_passes_writes_over_only_twice() {
    // Then Linux 2.6 begins again at the lowest, today's with the oldest.
    for (name, last) in [("deadline", 300), ("mq-deadline", 500)] {
        let mut stage = Stage::new(name);
        stage.write(0, 5000, 9);
        // Descending: nothing lies ahead, so that each begins a batch.
        let mut order = Vec::new();
        for start in [900, 700, 500, 300] {
            stage.read(0, start, 1);
            let given = stage.dispatch(0).expect("one waits");
            stage.over(0, given);
            order.push(given);
        }
        assert_eq!(order, [900, 700, 5000, last], "{name}");
    }
}

#[test]
fn deadline_goes_on_in_order_up_to_sixteen_without_a_gap() {
    let mut stage = Stage::new("deadline");
    stage.read(0, 90_000, 1);
    for n in 0..20 {
        stage.read(0, 1000 + n * 8, 1);
    }
    let run: Vec<u64> = (0..20).map(|n| 1000 + n * 8).collect();
    // The oldest has waited too long, but is checked only when a run has had its sixteen.
    for (n, start) in run.iter().enumerate().take(16) {
        stage.serves(if n == 0 { 0 } else { 600 }, *start, 600);
    }
    assert_eq!(stage.dispatch(600), Some(90_000));
}

#[test]
fn deadline_looks_at_the_oldest_after_each_gap_and_then_continues_from_there() {
    let mut stage = Stage::new("deadline");
    stage.read(0, 5000, 1);
    stage.read(1, 100, 1);
    stage.read(1, 300, 1);
    stage.read(1, 6000, 1);
    stage.serves(499, 100, 500);
    // At half a second it has not waited too long; after it, it has.
    stage.serves(500, 300, 500);
    stage.read(500, 400, 1);
    stage.read(500, 500, 1);
    assert_eq!(stage.order(501), [5000, 6000, 400, 500]);
}

#[test]
fn deadline_does_not_see_what_comes_nearer_after_it_has_noted_what_is_next() {
    let mut stage = Stage::new("deadline");
    stage.read(0, 100, 1);
    stage.read(0, 900, 1);
    stage.serves(0, 100, 0);
    stage.read(0, 500, 1);
    assert_eq!(stage.order(0), [900, 500]);
    let mut stage = Stage::new("mq-deadline");
    stage.read(0, 100, 1);
    stage.read(0, 900, 1);
    stage.serves(0, 100, 0);
    stage.read(0, 500, 1);
    assert_eq!(stage.order(0), [500, 900]);
}

#[test]
fn a_write_has_waited_too_long_after_five_seconds() {
    let mut stage = Stage::new("deadline");
    stage.write(0, 5000, 1);
    stage.write(1, 100, 1);
    stage.write(1, 300, 1);
    stage.write(1, 6000, 1);
    stage.serves(5000, 100, 5000);
    stage.serves(5000, 300, 5000);
    stage.write(5000, 400, 1);
    assert_eq!(stage.order(5001), [5000, 6000, 400]);
}

#[test]
fn mq_deadline_makes_batches_of_sixteen_with_gaps() {
    let mut stage = Stage::new("mq-deadline");
    stage.read(0, 90_000, 1);
    for n in 0..20 {
        stage.read(1, 1000 + n * 100, 1);
    }
    // Nothing lies ahead of an unknown head: the oldest is first; from there nothing lies ahead.
    stage.serves(0, 90_000, 0);
    stage.read(2, 95_000, 1);
    stage.read(0, 1, 1);
    assert_eq!(stage.dispatch(2), Some(95_000));
    let mut expected: Vec<u64> = (0..20).map(|n| 1000 + n * 100).collect();
    expected.push(1);
    assert_eq!(stage.order(3), expected);
}

#[test]
fn mq_deadline_looks_at_the_oldest_when_a_batch_is_full() {
    let mut stage = Stage::new("mq-deadline");
    stage.read(0, 100, 1);
    stage.serves(0, 100, 0);
    stage.read(0, 50, 1);
    for n in 1..=20 {
        stage.read(1, 100 + n * 100, 1);
    }
    let order = stage.order(600);
    assert_eq!(order[..16], (1..=15).map(|n| 100 + n * 100).chain([50]).collect::<Vec<_>>());
}

#[test]
fn mq_deadline_remembers_where_each_direction_was() {
    let mut stage = Stage::new("mq-deadline");
    stage.read(0, 500, 1);
    stage.serves(0, 500, 0);
    stage.write(0, 9000, 1);
    stage.serves(0, 9000, 0);
    stage.read(1, 100, 1);
    stage.read(2, 600, 1);
    assert_eq!(stage.order(2), [600, 100]);
    // Linux 2.6 goes back to the lowest when the other direction was served.
    let mut stage = Stage::new("deadline");
    stage.read(0, 500, 1);
    stage.serves(0, 500, 0);
    stage.write(0, 9000, 1);
    stage.serves(0, 9000, 0);
    stage.read(1, 100, 1);
    stage.read(2, 600, 1);
    assert_eq!(stage.order(2), [100, 600]);
}
