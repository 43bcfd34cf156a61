//! The files of `catalog/`, as they were when the program was built.

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        /// Name and text of every file.
        pub(super) const FILES: &[(&str, &str)] =
            &[$((concat!("catalog/", $path), include_str!(concat!("../../../../../catalog/", $path)))),*];
    };
}

files!(
    "controllers/3ware-7850.toml",
    "controllers/3ware-8506-4lp.toml",
    "controllers/adaptec-2010s.toml",
    "controllers/arena-indy-2400.toml",
    "controllers/chaparral-k7413.toml",
    "controllers/fastt200.toml",
    "controllers/fastt600.toml",
    "controllers/linux-md.toml",
    "controllers/lsi-1064.toml",
    "controllers/lsi-1068.toml",
    "controllers/lsi-1078-256.toml",
    "controllers/lsi-1078-512.toml",
    "controllers/onboard-sata.toml",
    "controllers/onboard-scsi.toml",
    "controllers/perc-h800.toml",
    "drives/fc-10k-9gb.toml",
    "drives/fc-15k-18gb.toml",
    "drives/maxtor-160gb-5400.toml",
    "drives/maxtor-6y160m0.toml",
    "drives/maxtor-maxline-plus-ii-250.toml",
    "drives/pliant-lb150.toml",
    "drives/scsi-170gb.toml",
    "drives/seagate-u320-10k-73.toml",
    "drives/st32000444ss.toml",
    "drives/st3600057ss.toml",
    "drives/st373355ss.toml",
    "drives/st373455ss.toml",
    "drives/st9146852ss.toml",
    "drives/st9500430ss.toml",
    "drives/st973402ss.toml",
    "drives/st973451ss.toml",
    "drives/wd1000bb.toml",
    "drives/wd1600aajs.toml",
    "enclosures/exp700.toml",
    "enclosures/md1200.toml",
    "enclosures/md1220.toml",
    "filesystems/ext2.toml",
    "filesystems/ext3.toml",
    "filesystems/jfs.toml",
    "filesystems/reiserfs.toml",
    "filesystems/xfs.toml",
    "hosts/agumu02.toml",
    "hosts/aiodda2.toml",
    "hosts/noral3.toml",
    "networks/sk-9843.toml",
    "servers/asa.toml",
    "servers/duke.toml",
    "servers/fcdfcode1.toml",
    "servers/level3-fc.toml",
    "servers/polywell.toml",
    "servers/rackable.toml",
);
