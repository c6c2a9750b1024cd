//! The support tables of all doors, as data.
//!
//! Each row comes from the table that dispatches the call. `docs/support.md` is generated from
//! these rows.

use crate::windows_names;
use abi::NTSTATUS;
use abi::umd::{
    D3DDDI_ADAPTERCALLBACKS, D3DDDI_ADAPTERFUNCS, D3DDDI_DEVICECALLBACKS, D3DDDI_DEVICEFUNCS,
};
use flight::{Irql, RuleId, Support};
use kernel::ddi::{Legal, TABLE};
use std::fmt::Write as _;

/// One door's table.
pub struct SupportTable {
    /// Its key in JSON.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What its rows are.
    pub about: &'static str,
    /// The names of the cells of a row, besides name and state.
    pub columns: &'static [&'static str],
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
pub struct Row {
    /// Its Windows name.
    pub name: &'static str,
    /// How much of it is implemented.
    pub state: Support,
    /// One cell for each column.
    pub cells: Vec<Cell>,
}

/// A cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// One value.
    One(&'static str),
    /// Any number of values.
    Many(Vec<&'static str>),
}

impl Cell {
    /// The cell as text.
    pub fn text(&self) -> String {
        match self {
            Cell::One(value) => (*value).to_owned(),
            Cell::Many(values) => values.join(", "),
        }
    }
}

impl Cell {
    /// The values of the cell.
    pub fn values(&self) -> Vec<&'static str> {
        match self {
            Cell::One(value) => vec![value],
            Cell::Many(values) => values.clone(),
        }
    }
}

/// The legal statuses of a DDI with an open list.
pub const ANY_FAILURE: &str = "any failure";

/// Every table, from the client's entry points down to the driver's imports.
pub fn support() -> Vec<SupportTable> {
    vec![
        entries(),
        ddis(),
        uncalled(),
        callbacks(),
        imports(),
        functions(),
        user_callbacks(),
        dispatches(),
        undispatched(),
        stream_functions(),
    ]
}

/// The statuses that a DDI may return besides success; `None` if its list is open.
pub fn legal_statuses(legal: Legal) -> Option<Vec<&'static str>> {
    let Legal::Only(_) = legal else { return None };
    let may =
        |status: NTSTATUS| port::result_from_status(status).is_err_and(|why| legal.allows(why));
    let known = abi::status::NAMES.iter().filter(|pair| may(pair.0));
    Some(known.map(|pair| pair.1).collect())
}

fn entries() -> SupportTable {
    let named = |value: &NTSTATUS| abi::status::name(*value).unwrap_or("a status without a name");
    let row = |entry_row: &thunk::EntryRow, state: Support| Row {
        name: entry_row.name,
        state,
        cells: vec![
            Cell::Many(entry_row.statuses.iter().map(named).collect()),
            Cell::Many(entry_row.forwards_errors_of.to_vec()),
            Cell::Many(entry_row.rules.iter().map(|rule_id| rule_id.name()).collect()),
        ],
    };
    let there = thunk::ENTRIES.iter().map(|entry_row| row(entry_row, entry_row.support()));
    // It has no argument and no status, so it is no row of the dispatch table.
    let boolean = Row {
        name: "D3DKMTCheckExclusiveOwnership",
        state: Support::Implemented,
        cells: vec![Cell::Many(Vec::new()); 3],
    };
    let absent = thunk::ABSENT_ENTRIES.iter();
    let absent = absent.map(|entry_row| row(entry_row, Support::Missing(entry_row.missing)));
    SupportTable {
        id: "d3dkmt",
        title: "D3DKMT entry points",
        about: "Functions that a client calls. Besides success, a function returns these statuses \
                itself, and forwards the errors that a driver returns from these DDIs. An absent \
                one is exported all the same: it logs its name and returns STATUS_NOT_SUPPORTED.",
        columns: &["statuses", "forwards_errors_of", "rules"],
        rows: with_absent(
            there.chain([boolean]).chain(absent).collect(),
            windows_names::ENTRY_POINTS,
            3,
        ),
    }
}

fn ddis() -> SupportTable {
    let row = |line: &kernel::ddi::Line| Row {
        name: line.name,
        state: line.state,
        cells: vec![
            Cell::One(line.level.name()),
            Cell::One(line.class.name()),
            Cell::Many(legal_statuses(line.legal).unwrap_or_else(|| vec![ANY_FAILURE])),
        ],
    };
    SupportTable {
        id: "ddi",
        title: "DDIs that are called",
        about: "DDIs that the kernel calls, with IRQL, threading level, and the statuses that the \
                driver may return besides success.",
        columns: &["irql", "threading_level", "statuses"],
        rows: TABLE.iter().map(row).collect(),
    }
}

