//! The order in which files and pieces of files are read.
//!
//! One device follows the other. On a device with known addresses the order is ascending: a C-LOOK pass that
//! begins at `head`, since going back and forth gains nothing (ATC'09 section 3.5). On others it is by inode
//! number, which on most file systems is nearly the order of creation. Files without an address follow, by
//! inode number.

/// A sortable position on a device: known sectors first, then inode numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskPosition {
    /// The first sector.
    Sector(u64),
    /// The address is unknown; the inode's number replaces it.
    Inode(u64),
}

/// Something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stop {
    /// The device: one is finished before the next.
    pub device: u16,
    /// Its position there.
    pub position: DiskPosition,
    /// An identifier; equal positions are sorted by it.
    pub what: u32,
}

/// Sorts stops into the order of one pass over each device. On the device `head.0` the pass begins at the
/// sector `head.1` and continues from the lowest when it has reached the highest.
pub fn c_look(stops: &mut [Stop], head: Option<(u16, u64)>) {
    stops.sort_unstable();
    let Some((device, sector)) = head else { return };
    let begin = stops.partition_point(|stop| stop.device < device);
    let end = stops.partition_point(|stop| {
        stop.device < device || (stop.device == device && matches!(stop.position, DiskPosition::Sector(_)))
    });
    let placed = &mut stops[begin..end];
    let above = placed.partition_point(|stop| stop.position < DiskPosition::Sector(sector));
    placed.rotate_left(above);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stop() -> impl Strategy<Value = Stop> {
        let position =
            prop_oneof![(0..50u64).prop_map(DiskPosition::Sector), (0..50u64).prop_map(DiskPosition::Inode)];
        (0..3u16, position, 0..100u32).prop_map(|(device, position, what)| Stop { device, position, what })
    }

    proptest! {
        #[test]
        fn every_device_is_passed_once_and_upwards(
            stops in prop::collection::vec(stop(), 0..60), device in 0..3u16, sector in 0..60u64,
        ) {
            let mut sorted = stops.clone();
            c_look(&mut sorted, Some((device, sector)));
            // Nothing is lost.
            let (mut a, mut b) = (stops.clone(), sorted.clone());
            a.sort_unstable();
            b.sort_unstable();
            prop_assert_eq!(a, b);
            // One device after the other; at most one step down, on the head's device, from above
            // the head to below it.
            prop_assert!(sorted.windows(2).all(|two| two[0].device <= two[1].device));
            let down: Vec<_> = sorted
                .windows(2)
                .filter(|two| two[0].device == two[1].device && two[1].position < two[0].position)
                .collect();
            prop_assert!(down.len() <= 1);
            for two in down {
                prop_assert_eq!(two[0].device, device);
                prop_assert!(two[0].position >= DiskPosition::Sector(sector) && two[1].position < DiskPosition::Sector(sector));
            }
        }

        #[test]
        fn without_a_head_it_is_ascending(mut stops in prop::collection::vec(stop(), 0..60)) {
            c_look(&mut stops, None);
            prop_assert!(stops.windows(2).all(|two| (two[0].device, two[0].position) <= (two[1].device, two[1].position)));
        }
    }
}
