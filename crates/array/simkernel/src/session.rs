//! A run of a plan: the array is made, lives its lives, and is read to the end.
//!
//! ```text
//! create ─► start ─► serve ─► stop, kill or cut ─► start ─► serve ... ─► start ─► read all ─► stop
//! ```
//! The runtime and the export are the real ones. Files are in a folder in memory, where the system's locks hold, too.

use crate::client::Complaint;
use crate::kernel::{Handle, Sim};
use crate::plan::{ClientPlan, Fault, Life, LifeEnd, Plan, Role};
use crate::state::{Broken, OnCut, Rest, State};
use raidlab_nbd_server::{NbdListener, NbdOptions, NbdServer};
use raidlab_runtime::kernel::{Call, Kernel, KernelRing, NvramStore, put_in_place};
use raidlab_runtime::{
    Answer, ArrayError, ArrayWorld, Command, CreateOptions, DeviceError, Operator, RunSettings, StartOptions,
    create, operator_line,
};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use tempfile::TempDir;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Requests of clients that were answered.
    pub answered: u64,
    /// Lives that were broken off.
    pub crashes: u64,
    /// Entries of the last ring and calls of the creation.
    pub entries: u64,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {checker}: {text}")]
pub struct Failure {
    /// Of the plan.
    pub seed: u64,
    /// Which checker: `bytes`, `errors`, `answers`, `liveness`, `memory`, `start`, `create`, `locks`, `stop`, `abort` or
    /// `simulation`.
    pub checker: String,
    /// In words.
    pub text: String,
}

impl Plan {
    /// Carries the plan out on this thread.
    ///
    /// # Errors
    /// [`Failure`]: what was found.
    pub fn run(&self) -> Result<Facts, Failure> {
        let fail =
            |checker: &str, text: String| Failure { seed: self.seed, checker: checker.to_owned(), text };
        let session = Session::new(self).map_err(|error| fail("simulation", error.to_string()))?;
        let outcome = session.run();
        put_in_place(None);
        session.sim.set_orderly(None);
        outcome.map_err(|Complaint { checker, text }| fail(checker, text))
    }
}

struct Session<'a> {
    plan: &'a Plan,
    folder: TempDir,
    sim: Arc<Sim>,
    members: Arc<Mutex<Vec<PathBuf>>>,
    settings: RunSettings,
}

fn complain<T>(checker: &'static str, text: impl Into<String>) -> Result<T, Complaint> {
    Err(Complaint { checker, text: text.into() })
}

impl<'a> Session<'a> {
    fn new(plan: &'a Plan) -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }?;
        let members =
            (0..plan.config.members).map(|place| folder.path().join(format!("member-{place}"))).collect();
        let nvram = plan.has_nvram().then(|| folder.path().join("nvram"));
        let sim = Sim::new(State::new(plan, nvram.clone()));
        let member_timeout = NanoSpan::from_millis(plan.member_timeout_ms);
        let settings = RunSettings { nvram, member_timeout, ..RunSettings::of(&plan.config) };
        Ok(Self { plan, folder, sim, members: Arc::new(Mutex::new(members)), settings })
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.members.lock().expect("nobody panics with it").clone()
    }

    fn run(&self) -> Result<Facts, Complaint> {
        put_in_place(Some(Arc::new(Handle(Arc::clone(&self.sim)))));
        self.create()?;
        let mut facts = Facts::default();
        for life in self.plan.lives.iter().chain([&self.last_life()]) {
            facts.crashes += u64::from(self.live(life)?);
        }
        let state = self.sim.state();
        facts.answered = state.common.answered;
        facts.entries = state.entries;
        Ok(facts)
    }

    /// Everything is read.
    fn last_life(&self) -> Life {
        let reader = ClientPlan {
            role: Role::ReadsAll,
            structured: self.plan.seed.is_multiple_of(2),
            depth: 4,
            bytes_max: 0,
            align_min: 0,
            hot_bytes: 0,
            fua_pct: 0,
            flush_pct: 0,
            is_slow: false,
            leaves_after: None,
            pause_us: 0,
            stalls: false,
        };
        Life { requests: 0, end: LifeEnd::Stop, faults: Vec::new(), clients: vec![reader] }
    }

