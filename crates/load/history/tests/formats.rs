//! Output of real tools: sysstat 12.6, PCP 6.0, Prometheus 2.42 with `node_exporter`, over one loop device under fio at 130 reads and 60
//! writes of 8.8 KiB per second (half of them 4, half 16 KiB); the others as their manuals have them.

use proptest::prelude::*;
use raidlab_history::{
    DateOrder, DeviceHistory, History, HistoryError, HistoryFormat, Readings, Told, detect,
};
use std::cell::Cell;

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

fn read(file: &str, text: &str) -> Result<(HistoryFormat, Readings), HistoryError> {
    raidlab_history::read(file, text, Told::default())
}

fn device(text: &str, format: HistoryFormat, name: &str) -> DeviceHistory {
    assert_eq!(detect(text), Some(format), "{text:.80}");
    let (found, readings) = read("file", text).unwrap_or_else(|error| panic!("{error}"));
    let history = History::of(&[("file".into(), found)], &readings, &[name.to_owned()]);
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
        // Requests are not told apart.
        near(it.read_bytes_pct, 70.0);
        assert_eq!((it.read_pct, it.mean_read_bytes, it.mean_write_bytes), (None, None, None));
        assert_eq!((it.host.as_str(), it.interval_s, it.in_flight.is_some()), ("vm", Some(1.0), true));
    }
    let short = device(IOSTAT_SHORT, IostatText, "loop2");
    near(short.iops.map(|it| it.mean), 194.0);
    assert_eq!((short.read_ms, short.in_flight), (None, None));
    assert_eq!((short.read_pct, short.mean_read_bytes, short.mean_write_bytes), (None, None, None));
    assert!(short.read_bytes_pct.is_some());
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

