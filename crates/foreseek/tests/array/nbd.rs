//! The same over NBD, with other projects' clients (libnbd, QEMU, fio) and with a misbehaving one.

use super::{Arrays, GEOMETRY, Lab, Laid, aligned, direct, end_without_power, read_direct, text, until};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether these programs are available; prints a message if not.
pub(crate) fn has(programs: &[&str]) -> bool {
    let missing = |program: &&&str| {
        let places = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin"];
        !places.iter().any(|place| Path::new(place).join(program).exists())
    };
    match programs.iter().find(missing) {
        Some(missing) => println!("SKIPPED: {missing} is not installed"),
        None => return true,
    }
    false
}

/// Bytes that do not repeat nearby.
fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// An array in a file that listens only at a socket; returns its file, socket and URI.
fn export(lab: &Lab, arrays: &Arrays<'_>, size: u64, name: &str) -> (String, String, String) {
    let (file, socket) = (lab.path("array.img"), lab.path("array.socket"));
    File::create(&file).and_then(|file| file.set_len(size)).expect("room");
    let (file, socket) = (text(&file).to_owned(), text(&socket).to_owned());
    let address = format!("nbd:unix:{socket}");
    let mut arguments = vec!["attach", &file, "--memory", "112M", "--name", name, "--export", &address];
    arguments.extend(GEOMETRY);
    let printed = arrays.must(&arguments);
    let uri = format!("nbd+unix:///{name}?socket={socket}");
    assert_eq!(printed, format!("{uri} {name}\n"));
    (file, socket, uri)
}

#[test]
fn other_clients_read_what_they_wrote() {
    let Some(lab) = Lab::new() else { return };
    if !has(&["nbdinfo", "nbdcopy", "qemu-img"]) {
        return;
    }
    let arrays = Arrays(&lab);
    // It ends within a page and within a strip.
    let size = (48 << 20) + 1536;
    let (file, _, uri) = export(&lab, &arrays, size as u64, "others");
    let printed = lab.tool("nbdinfo", &[&uri]);
    for line in
        ["using structured packets", "is_rotational: true", "can_fua: true", "block_size_minimum: 512"]
    {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert_eq!(lab.tool("nbdinfo", &["--size", &uri]).trim(), size.to_string());
    assert!(lab.tool("nbdinfo", &["--list", &uri]).contains("export=\"others\""));
    let other = lab.run(Command::new("nbdinfo").arg(uri.replace("///others", "///wrong")));
    assert_ne!(other.status, Some(0), "there is no such export");

    let (from, back) = (lab.path("from.img"), lab.path("back.img"));
    let mut bytes = content(size);
    // A hole, which is written as zeroes or trimmed.
    bytes[8 << 20..20 << 20].fill(0);
    fs::write(&from, &bytes).expect("room");
    fs::write(&file, vec![0xff; size]).expect("room");
    lab.tool("nbdcopy", &["--connections=4", text(&from), &uri]);
    assert!(fs::read(&file).expect("it is there") == bytes, "the array is what was written");
    lab.tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&from), &uri]);
    // Through the cache, which has to drop changed bytes.
    lab.tool("qemu-io", &["-f", "raw", "-c", "write -P 7 1M 3M", "-c", "write -z -u 5M 64k", &uri]);
    bytes[1 << 20..4 << 20].fill(7);
    bytes[5 << 20..(5 << 20) + 65_536].fill(0);
    lab.tool("nbdcopy", &[&uri, text(&back)]);
    assert!(fs::read(&back).expect("it is there") == bytes, "and so it is read back");
    arrays.must(&["detach", "others"]);
    assert!(fs::read(&file).expect("it is there") == bytes);
    arrays.assert_clean();
}

