use super::table;

#[test]
fn parts_of_structs_and_arrays_are_named_by_path() {
    table(
        "address.city => 'Turin' string
        address.zip => NULL int64
        address => { city: 'Turin', zip: NULL } { city: string, zip: int64 }
        address.city = 'Turin' => TRUE bool
        address.city IS NOT NULL => TRUE bool
        \"address\".\"city\" => 'Turin' string
        (address).city => 'Turin' string
        tags[1] => 'new' string
        tags[2] => NULL string
        tags[3] => 'gift' string
        tags[4] => NULL string
        tags[0] => NULL string
        tags[-1] => NULL string
        tags[most] => NULL string
        tags[least] => NULL string
        tags[nothing] => NULL string
        tags[orders - 6] => 'new' string
        no_tags[1] => NULL string
        grid[1] => [1, 2] array(int64)
        grid[1][2] => 2 int64
        grid[2][1] => NULL int64
        grid[1][2] + 1 => 3 int64
        items[1].name => 'pen' string
        items[1].price * 2 => 3.98 decimal(18,2)
        items[2].name => NULL string
        upper(items[1].name) => 'PEN' string
        cardinality(tags) => 3 int64
        cardinality(no_tags) => NULL int64
        cardinality(items) => 1 int64
        tags IS NULL => FALSE bool
        no_tags IS NULL => TRUE bool
        tags[zero + orders / zero] => division_by_zero: division by zero in `orders / zero`",
    );
}
