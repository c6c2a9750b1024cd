//! Tests of files.

use super::*;
use crate::entry::tests::{TestAttributes, call, fly, fly_with};
use crate::zw::ZwClose;
use std::ptr::{null, null_mut};

const READ_WRITE: u32 = 0xC000_0000;

/// Opens a file. Returns status, information and handle.
fn open(name: &str, access: u32, disposition: u32) -> (NTSTATUS, u64, HANDLE) {
    let (mut handle, mut result) = (null_mut(), [7_u64; 2]);
    let mut attributes = TestAttributes::new(null_mut(), name);
    let (to, with) = (&raw mut handle, result.as_mut_ptr().cast());
    let (at, none): (PVOID, PVOID) = (attributes.pointer(), null_mut());
    let status = call!(ZwCreateFile, to, access, at, with, null(), 0, 0, disposition, 0, none, 0);
    (status, result[1], handle)
}

fn read(handle: HANDLE, length: u32, offset: Option<i64>) -> (NTSTATUS, Vec<u8>) {
    let (mut buffer, mut result) = (vec![0_u8; 64], [0_u64; 2]);
    let at = offset.as_ref().map_or(null(), |offset| &raw const *offset);
    let (none, with): (PVOID, PVOID) = (null_mut(), result.as_mut_ptr().cast());
    let to: PVOID = buffer.as_mut_ptr().cast();
    let status = call!(ZwReadFile, handle, none, none, none, with, to, length, at, null());
    buffer.truncate(usize::try_from(result[1]).unwrap());
    (status, buffer)
}

fn write(handle: HANDLE, text: &str) -> NTSTATUS {
    let (mut bytes, mut result) = (text.as_bytes().to_vec(), [0_u64; 2]);
    let (none, with): (PVOID, PVOID) = (null_mut(), result.as_mut_ptr().cast());
    let (from, length): (PVOID, _) =
        (bytes.as_mut_ptr().cast(), u32::try_from(text.len()).unwrap());
    call!(ZwWriteFile, handle, none, none, none, with, from, length, null(), null())
}

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nt-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("Sub")).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn without_a_folder_there_are_no_files() {
    fly(|| assert_eq!(open(r"\??\C:\passwd", READ_WRITE, 1).0, STATUS_OBJECT_NAME_NOT_FOUND));
}

#[test]
fn a_file_is_created_written_and_read() {
    let folder = Folder::new("files");
    let executive = Executive::new("planted");
    executive.set_files(Some(folder.0.clone()));
    fly_with(&executive, || {
        let name = r"\??\C:\sub\Data.bin";
        assert_eq!(open(name, READ_WRITE, OPEN).0, STATUS_OBJECT_NAME_NOT_FOUND);
        let (status, information, file) = open(name, READ_WRITE, CREATE);
        assert_eq!((status, information), (0, 2), "FILE_CREATED");
        assert_eq!((write(file, "wind"), write(file, "tunnel")), (0, 0));
        assert_eq!(fs::read(folder.0.join("Sub/Data.bin")).unwrap(), b"windtunnel");
        assert_eq!(read(file, 4, Some(0)), (0, b"wind".to_vec()));
        assert_eq!(read(file, 64, None), (0, b"tunnel".to_vec()), "from its own position");
        assert_eq!(read(file, 64, None).0, STATUS_END_OF_FILE);
        assert_eq!(read(file, 64, Some(-7)).0, STATUS_INVALID_PARAMETER);
        assert_eq!(
            open(r"\DosDevices\D:\SUB\data.BIN", READ_WRITE, CREATE).0,
            STATUS_OBJECT_NAME_COLLISION
        );
        let (mut words, mut result) = ([0_u64; 5], [0_u64; 2]);
        let (to, with): (PVOID, PVOID) = (words.as_mut_ptr().cast(), result.as_mut_ptr().cast());
        let query = |length, class| call!(ZwQueryInformationFile, file, with, to, length, class);
        assert_eq!((query(24, STANDARD), words[1]), (0, 10));
        assert_eq!(query(20, STANDARD), STATUS_INFO_LENGTH_MISMATCH);
        assert_eq!((query(8, POSITION), words[0]), (0, 10));
        assert_eq!((query(40, BASIC), words[4]), (0, 0x80));
        assert_eq!(query(40, 99), STATUS_INVALID_INFO_CLASS);
        words[0] = 5;
        let to: PVOID = words.as_mut_ptr().cast();
        assert_eq!(call!(ZwSetInformationFile, file, with, to, 8, END_OF_FILE), 0);
        assert_eq!(call!(ZwSetInformationFile, file, with, to, 8, POSITION), 0);
        assert_eq!(read(file, 64, None).0, STATUS_END_OF_FILE);
        assert_eq!(call!(ZwClose, file), 0);
        assert_eq!(read(file, 1, None).0, STATUS_INVALID_HANDLE);
        let (_, information, file) = open(r"\SystemRoot\Sub\Data.bin", 0, OVERWRITE_IF);
        assert_eq!((information, read(file, 1, None).0), (3, STATUS_END_OF_FILE));
        call!(ZwClose, file);
    });
}

#[test]
fn a_file_opened_for_reading_is_not_written() {
    let folder = Folder::new("read-only");
    fs::write(folder.0.join("a"), "text").unwrap();
    let executive = Executive::new("planted");
    executive.set_files(Some(folder.0.clone()));
    fly_with(&executive, || {
        let (mut handle, mut result) = (null_mut(), [7_u64; 2]);
        let mut attributes = TestAttributes::new(null_mut(), r"\??\C:\A");
        let (to, with) = (&raw mut handle, result.as_mut_ptr().cast());
        assert_eq!(call!(ZwOpenFile, to, 0x8000_0000, attributes.pointer(), with, 0, 0), 0);
        assert_eq!(write(handle, "more"), STATUS_ACCESS_DENIED);
        assert_eq!(read(handle, 9, None), (0, b"text".to_vec()));
        call!(ZwClose, handle);
    });
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let folder = Folder::new("escape");
    std::os::unix::fs::symlink("/etc", folder.0.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.0.join("Sub/file")).unwrap();
    std::os::unix::fs::symlink("/nonexistent/new", folder.0.join("dangling")).unwrap();
    let executive = Executive::new("planted");
    executive.set_files(Some(folder.0.join("Sub")));
    fly_with(&executive, || {
        for name in [
            r"\??\C:\..\link\passwd",
            r"\??\C:\file",
            r"\??\C:\FILE",
            r"\??\C:\.\a",
            r"\??\C:\a\\b",
            r"\??\C:\../link/passwd",
            r"\Device\Harddisk0\passwd",
            r"\??\UNC\a",
            "",
            r"\??\C:\",
        ] {
            assert!(open(name, READ_WRITE, 3).0 < 0, "{name}");
        }
        executive.set_files(Some(folder.0.clone()));
        for name in [r"\??\C:\link\passwd", r"\??\C:\dangling", r"\??\C:\Sub"] {
            assert!(open(name, READ_WRITE, 3).0 < 0, "{name}");
        }
    });
    assert!(!folder.0.join("Sub/a").exists());
}
