//! The addresses of xfs's inodes: an inode's number is its place.
//!
//! From the top, the bits of a number are the allocation group, the block in that group, and the inode in that
//! block. The fields of a block and of an inode in it are as wide as their largest numbers need. The geometry
//! comes from the kernel ([`XfsGeometry`]), and no block of the device is read.
//!
//! The kernel reads a *cluster* of 32 inodes at once (`xfs_inode_cluster_size`), whose beginning is the address of
//! each of them.
//!
//! Source: `XFS_INO_TO_AGNO`, `XFS_INO_TO_AGBNO` and `XFS_AGB_TO_DADDR` in `fs/xfs/libxfs`.
//!
//! Limits: the numbers are not trusted: every address is on the device, by the geometry's own count of blocks.
//! Inodes of the realtime section do not exist; inodes always lie in the data section, which is the device of
//! the mount.

use foreseek_storage::XfsGeometry;
use foreseek_units::{ByteOffset, ByteSpan, Bytes};

/// Inodes that the kernel reads at once.
const CLUSTER: u64 = 32;

/// The layout of an xfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    block: u64,
    blocks: u64,
    ag_blocks: u64,
    ag_count: u64,
    /// The widths in bits of an inode's number in its block, and of a block's number in its group.
    inode_bits: u32,
    block_bits: u32,
    /// The blocks of a cluster: a power of two.
    cluster: u64,
}

impl Geometry {
    /// From the kernel's numbers; `None` if they are impossible.
    #[must_use]
    pub fn new(found: XfsGeometry) -> Option<Self> {
        let (block, inode) = (u64::from(found.block_bytes), u64::from(found.inode_bytes));
        let (ag_blocks, ag_count) = (u64::from(found.ag_blocks), u64::from(found.ag_count));
        let sizes = block.is_power_of_two()
            && inode.is_power_of_two()
            && (512..=1 << 16).contains(&block)
            && (256..=block.min(2048)).contains(&inode);
        let groups = ag_blocks > 1 && ag_count > 0 && found.data_blocks > (ag_count - 1) * ag_blocks;
        if !sizes || !groups || found.data_blocks.checked_mul(block).is_none() {
            return None;
        }
        Some(Self {
            block,
            blocks: found.data_blocks,
            ag_blocks,
            ag_count,
            inode_bits: (block / inode).trailing_zeros(),
            block_bits: ag_blocks.next_power_of_two().trailing_zeros(),
            cluster: (CLUSTER * inode / block).max(1),
        })
    }

    /// The length of a cluster.
    #[must_use]
    pub fn cluster(&self) -> Bytes {
        Bytes(self.cluster * self.block)
    }

