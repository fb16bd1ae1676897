"""Hosts, one module each: transformers, …  Nothing in the package imports them before a caller asks for one."""