/// `pmrep -k` has host and interval in front; `blkread` counts blocks of 512 bytes.
#[test]
fn extended_csv_of_pcp_and_its_blocks_are_read() {
    for by in [",", ";"] {
        let row = |cells: &[&str]| cells.join(by) + "\n";
        let text = "Host,Interval,".to_owned()
            + &row(&[
                "Time",
                "\"disk.dev.read-vda\"",
                "\"disk.dev.write-vda\"",
                "\"disk.dev.blkread-vda\"",
                "\"disk.dev.blkwrite-vda\"",
            ])
            + &row(&["db1", "0", "2026-11-28 21:00:00 UTC+0", "", "", "", ""])
            + &row(&["db1", "10", "2026-11-28 21:00:10 UTC+0", "30.0", "10.0", "480.0", "80.0"]);
        let it = device(&text, HistoryFormat::PcpCsv, "vda");
        assert_eq!(
            (it.host.as_str(), it.iops.map(|it| it.mean), it.read_pct),
            ("db1", Some(40.0), Some(75.0))
        );
        assert_eq!((it.mean_read_bytes, it.mean_write_bytes), (Some(8192.0), Some(4096.0)));
        let cut = read("file", &text.replace(&format!("{by}80.0"), "")).expect_err("cut").to_string();
        assert_eq!(cut, "file, line 3: 6 cells where the head has 7");
    }
    let headed = format!("#\n#  archive: x\n# timezone: UTC\n#\n{PMREP}");
    assert_eq!(read("file", &headed).map(|it| it.1.by_device), read("file", PMREP).map(|it| it.1.by_device));
    let sums = "Time,\"disk.dev.total-vda\",\"disk.dev.blktotal-vda\"\n2026-11-28 21:00:10,40,560\n";
    let it = device(sums, HistoryFormat::PcpCsv, "vda");
    assert_eq!((it.iops.map(|it| it.mean), it.mb_per_s.map(|it| it.mean)), (Some(40.0), Some(0.28672)));
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

/// `iostat -xt` of RHEL 7, whose `await` stands in front of those of reads and writes; twice started, into one file.
const IOSTAT_EL7: &str = "\
Linux 3.10.0-1160.el7.x86_64 (db1) \t05/16/2024 \t_x86_64_\t(8 CPU)

05/16/2024 09:00:00 PM
Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util
sda               0.02     0.52    9.66    2.46     0.31     0.10    70.79     0.27   23.97    6.68   91.77   2.94   3.56
sda1              0.00     0.00   80.00   20.00   640.00   320.00    19.20     2.37   23.70    6.68   91.77   2.94  29.40
dm-0              0.00     0.00   80.00   20.00   640.00   320.00    19.20     2.37   23.70    6.68   91.77   2.94  29.40

05/16/2024 09:00:10 PM
Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util
sda               0.00     0.00   80.00   20.00   640.00   320.00    19.20     2.37   23.70    6.68   91.77   2.94  29.40
sda1              0.00     0.00   80.00   20.00   640.00   320.00    19.20     2.37   23.70    6.68   91.77   2.94  29.40
dm-0              0.00     0.00   80.00   20.00   640.00   320.00    19.20     2.37   23.70    6.68   91.77   2.94  29.40

";
const IOSTAT_H: &str = "\
Linux 6.1.0-18-amd64 (web1) \t05/06/24 \t_x86_64_\t(4 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           1.0%    0.0%    1.0%    1.0%    0.0%   97.0%

     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device
  100.00      1.6M     0.00   0.0%    0.20    16.0k nvme0n1

     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device
   50.00    400.0k     0.00   0.0%    0.40     8.0k nvme0n1

";
const SAR_TEXT: &str = "\
Linux 6.1.0-18-amd64 (web1) \t16/05/24 \t_x86_64_\t(4 CPU)

23:50:01          CPU     %user     %nice   %system   %iowait    %steal     %idle
00:00:01          all      1.00      0.00      1.00      1.00      0.00     97.00

23:50:01          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
00:00:01          sda     12.00    120.00     24.00      0.00     12.00      0.01      0.50      1.00
00:10:01          sda     14.00    120.00     24.00      0.00     12.00      0.01      0.50      1.00
Average:          sda     13.00    120.00     24.00      0.00     12.00      0.01      0.50      1.00
";
const SADF_ALL: &str = "\
# hostname;interval;timestamp;CPU;%user;%nice
db1;600;2024-05-06 00:10:01 UTC;-1;1.00;0.00
# hostname;interval;timestamp;tps;rtps;wtps;dtps;bread/s;bwrtn/s;bdscd/s
db1;600;2024-05-06 00:10:01 UTC;100.00;60.00;40.00;0.00;1600.00;800.00;0.00
# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util
db1;600;2024-05-06 00:10:01 UTC;sda;100.00;800.00;400.00;0.00;12.00;0.50;5.00;10.00
";

/// Devices and notes as they are without choosing any.
fn all(text: &str) -> (Vec<String>, String) {
    let (format, readings) = read("file", text).unwrap_or_else(|error| panic!("{error}"));
    let history = History::of(&[("file".into(), format)], &readings, &[]);
    (
        history.devices.iter().map(|it| format!("{} {}", it.host, it.device)).collect(),
        history.notes.join("; "),
    )
}

#[test]
fn what_lies_on_other_devices_is_counted_once() {
    let (devices, notes) = all(IOSTAT_EL7);
    assert_eq!(devices, ["db1 sda"]);
    assert!(notes.contains("left out, since they lie on other devices of their host: dm-0, sda1"), "{notes}");
    // Who asks for one has it.
    assert_eq!(device(IOSTAT_EL7, HistoryFormat::IostatText, "dm-0").readings, 1);
}

#[test]
fn each_run_of_iostat_begins_with_the_time_since_the_start() {
    let twice = format!("{IOSTAT_EL7}{IOSTAT_EL7}");
    assert_eq!(device(&twice, HistoryFormat::IostatText, "sda").readings, 2);
    let whole = Told { has_no_report_since_boot: true, ..Told::default() };
    let (_, readings) = raidlab_history::read("file", &twice, whole).expect("it is whole");
    assert_eq!(readings.by_device[&("db1".to_owned(), "sda".to_owned())].len(), 4);
    let one = all(&IOSTAT_EL7[..IOSTAT_EL7.rfind("05/16").unwrap()]).1;
    assert!(one.contains("means since the start of the system"), "{one}");
}

/// `sdb` did 100 reads per second in one of ten reports, and `-z` leaves it out of the others, some of which list nothing.
#[test]
fn devices_that_iostat_leaves_out_are_idle() {
    let head = "Device            r/s     rkB/s     w/s     wkB/s  aqu-sz  %util\n";
    let line = |name: &str, reads: f64| format!("{name} {reads:.2} {:.2} 0.00 0.00 0.10 1.00\n", reads * 4.0);
    let report = |lines: &[String]| format!("{head}{}\n\n", lines.concat());
    let object = |line: &String| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let names = ["r/s", "rkB/s", "w/s", "wkB/s", "aqu-sz", "util"];
        let figures: Vec<String> =
            names.iter().zip(&cells[1..]).map(|(name, cell)| format!("\"{name}\": {cell}")).collect();
        format!("{{\"disk_device\": \"{}\", {}}}", cells[0], figures.join(", "))
    };
    let both = |reports: &[Vec<String>]| {
        let banner = "Linux 6.1.0 (db1) \t11/29/26 \t_x86_64_\t(2 CPU)\n\n";
        let text = banner.to_owned() + &reports.iter().map(|lines| report(lines)).collect::<String>();
        let of_json = |lines: &Vec<String>| {
            format!("{{\"disk\": [{}]}}", lines.iter().map(object).collect::<Vec<_>>().join(", "))
        };
        let statistics = reports.iter().map(of_json).collect::<Vec<_>>().join(", ");
        let json = format!(
            "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"db1\", \"statistics\": [{statistics}]}}]}}}}"
        );
        [text, json]
    };
    let told = |text: &str, name: &str, whole: bool| {
        let told = Told { has_no_report_since_boot: whole, ..Told::default() };
        let (format, readings) = raidlab_history::read("file", text, told).expect("it is whole");
        let history = History::of(&[("file".into(), format)], &readings, &[name.to_owned()]);
        let it = history.devices.into_iter().find(|it| it.device == name);
        let it = it.unwrap_or_else(|| panic!("no {name} in {text}"));
        (it.readings, it.iops.map(|it| it.mean), history.notes.iter().any(|note| note.contains("iostat -z")))
    };
    let (a, b) = (line("sda", 50.0), line("sdb", 100.0));
    let mut reports = vec![vec![a.clone()]; 10];
    reports[4].push(b.clone());
    reports[7].clear();
    let since_boot = [vec![vec![line("sda", 7.0), line("sdb", 3.0)]], reports.clone()].concat();
    for text in both(&since_boot) {
        assert_eq!(told(&text, "sda", false), (10, Some(45.0), true), "{text}");
        assert_eq!(told(&text, "sdb", false), (10, Some(10.0), true), "{text}");
    }
    // `iostat -y` does not say what there is at first.
    for text in both(&reports) {
        assert_eq!(told(&text, "sdb", true), (10, Some(10.0), true), "{text}");
    }
    // Without `-z` idle devices are listed: one that appears was plugged in, and its first report is one as the others.
    let plain = |more: &dyn Fn(usize) -> Option<String>| -> Vec<Vec<String>> {
        let idle = "sdc 0.00 0.00 0.00 0.00 0.00 0.00\n".to_owned();
        (0..11).map(|at| [a.clone(), idle.clone()].into_iter().chain(more(at)).collect()).collect()
    };
    for text in both(&plain(&|at| (at >= 6).then(|| b.clone()))) {
        assert_eq!(told(&text, "sdb", false), (5, Some(100.0), false), "{text}");
        assert_eq!(told(&text, "sda", false), (10, Some(50.0), false), "{text}");
    }
    for text in both(&plain(&|at| (at < 6).then(|| b.clone()))) {
        assert_eq!(told(&text, "sdb", false), (5, Some(100.0), false), "{text}");
    }
    // `-h` has a table of each kind: zeros in one of them are no idle device.
    let tables = |name: &str| {
        format!(
            "     r/s     rkB/s Device\n0.00 0.0k {name}\n\n     w/s     wkB/s Device\n8.00 4.0k {name}\n\n"
        )
    };
    let text =
        ["sda", "sdb", "sda", "sda", "sda"].map(|name| format!("avg-cpu:  %user\n 1.0%\n\n{}", tables(name)));
    assert_eq!(told(&text.concat(), "sda", true), (5, Some(6.4), true));
}

