//! Rows of file servers and networks: their simulations, and the errors of invalid ones.

use super::*;
use crate::predict::tests::{run, task};
use crate::predict::{PredictError, Prediction};
use crate::published::{PublishedError, parse_published};

const HEADER: &str = "id,system,raid,drives,drive,write_policy,read_policy,io_policy,filesystem,workload,block_kib,\
                      queue_depth,streams,volumes,file_mib,metric,value,note";

fn rows(lines: &[&str]) -> Vec<PublishedRow> {
    parse_published("mine.csv", &format!("{HEADER}\n{}\n", lines.join("\n"))).unwrap()
}

fn predicted(lines: &[&str]) -> Prediction {
    let catalog = Catalog::builtin();
    run(&task(&rows(lines), &catalog, 1)).unwrap()
}

fn figures(prediction: &Prediction) -> Vec<f64> {
    prediction.rows.iter().map(|row| row.comparison.predicted).collect()
}

#[test]
fn readers_on_one_and_two_controllers_and_on_a_stripe_are_simulated() {
    let prediction = predicted(&[
        "a,asa/3ware-7850,5,8,wd1000bb,,,,ext2,cdf-parallel-read,1024,,1,1,16,mb_per_s,83,",
        "b,asa/3ware-7850,5,8,wd1000bb,,,,ext2,cdf-parallel-read,1024,,2,2,16,mb_per_s,117,",
        "c,polywell/3ware-7850+md0,50,16,wd1000bb,,,,,cdf-parallel-read,1024,,1,1,16,mb_per_s,127,512 KiB chunk",
    ]);
    let found = figures(&prediction);
    assert!((60.0..110.0).contains(&found[0]), "{found:?}");
    assert!(found[1] > 1.2 * found[0] && found[2] > 1.2 * found[0], "{found:?}");
    assert!(prediction.fitted_figures.iter().any(|figure| figure.entry == "asa" && figure.key == "bus.rate"));
    let result = &prediction.configurations[0].result;
    assert_eq!(result.iodepth, 1);
    assert!(result.settings.contains_key("bus"));
}

#[test]
fn what_a_row_leaves_open_is_what_its_server_serves() {
    let named = "a,asa/3ware-7850,5,8,wd1000bb,,,,ext2,cdf-parallel-read,1024,,2,1,512,mb_per_s,57,";
    let open = "b,asa/nfs-tcp-32k-jumbo,,,,,,,,cdf-parallel-read,1024,,2,1,512,mb_per_s,57,";
    let catalog = Catalog::builtin();
    let rows = rows(&[named, open]);
    let setups: Vec<_> =
        rows.iter().map(|row| set_up_served(row, &task(&rows, &catalog, 1)).unwrap()).collect();
    assert_eq!(setups[0].array, setups[1].array);
    let SetupLoad::Served(load) = &setups[1].load else { panic!("{:?}", setups[1].load) };
    let (transfer, mtu) = (ByteCount::from_kib(32), ByteCount(9000));
    assert_eq!(load.access, Access::Nfs { network: "sk-9843".into(), transfer, mtu, tcp: true });
    assert_eq!((load.streams, load.controllers, load.stripe), (2, 1, None));
}

#[test]
fn versions_of_nfs_are_named_and_differ_in_the_longest_call() {
    let system = |name: &str| format!("a,asa/{name},,,,,,,,cdf-parallel-read,1024,,2,1,512,mb_per_s,57,");
    let catalog = Catalog::builtin();
    let access = |name: &str| {
        let rows = rows(&[&system(name)]);
        let setup = set_up_served(&rows[0], &task(&rows, &catalog, 1)).unwrap();
        let SetupLoad::Served(load) = setup.load else { panic!("{:?}", setup.load) };
        load.access
    };
    assert_eq!(access("nfs2-udp-8k"), access("nfs3-udp-8k"));
    assert_eq!(access("nfs3-tcp-32k-jumbo"), access("nfs-tcp-32k-jumbo"));
}

#[test]
fn networks_need_no_array_and_their_notes_say_how_long_packets_are() {
    let prediction = predicted(&[
        "a,gigabit/sk-9843/mtu-1500,,,,,,,,cdf-memory-to-memory,9.765625,,,,,mb_per_s,67,\"IP packet 1000 B, send size 10000 B\"",
        "b,gigabit/sk-9843/mtu-1500,,,,,,,,cdf-memory-to-memory,9.765625,,,,,mb_per_s,67,",
        "c,asa/gigabit/sk-9843/mtu-1500,,,,,,,,cdf-disk-to-memory,9.765625,,,,,mb_per_s,46,",
        "d,asa/rootd,,,,,,,,cdf-rootd-read,,,1,,16,mb_per_s,51,local",
        "e,asa/rootd,,,,,,,,cdf-rootd-read,,,1,,16,mb_per_s,36,over gigabit Ethernet",
    ]);
    let found = figures(&prediction);
    assert!(found[0] < found[1] && found[2] < found[1] && found[4] < found[3], "{found:?}");
    assert_eq!(prediction.configurations[0].array, None);
    assert!(prediction.configurations[0].result.settings.contains_key("interrupts per second"));
}

#[test]
fn the_chunk_of_a_stripe_stands_in_the_note() {
    let line = |note| {
        format!(
            "a,polywell/3ware-7850+md0,50,16,wd1000bb,,,,,cdf-parallel-read,1024,,1,1,64,mb_per_s,1,{note}"
        )
    };
    for (note, kib) in
        [("a stripe with 512 KiB chunk", 512), ("32 KiB chunk", 32), ("no chunk", 64), ("", 64)]
    {
        assert_eq!(chunk_kib(&rows(&[&line(note)])[0]), kib, "{note}");
    }
}

#[test]
fn what_is_wrong_with_a_row_is_named() {
    let lines = [
        ("asb/3ware-7850,5,8,wd1000bb", "cdf-parallel-read,1024", "system"),
        ("asa/3ware-7851,5,8,wd1000bb", "cdf-parallel-read,1024", "system"),
        ("asa/3ware-7850,5,8,wd1000bc", "cdf-parallel-read,1024", "drive"),
        ("asa/3ware-7850,5,8,wd1000bb", "cdf-parallel-reads,1024", "workload"),
        ("asa/nfs-sctp-8k,,,", "cdf-parallel-read,1024", "system"),
        ("asa/nfs-udp-8k-giant,,,", "cdf-parallel-read,1024", "system"),
        ("asa/nfs2-udp-32k,,,", "cdf-parallel-read,1024", "system"),
        ("asa/nfs4-udp-8k,,,", "cdf-parallel-read,1024", "system"),
        ("polywell/nfs-udp-8k,,,", "cdf-parallel-read,1024", "system"),
        ("asa,,,", "cdf-parallel-read,1024", "system"),
        ("gigabit/sk-9843/mtu-1,,,", "cdf-memory-to-memory,1", "system"),
        ("gigabit/sk-9843/mtu-1500,,,", "cdf-memory-to-memory,", "block_kib"),
    ];
    let catalog = Catalog::builtin();
    for (hardware, workload, column) in lines {
        let rows = rows(&[&format!("a,{hardware},,,,ext2,{workload},,1,1,64,mb_per_s,1,")]);
        let Err(PredictError::Rows(PublishedError::Rows { problems, .. })) = run(&task(&rows, &catalog, 1))
        else {
            panic!("{hardware} {workload} was predicted");
        };
        let found: Vec<_> = problems.iter().map(|problem| problem.column).collect();
        assert_eq!(found, [column], "{hardware} {workload}");
    }
}
