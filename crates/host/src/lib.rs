//! Live sessions: operations in, events out, the same for every front end.
