//! The tree against a descent of it, address by address, as diskmodel does it.

use super::super::block::{Reader, parse};
use super::*;
use foreseek_device::geometry::{Geometry, LayoutShape, Rules, SwitchTimes, TrackAddress};
use foreseek_units::{Lba, Nanos, Sectors};
use proptest::prelude::*;

const ROTATION_PERIOD: u64 = 6_000_000;

fn shape(text: &str) -> Result<(TracksShape, Vec<String>), ExtractedError> {
    let blocks = parse("t.model", text)?;
    let mut notes = Vec::new();
    let shape = super::read(Reader { file: "t.model", block: &blocks[0] }, None, &mut notes)?;
    Ok((shape, notes))
}

/// Half a millisecond to any other cylinder, a tenth to another head.
fn moves(from: TrackAddress, to: TrackAddress) -> Nanos {
    match from {
        _ if from == to => Nanos::ZERO,
        _ if from.cylinder == to.cylinder => Nanos(100_000),
        _ => Nanos(500_000),
    }
}

fn geometry(shape: TracksShape) -> Geometry {
    let switch = SwitchTimes::new(Nanos(100_000), Nanos(500_000));
    Geometry::of(&Rules::plain(8, Nanos(ROTATION_PERIOD), switch), &LayoutShape::Tracks(shape), &moves)
}

/// The outermost tracks of a published description (Maxtor, 300 GB, 10,000 rpm), three times.
const PUBLISHED: &str = "dm_layout_g4 {
TP = [ 0, 1087, 1088, 0, 1169, 1170, 0, 1113, 1114, 0, 1039, 1040, 0, 1143, 1144 ],
IDX = [
  [ 0, 31, 0.0, 1170, 1, 0.240191, 37440, -32, TRACK, 1, 0,
    37440, 0, 0.690240, 1114, 1, 0.240364, 35648, 32, TRACK, 2, 1,
    73088, 31, 0.383317, 1170, 1, 0.240311, 37440, -32, TRACK, 1, 2,
    110528, 0, 0.076672, 1114, 1, 0.240243, 35648, 32, TRACK, 2, 3,
    146176, 31, 0.767986, 1170, 1, 0.240367, 37440, -32, TRACK, 1, 4,
    183616, 0, 0.461316, 1170, 1, 0.240388, 37440, 32, TRACK, 1, 5,
    221056, 31, 0.151687, 1040, 1, 0.240580, 33280, -32, TRACK, 3, 6,
    254336, 0, 0.846304, 1144, 1, 0.240441, 36608, 32, TRACK, 4, 7,
    290944, 63, 0.539032, 1144, 1, 0.240632, 36608, -32, TRACK, 4, 7,
    327552, 32, 0.231106, 1040, 1, 0.240474, 33280, 32, TRACK, 3, 6,
    360832, 63, 0.921567, 1170, 1, 0.240576, 37440, -32, TRACK, 1, 5,
    398272, 32, 0.614833, 1170, 1, 0.240396, 37440, 32, TRACK, 1, 4,
    435712, 63, 0.307414, 1114, 1, 0.240368, 35648, -32, TRACK, 2, 3,
    471360, 32, 0.998892, 1170, 1, 0.240402, 37440, 32, TRACK, 1, 2,
    508800, 63, 0.690908, 1114, 1, 0.240424, 35648, -32, TRACK, 2, 1,
    544448, 32, 0.382646, 1170, 1, 0.240300, 37440, 32, TRACK, 1, 0 ],
  [ 0, 0, 0.0, 581888, 64, 0.074, 1745664, 192, IDX, 0 ] ],
Slips = [ 1000, 2, 40000, 1 ],
Remaps = [ 5, 1, 63, 7, 3, 1144 ]
}";

#[test]
fn positions_of_a_published_description() {
    let (shape, notes) = shape(PUBLISHED).expect("a layout");
    assert_eq!((shape.patterns.len(), shape.sections.len(), notes.len()), (1, 1, 0));
    let geometry = geometry(shape);
    assert_eq!((geometry.sectors(), geometry.cylinders()), (Sectors(1_745_664 - 3), 192));
    let at = |lba: u64| {
        let (place, passes) = geometry.locate(Lba(lba));
        (place.cylinder, place.head, (passes.get() % ROTATION_PERIOD) as f64 / ROTATION_PERIOD as f64)
    };
    for (lba, cylinder, head, angle) in [
        (0, 31, 0, 0.0),
        // Half a track later; then after the two slips.
        (585, 31, 0, 0.5),
        (1168 - 2, 31, 0, 1168.0 / 1170.0),
        (1170 - 2, 30, 0, 0.240191),
        (37_439 - 2, 0, 0, (31.0 * 0.240191 + 1169.0 / 1170.0) % 1.0),
        (37_440 - 2, 0, 1, 0.690240),
        (40_000 - 2, 2, 1, (0.690240 + 2.0 * 0.240364 + 333.0 / 1114.0) % 1.0),
        (290_944 - 3, 63, 7, 0.539032),
        (581_888 - 3, 95, 0, 0.074),
        (2 * 581_888 + 544_448 - 3, 160, 0, 0.382646 + 2.0 * 0.074),
        // Remapped to the fourth sector of the ninth run's first track.
        (5, 63, 7, 0.539032 + 3.0 / 1144.0),
    ] {
        let found = at(lba);
        assert_eq!((found.0, found.1), (cylinder, head), "sector {lba}");
        assert!((found.2 - angle).abs() < 1e-6, "sector {lba}: {} instead of {angle}", found.2);
    }
    // The skew of a quarter of a revolution hides the half millisecond from track to track.
    let rate = geometry.rate_at(Lba(0)).as_mb_per_second();
    let media = 581_888.0 / 512.0 * 512.0 / (1.243 * 6e-3 * 1e6);
    assert!((rate / media - 1.0).abs() < 0.02, "{rate} of {media}");
}

