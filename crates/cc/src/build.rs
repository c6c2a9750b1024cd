//! Builds a driver from an author's sources.

use crate::{
    Form, IMAGE_FLAGS, KERNEL_FLAGS, Kit, Project, dialect, import_libraries, link_image,
    link_shared_object, names, quietly, trace_macros,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to build.
#[derive(Debug)]
pub struct Sources {
    /// C and C++ sources.
    pub files: Vec<PathBuf>,
    /// Arguments of the compiler.
    pub arguments: Vec<OsString>,
    /// Include folders, in which names have any case.
    pub folders: Vec<PathBuf>,
    /// The language standard of C++ sources.
    pub standard: Option<String>,
    /// A file with macros of the trace preprocessor may be in these, besides the sources.
    pub scanned: Vec<PathBuf>,
}

/// What was built.
#[derive(Debug)]
pub struct Built {
    /// The image or shared object.
    pub driver: PathBuf,
    /// The compiler's warnings.
    pub warnings: String,
}

/// The target of a shared object: the calling convention, the types and the layouts of Windows, in
/// a file of Linux. No source has to name a calling convention.
const SHARED_OBJECT_TARGET: &[&str] = &[
    "--target=x86_64-pc-windows-gnu-elf",
    "-fms-extensions",
    "-fms-compatibility",
    "-fms-compatibility-version=19.29",
    "-mms-bitfields",
    "-DWINDTUNNEL_SHARED_OBJECT",
    "-fPIC",
    "-g",
    "-gdwarf-4",
    "-fno-stack-protector",
];

/// What Microsoft's compiler accepts, and the defines of its driver projects.
const AUTHOR_FLAGS: &[&str] = &[
    "-O1",
    "-D_WIN64",
    "-D_AMD64_",
    "-DAMD64",
    "-DWINNT=1",
    "-D_WIN32_WINNT=0x0A00",
    "-DWINVER=0x0A00",
    "-DNTDDI_VERSION=0x0A00000C",
    "-D_KERNEL_MODE=1",
    "-Wno-multichar",
    "-Wno-four-char-constants",
    "-Wno-unknown-pragmas",
    "-Wno-ignored-pragmas",
    "-Wno-ignored-attributes",
    "-Wno-microsoft",
    "-Wno-pragma-pack",
    "-Wno-nonportable-include-path",
    "-Wno-writable-strings",
    "-Wno-missing-braces",
];

/// C++ of the kernel has no exceptions.
const CPP_FLAGS: &[&str] = &[
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fdelayed-template-parsing",
    "-fno-aligned-allocation",
];

impl Sources {
    /// The sources of a project.
    pub fn of(project: &Project) -> Self {
        let define = |define: &String| OsString::from(format!("-D{define}"));
        Self {
            files: project.sources.clone(),
            arguments: project.defines.iter().map(define).collect(),
            folders: project.folders.clone(),
            standard: project.standard.clone(),
            scanned: project.folders.clone(),
        }
    }
}

/// Builds a driver. Returns the messages of the compiler or linker if one fails.
///
/// Writes `compile_commands.json` beside the driver, and everything else below `OUT.build`.
pub fn build(kit: &Kit, sources: &Sources, out: &Path, form: Form) -> Result<Built, String> {
    let failed = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
    let here = std::env::current_dir().map_err(|why| why.to_string())?;
    let out = here.join(out);
    let folder = out.with_extension(format!("{}.build", form.extension()));
    fs::create_dir_all(&folder).map_err(|why| failed(&folder, why))?;
    let mut builder =
        Builder { kit, sources, folder, form, objects: Vec::new(), commands: Vec::new() };
    builder.write_overlay()?;
    builder.write_trace_macros()?;
    let (mut warnings, mut errors) = (String::new(), String::new());
    for file in &sources.files {
        let (said, is_built) = builder.compile(&here.join(file), true)?;
        if is_built { &mut warnings } else { &mut errors }.push_str(&said);
    }
    let list = out.with_file_name("compile_commands.json");
    let commands = format!("[\n{}\n]\n", builder.commands.join(",\n"));
    fs::write(&list, commands).map_err(|why| failed(&list, why))?;
    if !errors.is_empty() {
        return Err(errors);
    }
    let runtime = |name: &str| kit.runtime.join(name);
    builder.compile(&runtime("displib/displib.c"), false)?;
    builder.compile(&runtime("crt/cpp.c"), false)?;
    match form {
        Form::Image => {
            builder.compile(&runtime("crt/gs.c"), false)?;
            import_libraries(kit, &builder.folder, &[])?;
            let library = |name: &str| builder.folder.join(format!("{name}.lib"));
            let libraries = [library("ntoskrnl"), library("ks")];
            quietly(link_image(&out, &builder.objects, &libraries).arg("/opt:ref"))?;
        }
        Form::SharedObject => {
            builder.compile(&runtime("crt/memory.c"), false)?;
            let exports = builder.folder.join("exports");
            let text = "{ global: DriverEntry; local: *; };\n";
            fs::write(&exports, text).map_err(|why| failed(&exports, why))?;
            let script = format!("-Wl,--version-script={}", exports.display());
            let mut link = link_shared_object(&out, &builder.objects);
            quietly(link.args([&script, "-Wl,-Bsymbolic", "-Wl,--gc-sections"]))?;
        }
    }
    Ok(Built { driver: out, warnings })
}

struct Builder<'build> {
    kit: &'build Kit,
    sources: &'build Sources,
    /// Objects and generated files.
    folder: PathBuf,
    form: Form,
    objects: Vec<PathBuf>,
    /// The entries of `compile_commands.json`.
    commands: Vec<String>,
}

