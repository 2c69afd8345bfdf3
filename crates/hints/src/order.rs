//! The order in which the pages of a round are fetched.
//!
//! ATC'09 section 3.5: a Circular LOOK, from the last known position of the head upwards, then from the lowest
//! address, since forward seeks never cost more than backward ones. The paper sorts by file offset and proposes
//! a system call that reports block addresses. With [`Order::Disk`] pages are sorted by their address on the
//! device, across files. Pages without a known address follow, by file and offset.
//!
//! Limit: addresses of different devices are sorted as if they were one.

use crate::objects::{Objects, PageKey};
use crate::settings::Order;
use foreseek_units::{Lba, Pages, SECTORS_PER_PAGE};

/// Marks an address that stands for file and offset.
const UNPLACED: u64 = 1 << 63;

/// The address of a page, comparable within one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DiskAddress(u64);

impl DiskAddress {
    /// An address on the device.
    pub(crate) fn on_device(lba: Lba) -> Self {
        Self(lba.get())
    }

    /// The address of a page.
    pub(crate) fn of(objects: &Objects, order: Order, page: PageKey) -> Self {
        let lba = match order {
            Order::Disk => objects.get(page.slot()).lba(page.page()),
            Order::File => None,
        };
        lba.map_or(Self(page.raw() | UNPLACED), Self::on_device)
    }

    /// Two numbers that compare like the address.
    pub(crate) fn halves(self) -> [u32; 2] {
        [(self.0 >> 32) as u32, self.0 as u32]
    }

    /// The address right after `pages` pages from here.
    pub(crate) fn after(self, pages: Pages) -> Self {
        let step = if self.0 & UNPLACED == 0 { SECTORS_PER_PAGE } else { 1 };
        Self(self.0 + step * pages.get())
    }
}

impl DiskAddress {
    /// How many pages lie between here and a later address; `None` backwards, or if only one of the two is on
    /// the device.
    pub(crate) fn up_to(self, later: Self) -> Option<Pages> {
        let distance = later.0.checked_sub(self.0)?;
        match (self.0 & UNPLACED == 0, later.0 & UNPLACED == 0) {
            (true, true) => Some(Pages(distance / SECTORS_PER_PAGE)),
            (false, false) => Some(Pages(distance)),
            _ => None,
        }
    }
}

/// A page of a round with its address and its rank in the order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stop {
    pub(crate) address: DiskAddress,
    pub(crate) page: PageKey,
    pub(crate) rank: u32,
    /// The page is in memory already, by the engine's account.
    pub(crate) held: bool,
}

/// Sorts a round's pages, given in order of first use, into the order of a C-LOOK pass that begins at `head`.
pub(crate) fn c_look(
    objects: &Objects,
    order: Order,
    head: Option<DiskAddress>,
    pages: impl Iterator<Item = PageKey>,
    held: impl Fn(PageKey) -> bool,
) -> Vec<Stop> {
    let mut stops: Vec<Stop> = (0..)
        .zip(pages)
        .map(|(rank, page)| Stop {
            address: DiskAddress::of(objects, order, page),
            page,
            rank,
            held: held(page),
        })
        .collect();
    stops.sort_unstable();
    if let Some(head) = head {
        let above = stops.partition_point(|stop| stop.address < head);
        stops.rotate_left(above);
    }
    stops
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_seam::{Extent, ObjectId};
    use foreseek_units::PageIndex;

    fn extent(page: u64, pages: u64, lba: u64) -> Extent {
        Extent { page: PageIndex(page), pages: Pages(pages), lba: Lba(lba) }
    }

    /// Two files. The second lies before and between the pieces of the first; its page 9 is a hole.
    fn two_files() -> (Objects, impl Fn(u64, u64) -> PageKey) {
        let mut objects = Objects::new();
        let a = objects.intern(ObjectId(1)).expect("room");
        let b = objects.intern(ObjectId(2)).expect("room");
        objects.get_mut(a).set_extents(&[extent(0, 10, 1000), extent(10, 10, 3000)]);
        objects.get_mut(b).set_extents(&[extent(0, 4, 200), extent(4, 4, 2000)]);
        (objects, move |file, page| PageKey::new([a, b][file as usize], PageIndex(page)).expect("small"))
    }

    fn sorted(order: Order, head: Option<u64>) -> Vec<(u64, u64)> {
        let (objects, page) = two_files();
        let wanted = [(0, 12), (1, 9), (1, 5), (0, 3), (1, 0)];
        let stops = c_look(
            &objects,
            order,
            head.map(|lba| DiskAddress::on_device(Lba(lba))),
            wanted.iter().map(|(file, at)| page(*file, *at)),
            |_| false,
        );
        assert!(stops.iter().all(|stop| {
            let (file, at) = wanted[stop.rank as usize];
            stop.page == page(file, at)
        }));
        stops.iter().map(|stop| wanted[stop.rank as usize]).collect()
    }

    #[test]
    fn disk_order_crosses_files_and_ends_with_the_unplaced() {
        assert_eq!(sorted(Order::Disk, None), [(1, 0), (0, 3), (1, 5), (0, 12), (1, 9)]);
    }

    #[test]
    fn a_pass_goes_up_from_the_head_and_then_from_the_lowest() {
        assert_eq!(sorted(Order::Disk, Some(1500)), [(1, 5), (0, 12), (1, 9), (1, 0), (0, 3)]);
        assert_eq!(sorted(Order::Disk, Some(0)), sorted(Order::Disk, None));
    }

    #[test]
    fn file_order_sorts_by_file_and_offset() {
        assert_eq!(sorted(Order::File, None), [(0, 3), (0, 12), (1, 0), (1, 5), (1, 9)]);
    }

    #[test]
    fn the_address_after_a_run_is_where_the_next_page_of_it_lies() {
        let (objects, page) = two_files();
        for order in [Order::Disk, Order::File] {
            let start = DiskAddress::of(&objects, order, page(0, 2));
            assert_eq!(start.after(Pages(5)), DiskAddress::of(&objects, order, page(0, 7)));
        }
    }
}
