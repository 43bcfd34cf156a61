//! Output of real tools: sysstat 12.6, PCP 6.0, Prometheus 2.42 with `node_exporter`, over one loop device under fio at 130 reads and 60
//! writes of 8.8 KiB per second (half of them 4, half 16 KiB); the others as their manuals have them.

use proptest::prelude::*;
use raidlab_history::{DeviceHistory, History, HistoryFormat, detect, read};

const SADF: &str = include_str!("data/sadf.json");
const SADF_TABLE: &str = include_str!("data/sadf-d.csv");
const IOSTAT_JSON: &str = include_str!("data/iostat.json");
const IOSTAT: &str = include_str!("data/iostat.txt");
const IOSTAT_SHORT: &str = include_str!("data/iostat-d.txt");
const PMREP: &str = include_str!("data/pmrep.csv");
const PMDUMPTEXT: &str = include_str!("data/pmdumptext.txt");
const PROMETHEUS: &str = include_str!("data/prometheus.json");

/// As `psql --csv -c "select now(), * from pg_stat_io"` of `PostgreSQL` 16 has it, twice.
const PG_STAT_IO: &str = "\
now,backend_type,object,context,reads,read_time,writes,write_time,writebacks,writeback_time,extends,extend_time,op_bytes,hits,evictions,reuses,fsyncs,fsync_time,stats_reset
2026-11-28 20:00:00+00,client backend,relation,normal,1000,0,200,0,0,0,10,0,8192,5,0,,0,0,2026-11-01 00:00:00+00
2026-11-28 20:00:00+00,checkpointer,relation,normal,,,500,0,0,0,,,8192,,,,0,0,2026-11-01 00:00:00+00
2026-11-28 20:00:10+00,client backend,relation,normal,2000,0,300,0,0,0,20,0,8192,5,0,,0,0,2026-11-01 00:00:00+00
2026-11-28 20:00:10+00,checkpointer,relation,normal,,,890,0,0,0,,,8192,,,,0,0,2026-11-01 00:00:00+00
";
/// As psql prints one.
const PG_TABLE: &str = "
              now              |  backend_type  |  object  | context | reads | writes | op_bytes |      stats_reset
-------------------------------+----------------+----------+---------+-------+--------+----------+------------------------
 2026-11-02 00:00:00+00        | client backend | relation | normal  | 86400 |  43200 |     8192 | 2026-11-01 00:00:00+00
(1 row)
";
const PERFMON: &str = "\
\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\SRV1\\PhysicalDisk(0 C:)\\Disk Reads/sec\",\"\\\\SRV1\\PhysicalDisk(0 C:)\\Disk Writes/sec\",\"\\\\SRV1\\PhysicalDisk(0 C:)\\Disk Read Bytes/sec\",\"\\\\SRV1\\PhysicalDisk(0 C:)\\Avg. Disk sec/Read\",\"\\\\SRV1\\PhysicalDisk(_Total)\\Disk Reads/sec\"\r
\"11/28/2026 20:00:00.125\",\" \",\" \",\" \",\" \",\" \"\r
\"11/28/2026 20:00:15.125\",\"100.5\",\"50\",\"823296\",\"0.0021\",\"100.5\"\r
";
const ESXTOP: &str = "\
\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\esx1\\Memory\\Free MBytes\",\"\\\\esx1\\Physical Disk SCSI Device(naa.600a)\\Reads/sec\",\"\\\\esx1\\Physical Disk SCSI Device(naa.600a)\\Writes/sec\",\"\\\\esx1\\Physical Disk SCSI Device(naa.600a)\\MBytes Read/sec\",\"\\\\esx1\\Physical Disk SCSI Device(naa.600a)\\Average Guest MilliSec/Read\",\"\\\\esx1\\Virtual Disk(vm1:scsi0:0)\\Reads/sec\"
\"11/28/2026 20:00:00\",\"123\",\"200.0\",\"100.0\",\"1.5\",\"4.2\",\"200.0\",
";

fn device(text: &str, format: HistoryFormat, name: &str) -> DeviceHistory {
    assert_eq!(detect(text), Some(format), "{text:.80}");
    let (found, readings) = read("file", text).unwrap_or_else(|error| panic!("{error}"));
    let history = History::of(&[("file".into(), found)], &readings);
    let list: Vec<_> = history.devices.iter().map(|it| it.device.clone()).collect();
    let device = history.devices.into_iter().find(|it| it.device == name);
    device.unwrap_or_else(|| panic!("no {name} in {list:?}"))
}

fn near(found: Option<f64>, told: f64) {
    assert!(found.is_some_and(|it| (it / told - 1.0).abs() < 0.1), "{found:?} instead of {told}");
}