    fn create(&self) -> Result<(), Complaint> {
        let options = CreateOptions { members: self.paths(), ..CreateOptions::default() };
        let make = || create(&self.plan.config, &options, &AtomicBool::new(false), &mut |_, _| {});
        let Some(cut_at) = self.plan.create_cut_at else {
            let made = make().map(drop).or_else(|error| complain("create", error.to_string()));
            self.sim.state().end_calls();
            return made;
        };
        // What is there when the process is killed is looked at before the creation clears it away, as it then could not.
        let folder = self.folder.path().to_owned();
        self.sim.state().calls_until_cut = Some(cut_at);
        let saved = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&saved);
        self.sim.state().on_cut = Some(OnCut(Box::new(move || {
            let read = |path: &PathBuf| std::fs::read(path).ok().map(|bytes| (path.clone(), bytes));
            let entries =
                std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
            let files: Vec<PathBuf> = entries.collect();
            *keeps.lock().expect("nobody panics with it") = files.iter().filter_map(read).collect();
        })));
        let made = make();
        let was_cut = {
            let mut state = self.sim.state();
            state.end_calls();
            (state.calls_until_cut, state.on_cut) = (None, None);
            state.broken.take().is_some()
        };
        if !was_cut {
            return made.map(drop).or_else(|error| complain("create", error.to_string()));
        }
        for path in self.paths() {
            let _ = std::fs::remove_file(path);
        }
        for (path, bytes) in saved.lock().expect("nobody panics with it").drain(..) {
            std::fs::write(&path, bytes).or_else(|error| complain("simulation", error.to_string()))?;
        }
        // It is there, or can be made again.
        let started = ArrayWorld::start(&self.paths(), &self.settings, StartOptions::default());
        if started.world.is_ok() && self.all_labelled(&started.report) {
            drop(started);
            return Ok(());
        }
        drop(started);
        make()
            .map(drop)
            .or_else(|error| complain("create", format!("cut off at call {cut_at}, and again: {error}")))?;
        self.sim.state().end_calls();
        Ok(())
    }

    fn all_labelled(&self, report: &raidlab_runtime::ExamineReport) -> bool {
        report.devices.len() == usize::from(self.plan.config.members)
            && report.array.as_ref().is_some_and(|array| array.absent.is_empty())
    }

    /// One life. Returns whether it was broken off.
    fn live(&self, life: &Life) -> Result<bool, Complaint> {
        let started = ArrayWorld::start(&self.paths(), &self.settings, StartOptions::default());
        let mut world = match started.world {
            Ok(world) => world,
            Err(error) => return complain("start", error.to_string()),
        };
        self.sim.state().end_calls();
        let listener = NbdListener::unix(&self.folder.path().join("socket"));
        let listener = listener.or_else(|error| complain("simulation", error.to_string()))?;
        let options = NbdOptions {
            connections_max: 8,
            requests_max: 16,
            buffers: self.plan.buffers,
            buffer_bytes: ByteCount(self.plan.buffer_bytes),
            ..NbdOptions::default()
        };
        let volume = world.volume_bytes();
        let server = NbdServer::new(options, world.block_size(), volume, vec![listener]);
        let mut server = server.or_else(|error| complain("simulation", error.to_string()))?;
        let (operator, commands) =
            operator_line().or_else(|error| complain("simulation", error.to_string()))?;
        world.attach_operator(commands);
        self.sim.set_orderly(Some(self.orderly(operator)));
        let cancel = {
            let mut state = self.sim.state();
            state.begin_life(life, volume.get());
            Arc::clone(&state.cancel)
        };
        let served = world.serve(&mut server, &cancel);
        let ended = match served {
            Err(ArrayError::Cancelled) | Ok(()) if self.sim.state().broken.is_none() => {
                drop(server);
                world.stop(&AtomicBool::new(false))
            }
            other => {
                drop(server);
                other
            }
        };
        self.sim.set_orderly(None);
        drop(world);
        self.sim.state().close_ring();
        self.end_life(&ended)
    }

    fn end_life(&self, ended: &Result<(), ArrayError>) -> Result<bool, Complaint> {
        let mut state = self.sim.state();
        // What is done between two lives ends none.
        state.life.end = LifeEnd::Stop;
        if let Some(complaint) = state.complaint.take() {
            return Err(complaint);
        }
        let nvram = state.nvram_bytes.take();
        match state.broken.take() {
            Some(how @ (Broken::Kill | Broken::PowerCut)) => {
                if how == Broken::Kill && (self.plan.survives_kills() || state.rest == Rest::Over) {
                    state.common.oracle.kill();
                } else {
                    state.common.oracle.crash();
                }
                if let (Some(path), Some(bytes)) = (&state.nvram, nvram) {
                    std::fs::write(path, bytes).or_else(|error| complain("simulation", error.to_string()))?;
                }
                Ok(true)
            }
            _ => match ended {
                Ok(()) => {
                    state.common.oracle.stop();
                    Ok(false)
                }
                Err(error) => complain("stop", error.to_string()),
            },
        }
    }

    /// Carries out what people and other processes do.
    fn orderly(&self, operator: Operator) -> crate::kernel::Orderly {
        let (paths, settings) = (Arc::clone(&self.members), self.settings.clone());
        let (folder, sim) = (self.folder.path().to_owned(), Arc::clone(&self.sim));
        let mut spares = 0;
        Box::new(move |fault| match fault {
            Fault::SecondStart => {
                let known = paths.lock().expect("nobody panics with it").clone();
                put_in_place(Some(Arc::new(OtherProcess::default())));
                // The lock of NVRAM would be met first.
                let settings = RunSettings { nvram: None, ..settings.clone() };
                let started = ArrayWorld::start(&known, &settings, StartOptions::default());
                put_in_place(Some(Arc::new(Handle(Arc::clone(&sim)))));
                // It has no ring, so that it fails in any case: it must do so at the first locked device.
                let refused = matches!(&started.world, Err(ArrayError::Device(DeviceError::InUse { .. })));
                std::mem::forget(started.world);
                if refused { Ok(()) } else { Err("devices in use were taken for another start".to_owned()) }
            }
            Fault::Fail { member } => {
                ask(&operator, Command::Fail { device: member.to_string() });
                Ok(())
            }
            Fault::Check => {
                ask(&operator, Command::Check);
                Ok(())
            }
            Fault::Replace { member } => {
                spares += 1;
                let with = folder.join(format!("new-{member}-{spares}-{}", sim.state().now.get()));
                paths.lock().expect("nobody panics with it").push(with.clone());
                let device = member.to_string();
                ask(
                    &operator,
                    Command::Replace { device, with, destroy_data: false, server_restarted: false },
                );
                Ok(())
            }
            _ => Ok(()),
        })
    }
}

