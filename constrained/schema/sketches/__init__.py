"""Sketches: conjunctions of constraints of one JSON type while keywords are still being added."""
