r"""The string formats of JSON Schema as exact regular languages.

Each format is the grammar of the specification that JSON Schema names for it, written as patterns and united with the
algebra of `constrained.regex`.  Calendar rules are regular: a leap year is decided by four digits, a leap second by the
hour, the minute and the offset, so ``:60`` is allowed exactly where the time in UTC is 23:59.

`NARROWED` and `WIDENED` name the formats whose language is not regular, with what is left out and what is let in; all
others are exact. A narrowed format has a hull as well, a language that leaves nothing out: its complement is what
certainly is not in the format.

Built on first use; a format costs a process a few hundred microseconds once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from constrained.regex import (
    ANY,
    EPSILON,
    NEVER,
    Expr,
    complement,
    concat,
    intersect,
    literal,
    optional,
    parse_python,
    repeat,
    union,
)
from constrained.regex.algebra import char_class
from constrained.regex.expr import INFINITE, LAZY, RawEdges, interned
from constrained.work import Budget, metered

_NO_A_LABELS = "labels that start with xn-- are refused: whether they are valid is decided by decoding Punycode"
NARROWED: dict[str, str] = {
    "hostname": _NO_A_LABELS,
    "host-name": _NO_A_LABELS,
    "idn-hostname": (
        "labels that start with xn-- are refused, as are two neighbouring marks of one kind (both above a letter, say) "
        "and marks that compose with some letter, behind a letter that composes with some mark"
    ),
    "regex": "no named groups, no backreferences, groups nest at most 8 deep, class ranges stay within "
    "digits or letters of one case, and in {n,m} from three digits of n on m has more",
}
WIDENED: dict[str, str] = {
    "idn-hostname": "a label of at most 57 characters is accepted although its Punycode is longer than 63 octets",
}
INEXACT = NARROWED.keys() | WIDENED.keys()


@lru_cache(maxsize=64)
def format_expr(name: str) -> Expr | None:
    """Return the texts of a format; None for a name that JSON Schema does not define.

    >>> from constrained.regex import matches
    >>> [matches(format_expr("date"), text) for text in ("2024-02-29", "1900-02-29", "2000-02-29")]
    [True, False, True]
    """
    build = _FORMATS.get(name)
    with metered(Budget(None)):  # once for a process, and no input decides how large a format is
        return None if build is None else build()


@lru_cache(maxsize=8)
def format_hull(name: str) -> Expr | None:
    """Return a language that holds all texts of a narrowed format, None for the other formats.

    >>> from constrained.regex import matches
    >>> [matches(hull, "xn--mnchen-3ya.de") for hull in (format_expr("hostname"), format_hull("hostname"))]
    [False, True]
    """
    if name in ("hostname", "host-name"):
        label = f"{_LET_DIG}{_rest(1)}"
        return intersect(parse_python(rf"{label}(?:\.{label})*"), repeat(ANY, 1, 253))
    if name == "idn-hostname":  # of ASCII it holds letters, digits, hyphens and dots
        return repeat(parse_python(rf"[A-Za-z0-9.{_BEYOND}-]"), 1, 253)
    if name == "regex":
        return complement(parse_python("[*+?)].*", "s"))  # nothing to repeat, nothing to close
    return None


@lru_cache(maxsize=1)
def _date() -> Expr:
    """SPEC: RFC 3339 §5.6 full-date, §5.7 days per month, appendix C leap years."""
    ordinary = parse_python(
        r"[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
        r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    )
    leap = parse_python(r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29")
    return union(ordinary, leap)


_FRACTION = r"(?:\.[0-9]+)?"


class _TimeOfDay(str):
    """The rest of a time after these characters of ``HH:MM:6``.

    Lazy, because each of the 1,440 times of day has its own pair of offsets that let its second be 60.
    """

    __slots__ = ()
    accepts = False
    long = INFINITE
    uses_no_witness = True

    def __repr__(self) -> str:
        return f"_TimeOfDay(read={str(self)!r})"

    @property
    def short(self) -> int:
        return len("HH:MM:SSZ") - len(self)

    def edges(self) -> RawEdges:
        at = len(self)
        if at == len("HH:MM:"):
            return *_seconds().edges(), (0x36, 0x36, _time_of_day(f"{self}6"))
        if at == len("HH:MM:6"):
            return ((0x30, 0x30, _leap_rest(int(self[:2]), int(self[3:5]))),)
        hour = "0123" if self == "2" else "0123456789"
        following = ("012", hour, ":", "012345", "0123456789", ":")[at]
        return tuple([(ord(char), ord(char), _time_of_day(self + char)) for char in following])


def _time_of_day(read: str) -> Expr:
    """Return the rest of a time, as an expression whose edges stay where caches are emptied, as calendars do.

    A mask behind an hour asks for those of 66 of them, so that the edge of a minute, a colon, is entered at once.
    All of them together take 2 MB.
    """
    rest = interned(LAZY, _TimeOfDay(read))
    rest.edges_stay = len(read) < len("HH:MM:")
    if len(read) == len("HH:MM") and rest._raw is None:
        rest._raw = rest._public = ((0x3A, 0x3A, interned(LAZY, _TimeOfDay(f"{read}:"))),)
    return rest


@lru_cache(maxsize=1)
def _seconds() -> Expr:
    """Return what follows ``HH:MM:``, but for leap seconds."""
    return parse_python(f"[0-5][0-9]{_FRACTION}(?:[zZ]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])")


def _leap_rest(hour: int, minute: int) -> Expr:
    """Return what follows ``HH:MM:60`` where UTC is 23:59: a fraction and the offset, or its negative, that takes HH:MM
    there.
    """
    local = hour * 60 + minute
    ahead, behind = (local + 1) % 1440, 1439 - local
    offsets = [literal(f"{sign}{of // 60:02}:{of % 60:02}") for sign, of in (("+", ahead), ("-", behind))]
    if local == 1439:
        offsets.append(parse_python("[zZ]"))
    return concat(_fraction(), union(*offsets))


@lru_cache(maxsize=1)
def _fraction() -> Expr:
    return parse_python(_FRACTION)


@lru_cache(maxsize=1)
def _time() -> Expr:
    """SPEC: RFC 3339 §5.6 full-time; "T" and "Z" in either case; §5.7 a leap second is 23:59:60 in UTC."""
    return _time_of_day("")


def _duration() -> Expr:
    """SPEC: RFC 3339 appendix A, in upper case as every example there."""
    second = "[0-9]+S"
    minute = f"[0-9]+M(?:{second})?"
    time = f"T(?:[0-9]+H(?:{minute})?|{minute}|{second})"
    month = "[0-9]+M(?:[0-9]+D)?"
    return parse_python(f"P(?:(?:[0-9]+Y(?:{month})?|{month}|[0-9]+D)(?:{time})?|{time}|[0-9]+W)")


_OCTET = "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"


@lru_cache(maxsize=1)
def _ipv4() -> Expr:
    """SPEC: RFC 2673 §3.2 dotted-quad, without leading zeros (RFC 3986 dec-octet)."""
    return parse_python(rf"{_OCTET}(?:\.{_OCTET}){{3}}")


@lru_cache(maxsize=1)
def _ipv6() -> Expr:
    """SPEC: RFC 4291 §2.2; "::" stands for at least one group of zeros."""
    group = parse_python("[0-9a-fA-F]{1,4}")
    colon = literal(":")
    then = concat(group, colon)

    def tail(most: int) -> Expr:
        """At most this many groups; an IPv4 address at the end counts for two."""
        groups = EPSILON
        if most >= 1:
            groups = union(groups, concat(repeat(then, 0, most - 1), group))
        return union(groups, concat(repeat(then, 0, most - 2), _ipv4())) if most >= 2 else groups

    options = [concat(repeat(then, 7, 7), group), concat(repeat(then, 6, 6), _ipv4()), concat(literal("::"), tail(7))]
    options += [
        concat(repeat(then, before - 1, before - 1), group, literal("::"), tail(7 - before)) for before in range(1, 8)
    ]
    return union(*options)


_LET_DIG = "[A-Za-z0-9]"


def _rest(read: int) -> str:
    """What may follow a letter or digit that ends the first `read` characters of a label."""
    return f"(?:[A-Za-z0-9-]{{0,{62 - read}}}{_LET_DIG})?"


def _hostname() -> Expr:
    """SPEC: RFC 1123 §2.1: labels of 1 to 63 letters, digits and inner hyphens; RFC 1034 §3.1: 253 characters in all.

    A label is spelled out along "xn--" to leave that prefix out without an intersection.
    """
    after_xn = f"{_LET_DIG}{_rest(3)}|-{_LET_DIG}{_rest(4)}"
    after_x = f"[A-MO-Za-mo-z0-9]{_rest(2)}|-[A-Za-z0-9-]{{0,60}}{_LET_DIG}|[nN](?:{after_xn})?"
    label = f"(?:[A-WYZa-wyz0-9]{_rest(1)}|[xX](?:{after_x})?)"
    return intersect(parse_python(rf"{label}(?:\.{label})*"), repeat(ANY, 1, 253))


def _mailbox(atom: str, quoted: str, escaped: str, letter: str) -> Expr:
    """SPEC: RFC 5321 §4.1.2 Mailbox, with the characters of an atom, of a quoted string and of a domain."""
    local = rf"{atom}+(?:\.{atom}+)*|\"(?:{quoted}|\\{escaped})*\""
    label = rf"{letter}(?:(?:{letter}|-)*{letter})?"
    domain = parse_python(rf"{label}(?:\.{label})*")
    address = union(_ipv4(), concat(parse_python("[iI][pP][vV]6:"), _ipv6()))
    return concat(parse_python(f"(?:{local})@"), union(domain, concat(literal("["), address, literal("]"))))


_ATEXT = "A-Za-z0-9!#$%&'*+/=?^_`{|}~-"
_BEYOND = r"\x80-\U0010ffff"


def _idn_hostname() -> Expr:
    from constrained.schema.strings.idn import idn_hostname  # reads a table

    return idn_hostname()


def _idn_email() -> Expr:
    """SPEC: RFC 6531 §3.3: atoms, quoted strings and labels extended by all characters beyond ASCII."""
    wide = f"[A-Za-z0-9{_BEYOND}]"
    return _mailbox(f"[{_BEYOND}{_ATEXT}]", rf"[ !#-\[\]-~{_BEYOND}]", f"[ -~{_BEYOND}]", wide)


# SPEC: RFC 3987 §2.2
_UCSCHAR = (
    r"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(rf"\U{plane:04x}0000-\U{plane:04x}fffd" for plane in range(1, 14))
    + r"\U000e1000-\U000efffd"
)
_IPRIVATE = r"\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_SUB_DELIMS = "!$&'()*+,;="


@lru_cache(maxsize=2)
def _resource(*, wide: bool) -> tuple[Expr, Expr]:
    """Return URI (IRI) and URI (IRI) reference.  SPEC: RFC 3986 appendix A, RFC 3987 §2.2."""
    extra, private = (_UCSCHAR, _IPRIVATE) if wide else ("", "")

    def some(characters: str) -> str:
        return f"(?:[A-Za-z0-9._~{extra}{_SUB_DELIMS}{characters}-]|%[0-9A-Fa-f]{{2}})"

    pchar = some(":@")
    future = concat(
        literal("["), union(_ipv6(), parse_python(rf"[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~{_SUB_DELIMS}:-]+")), literal("]")
    )
    host = union(future, parse_python(f"{some('')}*"))
    authority = concat(optional(parse_python(f"{some(':')}*@")), host, parse_python("(?::[0-9]*)?"))
    abempty = parse_python(f"(?:/{pchar}*)*")
    after_authority = concat(literal("//"), authority, abempty)
    absolute = parse_python(f"/(?:{pchar}+(?:/{pchar}*)*)?")
    rootless = parse_python(f"{pchar}+(?:/{pchar}*)*")
    no_scheme = parse_python(f"{some('@')}+(?:/{pchar}*)*")
    end = parse_python(rf"(?:\?(?:{some(':@/?')}|[{private or '/'}])*)?(?:#{some(':@/?')}*)?")
    scheme = parse_python("[A-Za-z][A-Za-z0-9+.-]*:")
    resource = concat(scheme, union(after_authority, absolute, rootless, EPSILON), end)
    return resource, union(resource, concat(union(after_authority, absolute, no_scheme, EPSILON), end))


def _uri_template() -> Expr:
    """SPEC: RFC 6570 §2, with erratum 6937: the apostrophe is a literal."""
    literals_ = rf"[!#$&'()*+,./0-9:;=?@A-Z\[\]_a-z~{_UCSCHAR}{_IPRIVATE}-]|%[0-9A-Fa-f]{{2}}"
    letter = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
    variable = rf"{letter}(?:\.?{letter})*(?::[1-9][0-9]{{0,3}}|\*)?"
    return parse_python(rf"(?:{literals_}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*")


_POINTER = r"(?:/(?:[^~/]|~[01])*)*"


_REGEX_DEPTH = 8


def _regex() -> Expr:
    """SPEC: ECMA-262 §22.2.1 with the u flag; groups nest, so this is a part of the language (see `INEXACT`).

    SPEC: §22.2.1.1 no digit follows ``\\0``.  Written without look-ahead, as digits, zeros and the other terms: so the
    language is plain, and a bound on its length costs nothing for each character.
    """
    hexadecimal = "[0-9A-Fa-f]"
    point = rf"x{hexadecimal}{{2}}|u{hexadecimal}{{4}}|u\{{0*{hexadecimal}{{1,5}}\}}"
    escape = rf"\\(?:[dDwWsSfnrtv^$\\.*+?()\[\]{{}}|/]|c[A-Za-z]|{point}|[pP]\{{(?:L|Lu|Ll|N|Nd|P|S|Z)\}})"
    quantifier = parse_python(rf"(?:[*+?]|\{{(?:[0-9]{{1,9}},?|{_first_and_last()})\}})\??")
    digit = concat(parse_python("[0-9]"), optional(quantifier))
    atom = union(parse_python(rf"[^^$\\.*+?()\[\]{{}}|0-9]|\.|{escape}"), _char_set(escape))
    zero = literal(r"\0")
    assertion = parse_python(r"[\^$]|\\[bB]")
    expression = NEVER
    for _ in range(_REGEX_DEPTH + 1):
        group = concat(parse_python(r"\((?:\?:)?"), expression, literal(")"))
        look = concat(parse_python(r"\(\?<?[=!]"), expression, literal(")"))
        other = union(concat(union(atom, group), optional(quantifier)), concat(zero, quantifier), assertion, look)
        terms = concat(repeat(union(digit, concat(repeat(zero), other))), repeat(zero))
        expression = concat(terms, repeat(concat(literal("|"), terms)))
    return expression


def _first_and_last() -> str:
    """Return the pattern of two counts with a comma, the second no less than the first."""
    options = [rf"{low},(?:[{low}-9]|[1-9][0-9]{{1,9}})" for low in range(10)]
    for tens in range(1, 10):
        more = f"[{tens + 1}-9][0-9]|" if tens < 9 else ""
        options += [rf"{tens}{low},(?:{tens}[{low}-9]|{more}[1-9][0-9]{{2,9}})" for low in range(10)]
    longer = ",[1-9][0-9]{9}"
    for digits in range(8, 2, -1):  # inside each other, so that few alternatives are open behind two digits
        longer = rf"(?:,[1-9][0-9]{{{digits},9}}|[0-9]{longer})"
    return "|".join([*options, rf"[1-9][0-9]{{2}}{longer}"])


def _char_set(escape: str) -> Expr:
    """Return the sets of characters in brackets; escape: the pattern of one character that is written by an escape."""
    digits, large, small = (_character_ranges(first, end) for first, end in ("09", "AZ", "az"))
    digit = union(digits, parse_python("[0-9]"))
    other = union(large, small, parse_python(rf"[^\\\]^0-9-]|{escape}|\\[b-]"))
    zero, minus, later = literal(r"\0"), optional(literal("-")), union(other, literal("^"))
    more = concat(repeat(union(digit, concat(repeat(zero), later))), repeat(zero))  # no digit follows a zero
    members = union(concat(union(digit, other), more), concat(repeat(zero, 1), optional(concat(later, more))))
    inside = union(literal("^"), concat(minus, members, minus), minus)
    return concat(literal("["), optional(literal("^")), inside, literal("]"))


def _character_ranges(first: str, end: str) -> Expr:
    """Return the ranges from a character to a later one or itself, up to `end`.

    As patterns they took Python's parser 5 ms.
    """
    points = range(ord(first), ord(end) + 1)
    return union(*(concat(literal(f"{chr(low)}-"), char_class([(low, ord(end))])) for low in points))


_FORMATS: dict[str, Callable[[], Expr]] = {
    "date": _date,
    "time": _time,
    "date-time": lambda: concat(_date(), parse_python("[tT]"), _time()),
    "duration": _duration,
    "email": lambda: _mailbox(f"[{_ATEXT}]", r"[ !#-\[\]-~]", "[ -~]", _LET_DIG),
    "idn-email": _idn_email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "uri": lambda: _resource(wide=False)[0],
    "uri-reference": lambda: _resource(wide=False)[1],
    "iri": lambda: _resource(wide=True)[0],
    "iri-reference": lambda: _resource(wide=True)[1],
    "uri-template": _uri_template,
    # SPEC: RFC 4122 §3; neither version nor variant is looked at
    "uuid": lambda: parse_python("[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
    "json-pointer": lambda: parse_python(_POINTER, "s"),  # SPEC: RFC 6901 §3
    # SPEC: draft-bhutton-relative-json-pointer §3, without the index manipulation of later drafts
    "relative-json-pointer": lambda: parse_python(f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})", "s"),
    "regex": _regex,
    "idn-hostname": _idn_hostname,
    "host-name": _hostname,
    "ip-address": _ipv4,  # draft 3's names
}
KNOWN = frozenset(_FORMATS)
OPENAPI = frozenset({"int32", "int64", "float", "double", "password", "binary", "byte"})  # of none of the drafts