#[test]
fn a_mean_of_reads_and_writes_is_neither() {
    let it = device(IOSTAT_EL7, HistoryFormat::IostatText, "sda");
    let means = [it.read_ms, it.write_ms, it.request_ms].map(|it| it.map(|it| it.mean));
    assert_eq!(means, [Some(6.68), Some(91.77), Some(23.7)]);
    let it = device(SAR_TEXT, HistoryFormat::SarText, "sda");
    assert_eq!((it.read_ms, it.write_ms, it.request_ms.map(|it| it.mean)), (None, None, Some(0.5)));
    let command = ESXTOP.replace(
        "Virtual Disk(vm1:scsi0:0)\\Reads/sec",
        "Physical Disk SCSI Device(naa.600a)\\Average Guest MilliSec/Command",
    );
    let it = device(&command, HistoryFormat::Esxtop, "naa.600a");
    assert_eq!(
        (it.read_ms.map(|it| it.mean), it.write_ms, it.request_ms.map(|it| it.mean)),
        (Some(4.2), None, Some(200.0))
    );
}

#[test]
fn the_order_of_dates_is_that_of_the_file() {
    let british = IOSTAT_EL7.replace("05/16/2024", "16/05/24").replace(" PM", "");
    assert_eq!(device(&british, HistoryFormat::IostatText, "sda").readings, 1);
    let at = |text: &str, dates: Option<DateOrder>| {
        let (_, readings) =
            raidlab_history::read("file", text, Told { dates, ..Told::default() }).expect("dates");
        (readings.by_device.values().next().and_then(|list| list[0].at_s), readings.notes.join("; "))
    };
    let may = 1_715_893_210.0;
    assert_eq!(at(&british, None).0, Some(may - 43_200.0));
    assert_eq!(at(IOSTAT_EL7, None).0, Some(may));
    let unclear = IOSTAT_EL7.replace("05/16", "05/06");
    assert!(at(&unclear, None).1.contains("the month is taken for first"), "{}", at(&unclear, None).1);
    let (day, notes) = at(&unclear, Some(DateOrder::DayFirst));
    assert_eq!((day, notes.contains("month")), (Some(may + 20.0 * 86_400.0), false));
    let mixed = read("file", &format!("{british}{IOSTAT_EL7}")).expect_err("both").to_string();
    assert!(mixed.contains("some of its dates have the day first"), "{mixed}");
}

#[test]
fn sysstat_writes_tables_in_more_forms() {
    let it = device(IOSTAT_H, HistoryFormat::IostatText, "nvme0n1");
    assert_eq!(
        (it.readings, it.iops.map(|it| it.mean), it.read_ms.map(|it| it.mean)),
        (1, Some(150.0), Some(0.2))
    );
    assert_eq!(it.mb_per_s.map(|it| it.mean), Some((1.6 * 1_048_576.0 + 400.0 * 1024.0) / 1e6));
    let it = device(SAR_TEXT, HistoryFormat::SarText, "sda");
    assert_eq!(
        (it.host.as_str(), it.readings, it.iops.map(|it| it.max), it.interval_s),
        ("web1", 2, Some(14.0), Some(600.0))
    );
    let it = device(SADF_ALL, HistoryFormat::SadfDatabase, "sda");
    assert_eq!((it.readings, it.iops.map(|it| it.mean)), (1, Some(100.0)));
}

/// sysstat 11.5.1 calls rates by shorter names, and both halves of them are read.
#[test]
fn the_first_json_of_iostat_has_rates() {
    let of = |figures: &str| {
        let report = format!("{{\"disk\": [{{\"disk_device\": \"sda\", {figures}}}]}}");
        format!(
            "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"h\", \"statistics\": [{report}, {report}]}}]}}}}"
        )
    };
    let it = device(
        &of(
            "\"rrqm\": 0.00, \"wrqm\": 1.00, \"r\": 30.00, \"w\": 10.00, \"rkB\": 240.00, \"wkB\": 40.00, \"avgqu-sz\": 0.10",
        ),
        HistoryFormat::IostatJson,
        "sda",
    );
    assert_eq!((it.iops.map(|it| it.mean), it.read_pct), (Some(40.0), Some(75.0)));
    assert_eq!((it.mean_read_bytes, it.mean_write_bytes), (Some(8192.0), Some(4096.0)));
    let it = device(
        &of(
            "\"tps\": 40.00, \"kB_read_per_sec\": 240.00, \"kB_wrtn_per_sec\": 40.00, \"kB_read\": 240, \"kB_wrtn\": 40",
        ),
        HistoryFormat::IostatJson,
        "sda",
    );
    assert_eq!(
        (it.iops.map(|it| it.mean), it.mb_per_s.map(|it| it.mean)),
        (Some(40.0), Some(280.0 * 1024.0 / 1e6))
    );
}