fn uncalled() -> SupportTable {
    let row = |why, name| Row { name, state: Support::Missing(why), cells: Vec::new() };
    let rows =
        port::UNCALLED.iter().flat_map(|(why, names)| names.iter().map(|text| row(*why, *text)));
    SupportTable {
        id: "uncalled",
        title: "DDIs that are not called yet",
        about: "Slots of DRIVER_INITIALIZATION_DATA that a driver may fill and the kernel does not \
                call.",
        columns: &[],
        rows: rows.collect(),
    }
}

fn callbacks() -> SupportTable {
    let row = |callback_support: &port::CallbackSupport| Row {
        name: callback_support.name,
        state: callback_support.support,
        cells: Vec::new(),
    };
    SupportTable {
        id: "callback",
        title: "Callbacks of DXGKRNL_INTERFACE",
        about: "Functions that a driver calls. An absent one is a trap: it logs its name and \
                returns STATUS_NOT_SUPPORTED.",
        columns: &[],
        rows: port::CALLBACKS.iter().map(row).collect(),
    }
}

fn imports() -> SupportTable {
    let irql = |name| nt::irql_of(name).map_or_else(Vec::new, nt::ImportIrql::text);
    let row = |import: &nt::Import| Row {
        name: import.name,
        state: import.support,
        cells: vec![Cell::Many(irql(import.name))],
    };
    SupportTable {
        id: "import",
        title: "Imports",
        about: "Functions that a driver can import from the kernel, and the IRQLs at which their \
                pages allow a call (rule WT-LEVEL-001); a variable has none. The absent ones are \
                those that public drivers import.",
        columns: &["irql"],
        rows: with_absent(nt::imports().map(row).collect(), windows_names::IMPORTS, 1),
    }
}

/// The rows, then a row for each further name that Windows has.
fn with_absent(mut rows: Vec<Row>, names: &[&'static str], cells: usize) -> Vec<Row> {
    let absent: Vec<&str> =
        names.iter().copied().filter(|name| rows.iter().all(|row| row.name != *name)).collect();
    let row = |name| Row {
        name,
        state: Support::Missing(NOT_IMPLEMENTED),
        cells: vec![Cell::Many(Vec::new()); cells],
    };
    rows.extend(absent.into_iter().map(row));
    rows
}

/// Why a name that Windows has is absent.
const NOT_IMPLEMENTED: &str = "not implemented";

/// Why the runtime does not call a function of a user-mode driver.
const NOT_CALLED: &str = "not called";
/// Why a callback of a user-mode driver is absent.
const TRAP: &str = "a named trap";

/// The functions of a user-mode driver, in the order of its tables.
fn functions() -> SupportTable {
    let driven =
        |name: &str| runtime::FUNCTIONS.iter().find(|function_row| function_row.name == name);
    let row = |name: &'static str| Row {
        name,
        state: driven(name).map_or(Support::Missing(NOT_CALLED), runtime::FunctionRow::support),
        cells: vec![rules(driven(name).map_or(&[], |function_row| function_row.rules))],
    };
    let names = ["OpenAdapter"].iter();
    let names = names.chain(D3DDDI_ADAPTERFUNCS::SLOTS).chain(D3DDDI_DEVICEFUNCS::SLOTS);
    SupportTable {
        id: "umd",
        title: "Functions of a user-mode driver",
        about: "Functions of a Direct3D 9 user-mode driver that the runtime calls: its entry \
                point, and the slots of D3DDDI_ADAPTERFUNCS and D3DDDI_DEVICEFUNCS.",
        columns: &["rules"],
        rows: names.copied().map(row).collect(),
    }
}

