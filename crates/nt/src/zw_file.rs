//! Files (`ZwCreateFile`, …) below the folder of the executive, under their Windows names.
//!
//! The drive or system root of a name is the folder. Names are found without regard to case. A name
//! with `..`, and a symbolic link below the folder, lead nowhere. Without a folder there are no
//! files.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::Executive;
use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_irql};
use crate::handles;
use crate::import_table::import_rows;
use crate::rtl_string::CountedString;
use crate::status::{
    STATUS_ACCESS_DENIED, STATUS_END_OF_FILE, STATUS_INFO_LENGTH_MISMATCH, STATUS_INVALID_HANDLE,
    STATUS_INVALID_INFO_CLASS, STATUS_INVALID_PARAMETER, STATUS_OBJECT_NAME_COLLISION,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_OBJECT_PATH_NOT_FOUND, STATUS_SUCCESS,
    STATUS_UNSUCCESSFUL,
};
use crate::zw_key::status;
use abi::{HANDLE, NTSTATUS, PVOID};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

import_rows! {
    ZwCreateFile lacks "no security, no sharing, no folders, no attributes";
    ZwOpenFile lacks "no security, no sharing, no folders";
    ZwQueryInformationFile lacks "basic, standard and position information";
    ZwReadFile lacks "synchronous only; no events, no APCs";
    ZwSetInformationFile lacks "position and end of file";
    ZwWriteFile lacks "synchronous only; no events, no APCs";
}

/// An open file.
#[derive(Debug)]
struct OpenFile {
    file: File,
    /// The next position of a read or write without one.
    position: Mutex<u64>,
}

/// `CreateDisposition`: what happens if the file exists, and if it does not.
const SUPERSEDE: u32 = 0;
const OPEN: u32 = 1;
const CREATE: u32 = 2;
const OVERWRITE: u32 = 4;
const OVERWRITE_IF: u32 = 5;

