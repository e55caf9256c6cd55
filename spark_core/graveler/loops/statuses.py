"""What a loop found: statuses, and the words for them."""

from __future__ import annotations

OK = 0
CUT_VARINT = 1
LONG_VARINT = 2
BAD_RESTARTS = 3
SHARED_TOO_LONG = 4
KEY_BEYOND_BLOCK = 5
VALUE_BEYOND_BLOCK = 6
SHORT_KEY = 7
NOT_A_SET = 8
TOO_MANY_RECORDS = 9
NOT_ONE_HANDLE = 10
KEYS_NOT_ASCENDING = 11
NEGATIVE_LENGTH = 12
BEYOND_VALUE = 13
AFTER_VALUE = 14
UNKNOWN_FIELD = 15
REPEATED_FIELD = 16
WRONG_WIRE_TYPE = 17
FIELD_BEYOND_MESSAGE = 18
NO_ADDRESS = 19
UNKNOWN_ADDRESS_TYPE = 20
NUMBER_TOO_LARGE = 21
BLOCK_TOO_LARGE = 22
BAD_CHECKSUM = 23
UNKNOWN_BLOCK_TYPE = 24
HANDLE_OUTSIDE = 25

# What statuses mean; the callers have words of their own for the last three.
PROBLEMS = {
    CUT_VARINT: "a varint that runs past the end of what holds it",
    LONG_VARINT: "a varint longer than its number needs or than 64 bits",
    BAD_RESTARTS: "a block whose list of restarts does not fit into it",
    SHARED_TOO_LONG: "a key that shares more bytes than the key before it has",
    KEY_BEYOND_BLOCK: "a key longer than the rest of its block",
    VALUE_BEYOND_BLOCK: "a value longer than the rest of its block",
    SHORT_KEY: "a key without its own 8-byte trailer",
    NOT_A_SET: "a record that is not a plain SET with sequence number 0",
    TOO_MANY_RECORDS: "more records than the `count` property says",
    NOT_ONE_HANDLE: "an index entry that does not hold exactly one block handle",
    KEYS_NOT_ASCENDING: "a key that is not greater than the one before it",
    NEGATIVE_LENGTH: "a negative length in a value",
    BEYOND_VALUE: "a length in a value that runs past the value's end",
    AFTER_VALUE: "bytes after the data of a value",
    UNKNOWN_FIELD: "an unknown protobuf field number",
    REPEATED_FIELD: "a protobuf field that may occur only once, twice",
    WRONG_WIRE_TYPE: "a protobuf field with a wire type that it does not have",
    FIELD_BEYOND_MESSAGE: "a protobuf field longer than its message",
    NO_ADDRESS: "an entry without an address",
    UNKNOWN_ADDRESS_TYPE: "an address_type other than 0, 1 and 2",
    NUMBER_TOO_LARGE: "a number too large for 63 bits",
    BLOCK_TOO_LARGE: "a compressed block that claims to be larger than snappy can make it",
}
