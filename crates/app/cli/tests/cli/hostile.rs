//! A served array in hostile surroundings: a blocked standard error, and clients that come only to be logged.
//!
//! Issue 23, defect 1: the first warning that could not be written ended the server (exit code 101), or left it in the
//! ring's shutdown for ever; one that nobody read stopped the array.

use crate::support::Bench;
use std::fs::{File, OpenOptions};
use std::io::{PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for something that takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn await_end(child: &mut Child, what: &str) -> Option<i32> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    panic!("{what} does not end");
}

/// Runs a verb that may hang. Returns its exit code.
fn ask(bench: &Bench, arguments: &[&str]) -> Option<i32> {
    let mut child = bench.command(&[&["array"], arguments].concat());
    let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    await_end(&mut child.expect("the binary was built"), arguments[0])
}

/// A server that does not outlive the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves an array of two mirrored members with this standard error.
fn serve(bench: &Bench, stderr: impl Into<Stdio>) -> Served {
    let create = ["create", "a", "m0", "m1", "--level", "1", "--member-size", "8MiB"];
    assert_eq!(ask(bench, &create), Some(0));
    let serve = ["array", "serve", "m0", "m1", "--socket", "n.sock", "--control", "./c.sock"];
    let mut command = bench.command(&serve);
    // A standard output that takes nothing keeps no array from being served, either.
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let child = command.stdout(full).stderr(stderr).spawn().expect("the binary was built");
    let served = Served(child);
    let begin = Instant::now();
    while ask(bench, &["status", "./c.sock"]) != Some(0) {
        assert!(begin.elapsed() < PATIENCE, "it is not served");
        std::thread::sleep(Duration::from_millis(20));
    }
    served
}

/// More handshakes at once than there is room for; each that is turned away is a warning.
fn flood(bench: &Bench) {
    let connect = || UnixStream::connect(bench.path().join("n.sock")).expect("it listens");
    let mut half_open: Vec<_> = (0..300).map(|_| connect()).collect();
    // A greeting, or an end: the server has taken it in. A server that hangs is found later.
    let last = half_open.last_mut().expect("there are many");
    let _ = last.set_read_timeout(Some(Duration::from_secs(5))).map(|()| last.read(&mut [0; 1]));
}

/// What was asked for is done: the array is flooded, loses a member, and stops when it is told to.
fn outlives_it(bench: &Bench, mut served: Served) {
    flood(bench);
    assert_eq!(ask(bench, &["status", "./c.sock"]), Some(0), "it lives and answers");
    assert_eq!(ask(bench, &["fail", "./c.sock", "1"]), Some(0));
    flood(bench);
    assert_eq!(ask(bench, &["stop", "./c.sock"]), Some(0));
    assert_eq!(await_end(&mut served.0, "the server"), Some(0));
}

#[test]
fn a_standard_error_without_room_ends_no_array() {
    let bench = Bench::new();
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let served = serve(&bench, full);
    outlives_it(&bench, served);
}

#[test]
fn a_standard_error_that_was_closed_ends_no_array() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let served = serve(&bench, writer);
    drop(reader);
    outlives_it(&bench, served);
}

/// A pipe into which not a byte more goes.
fn full_pipe() -> (PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("it is a pipe");
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    while writer.write(b"\n").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("it is a pipe");
    (reader, writer)
}

#[test]
fn a_standard_error_that_nobody_reads_stops_no_array() {
    let bench = Bench::new();
    let (_reader, writer) = full_pipe();
    let served = serve(&bench, writer);
    outlives_it(&bench, served);
}

#[test]
fn what_clients_can_cause_is_logged_some_times_and_then_counted() {
    let bench = Bench::new();
    let log = bench.path().join("log");
    let served = serve(&bench, File::create(&log).expect("the folder can be written"));
    flood(&bench);
    let text = || std::fs::read_to_string(&log).expect("it is text");
    let begin = Instant::now();
    while !text().contains("more like it in 10 s: too many handshakes at once") {
        assert!(begin.elapsed() < PATIENCE, "not told: {}", text());
        std::thread::sleep(Duration::from_millis(100));
    }
    let lines = text().lines().filter(|line| line.contains("too many handshakes")).count();
    assert!(lines <= 40, "{lines} lines:\n{}", text());
    drop(served);
}
