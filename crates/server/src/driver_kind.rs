//! The kind of a driver's image, by the modules that it imports.
//!
//! A display miniport driver registers through `displib`, which opens the device of the graphics
//! kernel, or by an import; an `AVStream` minidriver by an import. An image that can do neither and
//! imports the library of another kind of driver cannot be flown.

use nt::image::Image;

/// The functions that register a driver that can be flown.
const REGISTRATIONS: [&str; 3] =
    ["DxgkInitialize", "DxgkInitializeDisplayOnlyDriver", "KsInitializeDriver"];

/// The device of the graphics kernel, which `displib` opens, in lower case.
const GRAPHICS_KERNEL: &str = "dxgkrnl";

/// Modules that only drivers of another kind import, and the kind. A driver of the framework that is
/// also of a class has the library of the class, too, so the framework is last.
const KINDS: [(&str, &str); 4] = [
    ("ndis.sys", "a network driver (NDIS)"),
    ("storport.sys", "a storage miniport driver (Storport)"),
    ("fltmgr.sys", "a file system minifilter driver"),
    ("wdfldr.sys", "a KMDF driver"),
];

/// The hardware abstraction layer: a driver that imports nothing else cannot register.
const HAL: &str = "hal.dll";

/// What a driver is that is neither a display miniport driver nor an `AVStream` minidriver, as the end
/// of a sentence about its file. `None` for an image that may be either.
pub(crate) fn other_kind(image: &Image) -> Option<String> {
    let is_of = |module: &str, expected: &str| module.eq_ignore_ascii_case(expected);
    let imports = |module: &str| image.imports.iter().any(|import| is_of(&import.module, module));
    let why = if let Some((module, kind)) = KINDS.into_iter().find(|(module, _)| imports(module)) {
        format!("is {kind}, it imports functions of {module}")
    } else if imports(HAL) && image.imports.iter().all(|import| is_of(&import.module, HAL)) {
        format!("imports functions of {HAL} only, so it cannot register")
    } else {
        return None;
    };
    let registers = image.imports.iter().any(|import| REGISTRATIONS.contains(&&*import.name))
        || image.contains_wide_text(GRAPHICS_KERNEL);
    let flown = "expected a display miniport driver or an AVStream minidriver";
    (!registers).then(|| format!("{why}; {flown}"))
}