/// Many requests of QEMU at a time, with flushes between them; the written data are there.
#[test]
fn qemus_benchmark_runs_to_its_end_and_writes_its_pattern() {
    let Some(lab) = Lab::new() else { return };
    if !has(&["qemu-img"]) {
        return;
    }
    let arrays = Arrays(&lab);
    let (file, _, uri) = export(&lab, &arrays, 32 << 20, "bench");
    fs::write(&file, vec![0xff; 32 << 20]).expect("room");
    let bench = |options: &[&str]| {
        let printed = lab.tool("qemu-img", &[&["bench", "-f", "raw", "-d", "32"], options, &[&uri]].concat());
        assert!(printed.contains("Run completed in"), "{printed}");
    };
    bench(&["-c", "2000", "-s", "4k"]);
    // Not at the borders of strips and pages.
    bench(&["-c", "200", "-s", "80k", "-o", "512"]);
    bench(&["-w", "--pattern", "7", "-c", "256", "-s", "64k", "--flush-interval", "50"]);
    bench(&["-w", "--pattern", "9", "-c", "64", "-s", "4k", "-S", "128k", "-o", "8M"]);
    let mut bytes = vec![7; 16 << 20];
    bytes.resize(32 << 20, 0xff);
    (0..64).for_each(|number| bytes[(8 << 20) + number * (128 << 10)..][..4096].fill(9));
    assert!(fs::read(&file).expect("it is there") == bytes, "below");
    let image = lab.path("image");
    fs::write(&image, bytes).expect("room");
    lab.tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&image), &uri]);
    arrays.must(&["detach", "bench"]);
    arrays.assert_clean();
}

/// fio writes and reads back with checksums, 32 requests in flight, in alternating rounds by the loop device
/// and over NBD, for this time.
fn verify(time: Duration) {
    let Some(lab) = Lab::new() else { return };
    if !has(&["fio"]) {
        return;
    }
    let arrays = Arrays(&lab);
    let (file, socket) = (lab.path("array.img"), lab.path("socket"));
    File::create(&file).and_then(|file| file.set_len(32 << 20)).expect("room");
    let address = format!("nbd:unix:{}", text(&socket));
    let mut options = vec!["--export", "loop", "--export", &address, "--name", "fio"];
    options.extend(GEOMETRY);
    let device = arrays.attach(&file, &options);
    let uri = format!("--uri=nbd+unix:///fio?socket={}", text(&socket));
    let node = format!("--filename={}", device.display());
    let begun = Instant::now();
    for round in (0..).take_while(|round| *round < 2 || begun.elapsed() < time) {
        let seed = format!("--randseed={round}");
        let mut arguments = vec!["--name=verify", "--size=32M", "--rw=randrw", &seed];
        arguments.extend(["--bsrange=4k-1m", "--blockalign=4k", "--iodepth=32"]);
        arguments.extend(["--verify=crc32c", "--verify_fatal=1", "--output-format=terse"]);
        match round % 2 {
            0 => arguments.extend(["--ioengine=libaio", "--direct=1", &node]),
            _ => arguments.extend(["--ioengine=nbd", &uri]),
        }
        let ended = lab.run(Command::new("fio").args(&arguments).current_dir(&lab.directory));
        assert_eq!(ended.status, Some(0), "{arguments:?}: {ended:?}");
    }
    arrays.must(&["detach", "fio"]);
    arrays.assert_clean();
}

#[test]
fn checksums_hold_with_many_requests_in_flight() {
    verify(Duration::from_secs(60));
}

#[test]
#[ignore = "half an hour: make soak"]
fn checksums_hold_for_long() {
    verify(Duration::from_secs(1800));
}