/// The file that a name means. `None` if the name is not one of a file.
fn relative_path(name: &str) -> Option<Vec<&str>> {
    let upper = name.to_uppercase();
    let prefixes = [r"\??\", r"\DOSDEVICES\", r"\GLOBAL??\"];
    let drive = prefixes.iter().find(|prefix| upper.starts_with(**prefix));
    let rest = match drive {
        Some(prefix) => {
            let rest = name.get(prefix.len()..)?;
            rest.get(1..)?.strip_prefix(r":\")?
        }
        None if upper.starts_with(r"\SYSTEMROOT\") => name.get(12..)?,
        None => return None,
    };
    let parts: Vec<&str> = rest.split('\\').collect();
    let sound = |part: &&str| !matches!(*part, "" | "." | "..") && !part.contains(['/', '\0', ':']);
    parts.iter().all(sound).then_some(parts)
}

/// The entry of a folder with this name. `None` if there is none.
///
/// # Errors
///
/// `STATUS_OBJECT_NAME_NOT_FOUND` if the entry is a symbolic link: nothing is found or created
/// through it.
fn entry_of(folder: &Path, name: &str) -> Result<Option<PathBuf>, NTSTATUS> {
    let exact = folder.join(name);
    let found = if exact.symlink_metadata().is_ok() {
        Some(exact)
    } else {
        let entries = fs::read_dir(folder).map_err(|error| io_status(&error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let same = |path: &PathBuf| {
            let own = path.file_name().and_then(|own| own.to_str());
            own.is_some_and(|own| own.to_uppercase() == name.to_uppercase())
        };
        paths.into_iter().find(same)
    };
    let is_link = |path: &PathBuf| path.symlink_metadata().is_ok_and(|data| data.is_symlink());
    if found.as_ref().is_some_and(is_link) { Err(STATUS_OBJECT_NAME_NOT_FOUND) } else { Ok(found) }
}

/// The file below a folder: its path, and whether it exists.
fn locate(folder: &Path, parts: &[&str]) -> Result<(PathBuf, bool), NTSTATUS> {
    let (last, folders) = parts.split_last().ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
    let mut path = folder.to_owned();
    for part in folders {
        path = entry_of(&path, part)?.ok_or(STATUS_OBJECT_PATH_NOT_FOUND)?;
    }
    let found = entry_of(&path, last)?;
    let exists = found.is_some();
    Ok((found.unwrap_or_else(|| path.join(last)), exists))
}

/// The status of an error of the host.
fn io_status(error: &io::Error) -> NTSTATUS {
    match error.kind() {
        ErrorKind::NotFound => STATUS_OBJECT_NAME_NOT_FOUND,
        ErrorKind::PermissionDenied => STATUS_ACCESS_DENIED,
        _ => STATUS_UNSUCCESSFUL,
    }
}

/// Opens a file. Returns its handle and what happened (`FILE_OPENED`, …).
fn open_file(name: &str, access: u32, disposition: u32) -> Result<(usize, usize), NTSTATUS> {
    /// `FILE_WRITE_DATA`, `FILE_APPEND_DATA`, `GENERIC_WRITE`, `GENERIC_ALL`.
    const WRITES: u32 = 0x0000_0006 | 0x4000_0000 | 0x1000_0000;
    let executive = Executive::current("ZwCreateFile").ok_or(STATUS_UNSUCCESSFUL)?;
    let folder = executive.files().ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
    let parts = relative_path(name).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
    let (path, exists) = locate(&folder, &parts)?;
    if disposition > OVERWRITE_IF {
        return Err(STATUS_INVALID_PARAMETER);
    }
    match (exists, disposition) {
        (true, CREATE) => return Err(STATUS_OBJECT_NAME_COLLISION),
        (false, OPEN | OVERWRITE) => return Err(STATUS_OBJECT_NAME_NOT_FOUND),
        _ => {}
    }
    let truncates = exists && matches!(disposition, SUPERSEDE | OVERWRITE | OVERWRITE_IF);
    let writes = access & WRITES != 0 || truncates || !exists;
    let mut options = OpenOptions::new();
    options.read(true).write(writes).truncate(truncates).create_new(!exists);
    let file =
        options.custom_flags(libc::O_NOFOLLOW).open(&path).map_err(|error| io_status(&error))?;
    if !file.metadata().is_ok_and(|data| data.is_file()) {
        return Err(STATUS_ACCESS_DENIED);
    }
    // `FILE_SUPERSEDED`, `FILE_OPENED`, `FILE_CREATED`, `FILE_OVERWRITTEN`.
    let information = match (exists, disposition) {
        (false, _) => 2,
        (true, SUPERSEDE) => 0,
        (true, OVERWRITE | OVERWRITE_IF) => 3,
        (true, _) => 1,
    };
    let handle = handles::open(Arc::new(OpenFile { file, position: Mutex::new(0) }));
    Ok((handle, information))
}

fn open_with(
    import: &'static str,
    handle: DriverMemory,
    access: u32,
    attributes: DriverMemory,
    result: DriverMemory,
    disposition: u32,
) -> NTSTATUS {
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql(import);
        let name = CountedString::in_memory(attributes.follow(0x10)).text();
        let opened = if attributes.read::<usize>(8) == 0 {
            open_file(&name, access, disposition)
        } else {
            Err(STATUS_OBJECT_NAME_NOT_FOUND)
        };
        if let Ok((opened, _)) = opened {
            handle.write(0, opened);
        }
        finish(result, opened.map(|(_, information)| information))
    })
}

/// Writes an `IO_STATUS_BLOCK`; returns its status.
fn finish(result: DriverMemory, done: Result<usize, NTSTATUS>) -> NTSTATUS {
    let information = done.unwrap_or(0);
    let status = status(done.map(|_| ()));
    result.write(0, status);
    result.write(8, information);
    status
}

/// Opens or creates a file.
pub unsafe extern "win64-unwind" fn ZwCreateFile(
    handle: *mut HANDLE,
    access: u32,
    attributes: PVOID,
    result: PVOID,
    _allocation: *const i64,
    _file_attributes: u32,
    _share: u32,
    disposition: u32,
    _options: u32,
    _extended: PVOID,
    _extended_length: u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let handle = unsafe { DriverMemory::at(handle) };
    // SAFETY: The caller's contract.
    let attributes = unsafe { DriverMemory::at(attributes) };
    // SAFETY: The caller's contract.
    let result = unsafe { DriverMemory::at(result) };
    open_with("ZwCreateFile", handle, access, attributes, result, disposition)
}

/// Opens a file.
pub unsafe extern "win64-unwind" fn ZwOpenFile(
    handle: *mut HANDLE,
    access: u32,
    attributes: PVOID,
    result: PVOID,
    _share: u32,
    _options: u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let handle = unsafe { DriverMemory::at(handle) };
    // SAFETY: The caller's contract.
    let attributes = unsafe { DriverMemory::at(attributes) };
    // SAFETY: The caller's contract.
    let result = unsafe { DriverMemory::at(result) };
    open_with("ZwOpenFile", handle, access, attributes, result, OPEN)
}

/// Runs a transfer at a position, or at the file's own position.
fn transfer(
    import: &'static str,
    handle: HANDLE,
    result: DriverMemory,
    offset: DriverMemory,
    body: impl FnOnce(&File, u64) -> Result<usize, NTSTATUS>,
) -> NTSTATUS {
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql(import);
        let Some(open) = handles::find::<OpenFile>(handle.addr()) else {
            return STATUS_INVALID_HANDLE;
        };
        let mut position = open.position.lock().unwrap_or_else(PoisonError::into_inner);
        let given = offset.non_null().map(|offset| offset.read::<i64>(0));
        // `FILE_USE_FILE_POINTER_POSITION` is -2.
        let start = match given {
            None | Some(-2) => *position,
            Some(start) => match u64::try_from(start) {
                Ok(start) => start,
                Err(_) => return STATUS_INVALID_PARAMETER,
            },
        };
        let done = body(&open.file, start);
        *position = start + done.unwrap_or(0) as u64;
        finish(result, done)
    })
}

/// Reads from a file. At its end, the status is `STATUS_END_OF_FILE`.
pub unsafe extern "win64-unwind" fn ZwReadFile(
    handle: HANDLE,
    _event: HANDLE,
    _apc: PVOID,
    _context: PVOID,
    result: PVOID,
    buffer: PVOID,
    length: u32,
    offset: *const i64,
    _key: *const u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let result = unsafe { DriverMemory::at(result) };
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let offset = unsafe { DriverMemory::at(offset) };
    transfer("ZwReadFile", handle, result, offset, |file, start| {
        let size = file.metadata().map_err(|error| io_status(&error))?.len();
        let rest = usize::try_from(size.saturating_sub(start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; rest.min(length as usize)];
        if bytes.is_empty() && length != 0 {
            return Err(STATUS_END_OF_FILE);
        }
        file.read_exact_at(&mut bytes, start).map_err(|error| io_status(&error))?;
        buffer.write_bytes(&bytes);
        Ok(bytes.len())
    })
}

/// Writes to a file.
pub unsafe extern "win64-unwind" fn ZwWriteFile(
    handle: HANDLE,
    _event: HANDLE,
    _apc: PVOID,
    _context: PVOID,
    result: PVOID,
    buffer: PVOID,
    length: u32,
    offset: *const i64,
    _key: *const u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let result = unsafe { DriverMemory::at(result) };
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let offset = unsafe { DriverMemory::at(offset) };
    transfer("ZwWriteFile", handle, result, offset, |file, start| {
        let bytes = buffer.read_bytes(length as usize);
        file.write_all_at(&bytes, start).map_err(|_| STATUS_ACCESS_DENIED)?;
        Ok(bytes.len())
    })
}

/// `FILE_INFORMATION_CLASS`.
const BASIC: u32 = 4;
const STANDARD: u32 = 5;
const POSITION: u32 = 14;
const END_OF_FILE: u32 = 20;

/// Returns information about a file.
pub unsafe extern "win64-unwind" fn ZwQueryInformationFile(
    handle: HANDLE,
    result: PVOID,
    buffer: PVOID,
    length: u32,
    class: u32,
) -> NTSTATUS {
    /// `FILE_ATTRIBUTE_NORMAL`.
    const NORMAL: u64 = 0x80;
    // SAFETY: The caller's contract.
    let result = unsafe { DriverMemory::at(result) };
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql("ZwQueryInformationFile");
        let Some(open) = handles::find::<OpenFile>(handle.addr()) else {
            return STATUS_INVALID_HANDLE;
        };
        let size = open.file.metadata().map_or(0, |data| data.len());
        let position = *open.position.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<u64> = match class {
            BASIC => vec![0, 0, 0, 0, NORMAL],
            // One link; neither deleted nor a folder.
            STANDARD => vec![size.next_multiple_of(4096), size, 1],
            POSITION => vec![position],
            _ => return STATUS_INVALID_INFO_CLASS,
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if (length as usize) < bytes.len() {
            return STATUS_INFO_LENGTH_MISMATCH;
        }
        buffer.write_bytes(&bytes);
        finish(result, Ok(bytes.len()))
    })
}

/// Changes the position or the end of a file.
pub unsafe extern "win64-unwind" fn ZwSetInformationFile(
    handle: HANDLE,
    result: PVOID,
    buffer: PVOID,
    length: u32,
    class: u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let result = unsafe { DriverMemory::at(result) };
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql("ZwSetInformationFile");
        let Some(open) = handles::find::<OpenFile>(handle.addr()) else {
            return STATUS_INVALID_HANDLE;
        };
        if !matches!(class, POSITION | END_OF_FILE) {
            return STATUS_INVALID_INFO_CLASS;
        }
        if length < 8 {
            return STATUS_INFO_LENGTH_MISMATCH;
        }
        let value: u64 = buffer.read(0);
        if class == POSITION {
            *open.position.lock().unwrap_or_else(PoisonError::into_inner) = value;
        } else if open.file.set_len(value).is_err() {
            return finish(result, Err(STATUS_ACCESS_DENIED));
        }
        finish(result, Ok(0));
        STATUS_SUCCESS
    })
}

#[cfg(test)]
#[path = "zw_file_tests.rs"]
mod tests;