/// What sar, sadf and iostat print besides: the device last, units behind numbers, lines of single figures, both directions together.
#[test]
fn sysstat_prints_what_its_options_ask() {
    let told = |text: &str, format, bytes: f64| {
        let it = device(text, format, "sda");
        assert_eq!(
            (it.readings, it.iops.map(|it| it.max), it.mb_per_s.map(|it| it.max)),
            (2, Some(14.0), Some(bytes / 1e6))
        );
        assert_eq!((it.read_pct, it.mean_read_bytes), (None, None));
    };
    let last = "\
Linux 6.1.0-18-amd64 (web1) \t16/05/24 \t_x86_64_\t(4 CPU)

11:50:01 PM      tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util DEV
11:55:01 PM    12.00    120.00     24.00      0.00     12.00      0.01      0.50      1.00 sda
12:00:01 AM    14.00    120.00     24.00      0.00     12.00      0.01      0.50      1.00 sda
Average:       13.00    120.00     24.00      0.00     12.00      0.01      0.50      1.00 sda
";
    told(last, HistoryFormat::SarText, 144.0 * 1024.0);
    let human = last
        .replace("120.00 ", "120.0k ")
        .replace("24.00 ", "24.0k ")
        .replace("0.00 ", "0.0k ")
        .replace("1.00 ", "1.0% ");
    told(&human, HistoryFormat::SarText, 144.0 * 1024.0);
    let at = |time: &str, tps: &str| {
        let figures = [("tps", tps), ("rkB/s", "120.00"), ("wkB/s", "24.00"), ("await", "0.50")];
        figures
            .map(|(column, value)| format!("vm\t300\t2024-05-16 {time} UTC\tsda\t{column}\t{value}\n"))
            .concat()
    };
    let lines = at("23:50:01", "12.00")
        + &at("23:55:01", "14.00")
        + "vm\t300\t2024-05-16 23:55:01 UTC\t-\ttps\t99.0\n";
    told(&lines, HistoryFormat::SadfLines, 144.0 * 1024.0);
    let cut = read("file", &lines.replace("\tawait\t0.50\n", "\tawait\n")).expect_err("cut").to_string();
    assert_eq!(cut, "file, line 4: 5 cells where the head has 6");
    let short = "\
Linux 6.1.0 (vm) \t11/29/26 \t_x86_64_\t(2 CPU)

Device             tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util
sda               1.00    728.48     0.03    0.62     9.33    0.05   0.63

Device             tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util
sda              12.00    144.00     0.03    0.62     9.33    0.05   0.63

Device             tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util
sda              14.00    144.00     0.03    0.62     9.33    0.05   0.63
";
    told(short, HistoryFormat::IostatText, 144.0 * 1024.0);
}

/// Counters have names in the language of Windows, numbers commas, and files a code page that is not UTF-8.
#[test]
fn windows_speaks_other_languages() {
    let languages = [
        (
            "Physikalischer Datenträger",
            ["Lesevorgänge/s", "Schreibvorgänge/s", "Bytes gelesen/s", "Mittlere Sek./Lesevorgänge"],
        ),
        (
            "Disque physique",
            [
                "Lectures disque/s",
                "Écritures disque/s",
                "Lectures disque, octets/s",
                "Moyenne disque s/lecture",
            ],
        ),
        (
            "Disco físico",
            [
                "Lecturas de disco/s",
                "Escrituras en disco/s",
                "Bytes de lectura de disco/s",
                "Promedio de segundos de disco/lectura",
            ],
        ),
    ];
    for (object, counters) in languages {
        let english = ["Disk Reads/sec", "Disk Writes/sec", "Disk Read Bytes/sec", "Avg. Disk sec/Read"];
        let mut text = PERFMON.replace("PhysicalDisk", object).replace("\"100.5\"", "\"100,5\"");
        for (english, local) in english.into_iter().zip(counters) {
            text = text.replace(english, local);
        }
        let damaged = text.replace(['ä', 'É', 'í'], "\u{fffd}");
        for text in [text.replace("\",\"", "\";\""), damaged, text] {
            let it = device(&text, HistoryFormat::Perfmon, "0 C:");
            assert_eq!(
                (it.iops.map(|it| it.mean), it.mean_read_bytes),
                (Some(150.5), Some(823_296.0 / 100.5))
            );
            assert_eq!(it.read_ms.map(|it| it.mean), Some(2.1));
        }
    }
}

#[test]
fn windows_and_pcp_say_their_units() {
    let idle = PERFMON.replace("Avg. Disk sec/Read", "% Idle Time").replace("0.0021", "21.0");
    let it = device(&idle, HistoryFormat::Perfmon, "0 C:");
    assert_eq!(it.busy_pct.map(|it| it.max), Some(79.0));
    let time = PERFMON.replace("Avg. Disk sec/Read", "% Disk Time").replace("0.0021", "840.0");
    let it = device(&time, HistoryFormat::Perfmon, "0 C:");
    assert_eq!((it.busy_pct.map(|it| it.max), it.in_flight), (Some(100.0), None));
    let printed =
        format!("\r\n{PERFMON}\r\nExiting, please wait...   \r\nThe command completed successfully.\r\n");
    assert_eq!(device(&printed, HistoryFormat::Perfmon, "0 C:").readings, 1);
    let tabbed = PERFMON.replace("PDH-CSV", "PDH-TSV").replace("\",\"", "\"\t\"");
    assert_eq!(device(&tabbed, HistoryFormat::Perfmon, "0 C:").readings, 1);
    let units = PMDUMPTEXT.replace("Kbyte / second", "byte / second");
    assert_ne!(units, PMDUMPTEXT);
    let rate = |text: &str| device(text, HistoryFormat::PcpText, "vda").mb_per_s.map_or(0.0, |it| it.max);
    assert!((rate(PMDUMPTEXT) / rate(&units) - 1024.0).abs() < 1e-6, "{}", rate(&units));
}

#[test]
fn esxtop_sums_virtual_disks_up() {
    let text = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\esx1\\Virtual Disk(vm1:scsi0:0)\\Reads/sec\",\"\\\\esx1\\Virtual Disk(vm1)\\Reads/sec\"\n\
                \"05/06/2024 10:00:00\",\"150\",\"150\"\n";
    assert_eq!(all(text).0, ["esx1 vm1:scsi0:0"]);
}

