//! Making epochs durable and finding them again: object format, stores, pointers, the pure decisions of the protocol, and restores.