/// The callbacks of a user-mode driver, in the order of their tables.
fn user_callbacks() -> SupportTable {
    let served =
        |name: &str| runtime::CALLBACKS.iter().find(|callback_row| callback_row.name == name);
    let row = |name: &'static str| Row {
        name,
        state: served(name).map_or(Support::Missing(TRAP), runtime::CallbackRow::support),
        cells: vec![
            Cell::One(served(name).map_or("", |callback_row| callback_row.through)),
            rules(served(name).map_or(&[], |callback_row| callback_row.rules)),
        ],
    };
    let names = D3DDDI_ADAPTERCALLBACKS::SLOTS.iter().chain(D3DDDI_DEVICECALLBACKS::SLOTS);
    SupportTable {
        id: "umd_callback",
        title: "Callbacks of a user-mode driver",
        about: "Callbacks that a user-mode driver calls, and the entry point that each goes \
                through. An absent one is a trap: it logs its name and returns E_NOTIMPL.",
        columns: &["through", "rules"],
        rows: names.copied().map(row).collect(),
    }
}

/// The entries of an `AVStream` minidriver that are called.
fn dispatches() -> SupportTable {
    let row = |ks_row: &stream::KsRow| Row {
        name: ks_row.name,
        state: ks_row.support,
        cells: vec![
            Cell::One(ks_row.level.name()),
            Cell::One(ks_row.locks),
            Cell::One(match ks_row.legal {
                stream::LegalResults::Any => ANY_FAILURE,
                stream::LegalResults::NotPending => "any failure, never STATUS_PENDING",
                stream::LegalResults::Void => "none: it returns void",
            }),
        ],
    };
    SupportTable {
        id: "ks",
        title: "Dispatch entries of an AVStream minidriver",
        about: "Entries of a minidriver that the class driver calls, with IRQL (unless the \
                descriptor requests another), mutexes held, and the statuses that the entry may \
                return besides success.",
        columns: &["irql", "mutexes", "statuses"],
        rows: stream::TABLE.iter().map(row).collect(),
    }
}

/// Entries of the dispatch tables that nothing calls, and why.
const UNDISPATCHED: [(&str, &str); 6] = [
    ("AVStrMiniDeviceCancelStop", "a requested stop is never cancelled"),
    ("AVStrMiniDeviceCancelRemove", "a requested removal is never cancelled"),
    ("AVStrMiniDeviceQueryCapabilities", "device capabilities are not queried"),
    ("AVStrMiniDeviceQueryPower", "power changes are not queried in advance"),
    ("AVStrMiniDeviceQueryInterface", "no other driver requests interfaces"),
    ("AVStrMiniIntersectHandlerEx", "formats are matched against the ranges of the descriptor"),
];

fn undispatched() -> SupportTable {
    let row = |(name, why)| Row { name, state: Support::Missing(why), cells: Vec::new() };
    SupportTable {
        id: "ks_uncalled",
        title: "Dispatch entries of an AVStream minidriver that are not called yet",
        about: "Slots of KSDEVICE_DISPATCH and KSPIN_DESCRIPTOR_EX that a minidriver may fill and \
                the class driver does not call. Clocks (KSCLOCK_DISPATCH), properties, methods \
                and events (KSAUTOMATION_TABLE) are not called either.",
        columns: &[],
        rows: UNDISPATCHED.into_iter().map(row).collect(),
    }
}

/// The functions that an `AVStream` minidriver imports.
fn stream_functions() -> SupportTable {
    let row = |ks_export: &port::ks::KsExport| Row {
        name: ks_export.name,
        state: ks_export.support,
        cells: vec![Cell::One(ks_export.ceiling.map_or("", Irql::name)), rules(ks_export.rules)],
    };
    SupportTable {
        id: "ks_function",
        title: "Ks functions",
        about: "Functions that an AVStream minidriver calls, with the highest documented IRQL \
                and the rules that apply. An absent one is a trap: it logs its name and returns \
                STATUS_NOT_SUPPORTED.",
        columns: &["highest_irql", "rules"],
        rows: port::ks::FUNCTIONS.iter().map(row).collect(),
    }
}

fn rules(list: &[RuleId]) -> Cell {
    Cell::Many(list.iter().map(|rule_id| rule_id.name()).collect())
}

/// The number of rows of all tables that are done, in part, and absent.
pub fn support_totals(tables: &[SupportTable]) -> [usize; 3] {
    let mut totals = [0; 3];
    for table in tables {
        for (total, count) in totals.iter_mut().zip(table.counts()) {
            *total += count;
        }
    }
    totals
}

impl SupportTable {
    /// The number of rows that are done, in part, and absent.
    pub fn counts(&self) -> [usize; 3] {
        let count = |name| self.rows.iter().filter(|row| row.state.name() == name).count();
        ["done", "part", "absent"].map(count)
    }
}