/// With `track_io_timing`.
#[test]
fn times_of_pg_stat_io_are_those_of_each_request() {
    let text = "\
now,backend_type,reads,read_time,writes,write_time,extends,extend_time,op_bytes
2024-05-13 10:00:00+00,client backend,1000,500,200,100,10,1,8192
2024-05-13 10:00:00+00,checkpointer,,,5000,1000,,,8192
2024-05-13 10:01:00+00,client backend,7000,6500,500,250,10,1,8192
2024-05-13 10:01:00+00,checkpointer,,,8000,1600,,,8192
";
    let it = device(text, HistoryFormat::PgStatIo, "pg_stat_io");
    near(it.read_ms.map(|it| it.mean), 1.0);
    near(it.write_ms.map(|it| it.mean), 750.0 / 3300.0);
    let untimed = device(PG_STAT_IO, HistoryFormat::PgStatIo, "pg_stat_io");
    assert!(untimed.read_ms.is_none(), "all its times are zero");
}

/// As kube-prometheus labels `node_exporter`: a pod is replaced, two jobs ask one machine, and an instance has another name.
#[test]
fn labels_of_the_scrape_tell_no_machines_apart() {
    let series = |labels: &str, from_s: u64, from: u64, each: u64| {
        let values: Vec<String> =
            (0..5).map(|step| format!("[{},\"{}\"]", from_s + 60 * step, from + each * step)).collect();
        format!(
            "{{\"metric\":{{\"__name__\":\"node_disk_reads_completed_total\",\"device\":\"sda\",\"container\":\"node-exporter\",\
             \"endpoint\":\"metrics\",\"namespace\":\"monitoring\",{labels}}},\"values\":[{}]}}",
            values.join(",")
        )
    };
    let answer = |list: &[String]| {
        format!(
            "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}",
            list.join(",")
        )
    };
    let labels = |node: &str, instance: &str, job: &str, pod: &str| {
        format!(
            "\"node\":\"{node}\",\"instance\":\"{instance}\",\"job\":\"{job}\",\"pod\":\"{pod}\",\"service\":\"s-{job}\""
        )
    };
    let start = 1_715_594_400;
    let (first, second) =
        (labels("w1", "10.0.0.1:9100", "n", "n-1"), labels("w1", "10.0.0.1:9100", "n", "n-9"));
    let replaced = answer(&[series(&first, start, 0, 600), series(&second, start + 300, 3000, 600)]);
    assert_eq!(all(&replaced).0, ["10.0.0.1:9100 sda"]);
    let it = device(&replaced, HistoryFormat::Prometheus, "sda");
    assert_eq!((it.iops.map(|it| it.mean), it.iops.map(|it| it.max)), (Some(10.0), Some(10.0)));
    let twice = answer(&[
        series(&first, start, 0, 600),
        series(&labels("w1", "10.0.0.1:9100", "k8s", "n-1"), start, 3, 600),
    ]);
    let (names, notes) = all(&twice);
    assert_eq!(names, ["10.0.0.1:9100 sda"]);
    assert!(notes.contains("2 jobs asked 10.0.0.1:9100: that called 'k8s' counts"), "{notes}");
    let renamed = answer(&[
        series(&first, start, 0, 600),
        series(&labels("w1", "w1", "n", "n-1"), start + 300, 3000, 600),
    ]);
    assert_eq!(all(&renamed).0, ["w1 sda"]);
    // One name, and counters that are those of two machines.
    let guests = answer(&[
        series(&labels("host", "vm1:9100", "n", "a"), start, 0, 600),
        series(&labels("host", "vm2:9100", "n", "b"), start, 50_000, 60),
    ]);
    assert_eq!(all(&guests).0, ["vm1:9100 sda", "vm2:9100 sda"]);
}

/// One `instance` in two clusters; one machine that two jobs ask; the time that requests took.
#[test]
fn labels_of_prometheus_tell_machines_apart() {
    let series = |labels: &str, name: &str, from: u32, each: u32| {
        format!(
            "{{\"metric\":{{\"__name__\":\"node_disk_{name}\",\"device\":\"sda\",\"instance\":\"db1:9100\",{labels}}},\
             \"values\":[[1714989600,\"{from}\"],[1714989610,\"{}\"]]}}",
            from + each
        )
    };
    let answer = |list: &[String]| {
        format!(
            "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}",
            list.join(",")
        )
    };
    let reads = "reads_completed_total";
    let (east, west) = ("\"job\":\"n\",\"cluster\":\"east\"", "\"job\":\"n\",\"cluster\":\"west\"");
    let clusters = answer(&[series(east, reads, 0, 1000), series(west, reads, 5, 100)]);
    assert_eq!(all(&clusters).0, ["db1:9100 (cluster=east) sda", "db1:9100 (cluster=west) sda"]);
    let took = "read_time_seconds_total";
    let jobs = answer(&[
        series("\"job\":\"a\"", reads, 0, 1000),
        series("\"job\":\"a\"", took, 0, 4),
        series("\"job\":\"b\"", reads, 3, 1000),
    ]);
    let it = device(&jobs, HistoryFormat::Prometheus, "sda");
    assert_eq!((it.iops.map(|it| it.mean), it.read_ms.map(|it| it.mean)), (Some(100.0), Some(4.0)));
    assert!(all(&jobs).1.contains("2 jobs asked db1:9100"));
    // node_exporter before 0.16.
    let labels = "\"job\":\"a\"";
    let old = [
        ("reads_completed", 1000),
        ("writes_completed", 500),
        ("bytes_read", 8_192_000),
        ("bytes_written", 2_048_000),
        ("read_time_ms", 4000),
        ("write_time_ms", 500),
        ("io_time_ms", 2500),
        ("io_time_weighted", 20_000),
    ];
    let old = answer(&old.map(|(name, each)| series(labels, name, 7, each)));
    let it = device(&old, HistoryFormat::Prometheus, "sda");
    assert_eq!((it.iops.map(|it| it.mean), it.read_pct.map(f64::round)), (Some(150.0), Some(67.0)));
    assert_eq!((it.mean_read_bytes, it.mean_write_bytes), (Some(8192.0), Some(4096.0)));
    assert_eq!((it.read_ms.map(|it| it.mean), it.write_ms.map(|it| it.mean)), (Some(4.0), Some(1.0)));
    assert_eq!(
        (it.busy_pct.map(|it| it.mean.round()), it.in_flight.map(|it| it.mean)),
        (Some(25.0), Some(2.0))
    );
    let refused = "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"too many points\"}";
    let refused = read("file", refused).expect_err("an error").to_string();
    assert_eq!(refused, "file: Prometheus answered with an error: too many points");
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
        (
            &IOSTAT_JSON.replacen("\"w/s\": ", "\"w/s\": \"n/a\", \"x\": ", 1),
            "file: w/s of loop2 in report 1 is 'n/a', which is no number: write one",
        ),
        (
            &IOSTAT_JSON.replacen("\"disk\":", "\"timestamp\": \"later\", \"disk\":", 1),
            "file: the time of report 1 is 'later', which is none: write it as",
        ),
        (&SADF.replacen("\"tps\": ", "\"tps\": true, \"x\": ", 1), "file: tps of "),
        (
            &perfmon(
                "0 C:",
                &["Disk Frobs/sec", "Current Disk Queue Length"],
                &[("11/28/2026 20:00:15", &[1.0, 2.0])],
            ),
            "file, line 1: none of its counters of disks is known, such as 'Disk Frobs/sec': record Disk Reads/sec",
        ),
        (
            &IOSTAT_JSON[..400],
            "file, line 14: the file is cut off: its JSON ends before it is whole; write or copy it to its end",
        ),
        (
            &IOSTAT_JSON.replace("\"nodename\":", "\"nodename\""),
            "file, line 4: no JSON: expected `:` at line 4 column 15",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}",
            "file: the query returned no series: look whether",
        ),
        ("{\"sysstat\": {\"hosts\": []}}", "file: nothing in it says what a device read or wrote"),
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