/// All tools saw the same load; what each does not tell is left out.
#[test]
fn tools_that_watched_one_load_tell_the_same() {
    use HistoryFormat::{IostatJson, IostatText, Prometheus, SadfDatabase, SadfJson};
    for (text, format) in [(IOSTAT_JSON, IostatJson), (IOSTAT, IostatText)] {
        let it = device(text, format, "loop2");
        near(it.iops.map(|it| it.mean), 194.0);
        near(it.read_pct, 68.0);
        near(it.mean_read_bytes, 9200.0);
        near(it.mean_write_bytes, 8900.0);
        near(it.mb_per_s.map(|it| it.mean), 1.77);
        assert!(it.read_ms.is_some_and(|it| it.mean < 0.1) && it.busy_pct.is_some(), "{it:?}");
        assert!((3..=4).contains(&it.readings), "the report since the start is left out: {}", it.readings);
    }
    for (text, format) in [(SADF, SadfJson), (SADF_TABLE, SadfDatabase)] {
        let it = device(text, format, "loop2");
        near(it.iops.map(|it| it.mean), 194.0);
        near(it.mb_per_s.map(|it| it.mean), 1.77);
        // The share of the bytes: requests are not told apart.
        near(it.read_pct, 70.0);
        assert_eq!((it.host.as_str(), it.interval_s, it.in_flight.is_some()), ("vm", Some(1.0), true));
    }
    let short = device(IOSTAT_SHORT, IostatText, "loop2");
    near(short.iops.map(|it| it.mean), 194.0);
    assert_eq!((short.read_ms, short.in_flight), (None, None));
    let it = device(PROMETHEUS, Prometheus, "loop2");
    assert_eq!(it.host, "127.0.0.1:19100");
    near(it.read_pct, 68.9);
    near(it.mean_read_bytes, 9304.0);
    assert!(it.busy_pct.is_some_and(|it| it.max < 10.0), "{it:?}");
}

#[test]
fn pcp_tells_rates_of_its_devices() {
    let it = device(PMREP, HistoryFormat::PcpCsv, "vda");
    assert_eq!((it.readings, it.iops.map(|it| it.max)), (4, Some(67.965 + 80.959)));
    assert_eq!(it.busy_pct.map(|it| it.max.round()), Some(5.0));
    near(it.mb_per_s.map(|it| it.max), (431.780 + 2546.700) * 1024.0 / 1e6);
    let it = device(PMDUMPTEXT, HistoryFormat::PcpText, "vda");
    assert_eq!((it.host.as_str(), it.readings), ("local", 3));
}

#[test]
fn counters_of_postgresql_are_rates_between_snapshots() {
    let it = device(PG_STAT_IO, HistoryFormat::PgStatIo, "pg_stat_io");
    // 1000 reads, 100 + 390 writes and 10 extensions in ten seconds.
    assert_eq!(
        (it.readings, it.iops.map(|it| it.mean), it.read_pct.map(f64::round)),
        (1, Some(150.0), Some(67.0))
    );
    assert_eq!(it.mean_write_bytes, Some(8192.0));
    let it = device(PG_TABLE, HistoryFormat::PgStatIo, "pg_stat_io");
    assert_eq!((it.iops.map(|it| it.mean), it.mean_read_bytes), (Some(1.5), Some(8192.0)));
}

#[test]
fn performance_counters_are_found_by_their_paths() {
    let it = device(PERFMON, HistoryFormat::Perfmon, "0 C:");
    assert_eq!((it.host.as_str(), it.readings, it.iops.map(|it| it.mean)), ("SRV1", 1, Some(150.5)));
    assert_eq!((it.mean_read_bytes, it.read_ms.map(|it| it.mean)), (Some(8192.0), Some(2.1)));
    let it = device(ESXTOP, HistoryFormat::Esxtop, "naa.600a");
    assert_eq!(
        (it.iops.map(|it| it.mean), it.mean_read_bytes),
        (Some(300.0), Some(1.5 * 1_048_576.0 / 200.0))
    );
    assert_eq!(it.mean_write_bytes, None, "its bytes are not told");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let rows = [
        ("hello\n", "file: this is no history of a kind that is known: sadf's JSON"),
        (&IOSTAT.replace("132.00", "13x.00"), "file, line 16: r/s is '13x.00', which is no number"),
        (&IOSTAT.replace("  60.00    528.00", ""), "file, line 16: 21 cells where the head has 23"),
        (&PMREP.replace("67.965,", ""), "file, line 3: 5 cells where the head has 6"),
        (&PMREP.replace("2026-11-28 21:00:03", "later"), "file, line 3: 'later' is no time"),
        (&PERFMON.replace("\"50\"", "\"fifty\""), "file, line 3: 0 C: is 'fifty', which is no number"),
        (&IOSTAT_JSON[..400], "file, line 1"),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{},\"values\":[]}]}}",
            "file: nothing in it says what a device read or wrote: ask for the counters themselves",
        ),
    ];
    for (text, told) in rows {
        let error = read("file", text).expect_err(told).to_string();
        assert!(error.starts_with(told), "{error}\ninstead of {told}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Damage anywhere is an error or another figure, never a panic.
    #[test]
    fn damaged_histories_are_bearable(which in 0..12usize, at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let all = [SADF, SADF_TABLE, IOSTAT_JSON, IOSTAT, IOSTAT_SHORT, PMREP, PMDUMPTEXT, PROMETHEUS, PG_STAT_IO, PG_TABLE, PERFMON, ESXTOP];
        let mut bytes = all[which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        bytes.truncate(cut.index(bytes.len()).max(bytes.len() / 2));
        if let Ok((format, readings)) = read("file", &String::from_utf8_lossy(&bytes)) {
            let history = History::of(&[("file".into(), format)], &readings);
            let _ = history.devices.iter().map(DeviceHistory::workload).count();
            prop_assert!(History::from_toml("h", &history.to_toml()).is_ok());
        }
    }
}
