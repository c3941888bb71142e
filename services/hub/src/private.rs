//! [`write()`]: a secret's file, whole or not at all, for its owner alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `bytes` to `path`, mode 0600, in place of what is there. When it returns, name and content outlive a power cut.
///
/// # Errors
/// If the folder is missing, full or not to be written; what stood at `path` stands on.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // The whole name with an end of its own: `a.pem` and `a.jwk.json` must not meet on the way, nor with a file of somebody else's.
    let mut half = path.as_os_str().to_owned();
    half.push(".new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&half, path)?;
    // The rename is the folder's to remember.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_way_to_a_file_touches_no_other_and_leaves_nothing() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("issuer.new"), "somebody's own").unwrap();
        write(&file("issuer.pem"), b"one").unwrap();
        write(&file("issuer.pem"), b"two").unwrap();
        assert_eq!(std::fs::read_to_string(file("issuer.new")).unwrap(), "somebody's own");
        assert_eq!(std::fs::read_to_string(file("issuer.pem")).unwrap(), "two");
        assert_eq!(std::fs::metadata(file("issuer.pem")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(write(&file("nowhere/issuer.pem"), b"x").is_err());
    }
}
