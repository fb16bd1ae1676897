"""The drafts of JSON Schema: which keywords each knows, which formats, and how they differ besides.

A dialect here is data, cut from the entries of `keywords`; reading a document and checking it cost a dictionary lookup
per keyword.  A keyword that a draft does not know is an annotation in that draft and ignored, as the specification
says: ``prefixItems`` in a draft-7 schema constrains nothing.

Drafts 3 and older are refused.  A schema without ``$schema`` is 2020-12, and additionally knows OpenAPI's ``nullable``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from constrained.schema.reading.keywords import Keyword, KeywordGroup, named, of_draft

_FORMATS_4 = frozenset({"date-time", "email", "hostname", "ipv4", "ipv6", "uri"})
_FORMATS_6 = _FORMATS_4 | {"uri-reference", "uri-template", "json-pointer"}
_FORMATS_7 = _FORMATS_6 | {
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "regex",
    "relative-json-pointer",
    "date",
    "time",
}
_FORMATS_2019 = _FORMATS_7 | {"duration", "uuid"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One draft, or a vocabulary made from one by a metaschema of its own."""

    name: str
    rules: Mapping[str, Keyword]
    formats: frozenset[str]  # the names that `format` knows; others are annotations
    identifier: str = "$id"
    reference_stands_alone: bool = False  # siblings of $ref are ignored
    asserts_formats: bool = False  # whatever the caller says
    nullable: bool = False  # OpenAPI's keyword adds null to `type`
    plain_integers: bool = False  # 1.0 is no integer
    # what modules have cut from the rules, by a name of their own; it goes with the dialect, which a schema may bring
    tables: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def without(self, keywords: frozenset[str]) -> Dialect:
        """Return this dialect where `keywords` are mere annotations."""
        return replace(self, rules={keyword: rule for keyword, rule in self.rules.items() if keyword not in keywords})


DRAFT_4 = Dialect("draft4", of_draft(4), _FORMATS_4, identifier="id", reference_stands_alone=True, plain_integers=True)
DRAFT_6 = Dialect("draft6", of_draft(6), _FORMATS_6, reference_stands_alone=True)
DRAFT_7 = Dialect("draft7", of_draft(7), _FORMATS_7, reference_stands_alone=True)
DRAFT_2019 = Dialect("2019-09", of_draft(2019), _FORMATS_2019)
DRAFT_2020 = Dialect("2020-12", of_draft(2020), _FORMATS_2019)
UNDECLARED = replace(DRAFT_2020, nullable=True)

_BY_ADDRESS: Mapping[str, Dialect] = {
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/schema": DRAFT_2020,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020,
}
# the drafts by the URI that a schema declares, those that most are written in first
DRAFTS: tuple[tuple[str, Dialect], ...] = (
    ("http://json-schema.org/draft-07/schema#", DRAFT_7),
    ("http://json-schema.org/draft-04/schema#", DRAFT_4),
    ("https://json-schema.org/draft/2020-12/schema", DRAFT_2020),
)
# PERF: as nearly all schemas spell them, and `by_uri` finds them
BY_URI: Mapping[str, Dialect] = {
    f"{scheme}://{address}{end}": dialect
    for address, dialect in _BY_ADDRESS.items() for scheme in ("http", "https") for end in ("", "#")
}


def by_uri(uri: str) -> Dialect | None:
    """Return the draft whose metaschema has this URI; http or https, with or without "#"."""
    return _BY_ADDRESS.get(uri.rstrip("#").partition("://")[2])


def of_metaschema(base: Dialect, vocabularies: Mapping[str, object]) -> Dialect:
    """Return the dialect of a metaschema derived from `base` that declares these vocabularies (2019-09 and later).

    2019-09 has the unevaluated keywords in its applicator vocabulary.
    """
    names = {uri.rsplit("/", 1)[-1] for uri in vocabularies}
    absent = frozenset[str]()
    if "validation" not in names:
        absent |= _of(KeywordGroup.VALIDATION)
    if "applicator" not in names:
        absent |= _of(KeywordGroup.APPLICATOR)
    if "unevaluated" not in names and (base.name != "2019-09" or "applicator" not in names):
        absent |= _of(KeywordGroup.UNEVALUATED)
    if not names & {"format", "format-annotation", "format-assertion"}:
        absent |= _of(KeywordGroup.FORMAT)
    return replace(base.without(absent), asserts_formats="format-assertion" in names)


def _of(group: KeywordGroup) -> frozenset[str]:
    return named(lambda keyword: keyword.group is group)
