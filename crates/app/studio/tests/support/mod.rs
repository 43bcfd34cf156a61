//! A studio in a scratch folder, and a client that can also send what no browser would.

use raidlab_machine::Environment;
use raidlab_store::{FinishedRun, Store, StudyEnd, StudyRunHead};
use raidlab_studio::{Studio, StudioError, StudioOptions};
use raidlab_workload::{Metric, RunResult, World};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for something that takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A studio.
pub(crate) struct Bench {
    pub(crate) studio: Studio,
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    tools: tempfile::TempDir,
    authorization: String,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) text: String,
}

/// Writes a program by way of another process. Were it written here, a process that another test starts meanwhile could hold
/// it open for writing for a moment, and the system refuses to run it then (ETXTBSY).
fn write_program(program: &Path, text: &str) {
    let script = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let written = Command::new("/bin/sh").args(["-c", script, "sh", text]).arg(program).status();
    assert!(written.expect("there is a shell").success());
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), text: body.to_owned() }
    }

    /// A header; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> String {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Checks that it is an error of this status in the one form of errors, and returns it.
    pub(crate) fn fault(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        let error = self.json()["error"].clone();
        assert_eq!(error["status"], status);
        for field in ["what", "where", "what_to_do"] {
            assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {error}");
        }
        error
    }
}

impl Bench {
    /// A studio whose jobs do nothing.
    pub(crate) fn new() -> Self {
        Self::with_program("exit 0")
    }

    /// A studio whose jobs run this script, which leaves its arguments in a file.
    pub(crate) fn with_program(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tools = tempfile::tempdir().expect("a folder");
        let program = tools.path().join("program");
        let keep = format!("printf '%s\\n' \"$@\" > '{}/arguments'", tools.path().display());
        // A shell can't trap what was ignored when it began, as SIGINT is where the tests run behind a script.
        let shell = "#!/usr/bin/env -S --default-signal=INT /bin/sh";
        write_program(&program, &format!("{shell}\n{keep}\n{script}\n"));
        let address = "127.0.0.1:0".parse().expect("an address");
        let db = PathBuf::from("raidlab.sqlite");
        let options = StudioOptions { address, folder: folder.path().to_owned(), db, program };
        let studio = Studio::start(options).expect("a loopback address is free");
        let authorization = format!("Bearer {}", studio.token());
        Self { address: studio.address(), studio, folder, tools, authorization }
    }

    pub(crate) fn start_at(&self, address: SocketAddr) -> Result<Studio, StudioError> {
        let (folder, db) = (self.folder.path().to_owned(), PathBuf::from("raidlab.sqlite"));
        Studio::start(StudioOptions { address, folder, db, program: PathBuf::from("/bin/false") })
    }

    pub(crate) fn authorized(&self) -> (&str, &str) {
        ("authorization", &self.authorization)
    }

    /// Sends bytes and returns all that comes back.
    pub(crate) fn raw(&self, request: &str) -> Answer {
        self.send(request.as_bytes())
    }

    fn send(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("the studio listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        // Who refuses a body may close before it is sent whole.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::of(&answer)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = lines.concat();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
            self.address,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.send(&request)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    /// Asks for a change, with the token.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = [self.authorized(), ("content-type", "application/json")];
        self.ask("POST", path, &headers, body.to_string().as_bytes())
    }

    /// How many jobs there are.
    pub(crate) fn jobs(&self) -> usize {
        self.get("/api/jobs").json()["jobs"].as_array().expect("a list").len()
    }

    /// Waits until a job is as wanted.
    pub(crate) fn await_job(&self, id: u64, wanted: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let job = self.get(&format!("/api/jobs/{id}")).json();
            if wanted(&job) {
                return job;
            }
            assert!(begin.elapsed() < PATIENCE, "not in time: {job}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn await_end(&self, id: u64) -> Value {
        self.await_job(id, |job| job["state"] != "running")
    }

    /// Names of what lies in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The arguments of the latest job, a line each.
    pub(crate) fn program_arguments(&self) -> String {
        std::fs::read_to_string(self.tools.path().join("arguments")).expect("a job has run")
    }

    /// Puts runs into the results file.
    pub(crate) fn store_runs(&self, count: u64) {
        let mut store = Store::open(&self.folder.path().join("raidlab.sqlite")).expect("a results file");
        let head = StudyRunHead {
            kind: "study",
            title: "a study",
            question: "",
            method: &[],
            planned_runs: count,
            seed: 1,
            configuration: "{}".to_owned(),
        };
        let study = store.begin_study(&head).expect("it can be written");
        let environment = Environment::of_target(self.folder.path());
        for ordinal in 0..count {
            let workload = format!("load {}", ordinal + 1);
            let result = RunResult::unmeasured(World::Simulated, "array".to_owned(), workload, Metric::Iops);
            let run = FinishedRun {
                ordinal,
                started_at: SystemTime::now(),
                result: &result,
                environment: &environment,
            };
            store.insert_run(study, &run).expect("it can be written");
        }
        store.end_study(study, StudyEnd::Complete, &[]).expect("it can be written");
    }
}
