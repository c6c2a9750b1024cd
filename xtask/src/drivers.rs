//! Builds the C drivers of `drivers/c` with clang: as images for Windows (`NAME.sys` with
//! `NAME.pdb`) and as shared objects (`NAME.so`), in `target/drivers`.
//!
//! A bad driver is a good one with one flaw, which `drivers/c/flaws.toml` names: only the files
//! that mention one of its defines are compiled again.

use crate::{announce, root, run as done, target};
pub(crate) use cc::Form;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// How a driver reaches its port driver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    /// Our displib is linked into it.
    Displib,
    /// It imports `DxgkInitialize` from `dxgkrnl.sys`.
    Dxgkrnl,
    /// It imports functions of `ks.sys`.
    Ks,
    /// It imports a function of this library, of another kind of driver; only its image is built.
    Other(&'static str),
}

/// The drivers of the software GPU share the files of this folder.
const SHARED: &str = "softgpu";

/// The correct drivers: the folder of each below `drivers/c`, and its port driver.
const DRIVERS: &[(&str, Port)] = &[
    ("compute", Port::Displib),
    ("render", Port::Dxgkrnl),
    ("gpuva", Port::Displib),
    ("display", Port::Displib),
    ("capture", Port::Ks),
    // These register nothing: no scenario can be flown.
    ("nothing", Port::Dxgkrnl),
    ("exceptions", Port::Dxgkrnl),
    ("imports", Port::Dxgkrnl),
];

/// Correct drivers that are another one with defines: the name, the folder of its sources, its port
/// driver and the defines.
const VARIANTS: &[(&str, &str, Port, &[&str])] = &[
    // It takes no private data.
    ("plain", "compute", Port::Displib, &["NO_PRIVATE_DATA"]),
    // Its GPU has one node.
    ("single", "compute", Port::Displib, &["ONE_NODE"]),
    ("single-render", "render", Port::Dxgkrnl, &["ONE_NODE"]),
    // It executes packets with allocation lists only.
    ("lists", "compute", Port::Displib, &["NO_SUBMIT_COMMAND_VIRTUAL"]),
    // Its CPU does all paging work: it has no DxgkDdiSubmitCommand.
    ("virtual-only", "gpuva", Port::Displib, &["PAGES_BY_CPU"]),
    // Its page tables are in the implicit system segment.
    ("implicit-segment", "gpuva", Port::Displib, &["TABLES_IN_IMPLICIT_SEGMENT"]),
    // These are of kinds that are not flown.
    ("network", "other", Port::Other("ndis"), &["REGISTERS=NdisMRegisterMiniportDriver"]),
    ("framework", "other", Port::Other("wdfldr"), &["REGISTERS=WdfVersionBind"]),
    ("storage", "other", Port::Other("storport"), &["REGISTERS=StorPortInitialize"]),
    ("minifilter", "other", Port::Other("fltmgr"), &["REGISTERS=FltRegisterFilter"]),
    ("hal-only", "other", Port::Other("hal"), &["REGISTERS=HalAllocateHardwareCounters"]),
];

/// The libraries of other kinds of drivers: the name, the module, and the function that is imported.
const OTHER_LIBRARIES: [(&str, &str, &str); 5] = [
    ("ndis", "NDIS.SYS", "NdisMRegisterMiniportDriver"),
    ("wdfldr", "WDFLDR.SYS", "WdfVersionBind"),
    ("storport", "storport.sys", "StorPortInitialize"),
    ("fltmgr", "FLTMGR.SYS", "FltRegisterFilter"),
    ("hal", "HAL.dll", "HalAllocateHardwareCounters"),
];

const SHARED_OBJECT_FLAGS: &[&str] =
    &["-fPIC", "-fshort-wchar", "-g", "-fvisibility=hidden", "-fno-stack-protector"];
const COMMON_FLAGS: &[&str] = &[
    "-c",
    "-std=gnu11",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-multichar",
    "-Wno-four-char-constants",
];