/// The page `docs/support.md`.
pub fn support_page() -> String {
    let mut page = String::from(
        "# Support tables\n\n\
         Generated by `cargo xtask docs` from the dispatch tables; a test compares. \
         `windtunnel support` prints the same tables, with `--json` as JSON.\n",
    );
    let tables = support();
    let [done, part, absent] = support_totals(&tables);
    let all = done + part + absent;
    // Writing to a String cannot fail.
    let _ = write!(page, "\nOf {all} names, {done} are done, {part} in part, {absent} absent.\n");
    for surface in tables {
        let [done, part, absent] = surface.counts();
        let (title, about) = (surface.title, surface.about);
        let counts = format!("{done} done, {part} in part, {absent} absent.");
        let _ = write!(page, "\n## {title}\n\n{about} {counts}\n\n");
        let heads: Vec<String> =
            surface.columns.iter().map(|text| text.replace('_', " ")).collect();
        let header = [vec!["name".into(), "state".into()], heads, vec!["missing".into()]].concat();
        let _ = writeln!(page, "| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
        for row in &surface.rows {
            let cells = row.cells.iter().map(|value| cell(&value.text())).collect();
            let first = vec![format!("`{}`", row.name), row.state.name().to_owned()];
            let line = [first, cells, vec![cell(row.state.missing())]].concat();
            let _ = writeln!(page, "| {} |", line.join(" | "));
        }
    }
    page
}

/// An empty cell of a page is a dash.
fn cell(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_its_cells_and_its_own_name() {
        let mut names = BTreeSet::new();
        for surface in support() {
            assert!(!surface.rows.is_empty(), "{}", surface.id);
            for row in &surface.rows {
                assert_eq!(row.cells.len(), surface.columns.len(), "{}", row.name);
                assert!(names.insert(row.name), "{} twice", row.name);
            }
        }
    }

    #[test]
    fn every_line_of_the_runtime_is_a_slot_of_its_tables() {
        let tables = support();
        let rows = |id| &tables.iter().find(|support_table| support_table.id == id).unwrap().rows;
        let there = |id, name: &str| rows(id).iter().any(|row| row.name == name);
        for line in runtime::FUNCTIONS {
            assert!(there("umd", line.name), "{}", line.name);
        }
        for line in runtime::CALLBACKS {
            assert!(there("umd_callback", line.name), "{}", line.name);
            let through = thunk::ENTRIES.iter().any(|entry_row| entry_row.name == line.through);
            assert!(through, "{} goes through {}", line.name, line.through);
        }
    }

    #[test]
    fn names_that_are_absent_are_counted() {
        let tables = support();
        let counts =
            |id| tables.iter().find(|table| table.id == id).map(SupportTable::counts).unwrap();
        let expected = thunk::ABSENT_ENTRIES.len();
        assert_eq!(counts("d3dkmt")[2], expected);
        let imports = windows_names::IMPORTS.iter();
        let absent_imports = imports.filter(|name| nt::find_import(name).is_none()).count();
        assert_eq!(counts("import")[2], absent_imports);
        assert!(expected > 50 && (1..20).contains(&absent_imports), "{expected} {absent_imports}");
        let [done, part, absent] = support_totals(&tables);
        let rows: usize = tables.iter().map(|table| table.rows.len()).sum();
        assert_eq!(done + part + absent, rows);
        for list in [windows_names::ENTRY_POINTS, windows_names::IMPORTS] {
            assert!(list.is_sorted());
        }
    }

    #[test]
    fn every_entry_point_of_windows_has_a_row() {
        let rows: BTreeSet<&str> = entries().rows.iter().map(|row| row.name).collect();
        assert_eq!(rows, windows_names::ENTRY_POINTS.iter().copied().collect());
    }

    #[test]
    fn an_entry_forwards_the_errors_of_ddis() {
        for entry in thunk::ENTRIES {
            for ddi in entry.forwards_errors_of {
                assert!(kernel::ddi::NAMES.contains(ddi), "{}: {ddi}", entry.name);
            }
        }
    }

    #[test]
    fn a_closed_list_has_names() {
        let line = TABLE.iter().find(|line| line.name == "DxgkDdiCreateDevice").unwrap();
        let legal = legal_statuses(line.legal).unwrap();
        assert_eq!(legal, ["STATUS_INVALID_HANDLE", "STATUS_NO_MEMORY"]);
        assert!(legal_statuses(Legal::Any).is_none());
    }
}
