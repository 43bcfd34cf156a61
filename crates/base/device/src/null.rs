//! How storage that stores nothing is spelled, as a target of load and as a member of an array: `null:SIZE`.

use std::path::Path;

const PREFIX: &str = "null:";

/// The size in the name of what stores nothing, as it is written there; none for other names. `./null:x` names a file.
pub fn null_size_text(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(PREFIX)
}
