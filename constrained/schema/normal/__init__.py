"""Normal form: conjunctions of signed subschemas worked out into the values that they allow, type by type."""