/// Builds all drivers that are not up to date.
pub(crate) fn run() -> Result<(), String> {
    let missing = cc::missing_packages();
    if !missing.is_empty() {
        return Err(format!(
            "the C drivers need the packages {} (apt-get install {})",
            missing.join(", "),
            missing.join(" ")
        ));
    }
    build()
}

/// Installs the packages that are missing, says so, and builds.
pub(crate) fn install_and_run() -> Result<(), String> {
    let missing = cc::missing_packages();
    if !missing.is_empty() {
        println!("{} is missing: installing it with apt-get", missing.join(", "));
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends"]);
        done(install.args(&missing))?;
    }
    build()
}

fn build() -> Result<(), String> {
    let folder = target().join("drivers");
    make(&folder.join("bad"))?;
    let builder = Builder::new(folder)?;
    builder.import_libraries()?;
    let mut jobs: Vec<Job> = Vec::new();
    for (base, port) in DRIVERS {
        if source(base).is_dir() {
            jobs.push(Job::new(base, base, *port, &[]));
        }
    }
    // Drivers without defines first: the others use their objects.
    let first = in_parallel(&jobs, |job| builder.driver(job))?;
    let bad = flaws()?;
    let variants =
        VARIANTS.iter().map(|(name, base, port, defines)| Job::new(name, base, *port, defines));
    let others: Vec<Job> = bad.into_iter().chain(variants).collect();
    let rest = in_parallel(&others, |job| builder.driver(job))?;
    println!(
        "{} drivers and {} bad drivers in {}, {} files built",
        jobs.len() + VARIANTS.len(),
        others.len() - VARIANTS.len(),
        builder.out.display(),
        first + rest
    );
    Ok(())
}

/// Runs the jobs on two threads. Returns the sum of what they return.
fn in_parallel(
    jobs: &[Job],
    work: impl Fn(&Job) -> Result<usize, String> + Sync,
) -> Result<usize, String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut count = 0;
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            count += work(job)?;
        }
        Ok::<_, String>(count)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(worker);
        let one = worker()?;
        let two = other.join().map_err(|_| "a thread panicked".to_owned())??;
        Ok(one + two)
    })
}

/// A driver to build.
struct Job {
    name: String,
    /// The folder of its sources.
    base: &'static str,
    port: Port,
    /// Compiler defines that make it different from its base.
    defines: Vec<String>,
    /// Whether it is a bad driver.
    is_bad: bool,
    /// The forms in which it is built.
    forms: &'static [Form],
}

impl Job {
    /// A correct driver.
    fn new(name: &str, base: &'static str, port: Port, defines: &[&str]) -> Self {
        let defines = defines.iter().map(|define| (*define).to_owned()).collect();
        let forms = forms(if matches!(port, Port::Other(_)) { "sys" } else { "" });
        Self { name: name.to_owned(), base, port, defines, is_bad: false, forms }
    }
}

/// Reads the bad drivers.
fn flaws() -> Result<Vec<Job>, String> {
    let path = root().join("drivers/c/flaws.toml");
    let Ok(text) = fs::read_to_string(&path) else { return Ok(Vec::new()) };
    let mut jobs = Vec::new();
    for part in text.split("[[driver]]").skip(1) {
        let value = |key: &str| {
            let row = part.lines().find_map(|row| row.strip_prefix(key)?.strip_prefix(" = "));
            row.map(|text| text.trim().trim_matches('"').to_owned())
        };
        let name = value("name").ok_or("flaws.toml: a driver without a name")?;
        if jobs.iter().any(|job: &Job| job.name == name) {
            return Err(format!("flaws.toml: two drivers have the name {name}"));
        }
        let base = value("base").unwrap_or_default();
        let (base, port) = DRIVERS
            .iter()
            .find(|(driver, _)| *driver == base)
            .ok_or(format!("flaws.toml: {name} has no base driver"))?;
        let defines = value("defines").unwrap_or_default();
        let defines = defines
            .trim_matches(['[', ']'])
            .split(',')
            .map(|define| define.trim().trim_matches('"').to_owned())
            .collect();
        let forms = forms(&value("forms").unwrap_or_default());
        jobs.push(Job { name, base, port: *port, defines, is_bad: true, forms });
    }
    Ok(jobs)
}