/// A table of perfmon: the object's counters with the values of each row, by its time.
fn perfmon(instance: &str, counters: &[&str], rows: &[(&str, &[f64])]) -> String {
    let line = |first: &str, cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!(",\"{cell}\"")).collect();
        format!("\"{first}\"{}\n", cells.concat())
    };
    let names = counters.iter().map(|name| format!("\\\\S\\PhysicalDisk({instance})\\{name}")).collect();
    let mut text = line("(PDH-CSV 4.0) (UTC)(0)", names);
    for (time, values) in rows {
        text += &line(time, values.iter().map(f64::to_string).collect());
    }
    text
}

#[test]
fn readings_of_unequal_length_weigh_by_their_time() {
    use HistoryFormat::{IostatText, PcpCsv, Perfmon, SarText};
    // 120 000 writes of 4 KiB in two minutes, and two hours without any.
    let counter = |name: &str, unit: u64| {
        let values = [(0u64, 0u64), (60, 60_000), (120, 120_000), (7320, 120_000)]
            .map(|(at, count)| format!("[{},\"{}\"]", 1_714_989_600 + at, count * unit));
        format!(
            "{{\"metric\":{{\"__name__\":\"node_disk_{name}_total\",\"device\":\"sda\",\"instance\":\"n1\"}},\"values\":[{}]}}",
            values.join(",")
        )
    };
    let answer = format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{},{}]}}}}",
        counter("writes_completed", 1),
        counter("written_bytes", 4096)
    );
    let it = device(&answer, HistoryFormat::Prometheus, "sda");
    assert_eq!(it.iops.map(|it| (it.mean * 10.0).round()), Some(164.0));
    assert_eq!(it.written_bytes_per_day.map(|it| (it / 1e8).round()), Some(58.0));
    // The same of those that tell the end of each row only.
    let sar = "\
Linux 5.4.0 (h) \t05/13/24 \t_x86_64_\t(4 CPU)

00:00:00          DEV       tps     rkB/s     wkB/s     await
00:01:00          sda   1000.00      0.00   4000.00      1.00
00:02:00          sda   1000.00      0.00   4000.00      1.00
02:02:00          sda      0.00      0.00      0.00      0.00
";
    let pmrep = "Time,\"disk.dev.write-sda\"\n2024-05-13 00:00:00,\n2024-05-13 00:01:00,1000\n2024-05-13 00:02:00,1000\n\
                 2024-05-13 02:02:00,0\n";
    let perfmon = perfmon(
        "sda",
        &["Disk Writes/sec"],
        &[
            ("05/13/2024 00:01:00", &[1000.0]),
            ("05/13/2024 00:02:00", &[1000.0]),
            ("05/13/2024 02:02:00", &[0.0]),
        ],
    );
    let report = |time: &str, w: u32| format!("{time}\nDevice r/s rkB/s w/s wkB/s\nsda 0 0 {w} {w}\n\n");
    let iostat = format!(
        "Linux 5.4.0 (h) \t05/13/24 \t_x86_64_\t(4 CPU)\n\n{}{}{}{}",
        report("05/13/24 00:00:00", 9),
        report("05/13/24 00:01:00", 1000),
        report("05/13/24 00:02:00", 1000),
        report("05/13/24 02:02:00", 0)
    );
    for (text, format) in
        [(sar, SarText), (pmrep, PcpCsv), (perfmon.as_str(), Perfmon), (iostat.as_str(), IostatText)]
    {
        let it = device(text, format, "sda");
        let mean = it.iops.map(|it| (it.mean * 10.0).round());
        assert_eq!(
            (mean, it.days.map(|it| (it * 86_400.0).round())),
            (Some(164.0), Some(7320.0)),
            "{format:?}"
        );
    }
}

