//! A drive that the catalogue does not have, by what its sheet says: `cargo run --release -p raidlab --example own_drive`.
//!
//! An entry may be like another one, and say only what is different. Each figure has its source.

use raidlab::{Array, Catalog, CatalogFile, Window, simulate, workload};

const ENTRY: &str = r#"
schema = 1
id = "my-nvme-4000"
name = "A drive of 4 TB for PCIe 4.0"
like = "generic-nvme"
capacity_sectors = { value = 7814037168, source = "data sheet: 4 TB" }

[caps]
write_rate = { value = "4200 MB/s", source = "data sheet: written in sequence" }

[sheet]
seq_write = { value = "4200 MB/s", source = "data sheet: written in sequence", block = "128 KiB", iodepth = 32, condition = "sequential" }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = CatalogFile { name: "my-nvme-4000.toml".into(), text: ENTRY.into() };
    let catalog = Catalog::with(&[file], &[])?;
    for drive in ["my-nvme-4000", "samsung-pm9a3-7680"] {
        let array = Array::new("5".parse()?, 6, drive, "linux-md");
        let run =
            simulate(&catalog, array, &workload("storagebench-database")?, &Window::default().iodepth(32))?;
        let total = &run.ops.total;
        println!("{drive:<20} {:>8.0} requests/s {:>6.2} ms", total.iops.0, total.lat_ns_mean / 1e6);
    }
    Ok(())
}
