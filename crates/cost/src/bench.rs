//! The whole run: the tables of pairs, memory, scheduling and addresses, user-mode drivers, streams,
//! the command and images, and the goals.

use crate::images::DriverFolder;
use crate::page::{
    CHECK_HEAD, IMAGE_HEAD, MEMORY_HEAD, SERVER_HEAD, STREAM_HEAD, THROUGH_HEAD, WORK_HEAD,
    check_line, head, image_line, line, memory_line, server_line, stream_line, table_of_goals,
    through_line, work_line,
};
use crate::{
    BenchSize, CheckUsage, ImageRow, MeasureError, MemoryRow, Row, ServerRow, StreamRow, UmdRow,
    WorkRow, check_usage, images, measure, memory, server_calls, streaming, umd_calls, work,
};

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct BenchReport {
    /// Pairs.
    pub rows: Vec<Row>,
    /// Video memory.
    pub memory: Vec<MemoryRow>,
    /// Scheduling and addresses.
    pub work: Vec<WorkRow>,
    /// User-mode drivers.
    pub through: Vec<UmdRow>,
    /// Streams.
    pub streams: Vec<StreamRow>,
    /// Calls through a server.
    pub server: Vec<ServerRow>,
    /// A whole check.
    pub check: Option<CheckUsage>,
    /// Images.
    pub images: Vec<ImageRow>,
    /// Why the rows of images were left out, if they were.
    pub images_left_out: Option<String>,
}

/// Measures the selected rows and prints each table when it is complete.
pub fn bench(
    extent: &BenchSize,
    push_row: &mut dyn FnMut(&str),
) -> Result<BenchReport, MeasureError> {
    let mut first = true;
    let rows = measure::measure(extent, &mut |row| {
        if std::mem::take(&mut first) {
            push_row(&head(extent));
        }
        push_row(&line(row));
    })?;
    let mut first = true;
    let memory = memory::measure(extent, &mut |memory_row| {
        if std::mem::take(&mut first) {
            push_row(if rows.is_empty() { "" } else { "\n" });
            push_row(MEMORY_HEAD);
        }
        push_row(&memory_line(memory_row));
    })?;
    let mut first = true;
    let work = work::measure(extent, &mut |work_row| {
        if std::mem::take(&mut first) {
            push_row(if rows.is_empty() && memory.is_empty() { "" } else { "\n" });
            push_row(WORK_HEAD);
        }
        push_row(&work_line(work_row));
    })?;
    let mut first = true;
    let none = rows.is_empty() && memory.is_empty() && work.is_empty();
    let through = umd_calls::measure(extent, &mut |umd_row| {
        if std::mem::take(&mut first) {
            push_row(if none { "" } else { "\n" });
            push_row(THROUGH_HEAD);
        }
        push_row(&through_line(umd_row));
    })?;
    let mut first = true;
    let none = none && through.is_empty();
    let streams = streaming::measure(extent, &mut |stream_row| {
        if std::mem::take(&mut first) {
            push_row(if none { "" } else { "\n" });
            push_row(STREAM_HEAD);
        }
        push_row(&stream_line(stream_row));
    })?;
    let none = none && streams.is_empty();
    let mut first = true;
    let server = server_calls::measure(extent, &mut |server_row| {
        if std::mem::take(&mut first) {
            push_row(if none { "" } else { "\n" });
            push_row(SERVER_HEAD);
        }
        push_row(&server_line(server_row));
    })?;
    let none = none && server.is_empty();
    let check = check_usage::measure(extent)?;
    if let Some(used) = &check {
        push_row(if none { "" } else { "\n" });
        push_row(CHECK_HEAD);
        push_row(&check_line(used));
    }
    let none = none && check.is_none();
    // Last: a process that has loaded an image pays for it in every call of a driver.
    let (images, images_left_out) = images(extent, none, push_row)?;
    if none && images.is_empty() {
        return Err(MeasureError(
            "a row of that name; run without --only to see all names".to_owned(),
        ));
    }
    let report = BenchReport {
        rows,
        memory,
        work,
        through,
        streams,
        server,
        check,
        images,
        images_left_out,
    };
    push_row(&table_of_goals(&report));
    Ok(report)
}

/// The rows of images, or why they were left out.
fn images(
    extent: &BenchSize,
    first_table: bool,
    push_row: &mut dyn FnMut(&str),
) -> Result<(Vec<ImageRow>, Option<String>), MeasureError> {
    if !images::is_selected(extent) {
        return Ok((Vec::new(), None));
    }
    let Some(folder) = DriverFolder::find() else {
        if first_table {
            return Err(MeasureError(DriverFolder::MISSING.to_owned()));
        }
        let reason = format!("needs {}", DriverFolder::MISSING);
        push_row(&format!("\nImages are left out: {reason}\n"));
        return Ok((Vec::new(), Some(reason)));
    };
    let mut first = true;
    let rows = images::measure(extent, &folder, &mut |image_row| {
        if std::mem::take(&mut first) {
            push_row(if first_table { "" } else { "\n" });
            push_row(IMAGE_HEAD);
        }
        push_row(&image_line(image_row));
    })?;
    Ok((rows, None))
}
