//! Arbitrary bytes as an ext4 superblock and a block of group descriptors: parsing never panics, and
//! every place that comes out is a block.
#![no_main]

use foreseek_places::ext4::Geometry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(geometry) = Geometry::parse(bytes) else { return };
    let descriptors = &bytes[1024..];
    let numbers = [1, 2, 11, 12, 8192, 8193, 1 << 20, u64::from(u32::MAX), u64::MAX];
    for inode in numbers {
        let Some(group) = geometry.group_of(inode) else { continue };
        assert!(group < geometry.groups());
        let Some((place, within)) = geometry.descriptor_of(group) else { continue };
        assert_eq!(place.len(), geometry.block_size());
        assert!((within as u64) < geometry.block_size().get());
        let Some(table) = geometry.table_in(descriptors, within) else { continue };
        if let Some(block) = geometry.inode_block(inode, table) {
            assert_eq!(block.len(), geometry.block_size());
            assert!(block.start.get() % geometry.block_size().get() == 0);
        }
    }
});
