//! `windtunnel support`.

use super::{json, text};
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use windtunnel::{Cell, Row, SupportTable, support, support_totals};

pub(crate) fn run(as_json: bool) -> ExitCode {
    let surfaces = support();
    if as_json {
        let tables: Map<String, Value> = surfaces
            .iter()
            .map(|support_table| (support_table.id.to_owned(), table(support_table)))
            .collect();
        let mut report = json::header();
        report["support"] = tables.into();
        json::print(&report);
    } else {
        for surface in &surfaces {
            print(surface);
        }
        let [done, part, absent] = support_totals(&surfaces);
        let all = done + part + absent;
        println!("Of {all} names, {done} are done, {part} in part, {absent} absent.");
        println!("{}", text::GLOSSARY_NOTE);
    }
    ExitCode::SUCCESS
}

fn table(surface: &SupportTable) -> Value {
    let row = |row: &Row| {
        let mut line = json!({ "name": row.name, "state": row.state.name() });
        if !row.state.missing().is_empty() {
            line["missing"] = row.state.missing().into();
        }
        for (column, cell) in surface.columns.iter().zip(&row.cells) {
            line[*column] = match cell {
                Cell::One(value) => (*value).into(),
                Cell::Many(values) => values.clone().into(),
            };
        }
        line
    };
    surface.rows.iter().map(row).collect()
}

fn print(surface: &SupportTable) {
    let [done, part, absent] = surface.counts();
    println!("{}: {done} done, {part} in part, {absent} absent", surface.title);
    println!("  {}\n", surface.about);
    for row in &surface.rows {
        let why = row.state.missing();
        let why = if why.is_empty() { String::new() } else { format!("  {why}") };
        println!("  {:<50} {:<6}{why}", row.name, row.state.name());
        let named = surface.columns.iter().zip(&row.cells);
        let cells: Vec<String> = named
            .map(|(column, cell)| (column, cell.text()))
            .filter(|pair| !pair.1.is_empty())
            .map(|(column, text)| format!("{}: {text}", column.replace('_', " ")))
            .collect();
        if !cells.is_empty() {
            println!("      {}", cells.join("; "));
        }
    }
    println!();
}