/// A connection after the handshake.
pub(crate) fn connect(socket: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a limit");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(&3u32.to_be_bytes()).expect("it listens");
    // EXPORT_NAME of the only one.
    stream
        .write_all(&[&b"IHAVEOPT"[..], &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat())
        .expect("received");
    stream.read_exact(&mut [0; 10]).expect("size and flags");
    stream
}

fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let magic = 0x2560_9513_u32.to_be_bytes();
    let (command, cookie) = (command.to_be_bytes(), 5u64.to_be_bytes());
    [&magic[..], &[0, 0], &command, &cookie, &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

/// The first page of the device, read over this connection.
fn read_page(stream: &mut UnixStream) -> Vec<u8> {
    stream.write_all(&request(0, 0, 4096)).expect("it listens");
    let mut reply = [0; 16 + 4096];
    stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply[4..8], [0; 4], "no error");
    reply[16..].to_vec()
}

/// Writes a page of this mark; with `fua` it must be durable.
fn write_page(stream: &mut UnixStream, page: u64, mark: u8, fua: bool) {
    try_write_page(stream, page, mark, fua).expect("written");
}

/// The same for a server that may be killed meanwhile.
pub(crate) fn try_write_page(stream: &mut UnixStream, page: u64, mark: u8, fua: bool) -> io::Result<()> {
    let mut asked = request(1, page * 4096, 4096);
    asked[5] = u8::from(fua);
    stream.write_all(&[asked, vec![mark; 4096]].concat())?;
    let mut reply = [0; 16];
    stream.read_exact(&mut reply)?;
    if reply[4..8] == [0; 4] { Ok(()) } else { Err(io::Error::other("refused")) }
}

/// The reply to a request without data.
fn take_done(stream: &mut UnixStream) {
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply[4..8], [0; 4], "no error");
}

/// The disk below has a volatile cache: data that a client flushed, or wrote with FUA, are there after a
/// power failure.
#[test]
fn data_flushed_by_a_client_outlive_a_power_failure_of_the_disk_below() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let attached = ["--profile", "none", "--size", "16M", "--volatile-cache", "16M", "--name", "cached"];
    let disk = lab.attach(&attached);
    let socket = text(&lab.path("array.socket")).to_owned();
    let address = format!("nbd:unix:{socket}");
    let mut arguments =
        vec!["attach", text(&disk), "--memory", "112M", "--name", "power", "--export", &address];
    arguments.extend(GEOMETRY);
    arrays.must(&arguments);
    let mut client = connect(&socket);
    for page in 0..32 {
        write_page(&mut client, page, 1, false);
    }
    client.write_all(&request(3, 0, 0)).expect("it listens");
    take_done(&mut client);
    for page in 0..32 {
        write_page(&mut client, page, 2, false);
        if page == 15 {
            write_page(&mut client, 40, 3, true);
        }
    }
    drop(client);
    end_without_power(&lab, &arrays, "power");
    let found = |page: u64| read_direct(&disk, page * 4096).expect("it reads")[0];
    assert_eq!(found(40), 3, "FUA");
    // FUA is a flush of everything before it: more than required.
    for page in 0..32 {
        assert_eq!(found(page), if page <= 15 { 2 } else { 1 }, "page {page}");
    }
    lab.must(&["detach", "cached"]);
    arrays.assert_clean();
}

/// Zeroes a device whose storage can free no space, over NBD and by the loop device: zeroes are written then. What only
/// frees space changes nothing.
pub(crate) fn zeroes_are_written(device: &Path, socket: &Path) {
    const LENGTH: usize = 4 << 20;
    let (open, mut memory) = (direct(device), aligned());
    memory.0.fill(0xff);
    (0..16).for_each(|part| open.write_all_at(&memory.0, part * (256 << 10)).expect("it writes"));
    let mut expected = vec![0xff; LENGTH];
    let mut client = connect(text(socket));
    // The first is refused below; the second is known to be.
    for (from, length) in [(4096, (2 << 20) + 4096), (3 << 20, 64 << 10)] {
        client.write_all(&request(6, from, length)).expect("it listens");
        take_done(&mut client);
        expected[from as usize..][..length as usize].fill(0);
    }
    // TRIM is a hint.
    client.write_all(&request(4, 0, 4096)).expect("it listens");
    take_done(&mut client);
    let (from, length) = ((3 << 20) + (512 << 10), 128 << 10);
    let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    fallocate(&open, zero, from as u64, length as u64).expect("zeroed");
    expected[from..from + length].fill(0);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&open, punch, 0, 4096), Err(Errno::OPNOTSUPP), "as a disk that cannot");
    for (at, expected) in expected.chunks(4096).enumerate() {
        assert!(read_direct(device, at as u64 * 4096).expect("it reads") == expected, "page {at}");
    }
}

