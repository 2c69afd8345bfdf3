//! The addresses of ext4's inodes: the superblock and the group descriptors, parsed from bytes.
//!
//! An inode's number gives its group and its index there. The group's descriptor gives the block where the
//! group's inode table starts. The descriptors follow the superblock contiguously, or, with `meta_bg`, are in
//! the first group of each set of groups that one block describes. `flex_bg` moves inode tables together,
//! which the descriptors show like any other address. ext2 and ext3 have the same structures.
//!
//! Source: the kernel's `Documentation/filesystems/ext4` and `descriptor_loc` in `fs/ext4/super.c`.
//!
//! Limits: nothing else of the file system is interpreted. The bytes are not trusted: every resulting address
//! is on the device, by the superblock's own count of blocks. Checksums are not checked, since a wrong
//! address only costs a useless read. Fuzzed by `ext4` under `fuzz/`.

use foreseek_units::{ByteOffset, ByteSpan, Bytes, Span};

/// The address of the superblock.
pub const SUPERBLOCK: ByteSpan = Span::new(ByteOffset(1024), ByteOffset(2048));

const MAGIC: u16 = 0xEF53;
/// The largest block: 64 KiB.
const LOG_BLOCK_LIMIT: u32 = 6;
/// A descriptor without the feature `64bit`.
const SHORT_DESCRIPTOR: u64 = 32;
/// The shortest descriptor with the upper half of the table's address.
const LONG_DESCRIPTOR: u64 = 64;

const COMPAT_SPARSE_SUPER2: u32 = 0x200;
const INCOMPAT_JOURNAL_DEVICE: u32 = 0x8;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;

/// Why bytes are no usable superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ext4 superblock at offset 1024: {0}")]
pub struct NotExt4(&'static str);

/// The layout of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    block: u64,
    blocks: u64,
    first_data_block: u64,
    blocks_per_group: u64,
    inodes: u64,
    inodes_per_group: u64,
    inode_size: u64,
    descriptor: u64,
    groups: u64,
    first_meta_bg: Option<u64>,
    backups: Backups,
}

/// The groups that begin with a copy of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backups {
    Every,
    /// 0, 1 and the powers of 3, 5 and 7.
    Sparse,
    /// 0 and these.
    Two([u64; 2]),
}