impl Builder<'_> {
    /// Compiles a file. Returns the compiler's messages, and whether there is an object.
    fn compile(&mut self, file: &Path, is_authors: bool) -> Result<(String, bool), String> {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let object = self.folder.join(format!("{}-{stem}.o", self.objects.len()));
        let mut clang = Command::new("clang");
        clang.arg("-c").args(KERNEL_FLAGS);
        clang.args(match self.form {
            Form::Image => IMAGE_FLAGS,
            Form::SharedObject => SHARED_OBJECT_TARGET,
        });
        clang.args(["-ffunction-sections", "-fdata-sections"]);
        if is_authors {
            self.add_authors_flags(&mut clang, file);
        } else {
            clang.args(["-std=gnu11", "-O1", "-Wno-multichar"]);
        }
        clang.arg("-I").arg(&self.kit.headers).arg("-o").arg(&object).arg(file);
        if is_authors {
            let quoted = |text: &str| format!("{text:?}");
            let arguments = std::iter::once(clang.get_program()).chain(clang.get_args());
            let arguments: Vec<String> =
                arguments.map(|argument| quoted(&argument.to_string_lossy())).collect();
            self.commands.push(format!(
                "{{\"directory\": {}, \"file\": {}, \"arguments\": [{}]}}",
                quoted(&self.folder.display().to_string()),
                quoted(&file.display().to_string()),
                arguments.join(", ")
            ));
        }
        let output = clang.output().map_err(|why| format!("clang: {why}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() && !is_authors {
            return Err(said);
        }
        self.objects.push(object);
        Ok((said, output.status.success()))
    }

    fn add_authors_flags(&self, clang: &mut Command, file: &Path) {
        clang.args(AUTHOR_FLAGS);
        if is_cpp(file) {
            let standard = self.sources.standard.as_deref().unwrap_or("c++17");
            clang.arg(format!("-std={}", standard.replace("c++latest", "c++20")));
            clang.args(CPP_FLAGS);
        } else {
            clang.arg("-std=gnu17");
        }
        clang.arg("-ivfsoverlay").arg(self.folder.join("names.yaml"));
        clang.arg("-I").arg(&self.folder);
        for folder in &self.sources.folders {
            clang.arg("-I").arg(folder);
        }
        clang.args(&self.sources.arguments);
    }

    /// Writes the overlay in which file names have any case, and C++ sources are as clang has to
    /// read them.
    fn write_overlay(&self) -> Result<(), String> {
        let folder = |file: &PathBuf| fs::canonicalize(file).ok()?.parent().map(Path::to_owned);
        let mut folders: BTreeSet<PathBuf> = self.sources.files.iter().filter_map(folder).collect();
        folders.extend(self.sources.folders.iter().cloned());
        let mut contents = BTreeMap::new();
        let is_c = self.sources.files.iter().all(|file| !is_cpp(file));
        for entry in folders.iter().filter_map(|it| fs::read_dir(it).ok()).flatten().flatten() {
            let from = entry.path();
            let Ok(text) = fs::read_to_string(&from) else { continue };
            if let Some(text) = dialect::translated(&text).filter(|_| !is_c) {
                let to =
                    self.folder.join(format!("{}-{}", contents.len(), entry.file_name().display()));
                fs::write(&to, text).map_err(|why| format!("{}: {why}", to.display()))?;
                contents.insert(from, to);
            }
        }
        let path = self.folder.join("names.yaml");
        fs::write(&path, names::overlay(&folders, &contents))
            .map_err(|why| format!("names.yaml: {why}"))
    }

    /// Writes the files with trace macros that the sources include.
    fn write_trace_macros(&self) -> Result<(), String> {
        let mut macros = BTreeSet::new();
        let mut included: BTreeSet<String> = BTreeSet::new();
        let mut files = self.sources.files.clone();
        for folder in &self.sources.scanned {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            files.extend(entries.map(|entry| entry.path()));
        }
        for file in &files {
            let Ok(text) = fs::read_to_string(file) else { continue };
            included.extend(trace_macros::included(&text).map(str::to_owned));
            macros.extend(trace_macros::declared(&text));
        }
        for name in included {
            let path = self.folder.join(name.rsplit(['/', '\\']).next().unwrap_or_default());
            fs::write(&path, trace_macros::text(&macros))
                .map_err(|why| format!("{}: {why}", path.display()))?;
        }
        Ok(())
    }
}

fn is_cpp(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| !extension.eq_ignore_ascii_case("c") || extension == "C")
}