/// Has a thread ask, since the array's own answers; returns when the array can hear it.
fn ask(operator: &Operator, command: Command) {
    let (begun, told) = mpsc::channel::<()>();
    let operator = operator.clone();
    std::thread::spawn(move || {
        drop(begun);
        let _answer: Result<Answer, _> = operator.ask(command);
    });
    let _ = told.recv();
    // The question is asked right behind that; whether now or a moment later changes when it is heard, and nothing else.
    std::thread::sleep(std::time::Duration::from_millis(1));
}

/// What another process would have: a clock of its own, and nothing that is simulated.
#[derive(Debug, Default)]
struct OtherProcess(AtomicU64);

impl Kernel for OtherProcess {
    fn ring(&self, _files: u16) -> Box<dyn KernelRing> {
        Box::new(NoRing)
    }

    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }

    fn pause(&self, span: NanoSpan) {
        self.0.fetch_add(20 * span.get(), Ordering::Relaxed);
    }

    fn begin_call(&self, _call: &Call<'_>) -> io::Result<()> {
        Ok(())
    }

    fn before_store(&self, _store: NvramStore) {}

    fn keeps_dsync(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct NoRing;

#[allow(unsafe_code)]
impl KernelRing for NoRing {
    unsafe fn push(&mut self, _entry: &io_uring::squeue::Entry) {}

    fn set_file(&mut self, _place: u16, _file: i32) {}

    fn enter(&mut self, _at_most: Option<NanoSpan>) -> Result<(), rustix::io::Errno> {
        Err(rustix::io::Errno::IO)
    }

    fn next_end(&mut self) -> Option<raidlab_device::ring::EntryEnd> {
        None
    }

    fn in_flight(&self) -> u32 {
        0
    }

    fn unsubmitted(&self) -> u32 {
        0
    }
}
