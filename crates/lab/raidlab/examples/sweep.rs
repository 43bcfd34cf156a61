//! Levels and numbers of members under one workload, as a table: `cargo run --release -p raidlab --example sweep`.

use raidlab::{Array, Catalog, NanoSpan, Sweep, Window, workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let of_level = |level: &'static str| {
        [4, 6, 8].map(|members| {
            Ok((level, members, Array::new(level.parse()?, members, "st3600057ss", "perc-h800")))
        })
    };
    let arrays: Vec<_> =
        ["5", "6", "10"].into_iter().flat_map(of_level).collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let sweep = Sweep {
        arrays: arrays.iter().map(|(.., array)| array.clone()).collect(),
        workloads: vec![workload("md1200-oltp")?],
        iodepths: vec![1, 16, 64],
        window: Window { run: NanoSpan::from_secs(10), ..Window::default() },
        threads: None,
    };
    let runs = sweep.run(&Catalog::builtin(), &mut |done, all| eprint!("\r{done} of {all}"))?;
    println!("\n{:>5} {:>8} {:>6} {:>10} {:>8}", "level", "members", "depth", "requests/s", "ms");
    for row in runs {
        let (level, members, _) = &arrays[row.array];
        let total = &row.run.ops.total;
        let (rate, ms) = (total.iops.0, total.lat_ns_mean / 1e6);
        println!("{level:>5} {members:>8} {:>6} {rate:>10.0} {ms:>8.2}", row.run.iodepth);
    }
    Ok(())
}