/// The loop driver frees no space in ramfs.
#[test]
fn zeroes_are_written_where_no_space_can_be_freed() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    lab.tool("mount", &["-t", "ramfs", "ramfs", text(&lab.mount_point())]);
    let file = |name: &str| {
        let file = lab.mount_point().join(name);
        File::create(&file).and_then(|file| file.set_len(16 << 20)).expect("room");
        file
    };
    let socket = lab.path("socket");
    let address = format!("nbd:unix:{}", text(&socket));
    let below = Laid::over(&lab, &file("below"), "512");
    let options = ["--name", "full", "--export", "loop", "--export", &address];
    let device = arrays.attach(&below.1, &[&GEOMETRY[..], &options].concat());
    zeroes_are_written(&device, &socket);
    arrays.must(&["detach", "full"]);
    drop(below);

    let backing = file("backing");
    let options = ["--profile", "none", "--name", "ram", "--backing", text(&backing), "--export", &address];
    zeroes_are_written(&lab.attach(&options), &socket);
    lab.must(&["detach", "ram"]);
    lab.unmount(&lab.mount_point());
    arrays.assert_clean();
}

#[test]
fn clients_that_stop_anywhere_delay_no_others() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let (file, socket, _) = export(&lab, &arrays, 16 << 20, "crowd");
    // The clients are in this process; the server raises its own limit.
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).expect("up to the most");
    let clients = || arrays.status(Path::new("crowd"))["clients"].as_array().expect("a list").len();
    // Some have sent nothing, some half an option, half a request, half a write; some receive no replies.
    let half_write = [request(1, 0, 2 << 20), vec![1; 1_500_000]].concat();
    let greedy = request(0, 0, 8 << 20).repeat(40);
    let mut crowd = Vec::new();
    for number in 0..1000 {
        let stream = match number % 5 {
            0 => UnixStream::connect(&socket).expect("it listens"),
            1 => {
                let mut stream = UnixStream::connect(&socket).expect("it listens");
                stream.write_all(b"\0\0\0\x03IHAVE").expect("received");
                stream
            }
            2 => {
                let mut stream = connect(&socket);
                stream.write_all(&request(0, 0, 512)[..20]).expect("received");
                stream
            }
            3 if number < 100 => {
                let mut stream = connect(&socket);
                stream.write_all(&half_write).expect("received");
                stream
            }
            4 if number < 100 => {
                let mut stream = connect(&socket);
                stream.write_all(&greedy).expect("received");
                stream
            }
            _ => connect(&socket),
        };
        crowd.push(stream);
    }
    assert!(until(super::LIMIT, || clients() == 1000));
    let mut one = connect(&socket);
    let first = read_page(&mut one);
    assert!(first.iter().all(|byte| *byte == first[0]));
    // There is a limit.
    let more: Vec<_> = (0..100).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    assert!(until(super::LIMIT, || clients() == 1024));
    drop((more, crowd));
    assert!(until(super::LIMIT, || clients() == 1), "they are gone");
    assert_eq!(read_page(&mut one), fs::read(&file).expect("it is there")[..4096]);

    let held = arrays.refused(&["detach", "crowd"]);
    assert!(held.contains("busy") && held.contains("over NBD") && held.contains("process"), "{held}");
    assert!(!read_page(&mut one).is_empty(), "nothing is changed by that");
    arrays.must(&["detach", "crowd", "--force"]);
    assert_eq!(one.read(&mut [0; 1]).ok(), Some(0), "it is closed");
    assert!(!Path::new(&socket).exists());
    arrays.assert_clean();
}