/// The bad drivers: the name, the rule, the scenario and the forms of each.
pub(crate) fn flawed() -> Result<Vec<FlawedDriver>, String> {
    let path = root().join("drivers/c/flaws.toml");
    let text =
        fs::read_to_string(&path).map_err(|reason| format!("{}: {reason}", path.display()))?;
    let row = |part: &str| {
        let value = |key: &str| {
            let row = part.lines().find_map(|row| row.strip_prefix(key)?.strip_prefix(" = "));
            row.unwrap_or_default().trim().trim_matches('"').to_owned()
        };
        (value("name"), value("rule"), value("scenario"), forms(&value("forms")))
    };
    Ok(text.split("[[driver]]").skip(1).map(row).collect())
}

/// The name, the rule, the scenario and the forms of a bad driver.
pub(crate) type FlawedDriver = (String, String, String, &'static [Form]);

/// The forms that `forms` of a bad driver says: both, unless it says one.
fn forms(text: &str) -> &'static [Form] {
    match text {
        "sys" => &[Form::Image],
        "so" => &[Form::SharedObject],
        _ => &[Form::Image, Form::SharedObject],
    }
}

/// The folder of a driver's sources.
fn source(driver: &str) -> PathBuf {
    root().join("drivers/c").join(driver)
}

struct Builder {
    out: PathBuf,
    headers: PathBuf,
    /// When the newest header or the tool itself changed.
    changed: SystemTime,
}

impl Builder {
    fn new(out: PathBuf) -> Result<Self, String> {
        let headers = root().join("crates/abi/include/km");
        let mut changed = modified(&std::env::current_exe().map_err(|reason| reason.to_string())?);
        for file in files(&headers, "h")? {
            changed = changed.max(modified(&file));
        }
        Ok(Self { out, headers, changed })
    }

    /// Makes an import library for each port driver, and those of other kinds of drivers.
    fn import_libraries(&self) -> Result<(), String> {
        let other = |(name, module, function)| (name, module, [str::to_owned(function)].into());
        let kit = cc::Kit { headers: self.headers.clone(), runtime: root().join("drivers/c") };
        cc::import_libraries(&kit, &self.out, &OTHER_LIBRARIES.map(other))
    }

    /// Builds a driver in its forms. Returns the number of files that were built.
    fn driver(&self, job: &Job) -> Result<usize, String> {
        let mut count = 0;
        for form in job.forms {
            count += self.form(job, *form)?;
        }
        Ok(count)
    }

    fn form(&self, job: &Job, form: Form) -> Result<usize, String> {
        let mut sources = files(&source(job.base), "c")?;
        if matches!(job.base, "compute" | "render" | "gpuva") {
            sources.extend(files(&source(SHARED), "c")?);
        }
        sources.extend(match form {
            Form::Image => [source("crt").join("gs.c")],
            Form::SharedObject => [source("crt").join("memory.c")],
        });
        if job.port == Port::Displib {
            sources.push(source("displib").join("displib.c"));
        }
        let (mut count, mut objects) = (0, Vec::new());
        for file in sources {
            let (object, built) = self.object(job, form, &file)?;
            count += usize::from(built);
            objects.push(object);
        }
        let folder = if job.is_bad { self.out.join("bad") } else { self.out.clone() };
        let out = match form {
            Form::Image => folder.join(format!("{}.sys", job.name)),
            Form::SharedObject => folder.join(format!("{}.so", job.name)),
        };
        let newest = objects.iter().map(|object| modified(object)).max();
        if newest.is_some_and(|newest| modified(&out) > newest) {
            return Ok(count);
        }
        quietly(&mut match form {
            Form::Image => self.link_image(job, &out, &objects),
            Form::SharedObject => cc::link_shared_object(&out, &objects),
        })?;
        Ok(count + 1)
    }