#[test]
fn columns_of_windows_mean_the_same_in_any_order() {
    let time = "05/06/2024 10:00:00";
    for names in [["Avg. Disk Queue Length", "% Disk Time"], ["% Disk Time", "Avg. Disk Queue Length"]] {
        let value = |name: &str| if name == "% Disk Time" { 100.0 } else { 4.0 };
        let counters = ["Disk Reads/sec", names[0], names[1]];
        let text = perfmon("0 C:", &counters, &[(time, &[100.0, value(names[0]), value(names[1])])]);
        let it = device(&text, HistoryFormat::Perfmon, "0 C:");
        assert_eq!((it.in_flight.map(|it| it.max), it.busy_pct.map(|it| it.max)), (Some(4.0), Some(100.0)));
    }
    let counters = ["Avg. Disk sec/Transfer", "Disk Bytes/sec", "Disk Transfers/sec", "Disk Reads/sec"];
    let text = perfmon("0 C:", &counters, &[(time, &[0.003, 1_228_800.0, 150.0, 100.0])]);
    let it = device(&text, HistoryFormat::Perfmon, "0 C:");
    assert_eq!((it.mb_per_s.map(|it| it.max), it.request_ms.map(|it| it.max)), (Some(1.2288), Some(3.0)));
    assert_eq!((it.iops.map(|it| it.max), it.read_pct.map(f64::round)), (Some(150.0), Some(67.0)));
    let counters = [
        "Avg. Disk Bytes/Read",
        "Avg. Disk Bytes/Write",
        "Avg. Disk Read Queue Length",
        "Avg. Disk Write Queue Length",
        "Disk Reads/sec",
        "Disk Writes/sec",
    ];
    let text = perfmon("0 C:", &counters, &[(time, &[8192.0, 4096.0, 0.25, 0.5, 100.0, 50.0])]);
    let it = device(&text, HistoryFormat::Perfmon, "0 C:");
    assert_eq!((it.mean_read_bytes, it.mean_write_bytes), (Some(8192.0), Some(4096.0)));
    assert_eq!(it.in_flight.map(|it| it.max), Some(0.75));
    // The sum of all disks counts where none is told.
    let text = perfmon("_Total", &["Disk Reads/sec"], &[(time, &[100.0])]);
    assert_eq!(device(&text, HistoryFormat::Perfmon, "_Total").iops.map(|it| it.max), Some(100.0));
    assert!(all(&text).1.contains("_Total is the sum of all disks"), "{}", all(&text).1);
    // A spreadsheet wrote the day first.
    let text = perfmon("0 C:", &["Disk Reads/sec"], &[("13/05/2024 10:00:15", &[100.0])]);
    assert_eq!(device(&text, HistoryFormat::Perfmon, "0 C:").readings, 1);
    let text = perfmon("0 C:", &["Disk Reads/sec"], &[("05/06/2024 10:00:15", &[100.0])]);
    let day_first = Told { dates: Some(DateOrder::DayFirst), ..Told::default() };
    let (_, readings) = raidlab_history::read("file", &text, day_first).expect("it is read");
    let at_s = readings.by_device.values().next().and_then(|list| list[0].at_s);
    assert_eq!((at_s, readings.notes.len()), (Some(1_717_581_615.0), 0));
}

#[test]
fn counters_of_pmrep_are_no_rates() {
    let rows = ["1000,500,8000,4000", "2000,1000,16000,8000", "4000,2000,32000,16000"];
    let text = |units: &str, rows: &[&str]| {
        let each = (0..).zip(rows).map(|(at, row)| format!("2024-05-06 10:00:{at}0,{row}\n"));
        format!(
            "Time,\"disk.dev.read-sda\",\"disk.dev.write-sda\",\"disk.dev.read_bytes-sda\",\"disk.dev.write_bytes-sda\"\n\
             {units}{}",
            each.collect::<String>()
        )
    };
    let mean = |text: &str| {
        let it = device(text, HistoryFormat::PcpCsv, "sda");
        (it.readings, it.iops.map(|it| it.mean), it.mean_read_bytes)
    };
    let raw = text("", &rows);
    assert_eq!(mean(&raw), (2, Some(225.0), Some(8192.0)));
    assert!(all(&raw).1.contains("taken for counters (pmrep -r)"), "{}", all(&raw).1);
    let two = text(",\"count\",\"count\",\"Kbyte\",\"Kbyte\"\n", &rows[..2]);
    assert_eq!(mean(&two), (1, Some(150.0), Some(8192.0)));
    // Rates that grow have nothing in their first row, units of their own, or parts of a request.
    let rates = ["101.1,50,808,400", "102.2,50,816,400", "103.3,50,824,400"];
    assert_eq!(mean(&text("", &rates)), (3, Some(152.2), Some(816.0 * 1024.0 / 102.2)));
    assert_eq!(mean(&text("", &[&[",,,"][..], &rows[..]].concat())).0, 3);
}

#[test]
fn rows_of_sadf_may_hold_several_devices() {
    let text = "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;await;%util[...]\n\
                h;600;2024-05-13 00:10:01 UTC;sda;100.00;800.00;0.00;1.00;10.00;sdb;500.00;4000.00;0.00;1.00;50.00\n";
    for (name, iops, busy) in [("sda", 100.0, 10.0), ("sdb", 500.0, 50.0)] {
        let it = device(text, HistoryFormat::SadfDatabase, name);
        assert_eq!((it.iops.map(|it| it.mean), it.busy_pct.map(|it| it.mean)), (Some(iops), Some(busy)));
    }
    let cut = read("file", &text.replace(";1.00;50.00", ";1.00")).expect_err("cut").to_string();
    assert_eq!(cut, "file, line 2: 14 cells where the head has 9");
}