/// An entry of the tests' trees.
fn entry(first: u64, e: (i64, f64, u64, i64, f64, u64), of: &str) -> String {
    let (cylinder, angle, each, step, angle_step, sectors) = e;
    let all = step * sectors.div_ceil(each) as i64;
    format!("{first}, {cylinder}, {angle}, {each}, {}, {angle_step}, {sectors}, {all}, {of}", step.abs())
}

/// One address: cylinder, head and angle, by the rules of the index tree.
fn walk(kinds: &[Kind], nodes: &[Vec<NodeEntry>], node: usize, lba: u64) -> (i64, u32, f64) {
    let entry = nodes[node]
        .iter()
        .find(|entry| (entry.first..entry.first + entry.sectors).contains(&lba))
        .expect("an entry for each address");
    let (time, rest) = ((lba - entry.first) / entry.each, (lba - entry.first) % entry.each);
    let cylinder = entry.cylinder + entry.cylinder_step * time as i64;
    let angle = entry.angle + entry.angle_step * time as f64;
    match entry.of {
        Content::Tracks { kind, head } => {
            (cylinder, head, angle + rest as f64 / kinds[kind].per_track as f64)
        }
        Content::Node(child) => {
            let (within, head, turned) = walk(kinds, nodes, child, rest);
            (cylinder + within, head, angle + turned)
        }
    }
}

/// A node of tracks: runs on surfaces, up and down, some cut short.
fn leaf() -> impl Strategy<Value = (u64, Vec<String>)> {
    let run = (0..3usize, 1..5u64, any::<bool>(), 0.0..1.0f64, 0.0..1.0f64, 0..7u64, 0..8u32);
    prop::collection::vec(run, 1..4).prop_map(|runs| {
        let mut first = 0;
        let mut entries = Vec::new();
        for (kind, tracks, down, angle, step, cut, head) in runs {
            let each = [12, 10, 7][kind];
            let sectors = each * tracks - cut.min(each - 1);
            let (cylinder, by) = if down { (tracks as i64 - 1, -1) } else { (0, 1) };
            let of = format!("TRACK, {kind}, {head}");
            entries.push(entry(first, (cylinder, angle, each, by, step, sectors), &of));
            first += sectors;
        }
        (first, entries)
    })
}

/// A tree of three levels: two nodes of tracks, one that repeats both and a track, the root.
fn tree() -> impl Strategy<Value = String> {
    let slips = prop::collection::btree_map(0..200u64, 1..3u64, 0..5);
    (leaf(), leaf(), 1..4u64, 1..3u64, 0.0..1.0f64, any::<bool>(), slips).prop_map(
        |(one, two, times, more, angle, cut, slips)| {
            let inner = [
                entry(0, (0, angle, one.0, 5, 0.3, one.0 * times), "IDX, 0"),
                entry(one.0 * times, (40, 0.1, two.0, -7, 0.2, two.0 * more), "IDX, 1"),
                entry(one.0 * times + two.0 * more, (60, 0.7, 10, 1, 0.4, 25), "TRACK, 1, 2"),
            ];
            let holds = one.0 * times + two.0 * more + 25;
            let each = if cut { holds - 20 } else { holds };
            let root = [entry(0, (0, 0.0, each, 80, 0.6, each * 3 - 4), "IDX, 2")];
            let list = |entries: &[String]| format!("[ {} ]", entries.join(",\n"));
            let nodes = [list(&one.1), list(&two.1), list(&inner), list(&root)].join(",\n");
            let mut end = 0;
            let mut pairs = Vec::new();
            for (first, count) in slips.into_iter().filter(|(first, _)| *first < each) {
                if first >= end {
                    pairs.push(format!("{first}, {count}"));
                    end = first + count;
                }
            }
            format!(
                "dm_layout_g4 {{ TP = [ 0, 11, 12, 0, 9, 11, 2, 8, 20 ],\nIDX = [ {nodes} ],\nSlips = [ {} ], Remaps = [] }}",
                pairs.join(", ")
            )
        },
    )
}