impl Geometry {
    /// From the bytes of [`SUPERBLOCK`].
    ///
    /// # Errors
    /// They are no superblock of ext2, ext3 or ext4, or one with impossible numbers.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotExt4> {
        let superblock = bytes.get(..1024).ok_or(NotExt4("cut short"))?;
        let u16_at = |at: usize| u64::from(u16::from_le_bytes([superblock[at], superblock[at + 1]]));
        let u32_at = |at: usize| {
            u32::from_le_bytes([superblock[at], superblock[at + 1], superblock[at + 2], superblock[at + 3]])
        };
        let long_at = |at: usize| u64::from(u32_at(at));
        if u16_at(0x38) != u64::from(MAGIC) {
            return Err(NotExt4("no magic number"));
        }
        let (compat, incompat, ro_compat) = (u32_at(0x5C), u32_at(0x60), u32_at(0x64));
        if incompat & INCOMPAT_JOURNAL_DEVICE != 0 {
            return Err(NotExt4("it is a journal's device"));
        }
        if u32_at(0x18) > LOG_BLOCK_LIMIT {
            return Err(NotExt4("a block of more than 64 KiB"));
        }
        let long = incompat & INCOMPAT_64BIT != 0;
        let upper = if long { long_at(0x150) << 32 } else { 0 };
        let backups = if compat & COMPAT_SPARSE_SUPER2 != 0 {
            Backups::Two([long_at(0x24C), long_at(0x250)])
        } else if ro_compat & RO_COMPAT_SPARSE_SUPER != 0 {
            Backups::Sparse
        } else {
            Backups::Every
        };
        let geometry = Self {
            block: 1024 << u32_at(0x18),
            blocks: upper | long_at(0x4),
            first_data_block: long_at(0x14),
            blocks_per_group: long_at(0x20),
            inodes: long_at(0x0),
            inodes_per_group: long_at(0x28),
            // The first revision had only one size.
            inode_size: if u32_at(0x4C) == 0 { 128 } else { u16_at(0x58) },
            descriptor: if long { u16_at(0xFE) } else { SHORT_DESCRIPTOR },
            groups: 0,
            first_meta_bg: (incompat & INCOMPAT_META_BG != 0).then(|| long_at(0x104)),
            backups,
        };
        geometry.checked(long)
    }

    fn checked(mut self, long: bool) -> Result<Self, NotExt4> {
        let least = if long { LONG_DESCRIPTOR } else { SHORT_DESCRIPTOR };
        if !self.descriptor.is_power_of_two() || !(least..=self.block).contains(&self.descriptor) {
            return Err(NotExt4("an impossible size of group descriptors"));
        }
        if !self.inode_size.is_power_of_two() || !(128..=self.block).contains(&self.inode_size) {
            return Err(NotExt4("an impossible size of inodes"));
        }
        // The bitmap of a group is one block; with bigalloc a bit stands for a cluster, up to 2^15 blocks.
        if self.inodes_per_group == 0 || self.inodes_per_group > 8 * self.block {
            return Err(NotExt4("an impossible number of inodes in a group"));
        }
        if self.blocks_per_group == 0 || self.first_data_block > 1 {
            return Err(NotExt4("impossible groups"));
        }
        if self.blocks <= self.first_data_block || self.blocks.checked_mul(self.block).is_none() {
            return Err(NotExt4("an impossible number of blocks"));
        }
        self.groups = (self.blocks - self.first_data_block).div_ceil(self.blocks_per_group);
        Ok(self)
    }

    /// The length of a block.
    #[must_use]
    pub fn block_size(&self) -> Bytes {
        Bytes(self.block)
    }

    /// The number of groups.
    #[must_use]
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// The group of an inode; `None` for one that does not exist.
    #[must_use]
    pub fn group_of(&self, inode: u64) -> Option<u64> {
        let group = inode.checked_sub(1)? / self.inodes_per_group;
        (inode <= self.inodes && group < self.groups).then_some(group)
    }

    /// The block of the device that contains a group's descriptor, and the descriptor's offset in it. `None`
    /// beyond the last group, or if the superblock contradicts itself.
    #[must_use]
    pub fn descriptor_of(&self, group: u64) -> Option<(ByteSpan, usize)> {
        if group >= self.groups {
            return None;
        }
        let per_block = self.block / self.descriptor;
        let number = group / per_block;
        let block = match self.first_meta_bg {
            Some(first) if number >= first => self.meta_descriptors(number, per_block)?,
            // Right after the superblock, which is in block 1 if blocks have 1 KiB.
            _ => 1024 / self.block + number + 1,
        };
        let within = usize::try_from((group % per_block) * self.descriptor).ok()?;
        Some((self.address_of(block)?, within))
    }

    /// The block of descriptors of a set of groups, which is in the first of them.
    fn meta_descriptors(&self, number: u64, per_block: u64) -> Option<u64> {
        let group = number.checked_mul(per_block)?;
        let mut after = u64::from(self.has_superblock(group));
        if self.block == 1024 && number == 0 && self.first_data_block == 0 {
            after += 1;
        }
        group.checked_mul(self.blocks_per_group)?.checked_add(self.first_data_block)?.checked_add(after)
    }

    fn has_superblock(&self, group: u64) -> bool {
        let power_of = |base: u64| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        };
        match self.backups {
            _ if group == 0 => true,
            Backups::Every => true,
            Backups::Two(groups) => groups.contains(&group),
            Backups::Sparse => group == 1 || [3, 5, 7].into_iter().any(power_of),
        }
    }

    /// The first block of a group's inode table, from the block with its descriptor.
    #[must_use]
    pub fn table_in(&self, descriptors: &[u8], within: usize) -> Option<u64> {
        let descriptor = descriptors.get(within..within.checked_add(self.descriptor as usize)?)?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(descriptor.get(at..at + 4)?.try_into().ok()?));
        let upper = if self.descriptor >= LONG_DESCRIPTOR { u64::from(u32_at(0x28)?) << 32 } else { 0 };
        let block = upper | u64::from(u32_at(0x8)?);
        (block > 0 && block < self.blocks).then_some(block)
    }

    /// The block of the device that contains an inode, whose group's table starts at block `table`.
    #[must_use]
    pub fn inode_block(&self, inode: u64, table: u64) -> Option<ByteSpan> {
        let index = inode.checked_sub(1)? % self.inodes_per_group;
        self.address_of(table.checked_add(index * self.inode_size / self.block)?)
    }

    fn address_of(&self, block: u64) -> Option<ByteSpan> {
        (block < self.blocks).then(|| ByteSpan::at(ByteOffset(block * self.block), Bytes(self.block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A superblock with 4 KiB blocks, 128 groups and what `set` changes.
    fn superblock(set: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        let plain = [
            (0x0, 8192 * 128),
            (0x4, 32_768 * 128),
            (0x18, 2),
            (0x20, 32_768),
            (0x28, 8192),
            (0x4C, 1),
            (0x58, 256),
            (0x64, RO_COMPAT_SPARSE_SUPER),
        ];
        for (at, value) in plain.iter().chain(set) {
            bytes[*at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes[0x38..0x3A].copy_from_slice(&MAGIC.to_le_bytes());
        bytes
    }

    fn block(span: Option<ByteSpan>) -> Option<u64> {
        span.map(|span| span.start.get() / 4096)
    }

    #[test]
    fn an_inode_is_in_the_table_of_its_group() {
        let geometry = Geometry::parse(&superblock(&[])).unwrap();
        assert_eq!((geometry.groups(), geometry.block_size()), (128, Bytes::kib(4)));
        assert_eq!(geometry.group_of(1), Some(0));
        assert_eq!(geometry.group_of(8192), Some(0));
        assert_eq!(geometry.group_of(8193), Some(1));
        assert_eq!(geometry.group_of(0), None);
        assert_eq!(geometry.group_of(8192 * 128 + 1), None);
        // A block has sixteen inodes of 256 bytes.
        assert_eq!(block(geometry.inode_block(8193 + 16, 1000)), Some(1001));
        assert_eq!(block(geometry.inode_block(8193 + 15, 1000)), Some(1000));
        assert_eq!(block(geometry.inode_block(1, u64::MAX)), None);
    }

    #[test]
    fn descriptors_follow_the_superblock_or_lie_in_the_first_group_of_their_set() {
        let plain = Geometry::parse(&superblock(&[])).unwrap();
        let at = |geometry: &Geometry, group| {
            geometry.descriptor_of(group).map(|(span, within)| (span.start.get() / 4096, within))
        };
        assert_eq!(at(&plain, 0), Some((1, 0)));
        assert_eq!(at(&plain, 127), Some((1, 127 * 32)));
        assert_eq!(at(&plain, 128), None);
        let long = superblock(&[(0x60, INCOMPAT_64BIT | INCOMPAT_META_BG), (0xFE, 64), (0x104, 0)]);
        let meta = Geometry::parse(&long).unwrap();
        assert_eq!(at(&meta, 63), Some((1, 63 * 64)));
        // Group 64 has no copy of the superblock: the descriptors are its first block.
        assert_eq!(at(&meta, 64), Some((64 * 32_768, 0)));
    }

    #[test]
    fn a_table_is_on_the_device_or_none() {
        let geometry = Geometry::parse(&superblock(&[])).unwrap();
        let mut descriptors = vec![0; 4096];
        assert_eq!(geometry.table_in(&descriptors, 0), None);
        descriptors[32 + 8..32 + 12].copy_from_slice(&1057u32.to_le_bytes());
        assert_eq!(geometry.table_in(&descriptors, 32), Some(1057));
        descriptors[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(geometry.table_in(&descriptors, 0), None);
        assert_eq!(geometry.table_in(&descriptors, 4090), None);
        assert_eq!(geometry.table_in(&descriptors, usize::MAX), None);
    }

    #[test]
    fn impossible_superblocks_are_refused() {
        assert!(Geometry::parse(&[]).is_err());
        assert!(Geometry::parse(&[0; 1024]).is_err());
        for wrong in [
            (0x18, 7),
            (0x58, 100),
            (0x58, 8192),
            (0x28, 0),
            (0x28, 40_000),
            (0x20, 0),
            (0x14, 2),
            (0x4, 0),
            (0x60, INCOMPAT_JOURNAL_DEVICE),
            (0x60, INCOMPAT_64BIT),
        ] {
            assert!(Geometry::parse(&superblock(&[wrong])).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_places_on_the_device_or_none(
            changes in prop::collection::vec((0usize..1020, any::<u32>()), 0..12),
            inode in any::<u64>(), descriptors in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let Ok(geometry) = Geometry::parse(&superblock(&changes)) else { return Ok(()) };
            let end = geometry.blocks * geometry.block;
            let inside = |span: ByteSpan| span.end.get() <= end && !span.is_empty();
            for inode in [inode, inode % (geometry.inodes + 2)] {
                let Some(group) = geometry.group_of(inode) else { continue };
                let Some((span, within)) = geometry.descriptor_of(group) else { continue };
                prop_assert!(inside(span));
                prop_assert!(within as u64 + geometry.descriptor <= geometry.block);
                let Some(table) = geometry.table_in(&descriptors, within) else { continue };
                prop_assert!(geometry.inode_block(inode, table).is_none_or(inside));
            }
        }
    }
}