#[test]
fn what_is_not_read_is_named() {
    let rows = [
        (
            "Linux 5.4.0 (srv1) \t05/13/24 \t_x86_64_\t(4 CPU)\n\n12:00:01          tps      rtps      wtps   bread/s   bwrtn/s\n\
             12:10:01       150.00    100.00     50.00   1600.00    800.00\n",
            "file: this is text of sar without devices, which is not read",
        ),
        (
            "<?xml version=\"1.0\"?>\n<sysstat\nxmlns=\"x\">\n",
            "file: this is XML (sadf -x), which is not read",
        ),
        (
            "<?xml version=\"1.0\"?>\n<svg width=\"1060\">\n<text>Linux 6.18 (vm)\n</text>\n",
            "file: this is pictures (sadf -g), which is not read",
        ),
        (
            "03:39:56 UTC; major; 7; minor; 0; DEV; loop0; tps; 2015406; 2015406;\n",
            "file: this is raw counters (sadf -r), which is not read",
        ),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":{},\"value\":[1,\"2\"]}]}}",
            "file: this answers what the counters were at one moment, and rates need a range",
        ),
    ];
    for (text, told) in rows {
        let error = read("file", text).expect_err(told).to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

/// Devices of one name in two hosts.
#[test]
fn what_is_left_out_is_named_with_its_host() {
    let other = IOSTAT_EL7.replace("(db1)", "(db2)");
    let (_, mut readings) = read("a", IOSTAT_EL7).expect("it is read");
    readings.merge(read("b", &other).expect("it is read").1);
    let notes = History::of(&[], &readings, &[]).notes.join("; ");
    assert!(notes.contains("of their host: db1 dm-0, sda1; db2 dm-0, sda1 (--device"), "{notes}");
}

/// Damage anywhere is an error or another figure, never a panic.
#[test]
fn damaged_histories_are_bearable() {
    let read_back = Cell::new(0);
    proptest!(ProptestConfig::with_cases(64), |(which in 0..16usize, at in any::<prop::sample::Index>(), to in any::<u8>(), cut in prop::option::weighted(0.3, any::<prop::sample::Index>()))| {
        let all = [SADF, SADF_TABLE, IOSTAT_JSON, IOSTAT, IOSTAT_SHORT, PMREP, PMDUMPTEXT, PROMETHEUS, PG_STAT_IO, PG_TABLE, PERFMON, ESXTOP, IOSTAT_EL7, IOSTAT_H, SAR_TEXT, SADF_ALL];
        let mut bytes = all[which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len()).max(bytes.len() / 2)));
        if let Ok((format, readings)) = read("file", &String::from_utf8_lossy(&bytes)) {
            let history = History::of(&[("file".into(), format)], &readings, &[]);
            let _ = history.devices.iter().map(DeviceHistory::workload).count();
            prop_assert!(History::from_toml("h", &history.to_toml()).is_ok());
            read_back.set(read_back.get() + 1);
        }
    });
    assert!(read_back.get() >= 5, "{} histories were read back", read_back.get());
}

/// `iostat -g` counted all devices twice; remarks of an operator and summaries in other languages were no times; of a negative rate only
/// the other direction was left, and said to be all that is told.
#[test]
fn groups_remarks_summaries_and_damage_are_known_for_what_they_are() {
    let grouped = "\
Linux 6.1.0 (db1) \t05/16/24 \t_x86_64_\t(4 CPU)

05/16/24 10:00:00
Device            r/s     rkB/s     w/s     wkB/s
sda             10.00     40.00    0.00      0.00
 total          10.00     40.00    0.00      0.00

05/16/24 10:00:10
Device            r/s     rkB/s     w/s     wkB/s
sda             20.00     80.00    0.00      0.00
 total          20.00     80.00    0.00      0.00
";
    let (devices, notes) = all(grouped);
    assert_eq!(devices, ["db1 sda"]);
    assert!(notes.contains("sums of groups (iostat -g) are left out"), "{notes}");
    let sums = grouped.lines().filter(|line| !line.starts_with("sda")).map(|line| format!("{line}\n"));
    assert_eq!(all(&sums.collect::<String>()).0, ["db1 total"], "alone they are all that there is");

    let damaged = grouped.replace("sda             20.00", "sda             -5.00");
    let (devices, notes) =
        all(&format!("{damaged}\n{}", &grouped[grouped.find("05/16/24 10:00:10").unwrap()..]));
    assert_eq!(devices, ["db1 sda"]);
    assert!(notes.contains("below zero or beyond what any device reaches are left out"), "{notes}");
    assert!(!notes.contains("only writes are told"), "{notes}");

    let table = "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;await;%util\n\
                 h;10;2024-05-13 00:10:01 UTC;sda;100.00;800.00;0.00;1.00;10.00\n\
                 h;-1;2024-05-13 00:10:05 UTC;COM backup starts\n";
    assert_eq!(device(table, HistoryFormat::SadfDatabase, "sda").readings, 1);
    let line =
        "h\t10\t2024-05-13 00:10:01 UTC\tsda\ttps\t100.00\nh\t-1\t2024-05-13 00:10:05 UTC\tCOM backup\n";
    assert_eq!(device(line, HistoryFormat::SadfLines, "sda").readings, 1);
    let printed = "\
Linux 6.1.0 (host1) \t2026-03-15 \t_x86_64_\t(4 CPU)

10:00:01          DEV       tps     rkB/s     wkB/s     await     %util
10:00:11          sda     10.00     40.00     40.00      1.00      1.00
10:00:15  COM backup starts
10:00:21          sda     30.00     40.00     40.00      1.00      1.00

Durchschn.:       DEV       tps     rkB/s     wkB/s     await     %util
Durchschn.:       sda     20.00     40.00     40.00      1.00      1.00
Minimum:          sda     10.00     40.00     40.00      1.00      1.00
";
    assert_eq!(device(printed, HistoryFormat::SarText, "sda").readings, 2);
}

/// A disk that was unplugged for a while, beside one that idles and is listed, counted as idle meanwhile: half of its rate.
#[test]
fn a_device_that_is_gone_beside_idle_ones_is_no_idle_one() {
    let head = "Device            r/s     rkB/s     w/s     wkB/s\n";
    let report = |time: u32, rows: &str| format!("05/16/24 10:00:{time:02}\n{head}{rows}\n");
    let idle = "sdb 0.00 0.00 0.00 0.00\n";
    let both = format!("sda 70.00 280.00 0.00 0.00\n{idle}");
    let text = format!(
        "Linux 6.1.0 (db1) \t05/16/24 \t_x86_64_\t(4 CPU)\n\n{}{}{}{}",
        report(0, &both),
        report(10, &both),
        report(20, idle),
        report(30, &both)
    );
    let it = device(&text, HistoryFormat::IostatText, "sda");
    assert_eq!((it.readings, it.iops.map(|it| it.mean)), (2, Some(70.0)));
}