proptest! {
    #[test]
    fn every_address_lies_where_a_walk_down_the_tree_finds_it(text in tree()) {
        let blocks = parse("t", &text).expect("well-formed");
        let reader = Reader { file: "t", block: &blocks[0] };
        let kinds = read_kinds(reader).expect("kinds");
        let list = reader.list_if("IDX", 9).expect("a list");
        let nodes: Vec<_> =
            list.iter().map(|node| read_node(reader, node, &kinds, list.len()).expect("a node")).collect();
        let slips = read_slips(reader).expect("slips");
        let (shape, _) = shape(&text).expect("a layout");
        let geometry = geometry(shape);
        let slipped = |place: u64| slips.iter().any(|(first, count)| (*first..first + count).contains(&place));
        let root = nodes.last().and_then(|root| root.last()).map_or(0, |last| last.first + last.sectors);
        let places: Vec<u64> = (0..root).filter(|place| !slipped(*place)).collect();
        prop_assert_eq!(geometry.sectors(), Sectors(places.len() as u64));
        let mut before = None::<(TrackAddress, Nanos)>;
        for (lba, place) in (0..).map(Lba).zip(&places) {
            let (cylinder, head, angle) = walk(&kinds, &nodes, nodes.len() - 1, *place);
            let (found, passes) = geometry.locate(lba);
            prop_assert_eq!((i64::from(found.cylinder), found.head), (cylinder, head), "place {}", place);
            let turned = (passes.get() % ROTATION_PERIOD) as f64 / ROTATION_PERIOD as f64 - angle;
            prop_assert!((turned - turned.round()).abs() < 2e-6, "place {}: off by {} turns", place, turned);
            // Back and forth, and never earlier than the movement allows.
            let passed = geometry.passed_at(lba + Sectors(1));
            prop_assert_eq!(geometry.reached_at(passes), lba);
            prop_assert_eq!(geometry.reached_at(passed - Nanos(1)), lba);
            prop_assert_eq!(geometry.reached_at(passed), lba + Sectors(1));
            if let Some((from, ended)) = before {
                prop_assert!(passes >= ended + moves(from, found), "place {}", place);
            }
            before = Some((found, passed));
            let end = geometry.track_end(lba);
            prop_assert!(end > lba && geometry.track_address(end - Sectors(1)) == found, "place {}", place);
        }
    }
}

#[test]
fn complaints_name_the_line() {
    let with = |from: &str, to: &str| {
        assert!(PUBLISHED.contains(from), "{from}");
        shape(&PUBLISHED.replace(from, to)).expect_err(to).to_string()
    };
    for (from, to, what) in [
        ("0, 1087, 1088,", "0, 1087,", "line 2: TP: must hold threes"),
        ("0, 1087, 1088", "0, 1088, 1088", "line 2: TP: [0, 1088, 1088] is not a kind of track"),
        (
            "TRACK, 3, 6,\n    254336",
            "TRACK, 9, 6,\n    254336",
            "line 10: IDX: names kind of track 9, TP has 5",
        ),
        (
            "TRACK, 3, 6,\n    254336",
            "PLATTER, 9, 6,\n    254336",
            "line 10: IDX: has 'PLATTER' instead of TRACK or IDX",
        ),
        (
            "    110528, 0, 0.076672",
            "    110529, 0, 0.076672",
            "line 7: IDX: this entry begins at 110529, the one before it ends at 110528",
        ),
        ("1745664, 192, IDX, 0", "1745664, 192, IDX, 2", "line 20: IDX: names node 2, IDX has 2"),
        ("1745664, 192, IDX, 0", "1745664, 192, IDX, 1", "line 20: IDX: the tree is deeper than 16"),
        (
            "581888, 64, 0.074",
            "581889, 64, 0.074",
            "line 20: IDX: needs 581889 addresses of node 0, which has 581888",
        ),
        (
            "1745664, 192, IDX, 0",
            "1745664, 192, IDX",
            "line 20: IDX: the node ends where the node of an entry was expected",
        ),
        ("0.0, 1170, 1,", "x, 1170, 1,", "line 4: IDX, the angle: is 'x', must be a number"),
        (
            "0.0, 1170, 1,",
            "0.0, 1171, 1,",
            "line 4: IDX: has 1171 addresses a track, its kind of track holds 1170",
        ),
        ("40000, 1 ]", "40000, -1 ]", "line 21: Slips: a negative count"),
        ("40000, 1 ]", "900, 1 ]", "line 21: Slips: 900 must lie behind"),
        ("1144 ]\n}", "]\n}", "line 22: Remaps: must hold sixes"),
    ] {
        let error = with(from, to);
        assert!(error.starts_with(&format!("t.model: {what}")), "{error}\ninstead of {what}");
    }
    let (shape, notes) = shape(&PUBLISHED.replace("63, 7, 3, 1144", "63, 7, 3000, 1144")).expect("a layout");
    assert!(shape.remaps.is_empty() && notes[0].contains("left in their places"), "{notes:?}");
}
