//! Rows of the list of faults, each by a test that is named after it: the worker as a process of its own, a real broker, and a judge
//! that shares no code with the engine.
mod bad_records;
mod broker_faults;
mod control_records;
mod coordinator;
mod disk;
mod disks;
mod group;
mod kills;
mod large;
mod limits;
mod offsets;
mod oracle;
mod producer;
mod records;
mod scene;
mod stops;
mod timestamps;
mod tools;
mod topics;
