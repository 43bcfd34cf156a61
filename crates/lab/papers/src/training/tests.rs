//! The built-in rows, and predictions of a few of them.

use super::*;

#[test]
fn what_rows_say_is_understood() {
    let rows = builtin_training().unwrap();
    assert_eq!(rows.len(), 37);
    let host = host_figures().unwrap();
    let row = |part: &str| rows.iter().find(|row| row.id.contains(part)).unwrap();
    let local = row("micron-6500.unet3d");
    assert_eq!(
        (local.threads(&host), local.ports(), local.memory_bytes()),
        (256.0, None, (1u64 << 40) as f64)
    );
    let network = row("dpu.unet3d.h100");
    assert_eq!((network.threads(&host), network.ports()), (128.0, Some(400.0)));
    let parallel = row("Nclient3.unet3d");
    let reasons = [&parallel, &network, &local].map(|row| row.not_modelled().is_some());
    assert_eq!(reasons, [true, false, false]);
    let catalog = Catalog::builtin();
    for (part, drive) in [
        ("micron-6500", "micron-6500-ion-30720"),
        ("micron-9400", "micron-9400-pro-7680"),
        ("dpu", DRIVE_OF_NO_NAME),
    ] {
        assert_eq!(drive_of(row(part), &catalog).unwrap().id, drive, "{part}");
    }
    let fitted = host.fitted_rows.iter().filter(|id| rows.iter().any(|row| row.id == **id)).count();
    assert_eq!((fitted, host.fitted_rows.len()), (6, 6), "six rows at most, and all are there");
}

#[test]
fn drives_that_nothing_was_fitted_to_feed_what_they_were_published_to() {
    let mut rows = builtin_training().unwrap();
    rows.retain(|row| row.id.contains("micron") && row.model == "unet3d" || row.hosts == 3);
    let found = predict_training("x", &rows, &Catalog::builtin(), &mut |_, _| {}).unwrap();
    let (modelled, others): (Vec<_>, Vec<_>) = found.rows.iter().partition(|row| row.predicted.is_some());
    assert_eq!((modelled.len(), others.len()), (3, 9));
    assert!(others.iter().all(|row| row.not_modelled.is_some()));
    assert_eq!(found.largest_near.1, 3);
    for row in modelled {
        let predicted = row.predicted.as_ref().unwrap();
        assert!((predicted.mib_per_s / row.mib_per_s - 1.0).abs() < 0.1, "{row:?}");
        assert!(predicted.accelerators_max.abs_diff(row.accelerators) <= 1, "{row:?}");
        assert_eq!(predicted.narrowest, "drives");
    }
}

/// The figures of hosts are those of TCP: a row of another network is told not to be predicted, and needs no ports.
#[test]
fn other_networks_than_tcp_are_not_predicted() {
    let text = PUBLISHED;
    let (header, row) = (text.lines().next().unwrap(), text.lines().nth(1).unwrap());
    let reason = |attached: &str| {
        let row = row.replace("NVMe/TCP, offloaded target, 4 x 100 Gb/s", attached);
        parse_training("f.csv", &format!("{header}\n{row}\n")).unwrap()[0].not_modelled()
    };
    for tcp in ["NVMe/TCP, 4 x 100 Gb/s", "NVMe over TCP, RDMA left off, 4 x 100 Gb/s"] {
        assert_eq!(reason(tcp), None, "{tcp}");
    }
    for other in [
        "NVMe/RDMA, offloaded target, 4 x 100 Gb/s",
        "NVMe over RoCE",
        "NVMe-oF, RDMA",
        "NVMe/FC, 2 x 32 Gb/s",
    ] {
        assert!(reason(other).is_some_and(|why| why.contains("another network than TCP")), "{other}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_told_by_line_and_column() {
    let text = PUBLISHED;
    let header = text.lines().next().unwrap();
    let row = text.lines().nth(1).unwrap().replace(",40,1,4,", ",forty,1,4,");
    for end in ["\n", "\r\n"] {
        let error = parse_training("f.csv", &format!("{header}{end}{row}{end}")).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("column accelerators: 'forty' is not a number"),
            "{error}"
        );
    }
    let wrong = |from: &str, to: &str, more: &str| {
        let row = text.lines().nth(1).unwrap().replace(from, to);
        parse_training("f.csv", &format!("{header}\n{row}\n{more}")).unwrap_err().to_string()
    };
    for (from, to, problem) in [
        (
            ",70.4,",
            ",170.4,",
            "line 2, row 'mlperf.1-client-intel-nvme-tcp-dpu.cosmoflow.a100.n40', column au_pct: '170.4' is above 100",
        ),
        (",13736,", ",23736,", "column mb_per_s: '23736' is no rate of 5092.3 samples/s"),
        (",40,1,4,", ",40.5,1,4,", "column accelerators: '40.5' is no whole number"),
        (",954737,1,1,", ",954737,1,7000,", "column samples_per_s: '5092.3' is no rate of 40 accelerators"),
        (",71311,", ",7131100,", "column sample_bytes_stdev: '7131100' is above the mean"),
        (",16 x 3.2 TB NVMe,", ",,", "column drives: '' is empty but needed"),
        (
            "4 x 100 Gb/s",
            "1 x 25 Gb",
            "column attached: 'NVMe/TCP, offloaded target, 1 x 25 Gb' does not say its ports",
        ),
    ] {
        let error = wrong(from, to, "");
        assert!(error.contains("line 2") && error.contains(problem), "{error}");
    }
    let twice = wrong("", "", text.lines().nth(1).unwrap());
    assert!(
        twice.contains("line 3") && twice.contains("column id") && twice.contains("is that of line 2, too"),
        "{twice}"
    );
    let error = parse_training("f.csv", &text.replace("au_goal_pct", "au_gaol_pct")).unwrap_err().to_string();
    assert!(error.contains("au_gaol_pct") && error.contains("au_goal_pct"), "{error}");
}
