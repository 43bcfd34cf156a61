//! What `fuzz/` does with other programs' files, on those of the tests and on their halves: it compiles with the rest, and holds for them.

#[path = "../../../../../fuzz/src/readers.rs"]
mod readers;

/// So much of a file is enough to reach each reader.
const FILE_BYTES_MAX: usize = 4096;

#[test]
fn what_is_fuzzed_compiles_and_reads_the_files_of_the_tests() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../load/history/tests/data");
    let mut files: Vec<Vec<u8>> =
        vec![b"[a]\nrw=randread\nsize=1m\n".to_vec(), b"0,20941264,8192,W,0.551706\n".to_vec()];
    for entry in std::fs::read_dir(folder).expect("the files of the tests") {
        files.push(std::fs::read(entry.expect("a file").path()).expect("it can be read"));
    }
    // Each reader once, that of traces in each of its formats, and that of results for each family of tools.
    let choices: Vec<u8> = (0..6).chain((9..120).step_by(6)).chain([11, 17, 23]).collect();
    for file in &files {
        let file = &file[..file.len().min(FILE_BYTES_MAX)];
        for choice in &choices {
            let input = |bytes: &[u8]| [&[*choice], bytes].concat();
            readers::read(&input(file));
            readers::read(&input(&file[..file.len() / 2]));
        }
    }
}
