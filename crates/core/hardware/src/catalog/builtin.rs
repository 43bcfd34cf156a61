//! The files of `catalog/`, as they were when the program was built.

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        /// Name and text of every file.
        pub(super) const FILES: &[(&str, &str)] =
            &[$((concat!("catalog/", $path), include_str!(concat!("../../../../../catalog/", $path)))),*];
    };
}

files!();