    /// What the kernel reads for an inode; `None` for a number that no inode has.
    #[must_use]
    pub fn cluster_of(&self, inode: u64) -> Option<ByteSpan> {
        let group = inode >> (self.inode_bits + self.block_bits);
        let within = (inode >> self.inode_bits) & ((1 << self.block_bits) - 1);
        if inode == 0 || group >= self.ag_count || within >= self.ag_blocks {
            return None;
        }
        let start = group * self.ag_blocks + within / self.cluster * self.cluster;
        let (start, end) = (start, (start + self.cluster).min(self.blocks));
        (start < end).then(|| ByteSpan::at(ByteOffset(start * self.block), Bytes((end - start) * self.block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Four groups of 1,000,000 blocks of 4 KiB, with inodes of 512 bytes.
    const PLAIN: XfsGeometry = XfsGeometry {
        block_bytes: 4096,
        inode_bytes: 512,
        ag_blocks: 1_000_000,
        ag_count: 4,
        data_blocks: 4_000_000,
    };

    fn start(geometry: &Geometry, inode: u64) -> Option<u64> {
        geometry.cluster_of(inode).map(|span| span.start.get() / 4096)
    }

    #[test]
    fn a_number_is_a_group_a_block_and_an_inode_in_it() {
        let geometry = Geometry::new(PLAIN).unwrap();
        // 3 bits for 8 inodes a block, 20 for 2^20 > 1,000,000 blocks. The root's usual number.
        assert_eq!(start(&geometry, 128), Some(16));
        assert_eq!(start(&geometry, 128 + 31), Some(16));
        assert_eq!(start(&geometry, 128 + 32), Some(20));
        // Clusters are aligned within their group, and groups to nothing.
        assert_eq!(start(&geometry, (3 << 23) + 128 + 5), Some(3_000_016));
        assert_eq!(geometry.cluster_of(128).unwrap().len(), Bytes::kib(16));
        assert_eq!(geometry.cluster(), Bytes::kib(16));
        for none in [0, 4 << 23, 1_000_000 << 3, u64::MAX] {
            assert_eq!(geometry.cluster_of(none), None, "{none}");
        }
    }

    #[test]
    fn inodes_of_256_bytes_lie_in_clusters_of_8_kib() {
        let old = Geometry::new(XfsGeometry { inode_bytes: 256, ..PLAIN }).unwrap();
        assert_eq!(old.cluster_of(32 * 5 + 31).unwrap(), ByteSpan::at(ByteOffset(5 * 8192), Bytes::kib(8)));
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let wrong = [
            XfsGeometry::default(),
            XfsGeometry { block_bytes: 0, ..PLAIN },
            XfsGeometry { block_bytes: 4095, ..PLAIN },
            XfsGeometry { block_bytes: 1 << 31, ..PLAIN },
            XfsGeometry { inode_bytes: 0, ..PLAIN },
            XfsGeometry { inode_bytes: 8192, ..PLAIN },
            XfsGeometry { ag_blocks: 0, ..PLAIN },
            XfsGeometry { ag_count: 0, ..PLAIN },
            XfsGeometry { data_blocks: 3_000_000, ..PLAIN },
            XfsGeometry { data_blocks: u64::MAX, ..PLAIN },
        ];
        for numbers in wrong {
            assert_eq!(Geometry::new(numbers), None, "{numbers:?}");
        }
    }

    /// Half of them small or powers of two, as real ones are.
    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![any::<u32>(), (0..32u32).prop_map(|shift| 1 << shift), 0..5000u32]
    }

    proptest! {
        #[test]
        fn any_numbers_give_places_on_the_device_or_none(
            block_bytes in number(), inode_bytes in number(), ag_blocks in number(), ag_count in number(),
            data_blocks in prop_oneof![any::<u64>(), number().prop_map(u64::from)],
            inodes in prop::collection::vec(prop_oneof![any::<u64>(), number().prop_map(u64::from)], 1..20),
        ) {
            let numbers = XfsGeometry { block_bytes, inode_bytes, ag_blocks, ag_count, data_blocks };
            let Some(geometry) = Geometry::new(numbers) else { return Ok(()) };
            for inode in inodes {
                let Some(span) = geometry.cluster_of(inode) else { continue };
                prop_assert!(!span.is_empty() && span.end.get() <= data_blocks * u64::from(block_bytes));
            }
        }

        #[test]
        fn places_ascend_with_numbers_within_possible_geometries(
            bits in (9..17u32, 8..12u32), ag_blocks in 2..1u32 << 20, ag_count in 1..50u32,
            places in prop::collection::vec((0..50u64, 0..1u64 << 20, 0..64u64), 2..20),
        ) {
            let (block_bytes, inode_bytes) = (1u32 << bits.0, 1u32 << bits.1.min(bits.0));
            let data_blocks = u64::from(ag_blocks) * u64::from(ag_count);
            let geometry = Geometry::new(XfsGeometry { block_bytes, inode_bytes, ag_blocks, ag_count, data_blocks });
            let geometry = geometry.unwrap();
            let per_block = u64::from(block_bytes / inode_bytes);
            let bits = u64::from(ag_blocks).next_power_of_two();
            let mut numbers: Vec<(u64, u64)> = places
                .into_iter()
                .map(|(group, at, within)| {
                    let (group, at) = (group % u64::from(ag_count), at % u64::from(ag_blocks));
                    ((group * bits + at) * per_block + within % per_block, group * u64::from(ag_blocks) + at)
                })
                .filter(|(inode, _)| *inode > 0)
                .collect();
            numbers.sort_unstable();
            let mut last = 0;
            for (inode, block) in numbers {
                let span = geometry.cluster_of(inode).unwrap();
                let at = block * u64::from(block_bytes);
                prop_assert!(span.start.get() <= at && at < span.end.get());
                prop_assert!(span.start.get() >= last);
                last = span.start.get();
            }
        }
    }
}
