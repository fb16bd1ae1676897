"""Sets of strings: regular languages, the formats that JSON Schema names, host names in all scripts."""
