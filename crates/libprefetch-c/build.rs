//! Gives the shared object its name, so that programs linked with it find it by that name.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libprefetch.so");
}
