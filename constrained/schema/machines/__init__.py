"""Values as machines: pushdown states that read or write exactly the texts of the values that a schema allows."""
