//! Serves a new array over files until a signal or the end of its standard input, to measure the server by itself.
//!
//! ```text
//! cargo run --release -p raidlab-export --example serve -- FOLDER SOCKET [LEVEL] [MEMBERS] [MIB_PER_MEMBER] [CACHE_MIB] [TLS]
//! ```
//! FOLDER must exist and hold no members. TLS is a folder of certificates; with it clients may ask for TLS. `bench/nbd-against-nbdkit.sh` uses it.

use raidlab_array::{ArrayError, ArrayWorld, CreateOptions, RunSettings, StartOptions, create};
use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache, Resilience, WritePolicy};
use raidlab_export::{ClientCertificates, NbdListener, NbdOptions, NbdServer, TlsServer};
use raidlab_units::{BlockSize, ByteCount};
use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, socket, ..] = &words[..] else {
        return Err("usage: serve FOLDER SOCKET [LEVEL] [MEMBERS] [MIB_PER_MEMBER] [CACHE_MIB] [TLS]".into());
    };
    let word = |place: usize, default: &str| words.get(place).map_or(default, String::as_str).to_owned();
    let config = ArrayConfig {
        level: word(2, "0").parse()?,
        members: word(3, "2").parse()?,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B4096,
        member_size: ByteCount::from_mib(word(4, "128").parse()?),
        member_cache: MemberCache::On,
        cache: CacheConfig {
            size: ByteCount::from_mib(word(5, "512").parse()?),
            write_policy: WritePolicy::WriteBack,
            ..CacheConfig::default()
        },
        staging_size: ByteCount::from_mib(16),
        resilience: Resilience::default(),
    };
    let files = |place| Path::new(folder).join(format!("member-{place}"));
    let members: Vec<_> = (0..config.members).map(files).collect();
    let options = CreateOptions { members: members.clone(), ..CreateOptions::default() };
    create(&config, &options, &STOP, &mut |_, _| {})?;
    let mut world = ArrayWorld::start(&members, &RunSettings::of(&config), StartOptions::default()).world?;
    let mut listener = NbdListener::unix(Path::new(socket))?;
    if let Some(folder) = words.get(6) {
        listener =
            listener.offering(&TlsServer::from_folder(Path::new(folder), ClientCertificates::NotAsked)?);
    }
    let (block_size, volume) = (config.block_size, world.volume_bytes());
    let mut server = NbdServer::new(NbdOptions::default(), block_size, volume, vec![listener])?;
    std::thread::spawn(|| {
        // Whoever started this ends it by closing the pipe.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        STOP.store(true, Ordering::Relaxed);
    });
    eprintln!("serving {volume} at {socket}");
    match world.serve(&mut server, &STOP) {
        Ok(()) | Err(ArrayError::Cancelled) => Ok(world.stop(&AtomicBool::new(false))?),
        Err(error) => Err(error.into()),
    }
}