    /// Compiles a file, or finds the object of the correct driver if no flaw is in the file. A
    /// variant compiles all its files: a header may mention its defines.
    fn object(&self, job: &Job, form: Form, file: &Path) -> Result<(PathBuf, bool), String> {
        let text =
            fs::read_to_string(file).map_err(|reason| format!("{}: {reason}", file.display()))?;
        let is_variant = !job.is_bad && !job.defines.is_empty();
        let flawed = is_variant || has_flaw(&text, job);
        let form_name = if form == Form::Image { "image" } else { "so" };
        let of = if flawed { &job.name } else { job.base };
        let folder = self.out.join("obj").join(of).join(form_name);
        make(&folder)?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let object = folder.join(format!("{stem}.o"));
        let mut changed = self.changed.max(modified(file));
        for folder in [file.parent().unwrap_or(file), &source(SHARED), &source(job.base)] {
            for header in files(folder, "h")? {
                changed = changed.max(modified(&header));
            }
        }
        if modified(&object) > changed {
            return Ok((object, false));
        }
        let mut clang = Command::new("clang");
        clang.args(COMMON_FLAGS).args(cc::KERNEL_FLAGS);
        clang.args(if form == Form::Image { cc::IMAGE_FLAGS } else { SHARED_OBJECT_FLAGS });
        clang.arg("-I").arg(&self.headers);
        clang.arg("-I").arg(source(job.base)).arg("-I").arg(source(SHARED));
        if flawed {
            clang.args(job.defines.iter().map(|define| format!("-D{define}")));
        }
        quietly(clang.arg("-o").arg(&object).arg(file))?;
        Ok((object, true))
    }

    fn link_image(&self, job: &Job, out: &Path, objects: &[PathBuf]) -> Command {
        let library = |name: &str| self.out.join(format!("{name}.lib"));
        let mut libraries = vec![library("ntoskrnl")];
        match job.port {
            Port::Displib => (),
            Port::Dxgkrnl => libraries.push(library("dxgkrnl")),
            Port::Ks => libraries.push(library("ks")),
            Port::Other(name) => libraries.push(library(name)),
        }
        cc::link_image(out, objects, &libraries)
    }
}

/// Whether a file has a define of the driver: by its name, or as the place of a fault.
fn has_flaw(text: &str, job: &Job) -> bool {
    job.defines.iter().any(|define| {
        let name = define.split('=').next().unwrap_or_default();
        let point = format!("FLAW_POINT({})", name.trim_start_matches("FLAW_IN_"));
        text.contains(name) || text.contains(&point)
    })
}

/// When a file changed; long ago if there is none.
fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The files of a folder with an extension, sorted.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(folder).map_err(|reason| format!("{}: {reason}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    Ok(files)
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|reason| format!("{}: {reason}", folder.display()))
}

/// Runs a command without a word, unless it fails.
fn quietly(command: &mut Command) -> Result<(), String> {
    cc::quietly(command).inspect_err(|_| announce(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_flaw_is_in_a_source_and_has_a_rule_of_the_catalogue() {
        let text = fs::read_to_string(root().join("drivers/c/flaws.toml")).unwrap();
        let rules = text.lines().filter_map(|row| row.strip_prefix("rule = "));
        let rules: Vec<&str> = rules.map(|rule| rule.trim_matches('"')).collect();
        for rule in rules.iter().filter(|rule| !rule.is_empty()) {
            assert!(flight::CATALOGUE.contains(&format!("id = \"{rule}\"")), "{rule}");
        }
        let jobs = flaws().unwrap();
        assert_eq!(jobs.len(), rules.len());
        assert!(rules.iter().filter(|rule| !rule.is_empty()).count() >= 25);
        let mut names = BTreeSet::new();
        for job in &jobs {
            assert!(names.insert(&job.name), "{} is there twice", job.name);
            let mut sources = files(&source(job.base), "c").unwrap();
            sources.extend(files(&source(SHARED), "c").unwrap());
            let flawed = |path: &PathBuf| has_flaw(&fs::read_to_string(path).unwrap(), job);
            assert!(sources.iter().any(flawed), "no file has the flaw of {}", job.name);
        }
    }
}
