//! Every operator, through the driver.
use crate::support::{driver, record, sums, texts};

#[test]
fn a_fold_emits_its_value_after_every_record_and_goes_on_after_a_restart() {
    let mut driver = driver(sums);
    driver.start().expect("starts");
    for value in [1, 2, 3] {
        driver.pipe("in", record("a", value)).expect("taken");
    }
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["a=1", "a=3", "a=6"]);
    driver.pipe("in", record("a", 10)).expect("taken");
    driver.stop().expect("ends well");
    driver.start().expect("starts again");
    driver.pipe("in", record("a", 10)).expect("taken");
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["a=16", "a=26"]);
}
