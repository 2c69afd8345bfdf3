//! Gives the shared object its name, so that programs linked with it find it by that name.

/// The number in that name. It grows when a program linked with an older library would not run with the new
/// one.
pub const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libprefetch.so.{ABI}");
}
