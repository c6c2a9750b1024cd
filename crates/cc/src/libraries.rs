//! Import libraries, from the functions that the headers declare.

use crate::{Kit, quietly};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions that a compiler calls without a declaration.
const OF_THE_COMPILER: [&str; 6] =
    ["memcpy", "memmove", "memset", "memcmp", "__C_specific_handler", "__chkstk"];

/// Variables of the kernel.
const VARIABLES: [&str; 1] = ["PsThreadType"];

/// The functions of the library of display drivers, for a driver that imports them.
const DXGKRNL: [&str; 3] =
    ["DxgkInitialize", "DxgkInitializeDisplayOnlyDriver", "DxgkUnInitialize"];

/// The words before the declaration of a function of the kernel.
const KERNEL_WORDS: [&str; 2] = ["NTKERNELAPI", "NTSYSAPI"];

/// A library, the module that it names, and functions.
pub type Library<'a> = (&'a str, &'a str, BTreeSet<String>);

/// Makes `ntoskrnl.lib`, `ks.lib`, `dxgkrnl.lib` and `others` in a folder, unless they are there
/// already.
pub fn import_libraries(kit: &Kit, out: &Path, others: &[Library<'_>]) -> Result<(), String> {
    let (mut kernel, mut ks) = (BTreeSet::new(), BTreeSet::new());
    for header in headers(&kit.headers)? {
        let text = fs::read_to_string(&header)
            .map_err(|reason| format!("{}: {reason}", header.display()))?;
        kernel.extend(imports(&text, &KERNEL_WORDS));
        ks.extend(imports(&text, &["KSDDKAPI"]));
    }
    kernel.extend(OF_THE_COMPILER.map(str::to_owned));
    kernel.extend(VARIABLES.map(str::to_owned));
    let libraries = [
        ("ntoskrnl", "ntoskrnl.exe", kernel),
        ("ks", "ks.sys", ks),
        ("dxgkrnl", "dxgkrnl.sys", DXGKRNL.map(str::to_owned).into()),
    ];
    for (name, module, names) in libraries.iter().chain(others) {
        let library = out.join(format!("{name}.lib"));
        let mut text = format!("LIBRARY {module}\nEXPORTS\n");
        for name in names {
            let constant = if VARIABLES.contains(&&**name) { " CONSTANT" } else { "" };
            text.extend(["    ", name, constant, "\n"]);
        }
        let definitions = out.join(format!("{name}.def"));
        let old = fs::read_to_string(&definitions).unwrap_or_default();
        if old == text && library.exists() {
            continue;
        }
        fs::write(&definitions, &text)
            .map_err(|reason| format!("{}: {reason}", definitions.display()))?;
        let mut tool = Command::new("llvm-dlltool");
        tool.args(["-m", "i386:x86-64", "-d"]).arg(&definitions).arg("-l").arg(&library);
        quietly(&mut tool)?;
    }
    Ok(())
}

fn headers(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(folder).map_err(|reason| format!("{}: {reason}", folder.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    Ok(files.filter(|path| path.extension().is_some_and(|found| found == "h")).collect())
}

/// The functions and variables that a header declares with one of these words.
fn imports(header: &str, words: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for declaration in header.split(';') {
        let Some(start) = words.iter().find_map(|word| declaration.find(&format!("\n{word} ")))
        else {
            continue;
        };
        let declaration = &declaration[start..];
        let head = declaration.split('(').next().unwrap_or_default();
        let name = head.rsplit([' ', '*', '\n']).next().unwrap_or_default();
        names.insert(name.to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_variables_of_a_header_are_imports() {
        let header = "\nNTKERNELAPI void NTAPI One(int *that,\n    int other);\nvoid Two(void);\n\
                      NTSYSAPI PVOID NTAPI\nThree(void);\n#ifdef X\nNTKERNELAPI KIRQL NTAPI \
                      Four(void);\n#endif\n";
        let names = imports(header, &["NTKERNELAPI", "NTSYSAPI"]);
        assert_eq!(names, ["Four", "One", "Three"].map(str::to_owned).into());
    }
}
