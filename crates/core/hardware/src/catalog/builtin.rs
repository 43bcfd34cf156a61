//! The files of `catalog/`, as they were when the program was built.

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        /// Name and text of every file.
        pub(super) const FILES: &[(&str, &str)] =
            &[$((concat!("catalog/", $path), include_str!(concat!("../../../../../catalog/", $path)))),*];
    };
}

files!(
    "controllers/fastt200.toml",
    "controllers/fastt600.toml",
    "controllers/perc-h800.toml",
    "drives/fc-10k-9gb.toml",
    "drives/fc-15k-18gb.toml",
    "drives/pliant-lb150.toml",
    "drives/st32000444ss.toml",
    "drives/st3600057ss.toml",
    "drives/st373455ss.toml",
    "drives/st9146852ss.toml",
    "drives/st9500430ss.toml",
    "drives/wd1600aajs.toml",
    "enclosures/exp700.toml",
    "enclosures/md1200.toml",
    "enclosures/md1220.toml",
);
