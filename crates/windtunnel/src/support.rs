//! The support tables of all doors, as data for those who print them.
//!
//! Nothing is said here that the doors do not say: each row is a line of the table that
//! dispatches, and the page in `docs` is made from these rows.

use abi::NTSTATUS;
use abi::umd::{
    D3DDDI_ADAPTERCALLBACKS, D3DDDI_ADAPTERFUNCS, D3DDDI_DEVICECALLBACKS, D3DDDI_DEVICEFUNCS,
};
use flight::{Irql, RuleId, Support};
use kernel::ddi::{Legal, TABLE};
use std::fmt::Write as _;

/// One door's table.
pub struct SupportTable {
    /// Its name for machines.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What its rows are, in a sentence.
    pub about: &'static str,
    /// The names of the cells that its rows have besides name and state.
    pub columns: &'static [&'static str],
    /// The rows.
    pub rows: Vec<Row>,
}

/// An entry of a table.
pub struct Row {
    /// Its Windows name.
    pub name: &'static str,
    /// How much of it there is.
    pub state: Support,
    /// One for each column.
    pub cells: Vec<Cell>,
}

/// What a table says of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A word.
    One(&'static str),
    /// Any number of words.
    Many(Vec<&'static str>),
}

impl Cell {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Cell::One(driver_handle) => (*driver_handle).to_owned(),
            Cell::Many(words) => words.join(", "),
        }
    }
}

impl Cell {
    /// What it says, word by word.
    pub fn words(&self) -> Vec<&'static str> {
        match self {
            Cell::One(driver_handle) => vec![driver_handle],
            Cell::Many(words) => words.clone(),
        }
    }
}

/// What a DDI with an open list may answer.
pub const ANY_FAILURE: &str = "any failure";

/// Every table, from the top of the house to its bottom.
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

/// The statuses a DDI may answer besides success; `None` when its list is open.
pub fn legal_statuses(legal: Legal) -> Option<Vec<&'static str>> {
    let Legal::Only(_) = legal else { return None };
    let may =
        |status: NTSTATUS| port::result_from_status(status).is_err_and(|why| legal.allows(why));
    let known = abi::status::NAMES.iter().filter(|pair| may(pair.0));
    Some(known.map(|pair| pair.1).collect())
}

fn entries() -> SupportTable {
    let named = |value: &NTSTATUS| abi::status::name(*value).unwrap_or("a status without a name");
    let row = |entry_row: &thunk::EntryRow| Row {
        name: entry_row.name,
        state: entry_row.support(),
        cells: vec![
            Cell::Many(entry_row.statuses.iter().map(named).collect()),
            Cell::Many(entry_row.forwards_errors_of.to_vec()),
            Cell::Many(entry_row.rules.iter().map(|rule_id| rule_id.name()).collect()),
        ],
    };
    SupportTable {
        id: "d3dkmt",
        title: "D3DKMT entry points",
        about: "What a client calls. Besides success an entry answers these statuses of itself, \
                and passes on what a driver answers to these DDIs.",
        columns: &["answers", "passes_on", "rules"],
        rows: thunk::ENTRIES.iter().map(row).collect(),
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
        about: "What a driver is called for, at which level, in which threading class, and what \
                it may answer besides success.",
        columns: &["irql", "class", "statuses"],
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
        about: "Slots of DRIVER_INITIALIZATION_DATA that a driver may fill and nothing calls.",
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
        about: "What a driver calls back. An absent one is a trap: it says its name in the log, \
                and answers that it is not supported.",
        columns: &[],
        rows: port::CALLBACKS.iter().map(row).collect(),
    }
}

fn imports() -> SupportTable {
    let row =
        |import: &nt::Import| Row { name: import.name, state: import.support, cells: Vec::new() };
    SupportTable {
        id: "import",
        title: "Imports",
        about: "What a driver finds in the kernel it is linked to. Anything else is not there.",
        columns: &[],
        rows: nt::IMPORTS.iter().map(row).collect(),
    }
}

/// Why a function of a user-mode driver is absent.
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
        about: "What the runtime calls a user-mode driver of Direct3D 9 for: its entry point, \
                and the slots of D3DDDI_ADAPTERFUNCS and D3DDDI_DEVICEFUNCS.",
        columns: &["rules"],
        rows: names.copied().map(row).collect(),
    }
}