#[test]
fn a_socket_of_a_dead_server_is_taken_over_and_one_in_use_is_not() {
    let Some(lab) = Lab::new() else { return };
    let arrays = Arrays(&lab);
    let (file, socket, _) = export(&lab, &arrays, 16 << 20, "dead");
    let mut one = connect(&socket);
    one.write_all(&[request(1, 0, 4096), vec![9; 4096]].concat()).expect("it listens");
    one.read_exact(&mut [0; 16]).expect("acknowledged");
    let address = format!("nbd:unix:{socket}");
    let other = lab.path("other.img");
    File::create(&other).and_then(|file| file.set_len(16 << 20)).expect("room");
    let mut arguments = vec!["attach", text(&other), "--memory", "112M", "--export", &address];
    arguments.extend(GEOMETRY);
    let taken = arrays.refused(&arguments);
    assert!(taken.contains("another program listens there"), "{taken}");
    fs::write(lab.path("file"), "mine").expect("room");
    let a_file = format!("nbd:unix:{}", text(&lab.path("file")));
    let last = arguments.iter().position(|it| **it == address).expect("it is there");
    arguments[last] = &a_file;
    let refused = arrays.refused(&arguments);
    assert!(refused.contains("the path exists and is no socket"), "{refused}");
    let wrong = arrays.run(&["attach", &file, "--profile", "raid5-5x-15k", "--export", "nbd:"]);
    assert!(wrong.status == Some(2) && wrong.err.contains("nbd:unix:PATH"), "{wrong:?}");

    let pid = arrays.list()[0]["pid"].as_u64().expect("a process").to_string();
    lab.end(&pid);
    assert_eq!(one.read(&mut [0; 1]).ok(), Some(0), "the connection is closed");
    // Another array takes the leftover socket.
    arguments[last] = &address;
    arguments.extend(["--name", "next"]);
    arrays.must(&arguments);
    assert!(read_page(&mut connect(&socket)).iter().all(|byte| *byte == 0));
    arrays.must(&["detach", "next", "--force"]);
    assert_eq!(arrays.run(&["detach", "dead"]).status, Some(0));
    assert_eq!(fs::read(&file).expect("it is there")[..4096], [9; 4096], "what was acknowledged is there");
    arrays.assert_clean();
}

#[test]
fn an_emulated_disk_is_served_to_virtual_machines_too() {
    let Some(lab) = Lab::new() else { return };
    if !has(&["nbdcopy", "qemu-io"]) {
        return;
    }
    let options = ["--profile", "wd-500g", "--size", "64M", "--no-delays", "--name", "vm"];
    let printed = {
        let mut arguments = vec!["attach", "--thin", "--dir", text(&lab.directory), "--format", "json"];
        arguments.extend(options);
        arguments.extend(["--export", "nbd::0"]);
        lab.must(&arguments)
    };
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let (device, uri) =
        (printed["device"].as_str().expect("a device"), printed["nbd"].as_str().expect("a URI"));
    assert!(uri.starts_with("nbd://127.0.0.1:") && uri.ends_with("/vm"), "{uri}");
    let image = lab.path("image");
    fs::write(&image, content(64 << 20)).expect("room");
    lab.tool("nbdcopy", &[text(&image), uri]);
    assert!(fs::read(device).expect("it reads") == fs::read(&image).expect("it reads"), "it is one disk");
    lab.must(&["set", "vm", "--fail-lba", "16..17"]);
    let read = |command: &str| lab.run(Command::new("qemu-io").args(["-f", "raw", "-c", command, uri])).out;
    assert!(read("read 8k 512").contains("Input/output error"));
    assert!(read("read 4k 4k").contains("read 4096/4096"));
    lab.must(&["set", "vm", "--fail-none"]);
    lab.must(&["detach", "vm"]);
    lab.assert_clean();
}
