//! Pushes what is inserted into a table to the tables of its materialized views, a block of its own
//! each, as soon as the table has it.
//!
//! Source: InsertDependenciesBuilder of a later version, and the behaviour of 25.8.2.1 (`doubled-view`):
//! a block that the table takes for a duplicate is pushed all the same, and the view's table takes it
//! for new unless `deduplicate_blocks_in_dependent_materialized_views` is set. Departures: a view has
//! every column of its source; its block is identified by its rows, not by the block of the source;
//! and it is checked whether the view's table takes inserts when its source has the rows.

use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{QueryError, ServerError};
use crate::protocol::Mechanism;
use crate::table::insert::insert;
use crate::table::parts::Row;
use crate::table::quorum_wait::Wanted;
use crate::table::replica::{Table, View};

const NOT_IMPLEMENTED: i32 = 48;

/// Adds a view of a table, which selects these columns. It is there from the next insert on.
pub fn add(table: &Table, to: &Table, name: &Rc<str>, columns: &[&str]) -> Result<(), ServerError> {
    let own = &table.schema.columns;
    let alike = own
        .iter()
        .map(|column| &**column)
        .eq(columns.iter().copied());
    if !table.mechanisms.has(Mechanism::Views)
        || !alike
        || table.schema.columns != to.schema.columns
    {
        let text = "Views are simulated of 25.8, with every column of their source in its order";
        return Err(ServerError::new(NOT_IMPLEMENTED, text));
    }
    let mut views = table.disk.views.borrow_mut();
    if !views.iter().any(|view| view.name == *name) {
        let to = to.name.clone();
        views.push(View {
            name: name.clone(),
            to,
        });
    }
    Ok(())
}

/// Inserts the rows of an insert that its table has into the table of a view. `deduplicates` is the
/// setting deduplicate_blocks_in_dependent_materialized_views.
pub async fn push(
    to: &Rc<Table>,
    rows: Vec<Row>,
    wanted: &Wanted,
    deduplicates: bool,
) -> Result<(), QueryError> {
    let deduplicates = deduplicates || !to.bugs.has(Bug::DoubledView);
    let wanted = Wanted {
        deduplicate: wanted.deduplicate && deduplicates && !to.bugs.has(Bug::ViewForgets),
        ..*wanted
    };
    insert(to, rows, &wanted).await?;
    Ok(())
}