/// What a user-mode driver calls back, in the order of its tables.
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
        about: "What a user-mode driver calls back, and the entry point that goes through. An \
                absent one is a trap: it says its name in the log, and answers E_NOTIMPL.",
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
                stream::LegalResults::Void => "nothing: it returns nothing",
            }),
        ],
    };
    SupportTable {
        id: "ks",
        title: "Dispatch entries of an AVStream minidriver",
        about: "What the class driver calls a minidriver for, at which level where its \
                descriptor asks for no other, with which mutexes held, and what it may answer \
                besides success.",
        columns: &["irql", "mutexes", "statuses"],
        rows: stream::TABLE.iter().map(row).collect(),
    }
}

/// Entries of the dispatch tables that nothing calls, and why.
const UNDISPATCHED: [(&str, &str); 6] = [
    ("AVStrMiniDeviceCancelStop", "a stop that was asked for is not taken back"),
    ("AVStrMiniDeviceCancelRemove", "a removal that was asked for is not taken back"),
    ("AVStrMiniDeviceQueryCapabilities", "nobody asks what a device can do"),
    ("AVStrMiniDeviceQueryPower", "sleep and wake are told, not asked"),
    ("AVStrMiniDeviceQueryInterface", "no other driver asks for interfaces"),
    ("AVStrMiniIntersectHandlerEx", "formats are matched with the ranges of the descriptor"),
];

fn undispatched() -> SupportTable {
    let row = |(name, why)| Row { name, state: Support::Missing(why), cells: Vec::new() };
    SupportTable {
        id: "ks_uncalled",
        title: "Dispatch entries of an AVStream minidriver that are not called yet",
        about: "Slots of KSDEVICE_DISPATCH and KSPIN_DESCRIPTOR_EX that a minidriver may fill and \
                nothing calls. Clocks (KSCLOCK_DISPATCH), properties, methods and events \
                (KSAUTOMATION_TABLE) are not called either.",
        columns: &[],
        rows: UNDISPATCHED.into_iter().map(row).collect(),
    }
}

/// What an `AVStream` minidriver imports.
fn stream_functions() -> SupportTable {
    let row = |ks_export: &port::ks::KsExport| Row {
        name: ks_export.name,
        state: ks_export.support,
        cells: vec![Cell::One(ks_export.ceiling.map_or("", Irql::name)), rules(ks_export.rules)],
    };
    SupportTable {
        id: "ks_function",
        title: "Ks functions",
        about: "What an AVStream minidriver calls, up to which level where one is documented, and \
                the rules that are judged there. An absent one is a trap: it says its name in the \
                log, and answers that it is not supported.",
        columns: &["highest_irql", "rules"],
        rows: port::ks::FUNCTIONS.iter().map(row).collect(),
    }
}

fn rules(list: &[RuleId]) -> Cell {
    Cell::Many(list.iter().map(|rule_id| rule_id.name()).collect())
}

impl SupportTable {
    /// How many rows are done, in part, and absent.
    pub fn counts(&self) -> [usize; 3] {
        let count = |name| self.rows.iter().filter(|row| row.state.name() == name).count();
        ["done", "part", "absent"].map(count)
    }
}

/// The page `docs/support.md`.
pub fn support_page() -> String {
    let mut page = String::from(
        "# What is there\n\n\
         Made by `cargo xtask docs` from the tables that dispatch; a test compares. \
         `windtunnel support` prints the same, `--json` for machines.\n",
    );
    for surface in support() {
        let [done, part, absent] = surface.counts();
        let (title, about) = (surface.title, surface.about);
        let counts = format!("{done} done, {part} in part, {absent} absent.");
        // To a String: it cannot fail.
        let _ = write!(page, "\n## {title}\n\n{about} {counts}\n\n");
        let heads: Vec<String> =
            surface.columns.iter().map(|text| text.replace('_', " ")).collect();
        let header = [vec!["name".into(), "state".into()], heads, vec!["lacks".into()]].concat();
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
    fn what_an_entry_passes_on_is_a_ddi() {
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
